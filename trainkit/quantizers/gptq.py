"""GPTQ: weights quantized column by column, each correcting for the errors of those before.

Source: Frantar, Ashkboos, Hoefler and Alistarh 2022, arXiv:2210.17323.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.quantizers import calibration
from trainkit.quantizers.gptq_config import GPTQConfig
from trainkit.quantizers.gptq_quantizer import GPTQQuantizer
from trainkit.quantizers.packing import pack_int2, pack_int4
from trainkit.quantizers.zero_points import LEAST_SCALE, compute_quantization_parameters


def _stable_permutation(metric: Any) -> Tensor:
    """The order that sorts `metric` from the greatest down; equal ones stay in order."""
    return convert_to_tensor(_sort_descending(np.asarray(metric)).astype(np.int32))


def _sort_descending(metric: np.ndarray) -> np.ndarray:
    return np.argsort(-metric, kind="stable")


def inverse_factor(hessian: np.ndarray) -> np.ndarray:
    """The upper triangular U with `U.T @ U` the inverse of `hessian`, computed in float64."""
    lower = np.linalg.cholesky(hessian.astype(np.float64))
    inverse_lower = np.linalg.inv(lower)
    inverse = inverse_lower.T @ inverse_lower
    return np.linalg.cholesky((inverse + inverse.T) / 2).T.astype(np.float32)


def gptq_quantize_matrix(
    weights_transpose: Any,
    hessian: Any,
    *,
    blocksize: int = 128,
    group_size: int = -1,
    activation_order: bool = False,
    order_metric: Any = None,
    compute_scale_zero: Any = compute_quantization_parameters,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Integers for weights such that the error of the outputs stays small.

    Column j is rounded; with U from `inverse_factor`, the columns k after it are moved by
    `-(w_j - q_j) / U[j, j] * U[j, k]`.

    Args:
        weights_transpose: shape (out_features, in_features).
        hessian: damped, shape (in_features, in_features).
        blocksize: columns after which the others are moved all at once.
        group_size: columns that share a scale; -1 for all.
        activation_order: go by `order_metric`, the greatest first.
        order_metric: by default the diagonal of the Hessian.
        compute_scale_zero: gives scales, zero points and the greatest integer for some columns.

    Returns:
        Integers (out_features, in_features), int32; scales and zero points (out_features, groups);
        the group of each column, int32.
    """
    weights = np.array(np.asarray(weights_transpose), np.float32)
    matrix = np.asarray(hessian)
    order = np.arange(weights.shape[1])
    if activation_order:
        metric = np.diagonal(matrix) if order_metric is None else np.asarray(order_metric)
        order = _sort_descending(np.where(np.isfinite(metric), metric, 0))
    columns = _ColumnsInTurn(weights[:, order], compute_scale_zero, group_size)
    columns.go_through(inverse_factor(matrix[np.ix_(order, order)]), blocksize)
    back = np.argsort(order)
    groups = np.arange(weights.shape[1], dtype=np.int32) // columns.group
    return (
        convert_to_tensor(columns.integers[:, back]),
        convert_to_tensor(np.concatenate(columns.scales, axis=1)),
        convert_to_tensor(np.concatenate(columns.zeros, axis=1)),
        convert_to_tensor(groups[back]),
    )


class _ColumnsInTurn:
    """The columns of a matrix while they become integers one by one."""

    def __init__(self, weights: np.ndarray, parameters: Any, group_size: int) -> None:
        self.weights = weights
        self.integers = np.zeros(weights.shape, np.int32)
        self.group = weights.shape[1] if group_size == -1 else group_size
        self.scales: list[np.ndarray] = []
        self.zeros: list[np.ndarray] = []
        self._parameters = parameters
        self._now: Any = None

    def go_through(self, factor: np.ndarray, block_size: int) -> None:
        """Round all columns, and move those that are left after each."""
        count = self.weights.shape[1]
        for start in range(0, count, block_size):
            end = min(start + block_size, count)
            block = self.weights[:, start:end].copy()  # scales go by the weights before it
            errors = np.zeros_like(block)
            for i, j in enumerate(range(start, end)):
                error = (block[:, i] - self._rounded(j, block[:, i])) / factor[j, j]
                block[:, i + 1 :] -= np.outer(error, factor[j, j + 1 : end])
                errors[:, i] = error
            self.weights[:, end:] -= errors @ factor[start:end, end:]

    def _rounded(self, j: int, column: np.ndarray) -> np.ndarray:
        """`column`, which is number j by now, as it comes back from integers."""
        if j % self.group == 0:
            scale, zero, greatest = self._parameters(
                convert_to_tensor(self.weights[:, j : j + self.group])
            )
            self._now = np.asarray(scale), np.asarray(zero), float(greatest)
            self.scales.append(self._now[0])
            self.zeros.append(self._now[1])
        scale, zero, greatest = self._now
        safe = np.where(scale == 0, np.float32(LEAST_SCALE), scale)[:, 0]
        shift = zero[:, 0].astype(np.float32)
        integers = np.clip(np.rint(column / safe + shift), 0, greatest)
        self.integers[:, j] = integers.astype(np.int32)
        return scale[:, 0] * (integers - shift)


