"""Operations whose settings or arguments Keras has otherwise: what its class and call take.

A rule takes the settings of an operation and gives the class in Keras, what that is made with, and
how its arguments follow from those of the operation; `None` where Keras has no such operation.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from trainkit.layers.base.operation_configs.classes import module_of

Arguments = tuple[Any, ...]
Settings = dict[str, Any]
Specs = tuple[Any, ...]
"""Shape and dtype of each argument of a call, `None` for an argument that is `None`."""


class Written(NamedTuple):
    """An operation as Keras writes it.

    Attributes:
        module, kind: where its class is, and its name.
        settings: what its class is made with.
        arguments: makes the arguments of a call of it.
    """

    module: str
    kind: str
    settings: Settings
    arguments: Callable[[Arguments], Arguments]


def same(args: Arguments) -> Arguments:
    """The arguments as they are."""
    return args


def keras_class(
    path: str, settings: Settings | None = None, arguments: Callable[[Arguments], Arguments] = same
) -> Written:
    """The class at `NAMESPACE.KIND` in Keras, what it is made with and called on."""
    namespace, kind = path.split(".")
    return Written(module_of(namespace), kind, settings or {}, arguments)


def _conv_transpose(s: Settings) -> Written:
    return keras_class("nn.ConvTranspose", {**s, "data_format": "channels_last"})


def _pool(kind: str) -> Callable[[Settings], Written]:
    """A pooling; one number for all axes, as Keras 3.15 on JAX can't run the lists of configs."""

    def rule(s: Settings) -> Written:
        sizes = {key: _one_number(s[key]) for key in ("pool_size", "strides")}
        return keras_class(f"nn.{kind}", {**s, **sizes, "data_format": "channels_last"})

    return rule


def _one_number(sizes: Any) -> Any:
    return sizes[0] if isinstance(sizes, tuple) and len(set(sizes)) == 1 else sizes


