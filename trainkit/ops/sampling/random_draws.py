"""Random numbers of discrete and skewed distributions, under their `keras.random` names.

`seed` is what it is for `random`: an int, a generator, two integers, or `None`.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.batch_size import of_batch
from trainkit.core.values.type_aliases import DTypeLike, Seed, Shape, TensorLike
from trainkit.ops.arrays.shaping import known_number
from trainkit.ops.arrays.shaping import shape as shape_of
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.indexing.gathering import take
from trainkit.ops.math.elementwise import add, cast, divide
from trainkit.ops.sampling.batch_rows import rows_for
from trainkit.ops.sampling.distributions import (
    binomial_of,
    known_values,
    philox_categorical,
    philox_gamma,
    philox_permutation,
    philox_poisson,
    with_parameters,
)
from trainkit.ops.sampling.draw_devices import beside
from trainkit.ops.sampling.generators import generator_of
from trainkit.ops.sampling.source_draws import float_type


def gamma(
    shape: Shape, alpha: TensorLike, dtype: DTypeLike | None = None, seed: Seed | None = None
) -> Tensor:
    """Draws of the gamma distribution of shape `alpha` and rate 1.

    No gradient reaches `alpha`.

    Args:
        shape: of the result, to which `alpha` broadcasts.
        alpha: above 0. In a graph, and where a tensor lies on a GPU, nothing waits for its values
            to be looked at; draws for one that is not above 0, or infinite, are NaN then.
        dtype: floating type; by default float32.
        seed: an int, a generator, two integers, or `None`.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or `alpha` is not above 0.

    Example:
        >>> tk.keras.random.gamma((2, 3), 1.0, seed=1).shape
        TensorShape([2, 3])
    """
    name = float_type(dtype, "gamma")
    return with_parameters(
        philox_gamma, generator_of(seed), shape, (_positive(alpha, "gamma", "alpha"),), name
    )


def _positive(value: Any, name: str, parameter: str) -> Tensor:
    tensor = convert_to_tensor(value)
    if type(value) is float or type(value) is int:
        is_wrong = value <= 0
    else:
        values = known_values(value, tensor)
        is_wrong = values is not None and bool((values <= 0).any())
    if is_wrong:
        raise InvalidArgumentError(f"random.{name}: {parameter} must be above 0, got {value!r}")
    return tensor


def beta(
    shape: Shape,
    alpha: TensorLike,
    beta: TensorLike,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
) -> Tensor:
    """Draws of the beta distribution: x / (x + y) for gamma draws x and y.

    Args:
        shape: of the result, to which the parameters broadcast.
        alpha: above 0.
        beta: above 0.
        dtype: floating type; by default float32.
        seed: an int, a generator, two integers, or `None`.

    Raises:
        InvalidArgumentError: `dtype` is no floating type, or a parameter is not above 0.

    Example:
        >>> tk.random.beta((2, 3), 1.0, 2.0, seed=1).shape
        TensorShape([2, 3])
    """
    name = float_type(dtype, "beta")
    source = generator_of(seed)
    one, two = _positive(alpha, "beta", "alpha"), _positive(beta, "beta", "beta")
    x = with_parameters(philox_gamma, source, shape, (one,), "float64")
    y = with_parameters(philox_gamma, source, shape, (two,), "float64")
    return cast(divide(x, add(x, y)), name)


def poisson(shape: Any, lam: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Draws of the Poisson distribution of mean `lam`.

    Args:
        shape: of the result, to which `lam` broadcasts.
        lam: 0 or more.
        dtype: of the result; by default float32.
        seed: an int, a generator, two integers, or `None`.
    """
    name = dtypes.as_dtype(dtype or dtypes.floatx()).name
    return with_parameters(
        philox_poisson, generator_of(seed), shape, (convert_to_tensor(lam),), name
    )


def binomial(
    shape: Shape,
    counts: TensorLike,
    probabilities: TensorLike,
    dtype: DTypeLike | None = None,
    seed: Seed | None = None,
) -> Tensor:
    """Numbers of successes in `counts` trials of the given probability.

    Args:
        shape: of the result, to which the parameters broadcast.
        counts: whole numbers, 0 or more.
        probabilities: in [0, 1]; not looked at in a graph, nor where a tensor lies on a GPU.
        dtype: of the result; by default float32.
        seed: an int, a generator, two integers, or `None`.

    Raises:
        InvalidArgumentError: a probability is outside its range.

    Example:
        >>> tk.random.binomial((2, 3), 10.0, 0.5, seed=1).shape
        TensorShape([2, 3])
    """
    return binomial_of(generator_of(seed), shape, counts, probabilities, dtype)


def categorical(
    logits: TensorLike, num_samples: int, dtype: DTypeLike = "int32", seed: Seed | None = None
) -> Tensor:
    """Class indices drawn with probability softmax(logits).

    Args:
        logits: (batch, classes), log-probabilities up to a constant.
        num_samples: draws for each row.
        dtype: integer type of the result.
        seed: an int, a generator, two integers, or `None`.

    Returns:
        (batch, num_samples) of ints in [0, classes).

    Raises:
        ShapeError: the logits are no matrix.

    Example:
        >>> tk.keras.random.categorical(tk.constant([[0.0, 100.0]]), 3, seed=1).numpy()
        array([[1, 1, 1]], dtype=int32)
    """
    tensor = convert_to_tensor(logits)
    if len(tensor.shape) != 2:
        raise ShapeError(
            f"random.categorical: logits must be (batch, classes), got shape {tuple(tensor.shape)}"
        )
    name = dtypes.as_dtype(dtype).name
    count = (convert_to_tensor(num_samples),) if is_later(num_samples) else ()
    samples = None if count else known_number(num_samples, "categorical")

    rows = rows_for(of_batch(tensor.shape))
    further = {} if rows is None else {"rows": rows}

    def with_logits(state: Any, *sizes: Any, shape: Any) -> Any:
        return philox_categorical(state, tensor, *count, samples=samples, dtype=name, **further)

    with beside(tensor):
        result: Tensor = generator_of(seed).draw(with_logits, ())
    return result


def shuffle(x: TensorLike, axis: int = 0, seed: Seed | None = None) -> Tensor:
    """The slices of `x` along `axis` in random order.

    Args:
        x: tensor of at least one axis.
        axis: along which.
        seed: an int, a generator, two integers, or `None`.

    Raises:
        ShapeError: `x` is a scalar.

    Example:
        >>> sorted(tk.keras.random.shuffle([1, 2, 3], seed=1).numpy().tolist())
        [1, 2, 3]
    """
    tensor = convert_to_tensor(x)
    if len(tensor.shape) == 0:
        raise ShapeError("random.shuffle: a scalar has no order")
    with beside(tensor):
        order = generator_of(seed).draw(philox_permutation, (shape_of(tensor)[axis],))
    result: Tensor = take(tensor, order, axis=axis)
    return result
