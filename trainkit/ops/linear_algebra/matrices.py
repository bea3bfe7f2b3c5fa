"""What all linear algebra here shares: checks of matrices, short floats, words for failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import wraps
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import swap_last_axes
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.linear_algebra.matmul import SHORT_FLOATS, matmul
from trainkit.ops.math.comparisons import equal
from trainkit.ops.math.elementwise import add, cast, conjugated, divide, where
from trainkit.ops.math.reductions import sum_to_like


def matrices(x: Any, op: str, square: bool = False) -> Tensor:
    """`x` as a floating or complex tensor of matrices (..., n, m).

    Raises:
        ShapeError: it has fewer than two axes, or `square` and its matrices are not.
    """
    tensor = as_tensor(x)
    if type(tensor) is Tensor:  # as nearly all are: sizes and dtype are the array's
        dims = tensor._array.shape
        if len(dims) > 1 and (not square or dims[-1] == dims[-2]):
            if tensor._array.dtype.char in "fd":
                return tensor
    check_matrices(tuple(tensor.shape), op, square, unknown_sizes_fit(tensor))
    matrix_dtype = shapes.float_dtype(tensor.dtype)
    return tensor if tensor.dtype == matrix_dtype else cast(tensor, matrix_dtype)


def unknown_sizes_fit(tensor: Any) -> bool:
    """Whether a size of `tensor` that is not known may turn out to be the one needed."""
    return not isinstance(tensor, SymbolicTensor) or tensor.unknown_sizes_fit


def check_matrices(dims: Any, op: str, square: bool = False, unknown_fits: bool = True) -> None:
    """Raise `ShapeError` unless `dims` are those of matrices, square ones if asked for.

    Args:
        dims: sizes, with `None` for what is not known.
        op: the operation, for the text.
        square: whether the last two must be one size.
        unknown_fits: whether `None` may turn out to be the known size beside it.
    """
    if len(dims) < 2:
        raise ShapeError(f"{op}: needs matrices, with two axes at least; got shape {tuple(dims)}")
    if square and dims[-1] != dims[-2] and not (unknown_fits and None in dims[-2:]):
        raise ShapeError(f"{op}: needs square matrices, got shape {tuple(dims)}")


def same_type(*tensors: Tensor) -> list[Tensor]:
    """`tensors` in the dtype to which they promote."""
    arrays = [x._array if type(x) is Tensor else None for x in tensors]
    first = getattr(arrays[0], "dtype", None)
    if first is not None and all(getattr(a, "dtype", None) is first for a in arrays):
        return list(tensors)
    common_dtype = dtypes.result_type(*(x.dtype for x in tensors))
    return [x if x.dtype == common_dtype else cast(x, common_dtype) for x in tensors]


def like_matrices(*specs: Spec, **settings: Any) -> Spec:
    """Rule: the result is like the first input."""
    return Spec(specs[0].shape, specs[0].dtype)


def adjoint(x: Tensor) -> Tensor:
    """The matrices transposed and conjugated."""
    return swap_last_axes(conjugated(x))


def times(*factors: Tensor) -> Tensor:
    """The matrix product of all factors."""
    product = factors[0]
    for factor in factors[1:]:
        product = matmul(product, factor)
    return product


def summed_like(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the batch axes along which `x` was broadcast."""
    if tuple(g.shape) == tuple(x.shape) and None not in g.shape:
        return g
    result: Tensor = sum_to_like(g, x)
    return result


def safe_reciprocal(x: Tensor) -> Tensor:
    """1 / x, and 0 where x is 0."""
    zero = equal(x, 0)
    return where(zero, 0.0, divide(1.0, add(x, cast(zero, x.dtype))))


def _strictly(xp: ArrayModule) -> AbstractContextManager[Any]:
    """A context in which CuPy reports singular matrices, as NumPy always does."""
    if xp is np:
        return nullcontext()
    import cupyx

    context: AbstractContextManager[Any] = cupyx.errstate(linalg="raise")
    return context


def nan_where_lapack_fails(xp: ArrayModule, kernel: Callable[[Array], Any], x: Array) -> Any:
    """What `kernel` gives for the matrices `x`, with NaN for those of which LAPACK gives up.

    It does not say which ones of a stack they are, so this goes from matrix to matrix.
    """
    example = kernel(xp.eye(*x.shape[-2:], dtype=x.dtype))
    single = not isinstance(example, tuple)
    parts = [
        xp.full((*x.shape[:-2], *part.shape), xp.nan, part.dtype)
        for part in ([example] if single else example)
    ]
    for index in np.ndindex(x.shape[:-2]):
        with suppress(np.linalg.LinAlgError):
            of_one = kernel(x[index])
            for part, value in zip(parts, [of_one] if single else of_one, strict=True):
                part[index] = value
    return parts[0] if single else tuple(parts)


def lapack(failure: str | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a kernel calculate short floats in float32 and say `failure` when LAPACK gives up.

    Without anything to say, matrices of which it gives up have NaN as their results.
    """

    def declare(kernel: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(kernel)
        def run(xp: ArrayModule, *arrays: Array, **settings: Any) -> Any:
            dtype = arrays[0].dtype
            short = dtype in SHORT_FLOATS
            if short:
                arrays = tuple(a.astype(np.float32) for a in arrays)
            try:
                with _strictly(xp):
                    result = kernel(xp, *arrays, **settings)
            except np.linalg.LinAlgError as error:
                if failure is None:
                    with _strictly(xp):
                        result = nan_where_lapack_fails(
                            xp, lambda x: kernel(xp, x, **settings), arrays[0]
                        )
                    return _narrow(result, dtype) if short else result
                name = kernel.__name__.strip("_")
                raise InvalidArgumentError(
                    f"{name}: {failure} ({error}); the input has shape {arrays[0].shape}"
                ) from None
            return _narrow(result, dtype) if short else result

        return run

    return declare


def _narrow(result: Any, dtype: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_narrow(part, dtype) for part in result)
    return result.astype(dtype) if result.dtype.kind == "f" else result


def call(xp: ArrayModule, name: str, *arrays: Array, **settings: Any) -> Any:
    """The function of that name in `xp.linalg`; on the host where CuPy has none."""
    function = getattr(xp.linalg, name, None)
    if function is not None:
        return function(*arrays, **settings)
    result = getattr(np.linalg, name)(*(a.get() for a in arrays), **settings)
    return tuple(map(xp.asarray, result)) if isinstance(result, tuple) else xp.asarray(result)
