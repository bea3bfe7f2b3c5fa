"""Each operation of the reader against trainkit's own body: the same bits, or nearly."""

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from tests.conformance.test_facets import arrays_of, calls_of
from trainkit.core import nest
from trainkit.core.tensor import PRIMITIVES
from trainkit.saved_graph import standalone
from trainkit.saved_graph.standalone import OPERATIONS

pytestmark = pytest.mark.usefixtures("plain_kernels")

rng = np.random.default_rng(0)
OF_GRAPHS = {"cond", "while_loop", "scan"}  # tested with whole functions
CASES = [case for case in all_cases() if case.name not in OF_GRAPHS]


def same_bits(name, arrays, settings):
    """Compare what the reader gives with what the operation's own NumPy body gives."""
    body = PRIMITIVES[name]
    places = [None if x is None else standalone._Ref((0, 0)) for x in arrays]
    standalone._check_call(name, OPERATIONS[name], places, settings)
    with np.errstate(all="ignore"):
        expected = nest.flatten(body.body(np, *arrays, **settings))
        results = OPERATIONS[name](*arrays, **settings)
    results = list(results) if isinstance(results, tuple | list) else [results]
    assert len(results) == len(expected)
    for y, e in zip(results, map(np.asarray, expected), strict=True):
        y = standalone._as_declared(y, list(e.shape), e.dtype.name, name, False)
        np.testing.assert_array_equal(y, e, err_msg=name)


def narrowed(array, dtype):
    kinds = {"f": dtype, "c": "complex64" if dtype == "float32" else "complex128"}
    return array.astype(kinds[array.dtype.kind]) if array.dtype.kind in kinds else array


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_operations_and_their_gradients_have_the_bits_of_trainkit(case, dtype):
    for primitive, inputs, _, settings in calls_of(case):
        if primitive.name not in OPERATIONS or primitive.name in OF_GRAPHS or primitive.is_ufunc:
            continue
        arrays = [narrowed(np.asarray(x), dtype) if x is not None else x for x in arrays_of(inputs)]
        same_bits(primitive.name, arrays, settings)


