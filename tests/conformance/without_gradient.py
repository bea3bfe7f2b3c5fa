"""Operations without a gradient, for what is asked of every operation: batching rules."""

import numpy as np

from tests.conformance.table import case, distinct, normal
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.arrays.class_hits import class_hits
from trainkit.ops.linear_algebra.int8_product import int8_product
from trainkit.ops.neural.fake_quant import float8_rounded


def op(name):
    return PRIMITIVES[name].op


BITS = np.array([[1, 2, 12], [5, 7, 3]], np.int32), np.array([3, 1, 2], np.int32)
BYTES = np.array([[1, -128, 12], [5, 127, 3]], np.int8)
TRUE = np.array([[True, False, True], [False, False, True]])
UNLIKE = np.array([[0.0, np.inf, 1.5], [np.nan, -np.inf, -2.5]])
ROWS = normal(2, 3, 4)
SEQUENCE = np.sort(distinct(6))
PIVOTS = np.array([[1, 2, 2], [2, 2, 2]], np.int32)
AXIS = {"axis": 1, "keepdims": False, "dtype": "int32"}
DECODED = {"top_paths": 1, "merge_repeated": True, "mask_index": -1, "beam_width": 5}

ROWS_WITHOUT_GRADIENT = [
    *[
        case(name, op(name), *BITS)
        for name in (
            "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm equal not_equal "
            "less less_equal greater greater_equal floor_divide"
        ).split()
    ],
    *[case(f"logical_{n}", op(f"logical_{n}"), TRUE, TRUE[1]) for n in ("and", "or", "xor")],
    *[
        case(name, op(name), UNLIKE)
        for name in (
            "isfinite isinf isnan isposinf isneginf signbit floor ceil trunc round".split()
        )
    ],
    case("all_finite", op("all_finite"), UNLIKE, ROWS),
    case("all_finite", op("all_finite"), ROWS, ROWS[0], TRUE),
    case("sparse_categorical_hits", class_hits, PIVOTS - 1, ROWS[:, :, :3]),
    case("bitwise_not", op("bitwise_not"), BITS[0]),
    case("int8_product", int8_product, BYTES, BYTES.T),
    case("int8_product", int8_product, np.stack([BYTES] * 2), BYTES.T),
    case("float8_rounded", float8_rounded, ROWS * 100, kind="float8_e4m3fn"),
    case("float8_rounded", float8_rounded, ROWS / 1e5, kind="float8_e5m2"),
    case("logical_not", op("logical_not"), TRUE),
    case("nextafter", op("nextafter"), ROWS, ROWS[0]),
    case("isclose", op("isclose"), UNLIKE, UNLIKE[0], rtol=0.1, atol=0.0, equal_nan=True),
    *[
        case(n, op(n), TRUE, axis=axis, keepdims=k)
        for n in ("all", "any")
        for axis, k in (((0,), True), (None, False))
    ],
    *[case(n, op(n), ROWS, **AXIS) for n in ("argmax", "argmin")],
    *[case(n, op(n), ROWS, **{**AXIS, "axis": -3}) for n in ("argmax", "argmin")],
    *[
        case(n, op(n), ROWS, **{**AXIS, "axis": None, "keepdims": k})
        for n in ("argmax", "argmin")
        for k in (True, False)
    ],
    case("argsort", op("argsort"), ROWS, axis=0),
    case("argpartition", op("argpartition"), distinct(3, 4), kth=3, axis=-1),
    case("in_top_k", op("in_top_k"), np.array([1, 3], np.int32), normal(2, 4), k=2),
    case("isin", op("isin"), BITS[0], BITS[1]),
    case("searchsorted", op("searchsorted"), SEQUENCE, ROWS, side="left"),
    case(
        "searchsorted",
        op("searchsorted"),
        np.stack([SEQUENCE, SEQUENCE]),
        normal(2, 3),
        side="right",
    ),
    case("unravel_index", op("unravel_index"), BITS[0], shape=(4, 5)),
    case("pivots_to_permutation", op("pivots_to_permutation"), PIVOTS),
    case("one_hot", op("one_hot"), BITS[0], num_classes=6, axis=-1, dtype="float32"),
    case("one_hot", op("one_hot"), BITS[0], num_classes=6, axis=0, dtype="bool"),
    *[
        case(
            "positions_from_start", op("positions_from_start"), *inputs, operation="gather_nd", **s
        )
        for inputs, s in (
            ((PIVOTS, normal(3, 4)), {"axis": 1, "rows": False}),
            ((PIVOTS[0], normal(3, 4, 5)), {}),
        )
    ],
    case("sparsemax_weights", op("sparsemax_weights"), ROWS, axis=-2),
    case("view", op("view"), normal(3, 4), dtype="int32"),
    case("view", op("view"), normal(2), dtype="uint64"),
    case("stop_gradient", op("stop_gradient"), ROWS),
    case("zeros_like", op("zeros_like"), ROWS, dtype=None),
    case("ones_like", op("ones_like"), ROWS, dtype="int32"),
    case("shape", op("shape"), ROWS),
    case("size", op("size"), ROWS),
    case("check_shape", op("check_shape"), ROWS, shape=(2, None, 4)),
    case("no_gradient_here", op("no_gradient_here"), np.zeros((2, 3))),
    case(
        "ctc_decode",
        op("ctc_decode"),
        normal(2, 4, 3),
        np.array([4, 3], np.int32),
        strategy="greedy",
        **DECODED,
    ),
    case(
        "ctc_decode",
        op("ctc_decode"),
        normal(2, 4, 3),
        np.array([4, 3], np.int32),
        strategy="beam_search",
        **{**DECODED, "top_paths": 2},
    ),
]
