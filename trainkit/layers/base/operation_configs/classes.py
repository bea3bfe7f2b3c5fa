"""Module and class that Keras 3.15 has for each operation with the same settings and arguments."""

from __future__ import annotations

_NAMES = {
    "numpy": (
        "absolute add all angle any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax "
        "argmin argpartition argsort bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to "
        "cbrt ceil clip concatenate conj copy cos cosh deg2rad diag diagonal divide divide_no_nan "
        "equal exp exp2 expand_dims expm1 flip floor floor_divide fmax fmin fmod gcd get_item "
        "greater greater_equal heaviside histogram hypot i0 imag isfinite isin isinf isnan "
        "isneginf isposinf lcm left_shift less less_equal log log10 log1p log2 logaddexp "
        "logaddexp2 logical_and logical_not logical_or logical_xor matmul max maximum mean min "
        "minimum mod multiply nan_to_num negative nextafter not_equal ones_like power prod rad2deg "
        "real reciprocal repeat reshape right_shift roll round sign signbit sin sinc sinh slogdet "
        "sort sqrt square squeeze stack subtract sum take take_along_axis tan tanh tile transpose "
        "tril triu trunc unravel_index var view where zeros_like"
    ),
    "nn": (
        "celu ctc_decode elu fold hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu "
        "log_sigmoid log_softmax one_hot relu relu6 selu sigmoid silu soft_shrink softmax softplus "
        "softsign sparse_plus sparse_sigmoid sparsemax squareplus tanh_shrink unfold"
    ),
    "math": (
        "erf erfc erfinv in_top_k logsumexp rsqrt segment_max segment_min segment_prod segment_sum "
        "top_k view_as_complex view_as_real"
    ),
    "core": "cast saturate_cast scatter_update stop_gradient unstack",
    "linalg": "cholesky det eig eigh inv lu_factor pinv qr solve solve_triangular",
}
_OTHERWISE = {"isin": "IsIn", "ctc_decode": "CTCDecode"}


def _class_name(operation: str) -> str:
    parts = operation.split("_")
    return _OTHERWISE.get(operation, "".join(part.capitalize() for part in parts))


def module_of(namespace: str) -> str:
    """The module that has the classes of a namespace of `keras.ops`."""
    return f"keras.src.ops.{namespace}"


CLASSES = {
    name: (module_of(namespace), _class_name(name))
    for namespace, names in _NAMES.items()
    for name in names.split()
}
"""Module and class by the name of the operation."""
