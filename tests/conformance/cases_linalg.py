"""Products, diagonals, factors of matrices, equations, norms."""

import numpy as np

from tests.conformance.table import case, complex_normal, normal, positive
from trainkit import ops
from trainkit.ops.arrays import diagonals
from trainkit.ops.linear_algebra import einsum, linear_solve
from trainkit.ops.linear_algebra.singular_values import singular_values
from trainkit.ops.math.complex_parts import imag, real
from trainkit.ops.math.elementwise import absolute


def regular(*shape):
    """Matrices far from singular, whose eigenvalues are apart."""
    return normal(*shape) * 0.4 + np.diag(1.5 + np.arange(shape[-1]))


def symmetric(x):
    return (x + ops.conj(ops.swapaxes(x, -1, -2))) * 0.5


def of_symmetric(op):
    """`op` of the symmetric part: a matrix that must be symmetric is moved as such."""
    return lambda x, **settings: op(symmetric(x), **settings)


def hermitian(*shape):
    x = complex_normal(*shape) * 0.3
    return x @ x.conj().swapaxes(-1, -2) + np.diag(1.0 + np.arange(shape[-1]))


def formula(*xs, subscripts):
    return ops.einsum(subscripts, *xs)


def eigenvalues(x):
    """What does not depend on the length and phase of eigenvectors."""
    w, v = ops.eig(x)
    return [real(w), imag(w), absolute(v)]


def hermitian_eigenvalues(x):
    w, v = ops.eigh(symmetric(x))
    return [w, absolute(v)]


def lower_factor(x):
    return ops.lu_factor(x)[0]


CASES = [
    *(
        case("matmul", ops.matmul, normal(*a), normal(*b))
        for a, b in (
            ((2, 3), (3, 4)),
            ((2, 2, 3), (3, 4)),
            ((2, 1, 2, 3), (3, 3, 2)),
            ((3,), (3,)),
            ((3,), (2, 3, 2)),
            ((2, 2, 3), (3,)),
        )
    ),
    case("matmul", ops.matmul, complex_normal(2, 3), complex_normal(3, 2)),
    case("matmul", ops.dot, normal(2, 3), normal(3)),
    case("matmul", ops.vdot, complex_normal(3), complex_normal(3)),
    *(
        case("einsum", formula, *(normal(*s) for s in shapes), subscripts=subscripts)
        for subscripts, shapes in (
            ("ij,jk->ki", ((2, 3), (3, 4))),
            ("bij,bkj->bik", ((2, 3, 4), (2, 2, 4))),
            ("bi,bi->b", ((2, 3), (2, 3))),
            ("i,j->ji", ((2,), (3,))),
            ("...i,...i->...", ((2, 3), (1, 3))),
            ("iij,jk", ((2, 2, 3), (3, 2))),
            ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 4))),
        )
    ),
    case("einsum", formula, complex_normal(2, 3), complex_normal(3, 2), subscripts="ij,jk->ki"),
    case("einsum", ops.tensordot, normal(2, 3, 4), normal(4, 3, 2), axes=((1, 2), (1, 0))),
    case("einsum", einsum._pair, normal(2, 3), normal(3, 2), subscripts="ab,bc->ca"),
    case("diagonal", ops.diagonal, normal(3, 2, 4), offset=1, axis1=0, axis2=2),
    case("diagonal", ops.trace, complex_normal(3, 3)),
    case(
        "diagonal_put",
        diagonals.diagonal_put,
        normal(2, 3),
        normal(4, 2, 3),
        offset=-1,
        axis1=0,
        axis2=2,
    ),
    case("diag", ops.diag, normal(3), k=-1),
    case("diag", diagonals.matrix_with_diagonal, complex_normal(2, 3), k=1),
    case("tril", ops.tril, normal(2, 3, 4), k=-1),
    case("triu", ops.triu, complex_normal(3, 4), k=1),
    case("inv", ops.inv, regular(2, 3, 3)),
    case("inv", ops.inv, regular(3, 3) + 0.3j * normal(3, 3)),
    case("solve", ops.solve, regular(2, 3, 3), normal(2, 3, 2)),
    case("solve", ops.solve, regular(3, 3), normal(2, 3, 1)),
    case("solve", ops.solve, regular(3, 3), complex_normal(3)),
    case("solve_triangular", ops.solve_triangular, regular(2, 3, 3), normal(2, 3), lower=True),
    case("solve_triangular", ops.solve_triangular, regular(3, 3), normal(2, 3, 1)),
    case("det", ops.det, regular(2, 3, 3)),
    case("det", ops.det, regular(3, 3) + 0.3j * normal(3, 3)),
    case("slogdet", ops.slogdet, regular(2, 3, 3)),
    case("pinv", ops.pinv, normal(4, 2)),
    case("pinv", ops.pinv, normal(2, 2, 4)),
    case("pinv", ops.lstsq, normal(4, 2), normal(4, 3)),
    case("expm", ops.linalg.expm, normal(2, 3, 3)),
    case("expm", linear_solve._expm, normal(2, 2) * 4, tolerance=1e-6),
    case("cholesky", of_symmetric(ops.cholesky), hermitian(2, 3, 3).real),
    case("cholesky", of_symmetric(ops.cholesky), hermitian(3, 3), upper=True),
    case("cholesky", of_symmetric(ops.logdet), hermitian(3, 3).real),
    case("solve_triangular", ops.cholesky_inverse, regular(3, 3), upper=True),
    case("qr", ops.qr, normal(2, 4, 3)),
    case("qr", ops.qr, normal(2, 4)),
    case("qr", ops.qr, regular(3, 3), mode="complete"),
    case("lu_factor", lower_factor, regular(2, 3, 3)),
    case("lu_factor", lower_factor, normal(2, 4, 3)),
    case("lu_factor", lower_factor, normal(2, 3, 5)),
    case("eigh", of_symmetric(ops.eigh), hermitian(3, 3).real),
    case("eigh", hermitian_eigenvalues, hermitian(3, 3)),
    # Eigenvalues far apart: differences of close ones lose digits.
    case("eig", eigenvalues, np.array([[3.0, 0.4, -0.2], [0.3, -1.0, 0.5], [0.1, 0.2, 1.0]])),
    case("svd", ops.svd, normal(2, 3, 2), full_matrices=False, tolerance=1e-6),
    case("svd", ops.svd, normal(3, 3), tolerance=1e-6),
    case("singular_values", singular_values, normal(2, 3, 2)),
    case("singular_values", ops.norm, normal(3, 2), ord="nuc"),
    case("sqrt", ops.norm, normal(2, 3, 4), axis=(0, 2)),
    case("power", ops.norm, normal(2, 3), ord=3, axis=1),
    case("sqrt", ops.cdist, positive(2, 3), -positive(4, 3)),
]
