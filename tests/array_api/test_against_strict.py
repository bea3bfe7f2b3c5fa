"""The namespace against the reference implementation of the standard, array-api-strict."""

import inspect
import warnings

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import trainkit.array_api as xp
from trainkit.core.tensor import Tensor

SIGNED = ["int8", "int16", "int32", "int64"]
INTEGERS = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
EXTENSIONS = ("linalg", "fft")

few = settings(max_examples=40, deadline=None)


def values(dtype, low=-20, high=20):
    if dtype == "bool":
        return st.booleans()
    if dtype.startswith("uint"):
        return st.integers(max(low, 0), high)
    if dtype.startswith("int"):
        return st.integers(low, high)
    if dtype.startswith("float"):
        return st.floats(low, high, width=32, allow_subnormal=False)
    return st.complex_numbers(max_magnitude=high, width=64, allow_subnormal=False)


def arrays(dtypes, low=-20, high=20, **shape):
    def of(dtype):
        shapes = hnp.array_shapes(
            **{"min_dims": 0, "max_dims": 3, "min_side": 0, "max_side": 4} | shape
        )
        return hnp.arrays(dtype, shapes, elements=values(dtype, low, high))

    return st.sampled_from(dtypes).flatmap(of)


def both(name, *inputs, extension=None, **kwargs):
    """The results of the function in both namespaces; arrays are converted, lists of arrays too."""
    results = []
    for module in (xp, strict):
        home = getattr(module, extension) if extension else module
        results.append(
            getattr(home, name)(*(_given(module, x) for x in inputs), **_set(module, kwargs))
        )
    return results


def _given(module, x):
    if isinstance(x, list) and x and isinstance(x[0], np.ndarray):
        return [_given(module, part) for part in x]
    return module.asarray(x) if isinstance(x, np.ndarray) else x


def _set(module, kwargs):
    return {k: getattr(module, v) if k == "dtype" else _given(module, v) for k, v in kwargs.items()}


def assert_same(ours, theirs, rtol=2e-5, atol=1e-5):
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, two in zip(ours, theirs, strict=True):
            assert_same(one, two, rtol, atol)
        return
    assert isinstance(ours, Tensor)
    assert tuple(ours.shape) == theirs.shape
    found, wanted = ours.numpy(), np.asarray(theirs)
    index_like = ours.dtype.name == "int32" and wanted.dtype == np.int64
    assert index_like or found.dtype == wanted.dtype
    if index_like:  # products beyond the default integer wrap around
        wanted = wanted.astype(found.dtype)
    np.testing.assert_allclose(found, wanted, rtol, atol)


def agree(name, *inputs, rtol=2e-5, **kwargs):
    assert_same(*both(name, *inputs, **kwargs), rtol=rtol)


# ---------------------------------------------------------------------- names and signatures

IMPLEMENTATION = {"ArrayAPIStrictFlags", "Device", "ModuleType"}


def functions(module):
    return {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and not name.startswith("_") and "flags" not in name
    }


def own_functions(extension):
    """The functions of an extension of array-api-strict, without what its files import."""
    here = functions(getattr(strict, extension))
    helpers = {"astype", "requires_extension", "requires_api_version", "conj", "finfo"}
    helpers |= {
        "device_supports_dtype",
        "normalize_axis_tuple",
        "reshape",
        "NamedTuple",
        "get_array_api_strict_flags",
    }
    return {name: f for name, f in here.items() if name not in helpers}


def test_every_name_of_the_standard_is_there():
    names = {n for n in dir(strict) if not n.startswith("_") and "flags" not in n}
    assert sorted(names - IMPLEMENTATION - set(dir(xp))) == []
    for extension in EXTENSIONS:
        missing = set(own_functions(extension)) - set(dir(getattr(xp, extension)))
        assert sorted(missing) == []


@pytest.mark.parametrize("home", ["main", *EXTENSIONS])
def test_parameters_are_those_of_the_standard(home):
    theirs = functions(strict) if home == "main" else own_functions(home)
    ours = xp if home == "main" else getattr(xp, home)
    for name, function in theirs.items():
        wanted = inspect.signature(function).parameters.values()
        found = inspect.signature(getattr(ours, name)).parameters.values()
        assert [(p.name, p.kind) for p in found] == [(p.name, p.kind) for p in wanted], name


