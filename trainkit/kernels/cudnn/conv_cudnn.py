"""Convolution and its two gradients by cuDNN.

Arrays stay (batch, space..., channels), which cuDNN sees by strides; a kernel (window...,
inside, filters) is copied to (filters, window..., inside) for a call, and a gradient by it back.
Where cuDNN has nothing for padding of unequal sides, the array is padded by hand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.kernels.convolution.sliding_windows import Windows, placed
from trainkit.kernels.cudnn.description import Description, Dims, channels_last
from trainkit.kernels.cudnn.plans import is_served, ready, run

Array = Any

_AXES = 2
"""cuDNN has two spatial axes or three: a single one gets one of size 1 in front."""


class Facts:
    """Windows in the form of cuDNN: padding before and after, strides, dilation."""

    __slots__ = ("after", "before", "dilation", "out", "sizes", "strides", "window")

    def __init__(self, w: Windows) -> None:
        self.sizes, self.out, self.window = (_two(x) for x in (w.sizes, w.out, w.window))
        self.strides, self.dilation = _two(w.strides), _two(w.dilation)
        self.before = _two(tuple(a for a, _ in w.pads), 0)
        self.after = _two(tuple(b for _, b in w.pads), 0)

    def given(self) -> tuple[Dims, ...]:
        """What plans depend on besides sizes of arrays."""
        return self.before, self.after, self.strides, self.dilation

    @property
    def is_uneven(self) -> bool:
        """Whether an axis is padded by more on one side."""
        return self.before != self.after


def _two(values: tuple[int, ...], first: int = 1) -> Dims:
    return (first,) * (_AXES - len(values)) + tuple(values)


_facts = lru_cache(maxsize=1024)(Facts)


def _by_hand(w: Windows) -> Windows:
    """The same windows over an array that is padded already."""
    return placed(w.padded, w.window, w.strides, "valid", w.dilation)


def _windows_given(window_geometry: tuple[Dims, ...]) -> dict[str, list[int]]:
    names = ("pre_padding", "post_padding", "stride", "dilation")
    return {name: list(value) for name, value in zip(names, window_geometry, strict=True)}


def _vector(n: int, rank: int) -> Dims:
    """Sizes of a vector along the channels."""
    return (1, n, *(1,) * (rank - 2))


def _filters_first(xp: Any, kernel: Array) -> Array:
    """(window..., inside, filters) as (filters, window..., inside)."""
    last = kernel.ndim - 1
    return ready(xp, kernel.transpose(last, *range(last)))


# ------------------------------------------------------------------ descriptions


def describe_forward(
    d: Description,
    dtype: str,
    x: Dims,
    kernel: Dims,
    y: Dims,
    window_geometry: tuple[Dims, ...],
    has_bias: bool,
    rectify: bool,
) -> None:
    """Convolution, bias and rectifier; sizes are (batch, channels, space...)."""
    image = d.input("x", x, channels_last(x), dtype)
    weight = d.input("kernel", kernel, channels_last(kernel), dtype)
    result = d.graph.conv_fprop(image=image, weight=weight, **_windows_given(window_geometry))
    if has_bias:
        dims = _vector(y[1], len(y))
        result = d.graph.bias(input=result, bias=d.input("bias", dims, channels_last(dims), dtype))
    if rectify:
        result = d.graph.relu(input=result)
    d.output(result, "y", y, channels_last(y), dtype)


def describe_input_gradient(
    d: Description, dtype: str, x: Dims, kernel: Dims, y: Dims, window_geometry: tuple[Dims, ...]
) -> None:
    """The gradient by the image."""
    loss = d.input("g", y, channels_last(y), dtype)
    weight = d.input("kernel", kernel, channels_last(kernel), dtype)
    gradient = d.graph.conv_dgrad(loss=loss, filter=weight, **_windows_given(window_geometry))
    d.output(gradient, "x", x, channels_last(x), dtype)


def describe_kernel_gradient(
    d: Description, dtype: str, x: Dims, kernel: Dims, y: Dims, window_geometry: tuple[Dims, ...]
) -> None:
    """The gradient by the kernel."""
    image = d.input("x", x, channels_last(x), dtype)
    loss = d.input("g", y, channels_last(y), dtype)
    gradient = d.graph.conv_wgrad(image=image, loss=loss, **_windows_given(window_geometry))
    d.output(gradient, "kernel", kernel, channels_last(kernel), dtype)


# ------------------------------------------------------------------ calls


def forward(
    xp: Any, w: Windows, x: Array, kernel: Array, bias: Array | None, rectify: bool, groups: int
) -> Array | None:
    """Convolution, bias and rectifier, or `None` where cuDNN is not to do it.

    What cuDNN has no single plan for it does without bias and rectifier, which then follow.
    """
    if not is_served(xp, x, kernel, bias):
        return None
    kernel_first = _filters_first(xp, kernel)
    y = xp.empty((x.shape[0], *w.out, kernel.shape[-1]), x.dtype)
    if not y.size:
        return None
    for windows in _ways(w):
        image = ready(xp, x if windows is w else w.pad(xp, x))
        arrays = {"x": image, "kernel": kernel_first, "y": y}
        facts = _sizes(windows, image, kernel_first, y)
        if bias is not None:
            arrays["bias"] = ready(xp, bias)
        if run(xp, describe_forward, (*facts, bias is not None, rectify), arrays):
            return y
        arrays.pop("bias", None)
        if (bias is not None or rectify) and run(
            xp, describe_forward, (*facts, False, False), arrays
        ):
            if bias is not None:
                y += bias
            return xp.maximum(y, 0, out=y) if rectify else y
    return None


def input_gradient(xp: Any, w: Windows, g: Array, kernel: Array, groups: int) -> Array | None:
    """The gradient by the input, or `None` where cuDNN is not to do it."""
    if not is_served(xp, g, kernel):
        return None
    kernel_first, loss = _filters_first(xp, kernel), ready(xp, g)
    channels = kernel.shape[-2] * groups
    for windows in _ways(w):
        x = xp.empty((g.shape[0], *windows.sizes, channels), g.dtype)
        facts = _sizes(windows, x, kernel_first, loss)
        arrays = {"g": loss, "kernel": kernel_first, "x": x}
        if x.size and run(xp, describe_input_gradient, facts, arrays):
            return x if windows is w else xp.ascontiguousarray(x[w.interior])
    return None


def kernel_gradient(xp: Any, w: Windows, x: Array, g: Array, groups: int) -> Array | None:
    """The gradient by the kernel, or `None` where cuDNN is not to do it."""
    if not is_served(xp, x, g):
        return None
    inside, filters, loss = x.shape[-1] // groups, g.shape[-1], ready(xp, g)
    gradient = xp.empty((filters, *w.window, inside), x.dtype)
    for windows in _ways(w):
        image = ready(xp, x if windows is w else w.pad(xp, x))
        facts = _sizes(windows, image, gradient, loss)
        arrays = {"x": image, "g": loss, "kernel": gradient}
        if run(xp, describe_kernel_gradient, facts, arrays):
            return xp.ascontiguousarray(gradient.transpose(*range(1, gradient.ndim), 0))
    return None


def _ways(w: Windows) -> tuple[Windows, ...]:
    """The windows as they are; then, if the sides of an axis differ, over a padded array."""
    return (w, _by_hand(w)) if _facts(w).is_uneven else (w,)


def _sizes(w: Windows, x: Array, kernel: Array, y: Array) -> tuple[Any, ...]:
    """The facts that all three share: dtype, sizes in cuDNN's order, and where windows lie."""
    f = _facts(w)
    return (
        x.dtype.name,
        (x.shape[0], x.shape[-1], *f.sizes),
        (kernel.shape[0], kernel.shape[-1], *f.window),
        (y.shape[0], y.shape[-1], *f.out),
        f.given(),
    )
