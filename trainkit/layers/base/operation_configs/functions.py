"""Functions that stand in a model as one operation, as classes of Keras."""

from __future__ import annotations

from typing import Any

from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base.operation_configs.keras_rules import Arguments, Written, keras_class

_PIXELS = "data_format"
_RESIZE = "size interpolation antialias crop_to_aspect_ratio pad_to_aspect_ratio fill_mode"
_SHARES = "axis method keepdims"
_FRAMES = "sequence_length sequence_stride fft_length"
_CLASSES = {
    "fft": ("math.FFT", ""),
    "fft2": ("math.FFT2", ""),
    "ifft2": ("math.IFFT2", ""),
    "rfft": ("math.RFFT", "fft_length"),
    "irfft": ("math.IRFFT", "fft_length"),
    "stft": ("math.STFT", f"{_FRAMES} window center"),
    "istft": ("math.ISTFT", f"{_FRAMES} length window center"),
    "polar": ("nn.Polar", ""),
    "unique": (
        "numpy.Unique",
        "sorted return_index return_inverse return_counts axis size fill_value",
    ),
    "nanquantile": ("numpy.Nanquantile", _SHARES),
    "nanpercentile": ("numpy.Nanpercentile", _SHARES),
    "quantile": ("numpy.Quantile", _SHARES),
    "percentile": ("numpy.Percentile", _SHARES),
    "numpy.vander": ("numpy.Vander", "N increasing"),
    "numpy.array_split": ("numpy.ArraySplit", "indices_or_sections axis"),
    "numpy.kron": ("numpy.Kron", ""),
    "image.resize": ("image.Resize", f"{_RESIZE} fill_value {_PIXELS}"),
    "image.affine_transform": (
        "image.AffineTransform",
        f"interpolation fill_mode fill_value {_PIXELS}",
    ),
    "image.perspective_transform": (
        "image.PerspectiveTransform",
        f"interpolation fill_value {_PIXELS}",
    ),
    "image.map_coordinates": ("image.MapCoordinates", "order fill_mode fill_value"),
    "image.gaussian_blur": ("image.GaussianBlur", f"kernel_size sigma {_PIXELS}"),
    "image.elastic_transform": (
        "image.ElasticTransform",
        f"alpha sigma interpolation fill_mode fill_value seed {_PIXELS}",
    ),
    "image.pad_images": (
        "image.PadImages",
        "top_padding left_padding bottom_padding right_padding target_height target_width "
        f"{_PIXELS}",
    ),
    "image.crop_images": (
        "image.CropImages",
        "top_cropping left_cropping bottom_cropping right_cropping target_height target_width "
        f"{_PIXELS}",
    ),
}
"""By the name in `ONE_NODE`: the class, and which arguments that is made with."""

_DEFAULTS = {"unique": {"fill_value": 0}}  # Keras's own depends on its backend


def call_as_keras(
    name: str, function: Any, args: Arguments, kwargs: dict[str, Any]
) -> Written | None:
    """How Keras calls a function that is one operation; `None` where it has no class for it.

    Args:
        name: of the function among `ONE_NODE`.
        function: itself, for its signature.
        args: what it is called with by position; all that is no setting is by position in Keras.
        kwargs: what it is called with by keyword.
    """
    if name not in _CLASSES:
        return None
    path, names = _CLASSES[name]
    bound = signature_of(function).bind(*args, **kwargs).arguments
    # Keras's class takes the settings, its call the operands; here one call takes both.
    settings = {key: bound[key] for key in names.split() if key in bound}
    operands = tuple(value for key, value in bound.items() if key not in settings)
    for key, value in _DEFAULTS.get(name, {}).items():
        settings[key] = value if settings.get(key) is None else settings[key]
    return keras_class(path, settings, lambda _: operands)