FLOATS = rng.normal(size=(3, 7)).astype("float32")
STATE = np.array([5, 0, 1234567890123], np.uint64)
INT8 = rng.integers(-128, 128, (2, 3, 2100)).astype("int8")
ROWS = [
    ("argsort", [FLOATS], {"axis": 1}),
    ("argsort", [np.array([3, 1, 1, 2])], {"axis": -1}),
    ("argpartition", [FLOATS], {"kth": 2, "axis": 1}),
    ("searchsorted", [np.arange(5.0), FLOATS.astype("float64")], {"side": "right"}),
    ("searchsorted", [np.sort(FLOATS), FLOATS[:, :2]], {"side": "left"}),
    ("in_top_k", [np.array([0, 6, 9]), FLOATS], {"k": 2}),
    ("top_k", [np.array([0, 3, 3, 255, 1], "uint8")], {"k": 4, "sorted": True}),
    ("top_k", [np.array([5, -128, 127, 5], "int8")], {"k": 4, "sorted": True}),
    ("top_k", [np.array([False, True, True])], {"k": 2, "sorted": True}),
    ("top_k", [np.array([1, np.nan, -np.inf, 2], "float32")], {"k": 3, "sorted": True}),
    ("bincount", [np.array([[1, 2, 2], [0, 9, 2]])], {"minlength": 4, "maxlength": 6}),
    ("bincount", [np.array([1, 2, 2]), np.ones(3, "float32")], {"minlength": 0}),
    ("isclose", [FLOATS, FLOATS + 1e-6], {"rtol": 1e-5, "atol": 1e-8, "equal_nan": True}),
    ("isclose", [np.arange(3), np.arange(3)], {"rtol": 0.1, "atol": 0.0, "equal_nan": False}),
    ("isin", [np.array([3, 1, 5]), np.array([1, 3])], {}),
    ("isneginf", [np.array([-np.inf, np.inf, 1.0], "float32")], {}),
    ("isposinf", [np.array([-np.inf, np.inf, 1.0], "float16")], {}),
    ("histogram", [FLOATS], {"bins": 4, "range": (-1.0, 1.0)}),
    ("histogram", [np.array([1, 5, 2])], {"bins": 3, "range": None}),
    ("nonzero", [FLOATS > 0], {"dtype": "int64"}),
    ("unique", [np.array([3, 1, 3, 2])], {"sorted": False, "axis": 0, "size": 5}),
    ("unique", [np.array([np.nan, 1, np.nan])], {"sorted": True, "axis": 0, "size": None}),
    ("positions_from_start", [np.array([2, 0]), FLOATS], {"operation": "gather_nd"}),
    ("pivots_to_permutation", [np.array([[2, 1, 2]], "int32")], {"rows": 4}),
    ("unravel_index", [np.array([5, -1, 0], "int32")], {"shape": (2, 3)}),
    ("float8_rounded", [100 * FLOATS], {"kind": "float8_e4m3fn"}),
    ("float8_rounded", [FLOATS.astype("float16")], {"kind": "float8_e5m2"}),
    ("no_gradient_here", [np.zeros((2, 2))], {}),
    ("inv", [FLOATS[:, :3].astype("float16")], {}),
    ("mean", [np.array([1, 5, 1 << 24])], {"axis": None, "keepdims": False}),
    ("segment_max", [FLOATS, np.array([2, 0, 2])], {"num_segments": 4}),
    ("segment_min", [FLOATS > 0, np.array([2, 0, 2])], {"num_segments": 4}),
    ("complex", [FLOATS, FLOATS], {}),
    ("view", [FLOATS], {"dtype": "int32"}),
    ("view", [FLOATS], {"dtype": "uint8"}),
    ("int8_product", [INT8, rng.integers(-128, 128, (2100, 5)).astype("int8")], {}),
    ("int8_product", [INT8[0, 0], INT8[0, 1]], {}),
    ("matmul", [INT8[0], INT8[1].T], {}),
    ("matmul", [FLOATS.astype("float16"), FLOATS.T.astype("float16")], {}),
    ("sum", [FLOATS.astype("float16")], {"axis": (0,), "keepdims": True}),
    ("mean", [FLOATS.astype("float16")], {"axis": 1, "keepdims": False}),
    ("var", [FLOATS.astype("float16")], {"axis": None, "keepdims": False}),
    ("cumsum", [FLOATS.astype("float16")], {"axis": 1, "exclusive": True, "reverse": True}),
    ("sparsemax_weights", [FLOATS], {"axis": -1}),
    ("all_finite", [FLOATS, FLOATS], {}),
    ("all_finite", [FLOATS, np.array([1.0, np.nan])], {}),
    ("sparse_categorical_hits", [np.array([1, 2, 0]), FLOATS], {}),
    ("tile_sized", [FLOATS, np.int32(2)], {"repeats": (None, 3)}),
    ("with_gradient", [FLOATS, STATE], dict(backward=None, results=1, sources=1, given=(True,))),
    ("optimization_barrier", [FLOATS, STATE], {}),
    ("philox_state", [np.array([3, -4])], {}),
    ("philox_uniform", [STATE], {"shape": (5, 3), "dtype": "float32"}),
    ("philox_uniform", [STATE, np.int32(5)], {"shape": (None, 3), "dtype": "float64"}),
    ("philox_uniform", [STATE], {"shape": (4,), "dtype": "float16"}),
    (
        "philox_uniform",
        [STATE],
        {"shape": (5, 3), "dtype": "float32", "scale": 0.1, "offset": -0.05},
    ),
    ("philox_normal", [STATE], {"shape": (5, 3), "dtype": "float32"}),
    ("philox_normal", [STATE], {"shape": (), "dtype": "float64"}),
    ("philox_truncated_normal", [STATE], {"shape": (99,), "dtype": "float32"}),
    ("philox_integers", [STATE], {"shape": (9,), "dtype": "int32", "low": -3, "high": 12}),
    ("philox_integers", [STATE], {"shape": (9,), "dtype": "int64", "low": -(1 << 63), "high": 7}),
    ("philox_integers", [STATE], {"shape": (9,), "dtype": "uint64", "low": 0, "high": 1 << 64}),
    ("philox_integers_between", [STATE, np.int32(2), np.int32(9)], dict(shape=(5,), dtype="int32")),
    ("philox_kept", [STATE], {"shape": (9,), "rate": 0.3}),
    ("philox_kept", [STATE], {"shape": (9,), "rate": 1.0}),
    ("philox_mask", [STATE], dict(shape=(9,), dtype="float32", rate=0.3, scale=1 / 0.7)),
    ("philox_permutation", [STATE], {"shape": (31,)}),
    ("philox_categorical", [STATE, FLOATS], {"samples": 2, "dtype": "int64"}),
    ("philox_categorical", [STATE, FLOATS, np.int32(50)], {"samples": None, "dtype": "int32"}),
    (
        "philox_gamma",
        [STATE, np.array([0.3, 4.0, -1.0])],
        dict(shape=(3,), dtype="float32", count=1),
    ),
    ("philox_poisson", [STATE, np.array([0.3, 44.0])], dict(shape=(9, 2), dtype="int32", count=1)),
    (
        "philox_binomial",
        [STATE, np.array([5.0, 100.0]), np.array([0.7, 0.4])],
        dict(shape=(9, 2), dtype="float64", count=2),
    ),
    ("dropped", [FLOATS, FLOATS > 0], {"scale": 1.3}),
    (
        "number_tokens",
        [np.array([4, -5, 9])],
        dict(tokens=(-5, 9), numbers=(7, 3), first=1, count=3, hashed=False, salt=None),
    ),
    (
        "number_tokens",
        [np.array([4.0, 2.5])],
        dict(tokens=(), numbers=(), first=1, count=9, hashed=True, salt=(3, 4)),
    ),
    (
        "tokens_of_numbers",
        [np.array([0, 2, 9, -1])],
        dict(tokens=(5, 6, 7), other=-1, dtype="int64"),
    ),
    (
        "crossed_buckets",
        [np.array([[5, -1], [99, 1 << 60]]), np.array([[0, 7], [-9, 3]])],
        dict(buckets=1000, dtype="int32"),
    ),
    (
        "hash_buckets",
        [np.array([0, -1, 99999, 10**12, -(1 << 63), 12345678])],
        dict(buckets=1000, salt=None, mask=-1, dtype="int64"),
    ),
    (
        "ctc_decode",
        [rng.normal(size=(2, 6, 4)), np.array([6, 4])],
        dict(strategy="greedy", beam_width=5, top_paths=1, merge_repeated=True, mask_index=-1),
    ),
    (
        "ctc_decode",
        [rng.normal(size=(2, 6, 4)), np.array([6, 4])],
        dict(strategy="beam_search", beam_width=5, top_paths=2, merge_repeated=True, mask_index=0),
    ),
]


