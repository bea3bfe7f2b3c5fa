"""AWQ: weights that meet large inputs are scaled up before they are rounded.

Source: Lin, Tang, Tang, Yang and others 2023, arXiv:2306.00978, with the clipping of AutoAWQ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.quantizers import calibration
from trainkit.quantizers.awq_config import AWQConfig
from trainkit.quantizers.gptq import packed_kernel
from trainkit.quantizers.zero_points import (
    compute_quantization_parameters,
    dequantize_with_sz_map,
    quantize_with_sz_map,
)

MAX_CLIP_SAMPLE_ROWS = 512
"""How many rows of inputs are kept for the search of ranges."""

_LEAST = 1e-8


def _get_weight_scale(weights: Any, group_size: int) -> Tensor:
    """The mean magnitude of each input's weights, relative to the greatest of their groups.

    Args:
        weights: shape (out_features, in_features).
        group_size: inputs of a group; all of them where it does not divide their number.
    """
    sizes = ops.abs(ops.cast(ops.convert_to_tensor(weights), "float32"))
    rows, columns = (int(n) for n in sizes.shape)
    width = group_size if group_size > 0 and columns % group_size == 0 else columns
    groups = ops.reshape(sizes, (rows, columns // width, width))
    share = ops.divide(groups, ops.add(ops.max(groups, axis=2, keepdims=True), 1e-6))
    return ops.mean(ops.reshape(share, (rows, columns)), axis=0)


def _parameters(weights: Any, group_size: int) -> tuple[Any, Any, Any, Any]:
    """Scales, zero points, greatest integer and the group of each column."""
    scale, zero, greatest = compute_quantization_parameters(
        weights, bits=4, symmetric=False, per_channel=True, group_size=group_size
    )
    columns = int(weights.shape[1])
    width = columns if group_size == -1 else group_size
    groups = convert_to_tensor(np.arange(columns, dtype=np.int32) // np.int32(width))
    return scale, zero, greatest, groups


def _through_integers(weights: Any, group_size: int) -> Any:
    """`weights` as they come back from 4 bits."""
    scale, zero, greatest, groups = _parameters(weights, group_size)
    integers = quantize_with_sz_map(weights, scale, zero, groups, greatest)
    return dequantize_with_sz_map(integers, scale, zero, groups)


def awq_search_optimal_scales(
    weights: Any, activation_magnitudes: Any, *, num_grid_points: int = 20, group_size: int = -1
) -> Tensor:
    """The factors of the inputs' weights with which rounding to 4 bits does least harm.

    Tried are `x**r / w**(1 - r)` for r from 0 to 1, with x the mean magnitude of an input and w
    that of its weights, divided by the root of the greatest times the least of them.

    Args:
        weights: shape (out_features, in_features).
        activation_magnitudes: mean magnitude of each input, shape (in_features,).
        num_grid_points: how many steps r makes.
        group_size: inputs that share a scale of the integers; -1 for all.

    Returns:
        The factors, shape (in_features,).
    """
    w = ops.convert_to_tensor(weights)
    x = ops.cast(ops.convert_to_tensor(activation_magnitudes), "float32")
    x = ops.where(x < _LEAST, ops.ones_like(x), x)
    sizes = _get_weight_scale(w, group_size)
    sizes = ops.where(sizes < _LEAST, ops.ones_like(sizes), sizes)
    best: Any = None
    least_harm = np.inf
    for i in range(num_grid_points + 1):
        ratio = i / num_grid_points
        factors = ops.divide(ops.power(x, ratio), ops.power(sizes, 1.0 - ratio))
        factors = ops.maximum(factors, 1e-4)
        middle = ops.sqrt(ops.multiply(ops.max(factors), ops.min(factors)))
        factors = ops.divide(factors, ops.maximum(middle, _LEAST))
        back = ops.divide(_through_integers(ops.multiply(w, factors), group_size), factors)
        harm = float(ops.mean(ops.square(ops.multiply(ops.subtract(w, back), x))))
        if best is None or harm < least_harm:
            best, least_harm = factors, harm
    return best


def awq_search_best_clip(
    weights_scaled: Any,
    activation_sample: Any,
    awq_scales: Any,
    *,
    group_size: int = -1,
    n_grid: int = 20,
    max_shrink: float = 0.5,
    oc_batch_size: int = 64,
) -> tuple[Tensor, int, int]:
    """The bounds of each group's weights with which the outputs are best.

    Args:
        weights_scaled: weights times factors, shape (out_features, in_features).
        activation_sample: inputs, shape (rows, in_features).
        awq_scales: the factors, shape (in_features,).
        group_size: inputs of a group; all of them where it does not divide their number.
        n_grid: how many bounds are tried.
        max_shrink: the least bound is `1 - max_shrink` times the greatest weight.
        oc_batch_size: outputs that are looked at together.

    Returns:
        The bounds, shape (out_features, groups, 1), inputs of a group, and number of groups.
    """
    weights = np.asarray(ops.convert_to_tensor(weights_scaled), np.float32)
    outputs, inputs = weights.shape
    x = calibration.as_rows(activation_sample).reshape(-1, inputs)
    x = x / np.asarray(ops.convert_to_tensor(awq_scales), np.float32)
    width = group_size if group_size > 0 and inputs % group_size == 0 else inputs
    groups = inputs // width
    # (groups, width, rows), contiguous for the products of each group
    grouped_inputs = np.ascontiguousarray(x.reshape(-1, groups, width).transpose(1, 2, 0))
    shape = (-1, groups, width)
    shrinks = [1.0 - i * max_shrink / n_grid for i in range(max(1, int(n_grid)))]
    bounds = [
        _best_bounds(weights[i : i + oc_batch_size].reshape(shape), grouped_inputs, shrinks)
        for i in range(0, outputs, oc_batch_size)
    ]
    return convert_to_tensor(np.concatenate(bounds)), width, groups


def _best_bounds(
    weights: np.ndarray, grouped_inputs: np.ndarray, shrinks: list[float]
) -> np.ndarray:
    """The bounds for some outputs.

    Shapes: weights (outputs, groups, width), inputs (groups, width, rows).
    """
    outputs, groups, width = weights.shape

    def results(w: np.ndarray) -> np.ndarray:
        return np.matmul(w.transpose(1, 0, 2), grouped_inputs)  # (groups, outputs, rows)

    targets = results(weights)
    widest = np.abs(weights).max(axis=-1, keepdims=True)
    best, least_harm = widest, np.full((outputs, groups, 1), np.inf, np.float32)
    for shrink in shrinks:
        bound = widest * np.float32(shrink)
        clipped = np.clip(weights, -bound, bound).reshape(outputs, groups * width)
        back = _through_integers(convert_to_tensor(clipped), width if groups > 1 else -1)
        error = results(back.numpy().reshape(weights.shape)) - targets
        harm = np.square(error).mean(axis=-1).T[..., None]
        best = np.where(harm < least_harm, bound, best)
        least_harm = np.minimum(harm, least_harm)
    return best


def awq_quantize_matrix(
    weights_transpose: Any,
    activation_magnitudes: Any,
    *,
    num_grid_points: int = 20,
    group_size: int = -1,
    apply_clip: bool = False,
    activation_sample: Any = None,
    clip_n_grid: int = 20,
    clip_max_shrink: float = 0.5,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Integers of 4 bits for weights, and all that is needed to get these back.

    Args:
        weights_transpose: shape (out_features, in_features).
        activation_magnitudes: mean magnitude of each input.
        num_grid_points: see `awq_search_optimal_scales`.
        group_size: inputs that share a scale; -1 for all.
        apply_clip: whether bounds of weights are searched; this takes an `activation_sample`.
        activation_sample: inputs, shape (rows, in_features).
        clip_n_grid: see `awq_search_best_clip`.
        clip_max_shrink: see there.

    Returns:
        Integers (out_features, in_features), as floats; scales and zero points (out_features,
        groups); the factors by which weights were multiplied, (in_features,); the group of each
        input.
    """
    weights = ops.convert_to_tensor(weights_transpose)
    factors = awq_search_optimal_scales(
        weights, activation_magnitudes, num_grid_points=num_grid_points, group_size=group_size
    )
    scaled = ops.multiply(weights, factors)
    if apply_clip and activation_sample is not None:
        bound, width, groups = awq_search_best_clip(
            scaled,
            activation_sample,
            factors,
            group_size=group_size,
            n_grid=clip_n_grid,
            max_shrink=clip_max_shrink,
        )
        parts = ops.reshape(scaled, (-1, groups, width))
        clipped = ops.minimum(ops.maximum(parts, ops.negative(bound)), bound)
        scaled = ops.reshape(clipped, tuple(scaled.shape))
    scale, zero, greatest, groups_of = _parameters(scaled, group_size)
    integers = quantize_with_sz_map(scaled, scale, zero, groups_of, greatest)
    return integers, scale, zero, factors, groups_of


