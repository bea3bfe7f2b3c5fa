"""Machine code against NumPy: kernels traced, compiled, and compared bit for bit."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.compiler.ir import Loop, NumpyLoop, Product, Unsupported
from trainkit.compiler.llvm import llvm_kernel
from trainkit.compiler.llvm.llvm_kernel import LlvmCode, LlvmTracer


def code_of(function, *arrays):
    trace = LlvmTracer()
    results = function(*(trace.input(np.shape(a), a.dtype) for a in arrays))
    return LlvmCode.of(trace, results if isinstance(results, tuple) else (results,))


def run(code, *arrays):
    outs = [make() for make in code.makers]
    scratch = np.empty(code.scratch, np.uint8)
    fits = code.compiled()(*arrays, *code.constants, *outs, scratch)
    return outs if fits else None


def assert_same_bits(function, *arrays):
    code = code_of(function, *arrays)
    with np.errstate(all="ignore"):
        expected = function(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, wanted in zip(run(code, *arrays), expected, strict=True):
        wanted = np.asarray(wanted)
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype == ml_dtypes.bfloat16:  # whose NaNs are equal to nothing, not even here
            got, wanted = got.astype("float32"), wanted.astype("float32")
        np.testing.assert_array_equal(got, wanted)
        if wanted.dtype.kind == "f":
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])
        if wanted.ndim > 1 and not code.makers[0]().flags.c_contiguous:
            assert got.strides == wanted.strides
    return code


SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38, 2.5, -7.0])
UNARY = """
absolute ceil cos exp expm1 floor isfinite isinf isnan log log1p logical_not negative reciprocal
rint sign sin sqrt square tanh trunc
""".split()
BINARY = """
add arctan2 divide equal greater greater_equal less less_equal logical_and logical_or logical_xor
maximum minimum multiply not_equal power subtract
""".split()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of numbers beyond float16
def test_functions_of_one_float(name, dtype):
    x = np.resize(SPECIAL, 37).astype(dtype)
    assert_same_bits(lambda x: getattr(np, name)(x), x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of numbers beyond float16
def test_functions_of_two_floats(name, dtype):
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))
    ufunc = getattr(np, name)
    assert_same_bits(lambda x, y: ufunc(x, y), x, y)
    for number in (2.0, 3, 0, 0.5):
        assert_same_bits(lambda x, n=number: ufunc(x, n), x)


COMPILED_ALONE = """
absolute ceil floor isfinite isinf isnan logical_not negative reciprocal rint sqrt square trunc
add divide equal greater greater_equal less less_equal logical_and logical_or logical_xor maximum
minimum multiply not_equal subtract
""".split()
"""What bfloat16 has code for; `sign` keeps the sign of a zero there, and others have no loops."""


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_bfloat16(name):
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)  # all there are
    if name not in COMPILED_ALONE:
        with pytest.raises(Unsupported, match=name):
            code_of(lambda x: getattr(np, name)(x), x)
        return
    assert_same_bits(lambda x: getattr(np, name)(x), x)


@pytest.mark.parametrize("name", sorted(set(COMPILED_ALONE) & set(UNARY)))
def test_functions_of_every_float16(name):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    code = assert_same_bits(lambda x: getattr(np, name)(x), x)
    assert [type(step) for step in code.steps] == [Loop]


@pytest.mark.parametrize("name", sorted(set(COMPILED_ALONE) & set(BINARY)))
def test_functions_of_two_float16s(name, rng):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    ufunc = getattr(np, name)
    for y in (rng.permutation(every), np.resize(SPECIAL[[0, 1, 6]].astype("float16"), 1 << 16)):
        code = assert_same_bits(lambda x, y: ufunc(x, y), every, y)
        assert [type(step) for step in code.steps] == [Loop]
    for number in (2, 0, -0.0, -3):  # also as operations of rectifiers have it
        code = assert_same_bits(lambda x, n=number: ufunc(x, n), every)
        assert [type(step) for step in code.steps] == [Loop]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_bfloat16s(name, rng):
    special = SPECIAL.astype(ml_dtypes.bfloat16)
    x, y = (v.ravel() for v in np.meshgrid(special, special))
    some = rng.integers(0, 1 << 16, (2, 10007)).astype(np.uint16).view(ml_dtypes.bfloat16)
    x, y = np.concatenate([x, some[0]]), np.concatenate([y, some[1]])
    ufunc = getattr(np, name)
    if name not in COMPILED_ALONE:
        with pytest.raises(Unsupported, match=name):
            code_of(lambda x, y: ufunc(x, y), x, y)
        return
    assert_same_bits(lambda x, y: ufunc(x, y), x, y)
    for number in (2, 0, -3):
        assert_same_bits(lambda x, n=number: ufunc(x, n), x)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_each_result_of_16_bits_is_rounded(dtype, rng):
    x, y = (rng.normal(size=(2, 301, 33)) * 3).astype(dtype)

    def formula(x, y):
        z = np.maximum(x * y + x, 2) / (y * y)
        return z, z.astype(np.float32) * np.float32(1.1), np.where(x > y, z, 0) - y[0]

    code = assert_same_bits(formula, x, y)
    assert [type(step) for step in code.steps] == [Loop]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_float32_is_rounded_to_the_nearest_float16(rng):
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = ((every[1:] + every[:-1]) / 2).view(np.uint32)  # as near to two of them
    some = rng.integers(0, 1 << 32, 100_003).astype(np.uint32)
    edges = np.array([65519.996, 65520, 2.0**-25, 2.98e-8, np.inf], np.float32).view(np.uint32)
    x = np.concatenate([some, between, between - 1, between + 1, edges]).view(np.float32)
    x = x[~np.isnan(x)]
    x = np.concatenate([x, -x])
    (y,) = run(code_of(lambda x: x.astype(np.float16), x), x)
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(y.view(np.uint16), expected.view(np.uint16))


def test_float32_is_rounded_to_the_nearest_bfloat16(rng):
    bits = rng.integers(0, 1 << 32, 100_003).astype(np.uint32)
    halves = (np.arange(1 << 16, dtype=np.uint32) << 16) + 0x8000  # as near to two of them
    x = np.concatenate([bits, halves, halves - 1, halves + 1]).view(np.float32)
    with np.errstate(all="ignore"):
        code = code_of(lambda x: x.astype(ml_dtypes.bfloat16), x)
        (y,) = run(code, x)
        np.testing.assert_array_equal(y.view(np.uint16), x.astype(y.dtype).view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_reductions_and_products_of_16_bits_are_left_alone(dtype):
    x = np.ones((40, 40), dtype)
    for function in (
        lambda x: np.add.reduce(x, 0),
        lambda x: np.maximum.reduce(x, 1),
        lambda x: np.add.reduce(x, 1, np.float32),
        lambda x: np.matmul(x, x),
    ):
        with pytest.raises(Unsupported):
            code_of(function, x)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "bool"])
@pytest.mark.parametrize("name", [*BINARY, "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_functions_of_two_integers(name, dtype):
    ufunc = getattr(np, name)
    edges = [0, 1, 2, 127, 255, -1, -128, 2**31 - 1, -(2**31)]
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(edges, edges))
    if name == "power" and dtype.startswith("int"):
        y = y & 7
    try:
        with np.errstate(all="ignore"):
            ufunc(x, y)
        code_of(lambda x, y: ufunc(x, y), x, y)
    except (TypeError, Unsupported):
        pytest.skip("NumPy has no such function, or the node stays with NumPy")
    assert_same_bits(lambda x, y: ufunc(x, y), x, y)


@pytest.mark.parametrize("given", ["bool", "int8", "uint16", "int32", "int64", "float32"])
@pytest.mark.parametrize("wanted", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_casts(given, wanted):
    if given.startswith("float") and "int" in wanted:
        with pytest.raises(Unsupported, match="cast"):
            code_of(lambda x: x.astype(wanted), np.ones(3, given))
        return
    x = np.array([0, 1, 2, 100, -1, -7, 2**24 + 1]).astype(given)
    assert_same_bits(lambda x: x.astype(wanted), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float64"])
def test_casts_of_bfloat16(dtype, rng):
    x = np.concatenate([[0, 1, 2, 100, -1, -7, 2**24 + 1], rng.normal(size=999) * 1e5])
    x = x.astype(dtype)
    assert_same_bits(lambda x: x.astype(ml_dtypes.bfloat16), x)
    short = x.astype(ml_dtypes.bfloat16)
    if "int" in dtype:
        with pytest.raises(Unsupported, match="cast"):
            code_of(lambda x: x.astype(dtype), short)
    else:
        assert_same_bits(lambda x: x.astype(dtype), short)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float32"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_casts_of_float16(dtype, rng):
    x = np.concatenate([[0, 1, 2, 100, -1, -7, 2**24 + 1], rng.normal(size=999) * 1e5])
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    assert_same_bits(lambda x: x.astype(np.float16), x)
    assert_same_bits(lambda x: x.astype(np.float64), x.astype(np.float16))
    with pytest.raises(Unsupported, match="float64 to float16"):
        code_of(lambda x: x.astype(np.float16), x.astype(np.float64))


def test_float16_is_left_alone_where_no_instruction_converts_it(monkeypatch):
    monkeypatch.setattr(llvm_kernel, "converts_float16", lambda: False)
    with pytest.raises(Unsupported, match="float16"):
        code_of(lambda x: x + x, np.ones(40, np.float16))


def test_a_choice_by_condition(rng):
    x, y = rng.normal(size=(2, 5, 7)).astype("float32")
    assert_same_bits(lambda x, y: np.where(x > y, x, 0.25) + np.where(x < 0, 1, y), x, y)


SHAPES = [(1,), (7,), (8,), (129,), (1, 5), (5, 1), (3, 200), (33, 17), (4, 5, 6), (2, 1, 9), ()]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_in_numpys_order(shape, dtype, rng):
    x = (rng.normal(size=shape) * 3).astype(dtype)
    rank = len(shape)
    for mask in range(2**rank):
        axes = tuple(i for i in range(rank) if mask >> i & 1)
        assert_same_bits(lambda x, axes=axes: np.add.reduce(x, axes, None, None, True), x)
        assert_same_bits(lambda x, axes=axes: np.add.reduce(x, axes), x)


def test_long_sums(rng):
    for n in (8191, 8192, 8193, 100_003):
        x = rng.normal(size=n).astype("float32")
        assert_same_bits(lambda x: (x * 2).sum(), x)


def test_the_sum_of_negative_zeros_is_numpys():
    x = np.full((3, 4), -0.0, "float32")
    for axes in ((0,), (1,), (0, 1)):
        assert_same_bits(lambda x, axes=axes: np.add.reduce(x, axes), x)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_along_last_axes(name, rng):
    x = rng.normal(size=(5, 33)).astype("float32")
    x[2, 3], x[3, :] = np.nan, [0.0, -0.0, -0.0] * 11
    for axes in ((1,), (0, 1)):
        assert_same_bits(lambda x, axes=axes: getattr(np, name).reduce(x, axes), x)
    with pytest.raises(Unsupported, match="leading axes"):
        code_of(lambda x: getattr(np, name).reduce(x, 0), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_products_of_all_layouts(dtype, rng):
    a = (rng.normal(size=(33, 17)) * 5).astype(dtype)
    b = (rng.normal(size=(17, 70)) * 5).astype(dtype)
    z = (rng.normal(size=(3, 4, 6, 5)) * 5).astype(dtype)
    assert_same_bits(lambda a, b: np.matmul(a, b), a, b)
    assert_same_bits(lambda a, b: np.matmul(b.T, a.T), a, b)
    assert_same_bits(lambda a: np.matmul(a, a.T), a)
    assert_same_bits(lambda a: np.matmul(a.T, a), a)
    assert_same_bits(lambda a: np.matmul(a[:1], a.T), a)
    assert_same_bits(lambda z: np.matmul(z, z.swapaxes(2, 3)), z)
    assert_same_bits(lambda z: np.matmul(z.swapaxes(2, 3), z[:, :1]), z)
    code = assert_same_bits(lambda a: np.matmul(a + a, a.T), a)
    assert any(isinstance(step, Product) for step in code.steps)


def test_results_keep_the_layout_that_numpy_gives_them(rng):
    z = rng.normal(size=(4, 5, 6))
    assert_same_bits(lambda z: z.transpose(2, 0, 1) * 2, z)
    assert_same_bits(lambda z: z.transpose(2, 0, 1) * 2 + z.transpose(2, 0, 1), z)
    assert_same_bits(lambda z: (z.transpose(2, 0, 1) * 2).reshape(6, 20), z)
    assert_same_bits(lambda z: np.expand_dims(z[:, 0], 1) - z, z)


def test_what_walks_alike_is_one_loop(rng):
    x = rng.normal(size=(6, 5)).astype("float32")
    code = assert_same_bits(lambda x: np.exp(x * 2 + 1) * x / 3 - x, x)
    assert [type(s) for s in code.steps] == [Loop, NumpyLoop, Loop]


def test_what_is_not_needed_is_left_out(rng):
    x = rng.normal(size=5)

    def f(x):
        np.exp(x)
        y = x + 1
        y * 7
        return y

    code = assert_same_bits(f, x)
    assert len(code.steps) == 1
    assert len(code.steps[0].members) == 1


def test_memory_is_used_again(rng):
    x = rng.normal(size=1000)

    def f(x):
        for _ in range(10):
            x = np.exp(np.tanh(x))
        return x

    code = assert_same_bits(f, x)
    assert code.scratch <= 3 * 8 * 1024


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x[::-1],
        lambda x: np.asfortranarray(np.ones((2, 3), "float32")),
        lambda x: x.astype("float64"),
        lambda x: x[:-1],
        lambda x: x.reshape(-1, 1),
        lambda x: x.astype(">f4"),
        lambda x: np.float32(1),
        lambda x: [1.0],
    ],
)
def test_an_array_of_another_kind_is_refused(spoil):
    x = np.arange(6, dtype="float32")
    code = code_of(lambda x: x * 2 + 1, x)
    assert run(code, x) is not None
    assert run(code, spoil(x)) is None


def test_numpys_scalars_stand_for_arrays_without_axes():
    code = code_of(lambda x: x * 2 + 1, np.float32(3))
    assert run(code, np.float32(3))[0] == 7
    assert run(code, np.array(3, "float32"))[0] == 7
    assert run(code, np.float64(3)) is None
    assert run(code, 3.0) is None


def test_large_constants_are_given_to_each_call(rng):
    table = rng.normal(size=1000)
    code = assert_same_bits(lambda x: x * table + 1, rng.normal(size=1000))
    assert len(code.constants) == 1


def test_an_output_may_lie_over_an_input_that_is_read_for_the_last_time(rng):
    w, g = rng.normal(size=(2, 50)).astype("float32")
    expected = w - g * np.float32(0.1)
    code = code_of(lambda w, g: w - g * 0.1, w, g)
    assert code.reusable == {(0, 0), (0, 1)}
    assert code.compiled()(w, g, w, np.empty(code.scratch, np.uint8))
    np.testing.assert_array_equal(w, expected)


def test_an_output_never_lies_over_an_input_that_is_read_later_or_elsewhere(rng):
    w = rng.normal(size=50).astype("float32")
    later = code_of(lambda w: (w * 2 + 1, np.exp(w) + 1), w)
    assert (0, 0) not in later.reusable
    shifted = code_of(lambda w: np.expand_dims(w[::-1], 0) + w, w)
    assert shifted.reusable == set()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.cumsum(x),
        lambda x: np.sort(x),
        lambda x: x if x.any() else -x,
        lambda x: x[np.array([0, 1])],
        lambda x: np.add.accumulate(x),
        lambda x: np.add(x, 1, out=x),
        lambda x: [v for v in x],
        lambda x: np.divmod(x, 2),
    ],
)
def test_what_can_not_be_compiled_is_said(f):
    with pytest.raises(Unsupported):
        code_of(f, np.ones(4))


def test_writing_in_place_is_understood_where_nobody_else_looks(rng):
    x = rng.normal(size=(3, 4))

    def f(x):
        y = x * 2
        y += 1
        np.maximum(y, 0, out=y)
        return y

    assert_same_bits(f, x)

    def seen(x):
        y = x * 2
        row = y[0]
        y += 1
        return y + row

    with pytest.raises(Unsupported, match="others may see"):
        code_of(seen, x)
