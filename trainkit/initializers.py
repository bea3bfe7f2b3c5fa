"""Initializers: what weights hold before training.

Each is called with a shape. With an int seed, or none, one object gives the same values at each
call, as in Keras 3; a generator as the seed moves on.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, rng
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import Registry, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.configurable import Configurable
from trainkit.core.values.docstrings import describe_arguments
from trainkit.ops.sampling import generators, random
from trainkit.ops.signal import scipy_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainkit.core.tensor import Tensor
    from trainkit.core.values.type_aliases import DTypeLike
    from trainkit.core.variable import Variable

T = TypeVar("T")


INITIALIZERS = Registry("initializers", "initializer")

# The standard deviation of a standard normal distribution cut off at -2 and 2.
_TRUNCATED_STDDEV = 0.87962566103423978


class Initializer(Configurable, family=INITIALIZERS):
    """Base of all initializers: a subclass has `__call__(shape, dtype)` and `get_config`.

    Example:
        >>> class Halves(tk.initializers.Initializer):
        ...     def __call__(self, shape, dtype=None):
        ...         return tk.fill(shape, 0.5)
        >>> tk.layers.Dense(1, kernel_initializer=Halves())(tk.ones((1, 4))).numpy()
        array([[2.]], dtype=float32)
    """

    if TYPE_CHECKING:  # a method of users takes what it needs

        def __call__(self, *args: Any, **kwargs: Any) -> Tensor: ...

    else:

        def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
            """A tensor of `shape`; `dtype` by default float32."""
            raise NotImplementedError(
                f"{type(self).__name__} has no method __call__(self, shape, dtype)"
            )

    def clone(self) -> Initializer:
        """An initializer with the same settings."""
        return type(self).from_config(self.get_config())


class Zeros(Initializer):
    """All zeros.

    Example:
        >>> tk.initializers.Zeros()((2,)).numpy()
        array([0., 0.], dtype=float32)
    """

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        return ops.zeros(shape, dtype or dtypes.floatx())


class Ones(Initializer):
    """All ones.

    Example:
        >>> tk.initializers.Ones()((2,)).numpy()
        array([1., 1.], dtype=float32)
    """

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        return ops.ones(shape, dtype or dtypes.floatx())


class Constant(Initializer):
    """One number, or the values of an array.

    As many values as the shape has fill it in their order, as with TensorFlow's
    `constant_initializer`; others must broadcast to it.

    Args:
        value: the number, array or nested list.

    Raises:
        ShapeError: when called with a shape that the values do not fit.

    Example:
        >>> tk.initializers.Constant(3.0)((2,)).numpy()
        array([3., 3.], dtype=float32)
    """

    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        value, value_shape = self.value, tuple(np.shape(self.value))
        if value_shape:
            if math.prod(value_shape) == math.prod(shape):
                value = (ops if is_tensor(value) else np).reshape(value, tuple(shape))
            elif not _broadcasts(value_shape, tuple(shape)):
                raise ShapeError(
                    f"Constant: {math.prod(value_shape)} values of shape {value_shape} do not fit "
                    "the shape "
                    f"{tuple(shape)}, which has {math.prod(shape)}; give as many, or some that "
                    "broadcast to it"
                )
        return ops.full(shape, value, dtype or dtypes.floatx())

    def get_config(self) -> dict[str, Any]:
        return {"value": serialize_object(self.value)}


def _broadcasts(value_shape: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    pairs = zip(reversed(value_shape), reversed(shape), strict=False)
    return len(value_shape) <= len(shape) and all(n in (1, size) for n, size in pairs)


class Identity(Initializer):
    """A matrix with `gain` on the diagonal.

    Args:
        gain: what the values are multiplied by.

    Raises:
        ShapeError: when called with a shape that is no matrix's.

    Example:
        >>> tk.initializers.Identity(gain=2.0)((2, 2)).numpy()
        array([[2., 0.],
               [0., 2.]], dtype=float32)
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        if len(shape) != 2:
            raise ShapeError(
                f"Identity makes matrices, the shape {tuple(shape)} has {len(shape)} axes"
            )
        rows, columns = shape
        dtype = dtype or dtypes.floatx()
        return ops.cast(self.gain * ops.eye(rows, columns, dtype=dtype), dtype)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain}


