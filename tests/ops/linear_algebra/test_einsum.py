import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.kernels.matmul import half_product_tuned

A = np.arange(6.0).reshape(2, 3)


FORMULAS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->", (2, 3)),
    ("ba", (2, 3)),
    ("...ij,...jk->...ik", (1, 2, 3), (5, 3, 4)),
    ("a...,...->...a", (2, 3), (4, 3)),
    ("...i->...", (2, 3, 4)),
    ("i,j->ij", (2,), (3,)),
    ("bi,bi->b", (4, 3), (4, 3)),
    ("ij,ij", (2, 3), (2, 3)),
    ("ijk,l->ik", (2, 3, 4), (5,)),
    ("iij,jk", (3, 3, 2), (2, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)),
    ("ijij->ij", (2, 3, 2, 3)),
]


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f[0])
def test_einsum_agrees_with_numpy(formula, rng):
    subscripts, *shapes = formula
    xs = [rng.normal(size=s) for s in shapes]
    assert_same(ops.einsum(subscripts, *xs), np.einsum(subscripts, *xs))


def test_einsum_without_a_result_takes_letters_in_order(rng):
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    assert_same(ops.einsum("zb,ba", x, y), np.einsum("zb,ba", x, y))


EINSUM_ERRORS = [
    (lambda: ops.einsum("ij,jk->ik", A, A), r"sizes of 'j' differ, 3 and 2\n  operand 0  \(2, 3\)"),
    (lambda: ops.einsum("ij->ijk", A), "'k' of the result is in no operand"),
    (lambda: ops.einsum("ij,jk", A), "names 2 operands, 1 were given"),
    (lambda: ops.einsum("ijk", A), r"names 3 axes, the operand has shape \(2, 3\)"),
    (lambda: ops.einsum("...ijk", A), "names 3 axes at least"),
    (lambda: ops.einsum("ii", A), "sizes of 'i' differ, 2 and 3"),
    (lambda: ops.einsum("i1", A), "has '1'"),
    (lambda: ops.einsum("ij->ii", A), "stands twice in the result"),
    (lambda: ops.einsum("...j->j", A), "the result must have it too"),
    (lambda: ops.einsum("...,...", A, A[:, :2]), r"sizes of the axes of '\.\.\.' differ"),
]


@pytest.mark.parametrize(("call", "message"), EINSUM_ERRORS)
def test_einsum_names_the_mistake(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("subscripts", "shapes", "calls"),
    [
        ("btd,dhk->bthk", ((2, 7, 16), (16, 4, 8)), 1),
        ("bthk,bshk->bhts", ((2, 5, 3, 8), (2, 6, 3, 8)), 1),
        ("ij,jk->ki", ((0, 3), (3, 4)), 1),
        ("ij,ij->i", ((4, 5), (4, 5)), 0),
        ("i,j->ij", ((4,), (5,)), 0),
    ],
)
@pytest.mark.parametrize("has_kernel", [True, False])
def test_products_of_bfloat16_go_to_their_kernel(
    subscripts, shapes, calls, has_kernel, rng, eager, monkeypatch
):
    products = []

    def product_of(a, b):
        products.append((a.shape, b.shape))
        return kernel(a, b) if has_kernel else None

    kernel = half_product_tuned.product_of
    monkeypatch.setattr(half_product_tuned, "product_of", product_of)
    a, b = (ops.cast(rng.normal(size=shape), "bfloat16") for shape in shapes)
    y = ops.einsum(subscripts, a, b)
    assert (y.dtype, len(products)) == ("bfloat16", calls)
    expected = np.einsum(subscripts, *(v.numpy().astype("float32") for v in (a, b)))
    np.testing.assert_allclose(ops.cast(y, "float32"), expected, rtol=2**-7, atol=2**-7)
