"""Layers that turn numbers into categories, and categories into vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.trackable import set_silently
from trainkit.layers.base.arguments import one_of, whole
from trainkit.layers.base.config import without_trainable
from trainkit.layers.base.keras_tensor import KerasTensor
from trainkit.layers.base.layer import Layer


def encoded(indices: Any, mode: str, depth: int, dtype: str, weights: Any = None) -> Any:
    """Indices as vectors.

    Args:
        indices: ints in [0, depth), (...,) for `"one_hot"`; for the others (tokens,), or with the
            tokens of an example along axis 1.
        mode: `"int"` for the indices themselves, `"one_hot"`, `"multi_hot"` (1 where the index
            occurs), or `"count"` (how often it does).
        depth: length of the vectors.
        dtype: their element type.
        weights: of the shape of `indices`; what each counts in mode `"count"`.
    """
    if mode == "int":
        return indices
    if len(indices.shape) == 0:
        indices = ops.expand_dims(indices, 0)
    if mode == "one_hot":
        if indices.shape[-1] == 1 and len(indices.shape) > 1:
            indices = ops.squeeze(indices, -1)
        return ops.one_hot(indices, depth, dtype=dtype)
    hot = ops.one_hot(indices, depth, dtype=dtype)
    tokens = min(len(indices.shape) - 1, 1)
    if mode == "multi_hot":
        return ops.max(hot, axis=tokens)
    if weights is not None:
        hot = ops.multiply(hot, ops.expand_dims(ops.cast(weights, dtype), -1))
    return ops.sum(hot, axis=tokens)


def checked_salt(layer: Any, salt: Any) -> list[int] | None:
    """The two numbers that hashes begin with; one number stands for both.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if salt is None:
        return None
    salts = list(salt) if isinstance(salt, list | tuple) else [salt, salt]
    if len(salts) != 2 or not all(type(s) is int for s in salts):
        raise InvalidArgumentError(
            f"{type(layer).__name__} {layer.name!r}: salt must be an int or two of them, got "
            f"{salt!r}"
        )
    return salts


def encoded_shape(shape: Any, mode: str, depth: int) -> tuple[int | None, ...]:
    """The shape of what `encoded` gives for indices of a shape."""
    sizes = tuple(shape)
    if mode == "int":
        return sizes
    if mode == "one_hot":
        return (sizes[:-1] if len(sizes) > 1 and sizes[-1] == 1 else sizes) + (depth,)
    return (sizes[0], *sizes[2:], depth) if len(sizes) > 1 else (depth,)