class RandomInitializer(Initializer):
    """Base of the random ones.

    Args:
        seed: an int; `None` for one derived from `set_seed`; or a generator, which moves on.

    Example:
        >>> isinstance(tk.initializers.RandomNormal(), tk.initializers.RandomInitializer)
        True
    """

    def __init__(self, seed: Any = None) -> None:
        self._given_seed = seed
        self.seed = rng.next_seed() if seed is None else seed
        if not hasattr(self.seed, "__index__") and not isinstance(self.seed, generators.Generator):
            raise ValueError(
                f"{type(self).__name__}: seed must be an int or a generator, got {seed!r}"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> RandomInitializer:
        """A copy; one without a seed draws other numbers, as that of a new layer does."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        for name, value in vars(self).items():
            twin.__dict__[name] = copy.deepcopy(value, memo)
        if self._given_seed is None:
            twin.seed = rng.next_seed()
        return twin

    def get_config(self) -> dict[str, Any]:
        seed = self._given_seed
        return {"seed": None if isinstance(seed, generators.Generator) else seed}


class RandomNormal(RandomInitializer):
    """Draws of the normal distribution.

    Args:
        mean, stddev: of the distribution.
        seed: see `RandomInitializer`.

    Example:
        >>> tk.initializers.RandomNormal(stddev=0.1, seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        super().__init__(seed)
        self.mean = mean
        self.stddev = stddev

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return random.normal(shape, self.mean, self.stddev, dtype, self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, **super().get_config()}


class TruncatedNormal(RandomNormal):
    """Draws of the normal distribution that lie within two standard deviations of the mean.

    Args:
        mean, stddev: of the distribution before it is cut.
        seed: see `RandomInitializer`.

    Example:
        >>> x = tk.initializers.TruncatedNormal(stddev=1.0, seed=1)((100,))
        >>> bool(tk.reduce_max(tk.abs(x)) <= 2.0)
        True
    """

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return random.truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


class RandomUniform(RandomInitializer):
    """Numbers in [minval, maxval), all equally likely; integers for an integer dtype.

    Args:
        minval, maxval: the bounds.
        seed: see `RandomInitializer`.

    Example:
        >>> x = tk.initializers.RandomUniform(0.0, 1.0, seed=1)((3, 4))
        >>> bool(tk.reduce_min(x) >= 0.0)
        True
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: Any = None) -> None:
        super().__init__(seed)
        self.minval = minval
        self.maxval = maxval

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        if dtype is not None and dtypes.as_dtype(dtype).is_integer:
            return random.randint(shape, self.minval, self.maxval, dtype, self.seed)
        return random.uniform(shape, self.minval, self.maxval, dtype, self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"minval": self.minval, "maxval": self.maxval, **super().get_config()}


class VarianceScaling(RandomInitializer):
    """Draws whose variance is `scale / n`, n being the number of inputs or outputs of a unit.

    Args:
        scale: above 0.
        mode: n is `"fan_in"`, `"fan_out"`, or their mean, `"fan_avg"`.
        distribution: `"truncated_normal"`, `"untruncated_normal"` or `"uniform"`.
        seed: see `RandomInitializer`.
        input_axes, output_axes: the axes of the shape that count the inputs, and the outputs, of a
            unit; by default those of a kernel, (..., inputs, outputs).

    Raises:
        ValueError: an argument is none of these.

    Example:
        >>> tk.initializers.VarianceScaling(2.0, mode="fan_out", seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
        input_axes: Any = None,
        output_axes: Any = None,
    ) -> None:
        if scale <= 0:
            raise ValueError(f"VarianceScaling: scale must be above 0, got {scale}")
        _one_of("mode", mode, ("fan_in", "fan_out", "fan_avg"))
        distribution = "truncated_normal" if distribution == "normal" else distribution
        _one_of("distribution", distribution, ("truncated_normal", "untruncated_normal", "uniform"))
        super().__init__(seed)
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.input_axes, self.output_axes = input_axes, output_axes

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        fan_in, fan_out = fans(shape, self.input_axes, self.output_axes)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        stddev = math.sqrt(self.scale / max(1.0, count))
        if self.distribution == "uniform":
            limit = stddev * math.sqrt(3)
            return random.uniform(shape, -limit, limit, dtype, self.seed)
        if self.distribution == "untruncated_normal":
            return random.normal(shape, 0.0, stddev, dtype, self.seed)
        return random.truncated_normal(shape, 0.0, stddev / _TRUNCATED_STDDEV, dtype, self.seed)

    def get_config(self) -> dict[str, Any]:
        config = {"scale": self.scale, "mode": self.mode, "distribution": self.distribution}
        return {**config, **super().get_config(), **self._axes()}

    def _axes(self) -> dict[str, Any]:
        return {"input_axes": self.input_axes, "output_axes": self.output_axes}

    def for_axes(self, input_axes: Any, output_axes: Any) -> VarianceScaling:
        """A like initializer for weights whose axes of inputs and outputs are these.

        Axes that were given to this one stay, and so does the seed.
        """
        if self.input_axes is not None and self.output_axes is not None:
            return self
        twin = copy.copy(self)
        twin.input_axes, twin.output_axes = list(input_axes), list(output_axes)
        return twin


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(
            f"VarianceScaling: {name} must be one of {', '.join(allowed)}, got {value!r}"
        )


def fans(shape: Any, input_axes: Any = None, output_axes: Any = None) -> tuple[int, int]:
    """How many inputs and outputs a unit has whose weights have `shape` (..., inputs, outputs).

    Args:
        shape: of the weights.
        input_axes: the axes that count the inputs, if they are others.
        output_axes: those that count the outputs; both are given or neither.

    Example:
        >>> tk.initializers.fans((3, 3, 8, 16))
        (72, 144)
    """
    shape = tuple(shape)
    if input_axes is not None and output_axes is not None:
        return math.prod(shape[i] for i in input_axes), math.prod(shape[i] for i in output_axes)
    if len(shape) < 2:
        return (shape[0], shape[0]) if len(shape) else (1, 1)
    receptive = math.prod(shape[:-2])
    return shape[-2] * receptive, shape[-1] * receptive


class _Preset(VarianceScaling):
    """A `VarianceScaling` whose scale, mode and distribution are set."""

    preset: tuple[float, str, str]

    def __init__(self, seed: Any = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(*self.preset, seed, input_axes, output_axes)

    def get_config(self) -> dict[str, Any]:
        return {**RandomInitializer.get_config(self), **self._axes()}


# Source: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward
# networks".
class GlorotUniform(_Preset):
    """Uniform, variance 2 / (inputs + outputs).

    Example:
        >>> x = tk.initializers.GlorotUniform(seed=1)((3, 3))
        >>> bool(tk.reduce_max(tk.abs(x)) <= 1.0)
        True
    """

    preset = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Preset):
    """Truncated normal, variance 2 / (inputs + outputs).

    Example:
        >>> tk.initializers.GlorotNormal(seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    preset = (1.0, "fan_avg", "truncated_normal")


class HeNormal(_Preset):
    """Truncated normal, variance 2 / inputs.

    Source: He et al. 2015, arXiv:1502.01852.

    Example:
        >>> tk.initializers.HeNormal(seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    preset = (2.0, "fan_in", "truncated_normal")


class HeUniform(_Preset):
    """Uniform, variance 2 / inputs.

    Source: He et al. 2015, arXiv:1502.01852.

    Example:
        >>> tk.initializers.HeUniform(seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    preset = (2.0, "fan_in", "uniform")


class LecunNormal(_Preset):
    """Truncated normal, variance 1 / inputs.

    Source: Klambauer et al. 2017, arXiv:1706.02515.

    Example:
        >>> tk.initializers.LecunNormal(seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    preset = (1.0, "fan_in", "truncated_normal")


class LecunUniform(_Preset):
    """Uniform, variance 1 / inputs.

    Source: LeCun et al. 1998, "Efficient backprop".

    Example:
        >>> tk.initializers.LecunUniform(seed=1)((3, 4)).shape
        TensorShape([3, 4])
    """

    preset = (1.0, "fan_in", "uniform")


class Orthogonal(RandomInitializer):
    """A random orthogonal matrix times `gain`; all axes but the last count as its rows.

    Source: Saxe et al. 2014, arXiv:1312.6120.

    Args:
        gain: factor.
        seed: see `RandomInitializer`.

    Example:
        >>> q = tk.initializers.Orthogonal(seed=1)((3, 3))
        >>> tk.matmul(q, q, transpose_a=True).numpy().round(3) + 0.0
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """

    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        shape = tuple(shape)
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal needs a shape of at least two axes, got {shape}")
        element_type = dtypes.as_dtype(dtype or dtypes.floatx())
        if not element_type.is_floating:  # cast, nearly all would be 0
            raise InvalidArgumentError(
                f"Orthogonal gives floats; dtype {element_type.name} is not supported"
            )
        rows, columns = math.prod(shape[:-1]), shape[-1]
        tall = (max(rows, columns), min(rows, columns))
        draws = random.normal(tall, dtype="float64", seed=self.seed).numpy()
        q, r = np.linalg.qr(draws)
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # makes the result uniform over such matrices
        matrix = q.T if rows < columns else q
        return ops.cast(convert_to_tensor(self.gain * matrix.reshape(shape)), element_type)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, **super().get_config()}


class STFT(Initializer):
    """The kernels that make a convolution a short-time Fourier transform.

    Kernel value at time t, bin k: window(t) cos(2 pi t k / n) or -window(t) sin(2 pi t k / n), with
    n twice the number of bins less 2. Shape (frame_length, 1, bins).

    Args:
        side: `"real"` or `"imag"`.
        window: the name of one, such as `"hann"` or `"tukey"`, numbers, one for each of
            frame_length, or `None`.
        scaling: of the window: `"density"` (unit energy), `"spectrum"` (unit sum), or `None`.
        periodic: whether the window is periodic rather than symmetric.

    Raises:
        ValueError: an argument is none of these.

    Example:
        >>> tk.initializers.STFT("real")((8, 1, 5)).shape
        TensorShape([8, 1, 5])
    """

    def __init__(
        self,
        side: str = "real",
        window: Any = "hann",
        scaling: str | None = "density",
        periodic: bool = False,
    ) -> None:
        if side not in ("real", "imag"):
            raise ValueError(f"STFT: side must be 'real' or 'imag', got {side!r}")
        if isinstance(window, str) and window not in scipy_windows.NAMES:
            raise ValueError(
                f"STFT: window must be one of {', '.join(scipy_windows.NAMES)}, or an array; got "
                f"{window!r}"
            )
        if scaling not in ("density", "spectrum", None):
            raise ValueError(
                f"STFT: scaling must be 'density', 'spectrum' or None, got {scaling!r}"
            )
        self.side = side
        self.window = window
        self.scaling = scaling
        self.periodic = periodic

    def __call__(self, shape: Any, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
        if len(shape) != 3:
            raise ShapeError(
                f"STFT needs a shape (frame_length, channels, bins), got {tuple(shape)}"
            )
        frame, _, bins = shape
        angle = 2 * np.pi * np.outer(np.arange(frame), np.arange(bins)) / ((bins - 1) * 2)
        wave = np.cos(angle) if self.side == "real" else -np.sin(angle)
        kernel = np.broadcast_to((wave * self._window(frame)[:, None])[:, None, :], shape)
        return ops.cast(convert_to_tensor(kernel), dtype or dtypes.floatx())

    def _window(self, length: int) -> Any:
        if self.window is None:
            return np.ones(length)  # nothing to scale
        if isinstance(self.window, str):
            window = scipy_windows.signal_window(self.window, length, self.periodic)
        else:
            window = np.asarray(self.window, np.float64)
            if window.shape != (length,):
                raise ShapeError(
                    f"STFT: the window has shape {window.shape}, the frames have length {length}"
                )
        if self.scaling == "density":
            return window / np.sqrt(np.sum(window**2))
        return window / np.sum(np.abs(window)) if self.scaling == "spectrum" else window

    def get_config(self) -> dict[str, Any]:
        window = serialize_object(self.window)
        return {
            "side": self.side,
            "window": window,
            "scaling": self.scaling,
            "periodic": self.periodic,
        }


IdentityInitializer = identity = Identity
OrthogonalInitializer = orthogonal = Orthogonal
STFTInitializer, stft, constant, ones, zeros = STFT, STFT, Constant, Ones, Zeros
glorot_normal, glorot_uniform = GlorotNormal, GlorotUniform
he_normal, he_uniform = HeNormal, HeUniform
lecun_normal, lecun_uniform = LecunNormal, LecunUniform
random_normal, random_uniform = RandomNormal, RandomUniform
truncated_normal, variance_scaling = TruncatedNormal, VarianceScaling

for _kind, _aliases in {
    Identity: ("IdentityInitializer", "identity"),
    Orthogonal: ("OrthogonalInitializer", "orthogonal"),
    Ones: ("one",),
    Zeros: ("zero",),
    RandomNormal: ("normal",),
    RandomUniform: ("uniform",),
    STFT: ("STFTInitializer", "stft"),
}.items():
    INITIALIZERS.add(_kind, *_aliases)


class _Given(Initializer):
    """Values that are there already."""

    def __init__(self, value: Any) -> None:
        self.value = convert_to_tensor(value)

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        if tuple(self.value.shape) != tuple(shape):
            raise ShapeError(
                f"the initial value has shape {tuple(self.value.shape)}, the weight has "
                f"{tuple(shape)}"
            )
        return ops.cast(self.value, dtype or dtypes.floatx())


@overload
def get(identifier: None) -> None: ...
@overload
def get(
    identifier: str | Mapping[str, Any] | type[Initializer] | np.ndarray | Tensor | Variable,
) -> Initializer: ...
@overload
def get(identifier: T) -> T: ...
def get(identifier: Any) -> Any:
    """An initializer from its name, config, class, or itself; an array stands for its values.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Raises:
        ValueError: nothing goes by that name.

    Example:
        >>> type(tk.initializers.get("he_normal")).__name__
        'HeNormal'
    """
    if is_tensor(identifier) or isinstance(identifier, np.ndarray):
        return _Given(identifier)
    return INITIALIZERS.get(identifier)


def serialize(initializer: Any) -> Any:
    """An initializer as a dict that `deserialize` reads.

    Args:
        initializer: the object.

    Example:
        >>> tk.initializers.serialize(tk.initializers.Constant(3.0))["config"]
        {'value': 3.0}
    """
    return serialize_object(initializer)


def deserialize(
    config: str | Mapping[str, Any], custom_objects: dict[str, Any] | None = None
) -> Initializer:
    """The initializer that `serialize` described.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Example:
        >>> config = tk.initializers.serialize(tk.initializers.Constant(3.0))
        >>> tk.initializers.deserialize(config).value
        3.0
    """
    return INITIALIZERS.deserialize(config, custom_objects)


describe_arguments(
    globals(),
    """
    seed: int, `SeedGenerator`, or None for other numbers each time.
    input_axes: axes that count as inputs; by default all but the last.
    output_axes: axes that count as outputs; by default the last.
    """,
)

_explain_unknown_names(globals())
