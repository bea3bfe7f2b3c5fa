"""Images of unknown sizes in another size, and images whose new size is a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.ops.images.image_crops import resize as resize_by_method
from trainkit.ops.images.resizing import resize
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.onnx_form import call_form, onnx_form
from trainkit.saved_graph.onnx.rules.resampling_forms import resample
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape

_MODES: dict[str, dict[str, Any]] = {
    # half a pixel further, rounded down, as trainkit has it
    "nearest": {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    "bilinear": {"mode": "linear"},
}


@onnx_form("weighted_pixels")
def _weighted_pixels(
    to: GraphBuilder, x: Value, rows: Value, columns: Value, **settings: Any
) -> Value:
    shape = spec_shape(to)
    high = (*x.shape[:1], shape[1], *x.shape[2:])
    y = to.op("Einsum", rows, x, equation="Hh,bhwc->bHwc", shape=high)
    return to.op("Einsum", columns, y, equation="Ww,bhwc->bhWc", shape=shape)


@call_form(resize)
def _resize(to: GraphBuilder, images: Value, size: Any, **settings: Any) -> Value:
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio"):
        if settings[name]:
            raise UnimplementedError(f"resize of images of unknown size with {name}=True")
    is_first = settings["data_format"] == "channels_first"
    return _resize_by(to, images, size, settings["interpolation"], settings["antialias"], is_first)


@call_form(resize_by_method)
def _resize_by_method(to: GraphBuilder, images: Value, size: Any, **settings: Any) -> Value:
    if settings["preserve_aspect_ratio"]:
        raise UnimplementedError("resize to a size that is a value with preserve_aspect_ratio=True")
    method = str(settings["method"]).lower()
    return _resize_by(to, images, size, method, settings["antialias"], False)


def _resize_by(
    to: GraphBuilder, images: Value, size: Any, method: str, antialias: Any, is_first: bool
) -> Value:
    dtype = to.call.specs[0].dtype.name
    x = to.unsqueeze(images, [0]) if images.rank == 3 else images
    is_whole = not x.dtype.startswith(("float", "bfloat"))
    x = to.cast(x, "float32") if is_whole else x
    if method == "nearest" or (method in _MODES and not antialias):
        y = _node(to, x, size, _MODES[method], is_first)
    else:
        y = resample(to, x, _two_sizes(to, size), method, bool(antialias), is_first)
    if is_whole and method != "nearest" and not dtype.startswith(("float", "bfloat")):
        limits = np.iinfo(np.dtype(dtype))
        bounds = (to.known(np.float32(n)) for n in (limits.min, limits.max))
        y = to.op("Clip", to.each("Round", y), *bounds, shape=y.shape)
    y = to.cast(y, dtype)
    return to.squeeze(y, [0]) if images.rank == 3 else y


def _node(to: GraphBuilder, x: Value, size: Any, mode: dict[str, Any], is_first: bool) -> Value:
    """`Resize` of images (batch, height, width, channels), or with their channels first."""
    order = (0, 1, 2, 3) if is_first else (0, 3, 1, 2)
    sizes = [to.size_of(x, axis) for axis in order]
    source = to.name_of(x) if is_first else to.name_with_channels_first(x)
    if isinstance(size, list | tuple):
        target = to.vector([*sizes[:2], *size])
    else:
        live = to.cast(to.as_value(size), "int64")
        target = to.op("Concat", to.vector(sizes[:2]), live, axis=0, shape=(4,))
    settings = {**mode, "coordinate_transformation_mode": "half_pixel"}
    name = to.node("Resize", [source, "", "", to.name_of(target)], **settings)
    if is_first:
        return Value(to, (*x.shape[:2], None, None), x.dtype, name)
    shape = (x.shape[0], None, None, x.shape[3])
    return Value(to, shape, x.dtype, channels_first=name)


def _two_sizes(to: GraphBuilder, size: Any) -> tuple[Any, Any]:
    if isinstance(size, list | tuple):
        return size[0], size[1]
    live = to.cast(to.as_value(size), "int64")
    height, width = (to.slice_axis(live, 0, start, start + 1) for start in range(2))
    return height, width