def _conv(s: Settings, specs: Specs) -> Written | None:
    """Keras's convolution has no bias and no activation in it, and one of its own by channel."""
    x, kernel, bias = specs
    if s["activation"] is not None or bias is not None or x is None or kernel is None:
        return None
    config = {key: value for key, value in s.items() if key != "activation"}
    config["data_format"] = "channels_last"
    channels = x.shape[-1]
    if kernel.shape[-2] == channels:
        return keras_class("nn.Conv", config, lambda args: args[:2])
    # Groups of several channels each are neither of the two classes.
    if kernel.shape[-2] != 1 or kernel.shape[-1] is None:
        return None
    # One channel a group: the kernel is (..., 1, channels * multiplier) here, and there (...,
    # channels, multiplier); the order of the numbers is the same.
    shape = (*kernel.shape[:-2], channels, kernel.shape[-1] // channels)
    return keras_class(
        "nn.DepthwiseConv", config, lambda args: (args[0], np.asarray(args[1]).reshape(shape))
    )


def _attention(s: Settings) -> Written:
    """The mask is an argument by keyword in Keras, after a bias."""
    return keras_class(
        "nn.DotProductAttention",
        {"is_causal": s["causal"]},
        lambda args: (*args[:3], None, args[3], s["scale"]),
    )


def _normalization(s: Settings) -> Written | None:
    config = {"axis": s["axis"], "epsilon": s["epsilon"]}
    return None if s["over_batch"] else keras_class("nn.LayerNorm", config)


def _cumulative(kind: str) -> Callable[[Settings], Written | None]:
    def rule(s: Settings) -> Written | None:
        if s["exclusive"] or s["reverse"]:
            return None
        return keras_class(f"numpy.{kind}", {"axis": s["axis"], "dtype": None})

    return rule


def _bincount(s: Settings, specs: Specs) -> Written | None:
    if s["maxlength"] is not None or any(specs[1:]):
        return None
    return keras_class("numpy.Bincount", {"minlength": s["minlength"]}, lambda args: args[:1])


def _full_like(s: Settings, specs: Specs) -> Written:
    value = specs[1]
    return keras_class("numpy.FullLike", {"dtype": None if value is None else value.dtype.name})


def _einsum(s: Settings) -> Written:
    """Keras works out shapes with the digits of sizes in the subscripts, and takes no capitals."""
    letters = dict.fromkeys(c for c in s["subscripts"] if c.isalpha())
    renamed = dict(zip(letters, ascii_lowercase, strict=False))
    return keras_class(
        "numpy.Einsum", {"subscripts": "".join(renamed.get(c, c) for c in s["subscripts"])}
    )


def _pad(s: Settings) -> Written:
    config = {"pad_width": s["pad_width"], "mode": s["mode"]}
    if s["mode"] != "constant":
        return keras_class("numpy.Pad", config)
    return keras_class("numpy.Pad", config, lambda args: (*args, s["value"]))


def _quantile(s: Settings) -> Written:
    """A median, which Keras writes without the share, or any other quantile."""
    prefix = "nan" if s["skip_nan"] else ""
    config = {"axis": s["axis"], "keepdims": s["keepdims"]}
    if s["q"] == 0.5 and s["method"] == "linear":
        return keras_class(f"numpy.{f'{prefix}median'.capitalize()}", config)
    config["method"] = s["method"]
    share = list(s["q"]) if isinstance(s["q"], tuple) else s["q"]
    return keras_class(
        f"numpy.{f'{prefix}quantile'.capitalize()}", config, lambda args: (*args, share)
    )


def _linspace(s: Settings) -> Written:
    config = {key: s[key] for key in ("endpoint", "axis", "dtype")}
    return keras_class("numpy.Linspace", {"num": s["size"], **config})


def _nonzero(s: Settings) -> Written | None:
    return keras_class("numpy.Nonzero") if s["dtype"] == "int32" else None


def _searchsorted(s: Settings) -> Written | None:
    return keras_class("numpy.SearchSorted", {"side": s["side"]}) if s["dtype"] == "int32" else None


def _targets_first(args: Arguments) -> Arguments:
    """Keras has the targets before the scores."""
    scores, targets, *lengths = args
    return (targets, scores, *lengths)


def _patches(s: Settings) -> Written:
    config = {"size": s["size"], "strides": s["strides"], "dilation_rate": s["dilation"]}
    return keras_class("image.ExtractPatches", {**config, "data_format": "channels_last"})


_IN_KERAS = frozenset({"bilinear", "bicubic", "lanczos3", "lanczos5", "area"})


def _resize(s: Settings, specs: Specs) -> Written | None:
    """Keras makes the weights by itself, from the method and the sizes."""
    if s["transposed"] or s["method"] not in _IN_KERAS:
        return None
    size = [spec.shape[0] for spec in specs[1:]]
    config = {"size": size, "interpolation": s["method"], "antialias": s["antialias"]}
    settings = {**config, "data_format": "channels_last"}
    return keras_class("image.Resize", settings, lambda args: args[:1])


RULES: dict[str, Callable[[Settings], Written | None]] = {
    "attention": _attention,
    "average_pool": _pool("AveragePool"),
    "conv_transpose": _conv_transpose,
    "ctc_loss": lambda s: keras_class("nn.CTCLoss", {"mask_index": s["blank"]}, _targets_first),
    "cumprod": _cumulative("Cumprod"),
    "cumsum": _cumulative("Cumsum"),
    "einsum": _einsum,
    "extract_patches": _patches,
    "extract_sequences": lambda s: keras_class(
        "math.ExtractSequences", {"sequence_length": s["length"], "sequence_stride": s["stride"]}
    ),
    "fused_normalization": _normalization,
    "gelu_erf": lambda s: keras_class("nn.Gelu", {"approximate": False}),
    "gelu_tanh": lambda s: keras_class("nn.Gelu", {"approximate": True}),
    "isclose": lambda s: keras_class(
        "numpy.Isclose", {"equal_nan": s["equal_nan"]}, lambda args: (*args, s["rtol"], s["atol"])
    ),
    "linspace": _linspace,
    "max_pool": _pool("MaxPool"),
    "nonzero": _nonzero,
    "pad": _pad,
    "quantile": _quantile,
    "scatter_nd_add": lambda s: keras_class("core.ScatterUpdate", {"reduction": "add"}),
    "searchsorted": _searchsorted,
    "sigmoid_cross_entropy_with_logits": lambda s: keras_class(
        "nn.BinaryCrossentropy", {"from_logits": True}
    ),
    "singular_values": lambda s: keras_class(
        "linalg.SVD", {"full_matrices": False, "compute_uv": False}
    ),
    "slice": lambda s: keras_class(
        "core.Slice", {"shape": s["sizes"]}, lambda args: (*args, list(s["start"]))
    ),
    "slice_update": lambda s: keras_class(
        "core.SliceUpdate", {}, lambda args: (args[0], list(s["start"]), args[1])
    ),
    "sliding_product": lambda s: keras_class("numpy.Correlate", {"mode": "valid"}),
    "softmax_cross_entropy_with_logits": lambda s: keras_class(
        "nn.CategoricalCrossentropy", {"from_logits": True, "axis": -1}
    ),
    "sparse_softmax_cross_entropy_with_logits": lambda s: keras_class(
        "nn.SparseCategoricalCrossentropy", {"from_logits": True, "axis": -1}
    ),
    "split": lambda s: keras_class(
        "numpy.Split", {"indices_or_sections": s["parts"], "axis": s["axis"]}
    ),
    "svd": lambda s: keras_class("linalg.SVD", {"full_matrices": s["full"], "compute_uv": True}),
    "vander": lambda s: keras_class(
        "numpy.Power", {}, lambda args: (*args, np.array(s["exponents"], "int32"))
    ),
}
"""By the name of the operation, a function of its settings."""

RULES_OF_ARGUMENTS: dict[str, Callable[[Settings, Specs], Written | None]] = {
    "bincount": _bincount,
    "conv": _conv,
    "full_like": _full_like,
    "weighted_pixels": _resize,
}
"""Likewise, functions of the settings, and of shapes and dtypes of the arguments too."""
