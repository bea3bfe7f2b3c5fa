"""A convolution by weights that stay, of images whose sizes stay too.

What sizes alone decide is remembered: in an inference of one image a convolution takes 100
microseconds, of which Python would take 20 to find out again what is to be done.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.convolution import conv_tuned, few_filters_tuned, phases_tuned, winograd_tuned
from trainkit.kernels.convolution.depthwise_tuned import EMPTY_LINES, LINES, lines_call, serves
from trainkit.kernels.convolution.pixels_tuned import (
    AS_IT_IS,
    NOTHING_BEHIND,
    PIXELS,
    PixelsCall,
    pixels_call,
)
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.winograd_tuned import (
    RESULTS,
    ResultsCall,
    before_of,
    results_call,
)
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.matmul import epilogue_tuned
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_VECTOR, Epilogue, finish
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.matmul.product_tuned import is_large
from trainkit.kernels.normalization.norm_tuned import Rectifier
from trainkit.kernels.repeated.planned_call import (
    CalledArray,
    CallPlan,
    KeptWeights,
    NewArray,
    RepeatedCalls,
    plan_call,
)
from trainkit.kernels.repeated.repeated_product import product_call
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import shared

Array = Any
_Operands = tuple[Any, ...]
"""Input, kernel, bias, factor, shift and residual; the last four may be `None`."""

_F32 = np.dtype(np.float32)
_LINES_LAYOUT = "lines"
_NO_LIMIT = np.float32(np.inf)


class RepeatedConvolution(RepeatedCalls):
    """`conv_tuned.forward` of float32, and what follows it, by weights that a program keeps.

    Args:
        weights: keeps what is made of the kernel.
        rectify: whether sums below 0 become 0.
        rectifier: what comes last where there is a factor.
        otherwise: what is done where this is another call than the one before: it may ask `first`.
    """

    __slots__ = ("_rectifier", "_rectifies", "_weights")

    def __init__(
        self, weights: PreparedWeights, rectify: bool, rectifier: Rectifier, otherwise: Any
    ) -> None:
        self._weights, self._rectifies, self._rectifier = weights, rectify, rectifier
        super().__init__(otherwise)

    def _run(
        self, w: Windows, groups: int, x: Array, kernel: Array, bias: Any, epilogue: Epilogue | None
    ) -> Array | None:
        rectifies, weights = self._rectifies, self._weights
        return conv_tuned.forward(w, x, kernel, bias, rectifies, groups, weights, epilogue)

    def _plan(
        self, w: Windows, groups: int, x: Array, kernel: Array, bias: Any, epilogue: Epilogue | None
    ) -> Any:
        if bias is not None and bias.dtype is not _F32:
            return None
        factor, shift, residual = (None,) * 3 if epilogue is None else epilogue[:3]
        operands = x, kernel, bias, factor, shift, residual
        channels, filters = x.shape[-1], kernel.shape[-1]
        low, is_followed = np.float32(0 if self._rectifies else -np.inf), factor is not None
        limits = epilogue_tuned.limits_of(self._rectifier) if is_followed else (low, _NO_LIMIT)
        pixels = len(x) * math.prod(w.out)
        if groups == 1 and w.pointwise and is_large(pixels, kernel.reshape(channels, filters)):
            is_alone = not (is_followed and self._rectifies)
            if is_alone and all(n == 1 for n in w.strides):
                return product_call(operands, filters, self._weights, limits)
            return None
        if not serves(w, channels, filters, groups):
            return self._sums(w, groups, operands, low, limits)
        # what meets zeros of the padding is finite, as it was used; who keeps it needs not ask
        if self._weights.strips(kernel, owned, _LINES_LAYOUT) is None:
            return None
        strips = self._weights.current(kernel, _LINES_LAYOUT)
        if strips is None:
            return None
        return plan_call(_lines_plan(w, operands, strips, low, limits))

    def _sums(self, w: Windows, groups: int, operands: _Operands, low: Any, limits: Any) -> Any:
        """The same of a convolution by direct sums or transforms."""
        x, kernel = operands[:2]
        sizes = len(x), x.shape[-1], kernel.shape[-1], groups
        if winograd_tuned.serves_forward(w, *sizes):
            tiles = results_call(x.shape, kernel.shape, before_of(w), w.out)
            return _RepeatedTiles(tiles, x, kernel, low, self._rectifier)
        if any(way.serves_forward(w, *sizes) for way in (phases_tuned, few_filters_tuned)):
            return None  # `first` has them, and the kernel that is kept
        call = pixels_call(w, *sizes, pools.planned_threads())
        strips = None
        if call.pack != AS_IT_IS:
            strips = self._weights.current(kernel, call.layout)
            if strips is None:
                return None
        return plan_call(_sums_plan(call, operands, strips, low, limits))


def _behind(
    operands: _Operands, first: int, filters: int, view: tuple[int, ...], shape: tuple[int, ...]
) -> list[CalledArray | None]:
    """What a plan has of factor, shift and residual, which are arguments from `first` on.

    Args:
        operands: of the call.
        first: position of the factor.
        filters: of the result.
        view: how the kernel takes a residual.
        shape: of the result.
    """
    expected: list[CalledArray | None] = [
        None if x is None else CalledArray((first + i,), (filters,))
        for i, x in enumerate(operands[3:5])
    ]
    return [*expected, None if operands[5] is None else CalledArray((first + 2,), view, shape)]


def _lines_plan(w: Windows, operands: _Operands, strips: Any, low: Any, limits: Any) -> CallPlan:
    """A depthwise convolution by a copy of the kernel; what follows it lies between `limits`."""
    x, kernel, bias = operands[:3]
    filters = kernel.shape[-1]
    call = lines_call(w, len(x), x.shape[-1], filters)
    nothing = EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_LINES
    start = np.zeros(filters, _F32)
    shares, numbers = call.shares(), call.numbers_now()
    return CallPlan(
        LINES,
        call.key,
        (*shares, None, None, start, None, call.table, numbers, low, *nothing, limits),
        (
            CalledArray((2,), call.x_shape, x.shape, is_copied=True),
            KeptWeights((3,), call.weights_shape, strips),
            None if bias is None else CalledArray((4,), (filters,)),
            *_behind(operands, 9, filters, call.y_shape, call.shape),
        ),
        NewArray(5, call.y_shape, call.shape),
        # of what this thread does alone it makes no difference in how many bands an image is
        fresh=((0, 1, 7), lambda: (*call.shares(), call.numbers_now())) if shares[1] > 1 else None,
    )


def _sums_plan(
    call: PixelsCall, operands: _Operands, strips: Any, low: Any, limits: Any
) -> CallPlan:
    """Direct sums by weights that lie as they read them; what follows lies between `limits`."""
    x, kernel, bias, factor = operands[:4]
    plan, (height, width, *_) = call.plan, call.geometry.sizes
    batch, filters = call.shape[0], call.shape[-1]
    flat = batch, math.prod(call.shape[1:])
    lines = batch, height * width, x.size // (batch * height * width)
    matrix: CalledArray | KeptWeights = CalledArray((4, 6), (1, plan.depth, filters), kernel.shape)
    if strips is not None:
        matrix = KeptWeights((4, 6), strips.array.shape, strips)
    source = plan.source
    pool, parts = shared(call.nanoseconds)
    threads = pools.planned_threads()

    def pool_now() -> tuple[int] | None:
        # tables are for so many threads
        return (shared(call.nanoseconds)[0],) if pools.planned_threads() == threads else None

    return CallPlan(
        PIXELS,
        call.key,
        (
            pool, None, EMPTY_LINES, plan.lines, None, plan.offsets, None, plan.blocks,
            np.zeros(filters, _F32), None, plan.at, plan.to, plan.runs, plan.chunks, plan.counts,
            (*plan.numbers, AS_IT_IS), low,
            *(NOTHING_BEHIND if factor is None else (*NOTHING_BEHIND[:3], limits)),
        ),
        (
            CalledArray((1,), lines, x.shape, is_copied=True),
            matrix,
            None if bias is None else CalledArray((8,), (filters,)),
            *_behind(operands, 17, filters, flat, call.shape),
        ),
        NewArray(9, flat, call.shape),
        scratch=(NewArray(2, source, source),) if source[0] else (),
        fresh=((0,), pool_now) if parts > 1 else None,
    )  # fmt: skip


class _RepeatedTiles:
    """A convolution by transforms of tiles, and what follows it.

    Args:
        call: what its sizes decide.
        x: an input.
        kernel: the weights.
        low: the smallest sum.
        rectifier: what comes last where there is a factor.
    """

    __slots__ = ("_call", "_kernel_shape", "_low", "_rectifier", "_x_shape", "_zeros")

    def __init__(
        self, call: ResultsCall, x: Array, kernel: Array, low: Any, rectifier: Rectifier
    ) -> None:
        self._call, self._x_shape, self._kernel_shape = call, x.shape, kernel.shape
        self._low, self._rectifier = low, rectifier
        self._zeros = np.zeros(call.shape[-1], _F32)

    def __call__(
        self,
        x: Array,
        kernel: Array,
        bias: Array | None,
        factor: Array | None,
        shift: Array | None,
        residual: Array | None,
    ) -> Array | None:
        """The result, `None` where this is another call than the first."""
        call = self._call
        is_same = x.shape == self._x_shape and kernel.shape == self._kernel_shape
        if not is_same or not kernel.flags.carray or not (bias is None or bias.flags.carray):
            return None
        run = RESULTS.find(call.key, 0.0)
        if run is None or pools.compute_threads() != call.threads:
            return None
        y = call.run(run, x, kernel, self._zeros if bias is None else bias, self._low)
        if y is None or factor is None or shift is None:
            return y
        follows = Epilogue(factor.reshape(-1), shift.reshape(-1), residual, self._rectifier)
        return y if finish(y, follows) else None