class GPTQ:
    """What one dense layer sees, and its kernel quantized by that.

    Args:
        layer: built; quantized with mode "gptq" before `quantize_and_correct_layer`.
        config: how.

    Attributes:
        rows, columns: inputs and outputs of the kernel as a matrix.
        hessian: 2 / N times the sum of x x^T over all inputs x, shape (rows, rows).
        num_samples: N, how many inputs were seen.

    Raises:
        TypeError: the layer is no dense one.
    """

    def __init__(self, layer: Any, config: GPTQConfig | None = None) -> None:
        self.original_layer = layer
        self.config = GPTQConfig(dataset=None, tokenizer=None) if config is None else config
        self.quantizer = GPTQQuantizer(self.config, compute_dtype=layer.variable_dtype)
        self.rows, self.columns = calibration.kernel_matrix(layer, "GPTQ")
        self.kernel_shape = tuple(layer.kernel.shape)
        self.num_samples = 0
        self._hessian: Any = np.zeros((self.rows, self.rows), np.float32)

    @property
    def hessian(self) -> Tensor | None:
        """The mean of what was seen; `None` once it is forgotten."""
        return None if self._hessian is None else convert_to_tensor(self._hessian)

    @hessian.setter
    def hessian(self, value: Any) -> None:
        self._hessian = np.array(np.asarray(value), np.float32)

    def update_hessian_with_batch(self, input_batch: Any) -> None:
        """Take inputs of the layer, shape (..., rows), into the mean.

        Raises:
            ValueError: there are none, or they have another number of features.
        """
        x = calibration.as_rows(input_batch)
        if x.shape[1] != self.rows:
            raise ValueError(
                f"Hessian dimensions ({self.rows}) do not match input features ({x.shape[1]})"
            )
        total = self.num_samples + x.shape[0]
        self._hessian *= np.float32(self.num_samples / total)
        self._hessian += np.float32(2.0 / total) * (x.T @ x)
        self.num_samples = total

    def observe(self, inputs: Any) -> None:
        """Take the inputs of a call."""
        array = np.asarray(inputs.numpy() if hasattr(inputs, "numpy") else inputs)
        self.update_hessian_with_batch(array.reshape(-1, self.rows))

    def quantize_and_correct_layer(self, blocksize: int = 128) -> None:
        """Quantize the kernel, and give it to the layer.

        Args:
            blocksize: see `gptq_quantize_matrix`.
        """
        layer, config = self.original_layer, self.config
        hessian = self._damp()
        integers, scale, zero, groups = gptq_quantize_matrix(
            calibration.matrix_of(layer, self.rows, self.columns),
            hessian,
            blocksize=blocksize,
            group_size=config.group_size,
            activation_order=config.activation_order,
            order_metric=np.diagonal(hessian),
            compute_scale_zero=self.quantizer.find_params,
        )
        layer._take_calibrated(
            quantized_kernel=packed_kernel(integers.numpy().astype(np.uint8), config.weight_bits),
            kernel_scale=scale,
            kernel_zero=zero,
            g_idx=groups,
        )

    def quantize(self) -> None:
        """Quantize the layer, and forget what was seen."""
        self.quantize_and_correct_layer()
        self.free()

    def _damp(self) -> np.ndarray:
        """The Hessian with something added to its diagonal, so that it has an inverse."""
        hessian = self._hessian.copy()
        diagonal = np.diagonal(hessian).copy()
        diagonal[diagonal == 0] = 1.0
        diagonal += np.float32(self.config.hessian_damping * diagonal.mean())
        np.fill_diagonal(hessian, diagonal)
        return hessian

    def free(self) -> None:
        """Forget what was seen."""
        self._hessian = None


def packed_kernel(integers: np.ndarray, bits: int) -> Any:
    """Integers (out_features, in_features) as they are stored: several outputs in a byte."""
    if bits == 4:
        return pack_int4(integers, axis=0, dtype="uint8")[0]
    if bits == 2:
        return pack_int2(integers, axis=0, dtype="uint8")[0]
    return convert_to_tensor(integers)