# ---------------------------------------------------------------------- element by element

UNARY = {  # the dtypes of each function
    **dict.fromkeys(("abs", "sign", "square", "negative", "positive"), SIGNED + FLOATS + COMPLEX),
    **dict.fromkeys(("ceil", "floor", "round", "trunc"), REAL),
    **dict.fromkeys(("isfinite", "isinf", "isnan"), NUMERIC),
    **dict.fromkeys(("cos", "sin", "tanh", "exp", "expm1", "sqrt", "asinh"), FLOATS),
    **dict.fromkeys(("cosh", "sinh", "tan", "atan"), FLOATS),
    **dict.fromkeys(("conj", "imag", "real"), COMPLEX),
    "signbit": FLOATS,
    "logical_not": ["bool"],
    "bitwise_invert": [*INTEGERS, "bool"],
}
LIMITED = {
    **dict.fromkeys(("acos", "asin", "atanh"), (-0.875, 0.875)),
    **dict.fromkeys(("log", "log10", "log2", "log1p", "reciprocal"), (0.5, 20)),
    "acosh": (1, 20),
    "exp": (-5, 5),
    "expm1": (-5, 5),
    "cosh": (-5, 5),
    "sinh": (-5, 5),
    "sqrt": (0, 20),
    "tan": (-1, 1),
}
BINARY = {
    **dict.fromkeys(("add", "multiply", "subtract"), NUMERIC),
    **{key: [*NUMERIC, "bool"] for key in ("equal", "not_equal")},
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), REAL),
    **dict.fromkeys(("maximum", "minimum"), REAL),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), FLOATS),
    **{key: [*INTEGERS, "bool"] for key in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{key: ["bool"] for key in ("logical_and", "logical_or", "logical_xor")},
}


@pytest.mark.parametrize("name", sorted({*UNARY, *LIMITED}))
def test_unary_functions(name):
    low, high = LIMITED.get(name, (-20, 20))

    @few
    @given(arrays(UNARY.get(name, FLOATS), low, high))
    def check(x):
        agree(name, x)

    check()


@st.composite
def pairs(draw, dtypes, low=-20, high=20):
    shapes = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=4)
    )
    found = []
    for shape in shapes.input_shapes:
        dtype = draw(st.sampled_from(dtypes))
        found.append(draw(hnp.arrays(dtype, shape, elements=values(dtype, low, high))))
    return found


def defined(one, two):
    """Whether the standard defines the promotion of two dtypes."""
    try:
        strict.result_type(*(strict.asarray(np.zeros(1, d)) for d in (one, two)))
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_functions(name):
    @few
    @given(pairs(BINARY[name]))
    def check(drawn):
        if defined(drawn[0].dtype, drawn[1].dtype):
            agree(name, *drawn)

    check()


@pytest.mark.parametrize("name", ["divide", "floor_divide", "remainder", "pow"])
def test_quotients_and_powers(name):
    @few
    @given(pairs(FLOATS, low=0.5, high=9))
    def check(drawn):
        one, two = drawn
        agree(name, one, two)

    check()