class CategoryEncoding(Layer):
    """Indices as one-hot, multi-hot or count vectors.

    Shapes: input (batch,) or (batch, tokens) of ints, output (batch, num_tokens).

    Args:
        num_tokens: the number of categories, above all indices.
        output_mode: `"multi_hot"`, `"one_hot"` or `"count"`.

    Raises:
        InvalidArgumentError: a setting is none of these, an index is not in [0, num_tokens), or
            `count_weights` come in another mode than `"count"`.

    Example:
        >>> tk.layers.CategoryEncoding(num_tokens=3, output_mode="one_hot")([0, 2]).numpy()
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """

    def __init__(
        self,
        num_tokens: int | None = None,
        output_mode: str = "multi_hot",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        modes = ("multi_hot", "one_hot", "count")
        self.output_mode = one_of(self, "output_mode", output_mode, modes)
        self.num_tokens = whole(self, "num_tokens", num_tokens)
        self.sparse = one_of(self, "sparse", bool(sparse), (False,))

    def call(self, inputs: Any, count_weights: Any = None) -> Any:
        if count_weights is not None and self.output_mode != "count":
            raise InvalidArgumentError(
                f"count_weights belong to output_mode='count', it is {self.output_mode!r}"
            )
        if not hasattr(inputs, "dtype"):  # a list or a number
            inputs = ops.convert_to_tensor(inputs)
        indices = ops.cast(inputs, "int32") if not inputs.dtype.is_integer else inputs
        if not isinstance(indices, SymbolicTensor) and indices.size:
            low, high = int(ops.min(indices)), int(ops.max(indices))
            if low < 0 or high >= self.num_tokens:
                raise InvalidArgumentError(
                    f"indices must lie in [0, {self.num_tokens}), they go from {low} to {high}"
                )
        weights = count_weights
        return encoded(indices, self.output_mode, self.num_tokens, self.variable_dtype, weights)


class Discretization(Layer):
    """Numbers as the index of the bin in which they fall.

    Bin i goes from boundary i - 1 (included) to boundary i (not included).
    Shapes: input (batch, ...), output the same, of ints; vectors of length `num_bins` for other
    modes.

    Args:
        bin_boundaries: ascending numbers; or leave them out and call `adapt`.
        num_bins: how many bins of nearly equal content `adapt` is to make.
        epsilon: error of the quantiles, as a share of the data; below 1 / num_bins.
        output_mode: `"int"`, `"one_hot"`, `"multi_hot"` or `"count"`.

    Raises:
        InvalidArgumentError: both or none of bin_boundaries and num_bins are given; or it is called
        before
            `adapt`.

    Example:
        >>> tk.layers.Discretization([0.0, 10.0])([-1.0, 5.0, 100.0]).numpy()
        array([0, 1, 2], dtype=int32)
    """

    def __init__(
        self,
        bin_boundaries: Any = None,
        num_bins: int | None = None,
        epsilon: float = 0.01,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (bin_boundaries is None) == (num_bins is None):
            raise InvalidArgumentError(
                "Discretization: give either bin_boundaries or num_bins (and call adapt)"
            )
        self.num_bins = None if num_bins is None else whole(self, "num_bins", num_bins)
        self.epsilon = epsilon
        modes = ("int", "one_hot", "multi_hot", "count")
        self.output_mode = one_of(self, "output_mode", output_mode, modes)
        self.sparse = one_of(self, "sparse", bool(sparse), (False,))
        self._given = bin_boundaries is not None
        self.bin_boundaries: list[float] | None = None
        if self._given:
            self.bin_boundaries = [float(b) for b in np.sort(bin_boundaries)]
        self._summary: Any = None
        self.built = True

    @property
    def output_dtype(self) -> str:
        """The element type of the output."""
        return "int32" if self.output_mode == "int" else str(self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return without_trainable(super().get_config())

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        learned = config.get("bin_boundaries")
        if learned is None or config.get("num_bins") is None:
            return super().from_config(config)
        layer = super().from_config({**config, "bin_boundaries": None})
        layer.bin_boundaries = [float(b) for b in learned]
        return layer

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        boundaries = self.bin_boundaries
        depth = self.num_bins if boundaries is None else len(boundaries) + 1
        return encoded_shape(input_shape, self.output_mode, int(depth or 0))

    def compute_output_spec(self, inputs: Any) -> Any:
        return KerasTensor(self.compute_output_shape(inputs.shape), self.output_dtype)

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Choose boundaries so that each bin gets nearly the same share of `data`.

        Args:
            data: an array or tensor, or an iterable of batches.
            steps: how many batches to look at; all by default.
        """
        self.reset_state()
        for batch in batches_of(data, steps):
            self.update_state(batch)
        self.finalize_state()

    def reset_state(self) -> None:
        """Forget what was seen."""
        self._summary = None

    def update_state(self, data: Any) -> None:
        """Take note of one batch."""
        both = _summary_of(np.asarray(data, np.float32).reshape(-1), self.epsilon)
        if self._summary is not None:
            both = np.concatenate([both, self._summary], axis=1)
        both = both[:, np.argsort(both[0], kind="stable")]
        set_silently(self, _summary=_compress(both, self.epsilon))

    def finalize_state(self) -> None:
        """Set the boundaries by what was seen."""
        if self._summary is None or self.num_bins is None:
            return
        self.bin_boundaries = [
            float(b) for b in _compress(self._summary, 1 / self.num_bins)[0, :-1]
        ]

    def call(self, inputs: Any) -> Any:
        if self.bin_boundaries is None:
            raise InvalidArgumentError("this layer has no bins yet: call adapt(data) first")
        indices = ops.digitize(inputs, list(self.bin_boundaries))
        depth = len(self.bin_boundaries) + 1
        return encoded(indices, self.output_mode, depth, self.compute_dtype)

    def state_arrays(self) -> dict[str, Any]:
        return {} if self._given else {"bin_boundaries": np.asarray(self.bin_boundaries or [])}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"bin_boundaries"}:
            raise ValueError(f"Discretization stores bin_boundaries, the file has {sorted(arrays)}")
        self.bin_boundaries = [float(b) for b in arrays["bin_boundaries"]] or None


def batches_of(data: Any, steps: int | None) -> Any:
    """The batches of `data`: itself if it is an array or a list of values, else its items.

    Of items that are tuples the first part counts: labels are left out.
    """
    if hasattr(data, "shape") or (isinstance(data, list | tuple) and not _lists_batches(data)):
        return [data]
    items = (item[0] if isinstance(item, tuple) else item for item in data)
    return items if steps is None else (item for _, item in zip(range(steps), items, strict=False))


def _lists_batches(data: Any) -> bool:
    first = next(iter(data), None)
    first = first[0] if isinstance(first, tuple) and first else first
    return len(getattr(first, "shape", ())) > 0


def _summary_of(values: Any, epsilon: float) -> Any:
    """About 1 / epsilon quantiles of `values`, and how many values each stands for: (2, n)."""
    ordered, step = np.sort(values), max(len(values) * epsilon, 1.0)
    # each stands for the values up to itself, so the first is the last of its part
    quantiles = ordered[int(step - 1) :: int(step)]
    return np.stack([quantiles, np.full(len(quantiles), step, np.float32)])


def _compress(summary: Any, epsilon: float) -> Any:
    """The summary with 1 / epsilon quantiles, read off its cumulative weights by straight lines."""
    if summary.shape[1] * epsilon < 1:
        return summary
    shares = epsilon + np.arange(0.0, 1.0, epsilon)
    total = np.cumsum(summary[1])
    at = total / total[-1]
    weights = np.interp(shares, at, total)
    values = np.interp(shares, at, summary[0])
    return np.stack([values, np.diff(weights, prepend=0.0)]).astype(np.float32)