@pytest.mark.parametrize(("name", "arrays", "settings"), ROWS, ids=lambda x: str(x)[:20])
def test_what_no_table_of_gradients_has_too(name, arrays, settings):
    same_bits(name, arrays, settings)


def test_every_operation_is_compared_with_trainkits():
    simple = {p for p in OPERATIONS if PRIMITIVES[p].is_ufunc or p in OF_GRAPHS}
    reached = {call[0].name for case in CASES for call in calls_of(case)}
    elsewhere = set(
        """all any arange argmax argmin assert_true bitwise_not ceil floor floor_divide mod one_hot
            ones_like print round
        shape size stop_gradient zeros_like""".split()
    )  # in tests/saved_graph/test_saved_graph.py, or one call of NumPy
    missing = set(OPERATIONS) - simple - reached - {row[0] for row in ROWS} - elsewhere
    assert not missing, "add a row to ROWS of this file, or a case with gradients"


@pytest.mark.parametrize(
    ("name", "arrays", "settings", "text"),
    [
        ("bincount", [np.array([-1])], {"minlength": 0}, "negative value -1"),
        ("cholesky", [np.full((2, 2), -1.0)], {}, "Cholesky decomposition was not successful"),
        ("scatter_nd_add", [FLOATS, np.array([[9]]), FLOATS[:1]], {}, "does not index into"),
        ("embedding_gradient", [FLOATS, np.array([0, 5, 1]), FLOATS], {}, "the table has 3 rows"),
        ("int8_product", [FLOATS, FLOATS], {}, "must be int8"),
        (
            "sparse_softmax_cross_entropy_with_logits",
            [np.array([0, 1, 7]), FLOATS],
            {},
            "= 7 is not in",
        ),
        ("philox_kept", [STATE], dict(shape=(2,), rate=0.5, rows=(0, 2, 4)), "one replica of sev"),
        ("view", [FLOATS], {"dtype": "bfloat16"}, "no type for"),
        (
            "conv",
            [FLOATS[None, ..., None], FLOATS[:2, :2, None, None], None],
            dict(strides=(1, 1), padding=((-1, 0), (0, 0)), dilation_rate=(1, 1), activation=None),
            "must be 'valid', 'same' or 2 pairs",
        ),
        (
            "conv_input_gradient",
            [FLOATS[None, ..., None], FLOATS[:2, :2, None, None], FLOATS[None, ..., None]],
            dict(strides=(1, 1), padding=((1, 1), (1, 1)), dilation_rate=(1, 1)),
            "an array of sizes",
        ),
        (
            "philox_integers_between",
            [STATE, np.int32(3), np.int32(3)],
            dict(shape=(1,), dtype="int32"),
            r"\[3, 3\) is no range",
        ),
    ],
    ids=lambda x: str(x)[:20],
)
def test_what_does_not_fit_is_refused_with_a_reason(name, arrays, settings, text):
    with pytest.raises((ValueError, IndexError), match=text):
        OPERATIONS[name](*arrays, **settings)