def test_complex_quotients():
    x = np.array([1 + 2j, -3j, 4.0])
    agree("divide", x, x[::-1] + 1)
    agree("pow", x, x[::-1] + 1)
    agree("divide", x.astype("complex64"), np.float32([1, 2, 3]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_quotients_and_shifts(dtype):
    one = np.array([7, 0, 5, 100, 3], dtype)
    two = np.array([2, 3, 1, 7, 4], dtype)
    for name in ("floor_divide", "remainder", "bitwise_left_shift", "bitwise_right_shift"):
        agree(name, one, two)
    if dtype in SIGNED:
        agree("floor_divide", -one, two)
        agree("remainder", -one, two)
        agree("remainder", one, -two)
    agree("pow", np.array([2, 3, 1], dtype), np.array([3, 2, 0], dtype))


def test_special_values_of_complex_functions():
    parts = (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan)
    x = np.array([complex(a, b) for a in parts for b in parts])
    for name in ("abs", "exp", "sqrt", "log", "sin", "cosh", "isfinite", "isnan", "conj"):
        with np.errstate(all="ignore"):
            agree(name, x)


@pytest.mark.parametrize("bounds", [(None, None), (-3, None), (None, 4), (-2, 3)])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32"])
def test_clip(bounds, dtype):
    agree("clip", np.array([-9, -2, 0, 5, 9], dtype), *bounds)


def test_python_numbers_are_weak():
    x = xp.asarray(np.float32([1.5]))
    for y in (xp.add(x, 1), xp.multiply(2.0, x), x + 1, 2.0 * x):
        assert y.dtype == xp.float32


# ---------------------------------------------------------------------- statistics, order, sets


@st.composite
def reductions(draw, dtypes, low=-9, high=9, min_side=1):
    x = draw(arrays(dtypes, low, high, min_side=min_side))
    axis = draw(st.one_of(st.none(), hnp.valid_tuple_axes(x.ndim)))
    return x, axis, draw(st.booleans())


REDUCTIONS = {
    "sum": NUMERIC,
    "max": REAL,
    "min": REAL,
    "mean": FLOATS,
    "var": FLOATS,
    "std": FLOATS,
    "all": [*NUMERIC, "bool"],
    "any": [*NUMERIC, "bool"],
    "count_nonzero": [*NUMERIC, "bool"],
    "prod": REAL,
}


def short_sums(name, ours, theirs):
    """`theirs` in the default integer here: short integers add up in int32, there in int64.

    Products may be beyond it, and wrap around.
    """
    wider = {"int32": np.int64, "uint32": np.uint64}.get(ours.dtype.name)
    if name in ("sum", "prod") and wider and np.asarray(theirs).dtype == wider:
        return np.asarray(theirs).astype(ours.dtype.name)
    return theirs


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    limit = 2 if name == "prod" else 9

    @few
    @given(reductions(REDUCTIONS[name], -limit, limit))
    def check(drawn):
        x, axis, keepdims = drawn
        ours, theirs = both(name, x, axis=axis, keepdims=keepdims)
        assert_same(ours, short_sums(name, ours, theirs), rtol=1e-4)

    check()


def test_products_of_short_integers_wrap_around():
    ours, theirs = both("prod", np.full(33, -2, "int8"), axis=None, keepdims=False)
    assert_same(ours, short_sums("prod", ours, theirs))


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_corrected_variance(correction):
    x = np.arange(12.0).reshape(3, 4) ** 2
    agree("var", x, axis=1, correction=correction)
    agree("std", x, correction=correction, keepdims=True)


@few
@given(arrays(FLOATS, min_dims=1, min_side=1), st.data())
def test_running_sums(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    start = data.draw(st.booleans())
    for name in ("cumulative_sum", "cumulative_prod"):
        agree(name, x / 10, axis=axis, include_initial=start, rtol=1e-4)


@few
@given(arrays(REAL, min_dims=1, min_side=1), st.booleans(), st.data())
def test_order(x, descending, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    agree("sort", x, axis=axis, descending=descending)
    agree("argsort", x, axis=axis, descending=descending)
    for name in ("argmax", "argmin"):
        agree(name, x, axis=axis)
        agree(name, x, keepdims=True)


@few
@given(arrays([*REAL, "bool"], min_side=1))
def test_sets(x):
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        agree(name, x)
    if x.ndim:
        agree("nonzero", x)


def test_not_a_numbers_are_unique():
    agree("unique_counts", np.array([np.nan, 1.0, np.nan]))


def test_searching():
    line = np.array([1.0, 3.0, 5.0])
    order = np.array([2, 0, 1])
    agree("searchsorted", line, np.array([[2.0, 3.0]]), side="right")
    agree("searchsorted", line[[1, 2, 0]], np.array([2.0]), sorter=order)
    agree("where", line > 2, line, -line)
    agree("where", line > 2, line, 0.0)
    agree("isin", order, np.array([1, 9]))
    assert xp.isin(xp.asarray(order), xp.asarray([1, 9]), invert=True).tolist() == [
        True,
        True,
        False,
    ]
    agree("diff", line**2, prepend=np.array([0.0]), append=np.array([7.0]), n=2)


# ---------------------------------------------------------------------- shapes

X = np.arange(24.0).reshape(2, 3, 4)
SHAPES = [
    ("broadcast_to", (X[:1], (2, 3, 4)), {}),
    ("broadcast_arrays", (X, X[0, :1]), {}),
    ("concat", ([X, X],), {"axis": 1}),
    ("concat", ([X, X[0]],), {"axis": None}),
    ("concat", ([X.astype("float32"), X],), {}),
    ("expand_dims", (X,), {"axis": -2}),
    ("flip", (X,), {}),
    ("flip", (X,), {"axis": (0, 2)}),
    ("moveaxis", (X, (0, 1), (2, 0)), {}),
    ("permute_dims", (X, (2, 0, 1)), {}),
    ("repeat", (X, 2), {}),
    ("repeat", (X, np.array([1, 0, 2])), {"axis": 1}),
    ("reshape", (X, (4, -1)), {}),
    ("reshape", (X, (24,)), {"copy": True}),
    ("roll", (X, 5), {}),
    ("roll", (X, (1, -2)), {"axis": (0, 2)}),
    ("squeeze", (X[:1], 0), {}),
    ("stack", ([X, -X],), {"axis": -1}),
    ("tile", (X, (2, 1)), {}),
    ("tril", (X,), {"k": -1}),
    ("triu", (X,), {"k": 1}),
    ("unstack", (X,), {"axis": 1}),
    ("take", (X, np.array([1, 0, 1])), {"axis": 2}),
    ("take_along_axis", (X, np.argsort(-X, -1)), {}),
    ("matrix_transpose", (X,), {}),
    ("meshgrid", (X[0, 0], X[0, 1]), {"indexing": "ij"}),
    ("meshgrid", (X[0, 0], X[0, 1, :2], X[1, 0, :1]), {}),
    ("zeros_like", (X,), {}),
    ("ones_like", (X,), {"dtype": "int8"}),
    ("full_like", (X, 7), {}),
    ("zeros", ((2, 3),), {"dtype": "int16"}),
    ("ones", (3,), {"dtype": "complex64"}),
    ("full", ((2,), True), {}),
    ("eye", (2, 4), {"k": 1, "dtype": "float64"}),
    ("arange", (2, 11, 3), {"dtype": "int64"}),
    ("arange", (5.5,), {"dtype": "float64"}),
    ("linspace", (0, 1, 5), {"dtype": "float64"}),
    ("linspace", (1, 2, 4), {"endpoint": False, "dtype": "float32"}),
    ("matmul", (X, X.swapaxes(1, 2)), {}),
    ("matmul", (X.astype("int8"), X.astype("int8").swapaxes(1, 2)), {}),
    ("tensordot", (X, X), {"axes": ((0, 2), (0, 2))}),
    ("vecdot", (X, X[0]), {"axis": -1}),
    ("vecdot", (X * 1j, X + 1j), {"axis": -2}),
    ("vecdot", (X.astype("int16"), X.astype("int8")), {}),
]


@pytest.mark.parametrize(("name", "inputs", "kwargs"), SHAPES)
def test_shapes_and_products(name, inputs, kwargs):
    agree(name, *inputs, **kwargs)


def test_broadcast_shapes():
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3)


# ---------------------------------------------------------------------- extensions

M = np.array(
    [[[4.0, 1.0, 0.5], [1.0, 5.0, 2.0], [0.5, 2.0, 6.0]], [[3.0, 1, 0], [1, 7, 2], [0, 2, 9]]]
)
Z = M + 0.3j * (M - M.swapaxes(1, 2))
LINALG = [
    ("cholesky", (M,), {"upper": True}),
    ("cross", (X[:, :, :3], X[1:, :, 1:]), {}),
    ("det", (M,), {}),
    ("diagonal", (X,), {"offset": 1}),
    ("eigvalsh", (Z,), {}),
    ("inv", (M,), {}),
    *(("matrix_norm", (X,), {"ord": o, "keepdims": True}) for o in ("fro", "nuc", 1, -2, np.inf)),
    *(("matrix_power", (M, n), {}) for n in (0, 1, 3, -2)),
    ("matrix_rank", (X,), {}),
    ("matrix_rank", (X,), {"rtol": 0.5}),
    ("outer", (X[0, 0], X[1, 0]), {}),
    ("pinv", (X,), {}),
    ("slogdet", (M,), {}),
    ("solve", (M, M[0]), {}),
    ("solve", (M, M[0, 0]), {}),
    ("svdvals", (X,), {}),
    ("trace", (X,), {"offset": 1}),
    ("trace", (X.astype("float32"),), {"dtype": "float64"}),
    *(
        ("vector_norm", (X,), {"axis": a, "ord": o})
        for a in (None, 1, (0, 2))
        for o in (1, 2, 3, np.inf, 0)
    ),
    ("vector_norm", (X,), {"axis": (0, 2), "keepdims": True}),
]


@pytest.mark.parametrize(("name", "inputs", "kwargs"), LINALG)
def test_linear_algebra(name, inputs, kwargs):
    agree(name, *inputs, extension="linalg", **kwargs)


def test_factors_multiply_to_the_matrix():
    m, z, x = xp.asarray(M), xp.asarray(Z), xp.asarray(X)
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    q, r = xp.linalg.qr(x)
    w, v = xp.linalg.eigh(z)
    general = xp.linalg.eig(m)
    for product, whole in (
        ((u * s[:, None, :]) @ vh, x),
        (q @ r, x),
        ((v * xp.astype(w, xp.complex128)[:, None, :]) @ xp.conj(v).mT, z),
        (m @ general.eigenvectors, general.eigenvectors * general.eigenvalues[:, None, :]),
    ):
        np.testing.assert_allclose(product.numpy(), whole.numpy(), atol=1e-10)
    assert xp.linalg.qr(x).Q.shape == (2, 3, 3)
    assert xp.linalg.slogdet(m).logabsdet.shape == (2,)


FFT = [
    *(
        (name, (X + 1j,), {"axis": 1, "norm": norm, "n": n})
        for name in ("fft", "ifft", "hfft", "irfft")
        for norm in ("backward", "ortho", "forward")
        for n in (None, 2, 5)
    ),
    *((name, (X,), {"norm": norm}) for name in ("rfft", "ihfft") for norm in ("backward", "ortho")),
    *((name, (X + 1j,), {}) for name in ("fftn", "ifftn", "irfftn")),
    ("fftn", (X + 1j,), {"s": (2, 5), "axes": (1, 2), "norm": "ortho"}),
    ("rfftn", (X,), {"axes": (0, 1)}),
    ("fftshift", (X,), {"axes": 1}),
    ("ifftshift", (X,), {}),
]


@pytest.mark.parametrize(("name", "inputs", "kwargs"), FFT)
def test_fourier_transforms(name, inputs, kwargs):
    agree(name, *inputs, extension="fft", **kwargs)


def test_frequencies():
    for name in ("fftfreq", "rfftfreq"):
        agree(name, 5, d=0.5, dtype="float64", extension="fft")


# ---------------------------------------------------------------------- dtypes


def test_promotion_is_that_of_the_standard():
    names = [*NUMERIC, "bool"]
    for one in names:
        for two in names:
            if defined(one, two):
                wanted = str(strict.result_type(getattr(strict, one), getattr(strict, two)))
                assert xp.result_type(getattr(xp, one), getattr(xp, two)).name in wanted


def test_casts_are_those_of_the_standard():
    names = [*NUMERIC, "bool"]
    for one in names:
        for two in names:
            wanted = strict.can_cast(getattr(strict, one), getattr(strict, two))
            assert xp.can_cast(getattr(xp, one), getattr(xp, two)) == wanted, (one, two)


@pytest.mark.parametrize(
    "kind",
    [
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ],
)
def test_kinds_are_those_of_the_standard(kind):
    for name in [*NUMERIC, "bool"]:
        assert xp.isdtype(getattr(xp, name), kind) == strict.isdtype(getattr(strict, name), kind)


def test_limits():
    for name in (*FLOATS, *COMPLEX):
        ours, theirs = xp.finfo(getattr(xp, name)), strict.finfo(getattr(strict, name))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field)
    for name in INTEGERS:
        ours, theirs = xp.iinfo(getattr(xp, name)), strict.iinfo(getattr(strict, name))
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)


def test_constants():
    assert (xp.pi, xp.e, xp.inf, xp.newaxis) == (np.pi, np.e, np.inf, None)
    assert np.isnan(xp.nan)


@pytest.mark.parametrize("correction", [2.5, 3, 5])
def test_a_variance_of_fewer_elements_than_are_taken_off_is_that_of_numpy(correction):
    x = [1.0, 2.0, 4.0]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.var(np.array(x), ddof=correction)
    np.testing.assert_allclose(xp.var(xp.asarray(x), correction=correction), expected, rtol=1e-6)
