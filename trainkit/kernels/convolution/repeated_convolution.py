"""A convolution by weights that stay, of images whose sizes stay too.

What sizes alone decide is remembered: in an inference of one image a convolution takes 100
microseconds, of which Python would take 20 to find out again what is to be done.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.convolution import conv_tuned, few_filters_tuned, phases_tuned, winograd_tuned
from trainkit.kernels.convolution.depthwise_tuned import (
    EMPTY_LINES,
    LINES,
    LinesCall,
    lines_call,
    serves,
)
from trainkit.kernels.convolution.pixels_tuned import (
    AS_IT_IS,
    NOTHING_BEHIND,
    PIXELS,
    PixelsCall,
    RepeatedSums,
    pixels_call,
)
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.winograd_tuned import (
    RESULTS,
    ResultsCall,
    before_of,
    results_call,
)
from trainkit.kernels.jit.kernel_family import Family, owned
from trainkit.kernels.matmul import epilogue_tuned
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_MATRIX, EMPTY_VECTOR, Epilogue, finish
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.matmul.product_tuned import is_large
from trainkit.kernels.matmul.repeated_product import are_in_order, product_call
from trainkit.kernels.normalization.norm_tuned import Rectifier
from trainkit.kernels.threads import pools

Array = Any

_F32 = np.dtype(np.float32)
_LINES_LAYOUT = "lines"


class RepeatedConvolution:
    """`conv_tuned.forward` of float32, and what follows it, by weights that a program keeps.

    Args:
        weights: keeps what is made of the kernel.
        rectify: whether sums below 0 become 0.
        rectifier: what comes last where there is a factor.
    """

    __slots__ = ("_call", "_rectifier", "_rectifies", "_weights")

    def __init__(self, weights: PreparedWeights, rectify: bool, rectifier: Rectifier) -> None:
        self._weights, self._rectifies, self._rectifier = weights, rectify, rectifier
        self._call: Any = None

    def repeat(self, *operands: Any) -> Array | None:
        """The result where this is a call as the one before, else `None`.

        Args:
            operands: input, kernel, bias, factor, shift and residual; the last four may be `None`.
        """
        return None if self._call is None else self._call(*operands)

    def first(
        self, w: Windows, groups: int, x: Array, kernel: Array, bias: Any, epilogue: Epilogue | None
    ) -> Array | None:
        """The result, `None` where compiled kernels do not serve; further calls are as this one."""
        self._call = None
        rectifies, weights = self._rectifies, self._weights
        y = conv_tuned.forward(w, x, kernel, bias, rectifies, groups, weights, epilogue)
        if y is not None and (bias is None or bias.dtype is _F32):
            self._call = self._memory(w, groups, x, kernel, epilogue is not None)
        return y

    def _memory(self, w: Windows, groups: int, x: Array, kernel: Array, is_followed: bool) -> Any:
        channels, filters = x.shape[-1], kernel.shape[-1]
        low = np.float32(0 if self._rectifies else -np.inf)
        limits = low, np.float32(np.inf)
        if is_followed:
            limits = epilogue_tuned.limits_of(self._rectifier)
        pixels = len(x) * math.prod(w.out)
        if groups == 1 and w.pointwise and is_large(pixels, kernel.reshape(channels, filters)):
            is_alone = not (is_followed and self._rectifies)
            if is_alone and all(n == 1 for n in w.strides):
                return product_call(x.shape, kernel, filters, self._weights, limits)
            return None
        if not serves(w, channels, filters, groups):
            return self._sums(w, groups, x, kernel, low, limits)
        # what meets zeros of the padding is finite, as it was used; who keeps it needs not ask
        if self._weights.strips(kernel, owned, _LINES_LAYOUT) is None:
            return None
        weights_copy = self._weights.current(kernel, _LINES_LAYOUT)
        if weights_copy is None:
            return None
        call = lines_call(w, len(x), channels, filters)
        return _RepeatedLines(call, x, kernel, weights_copy, low, limits)

    def _sums(self, w: Windows, groups: int, x: Array, kernel: Array, low: Any, limits: Any) -> Any:
        """What is remembered of a convolution by direct sums or transforms, `None` of others."""
        sizes = len(x), x.shape[-1], kernel.shape[-1], groups
        if winograd_tuned.serves_forward(w, *sizes):
            tiles = results_call(x.shape, kernel.shape, before_of(w), w.out)
            return _RepeatedTiles(tiles, x, kernel, low, self._rectifier)
        if any(way.serves_forward(w, *sizes) for way in (phases_tuned, few_filters_tuned)):
            return None  # `first` has them, and the kernel that is kept
        call = pixels_call(w, *sizes, pools.planned_threads())
        blocks = None
        if call.pack != AS_IT_IS:
            blocks = self._weights.current(kernel, call.layout)
            if blocks is None:
                return None
        return _RepeatedPixels(call, x, kernel, blocks, low, limits)


class _RepeatedCall:
    """A convolution of which sizes have decided what is to be done.

    Args:
        call: what they decide.
        x_shape: of the input.
        kernel_shape: of the weights.
        copy: what holds a copy of the weights, `None` where they are read as they lie.
        low: the smallest sum.
    """

    __slots__ = ("_call", "_copy", "_kernel_shape", "_low", "_x_shape")
    _family: Family

    def __init__(
        self,
        call: ResultsCall | PixelsCall | LinesCall,
        x_shape: tuple[int, ...],
        kernel_shape: tuple[int, ...],
        copy: Any,
        low: Any,
    ) -> None:
        self._call: Any = call
        self._x_shape, self._kernel_shape = x_shape, kernel_shape
        self._copy, self._low = copy, low

    def _kernel_for(self, x: Array, kernel: Array, bias: Array | None) -> Any:
        """The compiled kernel, `None` where this is another call than the first."""
        if self._copy is None:
            is_same = kernel.shape == self._kernel_shape and kernel.flags.carray
        else:
            is_same = self._copy.are_of(kernel)
        if not is_same or x.shape != self._x_shape or not (bias is None or bias.flags.carray):
            return None
        return self._family.find(self._call.key, 0.0)


class _RepeatedTiles(_RepeatedCall):
    """A convolution by transforms of tiles; `rectifier` comes last where there is a factor."""

    __slots__ = ("_rectifier", "_zeros")
    _family = RESULTS

    def __init__(
        self, call: ResultsCall, x: Array, kernel: Array, low: Any, rectifier: Rectifier
    ) -> None:
        super().__init__(call, x.shape, kernel.shape, None, low)
        self._rectifier, self._zeros = rectifier, np.zeros(call.shape[-1], _F32)

    def __call__(
        self,
        x: Array,
        kernel: Array,
        bias: Array | None,
        factor: Array | None,
        shift: Array | None,
        residual: Array | None,
    ) -> Array | None:
        call, run = self._call, self._kernel_for(x, kernel, bias)
        if run is None or pools.compute_threads() != call.threads:
            return None
        y = call.run(run, x, kernel, self._zeros if bias is None else bias, self._low)
        if y is None or factor is None or shift is None:
            return y
        follows = Epilogue(factor.reshape(-1), shift.reshape(-1), residual, self._rectifier)
        return y if finish(y, follows) else None


class _RepeatedPixels(_RepeatedCall):
    """A convolution by direct sums; what follows it lies between `limits`."""

    __slots__ = ("_limits", "_sums", "_threads")
    _family = PIXELS

    def __init__(
        self, call: PixelsCall, x: Array, kernel: Array, copy: Any, low: Any, limits: Any
    ) -> None:
        super().__init__(call, x.shape, kernel.shape, copy, low)
        self._limits, self._sums = limits, RepeatedSums(call)
        # those of a convolution that this thread does alone change nothing
        self._threads = pools.planned_threads() if self._sums.is_shared else None

    def __call__(
        self,
        x: Array,
        kernel: Array,
        bias: Array | None,
        factor: Array | None,
        shift: Array | None,
        residual: Array | None,
    ) -> Array | None:
        call, copy = self._call, self._copy
        # read first: what is let go in between is of this array still
        matrix = None if copy is None else copy.array
        run = self._kernel_for(x, kernel, bias)
        if run is None:
            return None
        if self._threads is not None and pools.planned_threads() != self._threads:
            return None
        if copy is None:
            matrix = call.rows_of(kernel)
        behind = NOTHING_BEHIND
        if factor is not None:
            if not are_in_order(call.shape, factor, shift, residual):
                return None
            beside = EMPTY_MATRIX if residual is None else residual.reshape(len(x), -1)
            behind = factor.reshape(-1), shift.reshape(-1), beside, self._limits  # type: ignore[union-attr]
        return self._sums(run, x, matrix, bias, self._low, behind)


class _RepeatedLines(_RepeatedCall):
    """A depthwise convolution by a copy of the kernel; what follows it lies between `limits`."""

    __slots__ = ("_limits",)
    _family = LINES

    def __init__(
        self, call: LinesCall, x: Array, kernel: Array, copy: Any, low: Any, limits: Any
    ) -> None:
        super().__init__(call, x.shape, kernel.shape, copy, low)
        self._limits = limits

    def __call__(
        self,
        x: Array,
        kernel: Array,
        bias: Array | None,
        factor: Array | None,
        shift: Array | None,
        residual: Array | None,
    ) -> Array | None:
        call = self._call
        weights = self._copy.array  # read first: what is let go in between is of this array still
        run = self._kernel_for(x, kernel, bias)
        if run is None:
            return None
        behind: Any = (EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_LINES)
        if factor is not None:
            if not are_in_order(call.shape, factor, shift, residual):
                return None
            beside = EMPTY_LINES if residual is None else residual.reshape(call.y_shape)
            behind = factor.reshape(-1), shift.reshape(-1), beside  # type: ignore[union-attr]
        return call.run(run, x, weights, bias, self._low, (*behind, self._limits))