@pytest.mark.parametrize("floatx", ["float32", "float64"])
def test_means_of_whole_numbers_are_of_the_float_that_the_file_says(floatx, tmp_path):
    x, before = rng.integers(0, 1 << 24, 1001).astype("int32"), tk.keras.config.floatx()
    tk.keras.config.set_floatx(floatx)
    try:
        f = tk.function(tk.ops.mean, input_signature=[tk.TensorSpec([None], "int32")])
        tk.saved_graph.save(f, tmp_path / "f.h5")
        expected = f(x).numpy()
    finally:
        tk.keras.config.set_floatx(before)
    y = standalone.load(tmp_path / "f.h5")(x)
    assert y.dtype == expected.dtype == floatx
    assert y == expected


def test_a_function_of_matrices_runs_as_it_does_in_trainkit(tmp_path):
    def solved(x):
        lower = tk.linalg.cholesky(tk.matmul(x, x, transpose_b=True))
        largest = tk.math.segment_max(x, tk.constant([0, 0, 1]))
        return tk.linalg.inv(lower), tk.linalg.det(x[:, :3]), tk.math.lgamma(x * x), largest

    f = tk.function(solved, input_signature=[tk.TensorSpec([3, 7])])
    tk.saved_graph.save(f, tmp_path / "f.h5")
    results, expected = standalone.load(tmp_path / "f.h5")(FLOATS), f(FLOATS)
    for y, z in zip(results[:2], expected[:2], strict=True):  # LAPACK rounds otherwise than NumPy
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6)
    for y, z in zip(results[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(y, z)


def test_an_operation_that_can_not_be_read_is_named_with_the_reason(tmp_path, monkeypatch):
    f = tk.function(lambda x: tk.linalg.inv(x), input_signature=[tk.TensorSpec([2, 2])])
    tk.saved_graph.save(f, tmp_path / "f.h5")
    assert standalone.load(tmp_path / "f.h5")(np.eye(2)).tolist() == np.eye(2).tolist()
    monkeypatch.delitem(OPERATIONS, "inv")
    monkeypatch.setitem(standalone._REASONS, "inv", "no layer computes with it")
    with pytest.raises(standalone.GraphError, match=r"'inv' .* because no layer computes with it"):
        standalone.load(tmp_path / "f.h5")