class AWQ:
    """What one dense layer sees, and its kernel quantized by that.

    Args:
        layer: built; quantized with mode "awq" before `quantize_layer`.
        config: how.

    Attributes:
        rows, columns: inputs and outputs of the kernel as a matrix.
        activation_magnitudes: mean magnitude of each input, shape (rows,).
        num_samples: how many inputs were seen.

    Raises:
        TypeError: the layer is no dense one.
    """

    def __init__(self, layer: Any, config: AWQConfig | None = None) -> None:
        self.original_layer = layer
        self.config = AWQConfig(dataset=None, tokenizer=None) if config is None else config
        self.rows, self.columns = calibration.kernel_matrix(layer, "AWQ")
        self.kernel_shape = tuple(layer.kernel.shape)
        self.num_samples = 0
        self.activation_magnitudes: Any = convert_to_tensor(np.zeros(self.rows, np.float32))
        self._clip_samples: list[np.ndarray] = []
        self._clip_sample_rows = 0

    def update_activation_magnitudes(self, input_batch: Any) -> None:
        """Take inputs of the layer, shape (..., rows), into the mean.

        Raises:
            ValueError: there are none, or they have another number of features.
        """
        x = calibration.as_rows(input_batch)
        if x.shape[1] != self.rows:
            raise ValueError(f"AWQ: the kernel has {self.rows} inputs, got features {x.shape[1]}")
        self.num_samples += x.shape[0]
        mean = np.abs(x).mean(axis=0)
        magnitudes = self.activation_magnitudes.numpy()
        moved = magnitudes + (mean - magnitudes) * np.float32(x.shape[0] / self.num_samples)
        self.activation_magnitudes = convert_to_tensor(moved.astype(np.float32))
        room = MAX_CLIP_SAMPLE_ROWS - self._clip_sample_rows
        if self.config.apply_clip and room > 0:
            self._clip_samples.append(x[:room])
            self._clip_sample_rows += len(self._clip_samples[-1])

    def observe(self, inputs: Any) -> None:
        """Take the inputs of a call."""
        array = np.asarray(inputs.numpy() if hasattr(inputs, "numpy") else inputs)
        self.update_activation_magnitudes(array.reshape(-1, self.rows))

    def quantize_layer(self) -> None:
        """Quantize the kernel, and give it to the layer."""
        layer, config = self.original_layer, self.config
        sample = np.concatenate(self._clip_samples) if self._clip_samples else None
        integers, scale, zero, factors, groups = awq_quantize_matrix(
            calibration.matrix_of(layer, self.rows, self.columns),
            self.activation_magnitudes,
            num_grid_points=config.num_grid_points,
            group_size=config.group_size,
            apply_clip=config.apply_clip and sample is not None,
            activation_sample=sample,
        )
        layer._take_calibrated(
            quantized_kernel=packed_kernel(integers.numpy().astype(np.uint8), 4),
            kernel_scale=scale,
            kernel_zero=zero,
            awq_scales=factors,
            g_idx=groups,
        )

    def quantize(self) -> None:
        """Quantize the layer, and forget what was seen."""
        self.quantize_layer()
        self.free()

    def free(self) -> None:
        """Forget what was seen."""
        self.activation_magnitudes = None
        self._clip_samples = []
        self._clip_sample_rows = 0
