"""What the compiled half does with small arrays in place of kernels: the same bits."""

import inspect
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.dispatch.formulas import ArrayCall, steps_of
from trainkit.core.tensor import PRIMITIVES, wrap
from trainkit.ops.math.cumulative import running_sum
from trainkit.ops.math.max_and_argmax import argmax_as, argmin_as

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

concatenate, expand_dims, reshape, stack = (
    PRIMITIVES[name].op for name in ("concatenate", "expand_dims", "reshape", "stack")
)

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4) | st.lists(
    st.integers(1, 40), min_size=1, max_size=2
)
SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1.0]


@st.composite
def arrays(draw, dtypes=("float32", "float64", "int32", "int64")):
    dims, dtype = draw(SIZES), draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype == "bool":
        return rng.random(dims) < 0.5
    if dtype.startswith("int"):
        factor = 1 if dtype == "int8" else draw(st.sampled_from([1, 2**30]))
        return rng.integers(-4, 5, dims).astype(dtype) * factor
    x = (rng.standard_normal(dims) * 3).astype(dtype)
    if draw(st.booleans()):
        chosen = rng.random(dims) < 0.3
        x[chosen] = rng.choice(SPECIAL, chosen.sum())
    return x


def both(op, x, **settings):
    """The results of the compiled half and of NumPy."""
    tensor = tk.constant(x)
    results = []
    for on in (True, False):
        before = native.switch(on)
        try:
            with np.errstate(all="ignore"):
                results.append(np.asarray(op(tensor, **settings)))
        finally:
            native.switch(before)
    return results


def assert_same_bits(op, x, **settings):
    direct, plain = both(op, x, **settings)
    assert direct.shape == plain.shape
    assert direct.dtype == plain.dtype
    assert bits(direct) == bits(plain), (settings, direct, plain)


def bits(array):
    """The bytes, with one NaN for all: of two it depends on the vectors which a sum passes on."""
    if array.dtype.kind in "fc":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()


def axes_of(x):
    several = [(0,), tuple(range(x.ndim)), tuple(range(x.ndim - 1)) or 0, (0, x.ndim - 1)[: x.ndim]]
    return [None, *range(-x.ndim, x.ndim), *several]


@given(arrays(("float32", "float64", "int32", "int64", "bool", "int8")), st.data())
def test_reductions_have_the_bits_of_numpy(x, data):
    name = data.draw(st.sampled_from(["sum", "mean", "max", "min", "prod", "var", "any", "all"]))
    axis, keepdims = data.draw(st.sampled_from(axes_of(x))), data.draw(st.booleans())
    assert_same_bits(getattr(tk.ops, name), x, axis=axis, keepdims=keepdims)


@given(arrays(), st.data())
def test_quantiles_have_the_bits_of_numpy(x, data):
    axis, keepdims = data.draw(st.sampled_from(axes_of(x))), data.draw(st.booleans())
    method = data.draw(st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]))
    q = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0, (), (0.1,), (1.0, 0.0, 0.7)]))
    assert_same_bits(tk.ops.quantile, x, q=q, axis=axis, method=method, keepdims=keepdims)
    assert_same_bits(tk.ops.median, x, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_medians_are_the_same_in_graphs(rng, dtype):
    for shape in ((10,), (11,), (4, 6), (3, 5, 4)):
        x = rng.normal(size=shape).astype(dtype)
        for axis in (None, *range(len(shape))):
            expected = tk.ops.median(x, axis)
            np.testing.assert_allclose(expected, np.median(x, axis), rtol=1e-6)
            compiled = tk.function(lambda x, axis=axis: tk.ops.median(x, axis))
            assert compiled(x).numpy().tobytes() == expected.numpy().tobytes()


@given(arrays(), st.data())
def test_positions_are_those_of_numpy(x, data):
    op = data.draw(st.sampled_from([argmax_as, argmin_as]))
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    dtype, keepdims = data.draw(st.sampled_from(["int32", "int64"])), data.draw(st.booleans())
    assert_same_bits(op, x, axis=axis, keepdims=keepdims, dtype=dtype)


@given(arrays(), st.data())
def test_running_sums_have_the_bits_of_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    exclusive, reverse = data.draw(st.booleans()), data.draw(st.booleans())
    assert_same_bits(running_sum, x, axis=axis, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 17, 127, 128, 129, 136, 257, 512, 1000])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 9, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_reduced_in_numpys_order(rows, length, dtype):
    rng = np.random.default_rng(rows * length)
    x = rng.standard_normal((rows, length)) * 10.0 ** rng.uniform(-3, 3, (rows, length))
    x = x.astype(dtype)
    x[-1, :] = -0.0
    with np.errstate(all="ignore"):
        assert bits(native.row_sums(x)) == bits(np.add.reduce(x, 1))
        assert bits(native.row_square_sums(x)) == bits(np.add.reduce(np.square(x), 1))
        assert bits(native.row_products(x)) == bits(np.multiply.reduce(x, 1))


def test_rows_of_other_arrays_are_left_to_numpy():
    x = np.ones((4, 6), "float32")
    for other in (x.T, x[:, ::2], x[0], x.astype("int32"), x.astype("float16"), 3.0):
        assert native.row_sums(other) is None
        assert native.row_square_sums(other) is None
        assert native.row_products(other) is None


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "max", "min"])
@pytest.mark.parametrize("dims", [(300, 70), (70, 300), (3, 100, 70), (20_000, 1), (0, 5), (5, 0)])
def test_rows_of_large_arrays_have_the_bits_of_numpy(name, dims):
    x = np.random.default_rng(0).standard_normal(dims).astype("float32")
    if name in ("max", "min") and not dims[-1]:
        return
    for keepdims in (False, True):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same_bits(getattr(tk.ops, name), x, axis=-1, keepdims=keepdims)


@given(arrays(), st.data())
def test_running_products_have_the_bits_of_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert_same_bits(tk.ops.cumprod, x, axis=axis)


def test_running_products_of_large_arrays_have_the_bits_of_numpy():
    x = np.random.default_rng(0).uniform(0.5, 2, (90, 110)).astype("float32")
    for axis in (0, 1):
        assert_same_bits(tk.ops.cumprod, x, axis=axis)


@given(arrays(("float32", "float64")), st.data())
def test_softmax_has_the_bits_of_numpy(x, data):
    axis = data.draw(st.sampled_from([*range(-x.ndim, x.ndim), None, (x.ndim - 1,)]))
    op = PRIMITIVES["softmax"].op
    assert_same_bits(op, x, axis=axis)


FORMULAS = sorted(
    name
    for name, primitive in PRIMITIVES.items()
    if primitive.facets.fusible
    and not primitive.is_ufunc
    and len(primitive.input_names) == 1
    and primitive.steps()
)


def test_usual_activations_are_lists_of_ufuncs():
    usual = {"sigmoid", "relu", "relu6", "softplus", "softsign", "rsqrt", "clip", "gelu_tanh"}
    assert usual <= {*FORMULAS}


@given(arrays(("float32", "float64")), st.sampled_from(FORMULAS), st.data())
def test_formulas_have_the_bits_of_their_bodies(x, name, data):
    steps = PRIMITIVES[name].steps()
    names = {number for _, _, numbers in steps for number in numbers if type(number) is str}
    numbers = st.floats(-2, 2, width=32) | st.integers(-3, 3)
    settings = {a: data.draw(numbers) for a in names}
    assert_same_bits(PRIMITIVES[name].op, x, **settings)


DIVISIONS = ["floor_divide", "mod", "fmod"]
WIDE_RANGE = [*SPECIAL, 0.3, -0.1, 7.0, 1e30, 3.4e38, 2.0**27, -(2.0**28), 2.0**29 - 32]


@given(arrays(), st.sampled_from(DIVISIONS), st.data())
def test_divisions_have_the_bits_of_numpy(x, name, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    if x.dtype.kind == "i":
        number, other = data.draw(st.integers(-3, 3)), rng.integers(-3, 4, x.shape)
    else:
        scales = 10.0 ** rng.uniform(*data.draw(st.sampled_from([(-6, 6), (-44, 38)])), x.shape)
        number, other = (
            data.draw(st.sampled_from(WIDE_RANGE)),
            rng.choice([-1, 1], x.shape) * scales,
        )
    divisors = [other.astype(x.dtype), np.array(number, x.dtype), number]
    divisor = divisors[data.draw(st.integers(0, 2))]
    op = PRIMITIVES[name].op

    def divide(tensor):
        by = tk.constant(divisor) if isinstance(divisor, np.ndarray) else divisor
        try:
            return op(tensor, by).numpy()
        except ValueError as error:
            return np.array(str(error))

    assert_same_bits(divide, x)


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("size", [1, 255, 256, 257, 5000])
def test_a_part_with_unusual_operands_is_divided_by_numpy(name, size):
    # One pair fills a whole part, so that no other element sends it to NumPy's loop.
    with np.errstate(all="ignore"):
        for a in np.array(WIDE_RANGE, "float32"):
            for b in np.array(WIDE_RANGE, "float32"):
                x, y = np.full(size, a), np.full(size, b)
                assert_same_bits(lambda t, y=y: PRIMITIVES[name].op(t, tk.constant(y)), x)
                assert_same_bits(lambda t, b=b: PRIMITIVES[name].op(t, float(b)), x)


def test_a_rest_by_a_number_is_recorded():
    x = tk.constant([1.0, 5.5])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x % 0.75 * x
    np.testing.assert_allclose(tape.gradient(y, x), [0.25 + 1.0, 0.25 + 5.5])


@pytest.mark.parametrize("number", [2**31, -(2**40), 1e39, 10**400, True])
def test_numbers_that_the_dtype_does_not_hold_go_the_long_way(number):
    for x in (np.array([7, -7], "int32"), np.array([7.0, -7.5], "float32")):
        results = []
        for on in (True, False):
            before = native.switch(on)
            try:
                with np.errstate(all="ignore"):
                    results.append(repr(PRIMITIVES["mod"].op(tk.constant(x), number)))
            except Exception as error:
                results.append(repr(error))
            finally:
                native.switch(before)
        assert results[0] == results[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["add", "divide", "maximum", "power", "greater"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(((7, 33), (7, 1)), ((7, 1), (33,)), ((7, 1), (1, 33)), ((700, 33), (1, 33))),
        *(((5, 5), (5,)), ((5, 5), (5, 1)), ((5, 1), (5,)), ((5, 5), (1, 5)), ((1, 5), (5,))),
        *(((1, 5), (5, 1)), ((5, 1), (5, 1)), ((5, 1), (1, 1)), ((1, 5), (1, 5)), ((2, 1), (2,))),
        *(((300, 20), (300, 1)), ((300, 1), (20,)), ((0, 5), (5,)), ((3, 5), (0,)), ((1, 1), (5,))),
    ],
)
def test_rows_and_columns_meet_with_the_bits_of_numpy(left, right, name, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.choice(WIDE_RANGE, dims).astype(dtype) for dims in (left, right))
    if (3, 5) == left:
        with pytest.raises(ValueError, match="broadcast"):
            PRIMITIVES[name].op(tk.constant(a), tk.constant(b))
        return
    with np.errstate(all="ignore"):
        assert_same_bits(lambda t: PRIMITIVES[name].op(t, tk.constant(b)), a)


@pytest.mark.parametrize("rows", [1, 3, 700])
@pytest.mark.parametrize("name", ["add", "divide", "maximum", "power", "greater"])
def test_rows_beside_a_vector_have_the_bits_of_numpy(name, rows):
    rng = np.random.default_rng(0)
    x, v = rng.choice(WIDE_RANGE, (rows, 33)), rng.choice(WIDE_RANGE, 33)
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            a, b = x.astype(dtype), v.astype(dtype)
            assert_same_bits(lambda t, b=b: PRIMITIVES[name].op(t, tk.constant(b)), a)


PAIRS = sorted(
    name
    for name, primitive in PRIMITIVES.items()
    if not primitive.is_ufunc and len(primitive.input_names) == 2 and primitive.steps()
    if not any(
        parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        for parameter in inspect.signature(primitive.body).parameters.values()
    )
)


def test_usual_formulas_of_two_arrays_are_lists_of_ufuncs():
    assert {"gelu_tanh_gradient", "silu_gradient", "relu_gradient"} <= {*PAIRS}
    assert {"xlogy", "xdivy", "divide_no_nan"} <= {*PAIRS}


@given(arrays(("float32", "float64")), st.sampled_from(PAIRS), st.randoms(use_true_random=False))
def test_formulas_of_two_arrays_have_the_bits_of_their_bodies(x, name, random):
    y = x.ravel().copy()
    random.shuffle(y)
    other = tk.constant(y.reshape(x.shape))
    assert_same_bits(lambda t: PRIMITIVES[name].op(t, other), x)


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8192, 10_001])
@pytest.mark.parametrize("name", ["rsqrt", "softsign", "reciprocal"])
def test_long_formulas_go_part_by_part(name, size):
    x = np.random.default_rng(0).standard_normal(size).astype("float32")
    assert_same_bits(PRIMITIVES[name].op, x)
    assert_same_bits(PRIMITIVES[name].op, x[::2])


@pytest.mark.parametrize("size", [4095, 4096, 4097, 1 << 14, (1 << 14) + 1])
def test_sums_have_one_order_at_the_limits_of_paths(size):
    x = np.random.default_rng(0).standard_normal(size).astype("float32")
    for op in (tk.ops.sum, tk.ops.mean, tk.ops.max, tk.ops.var):
        assert_same_bits(op, x)
    assert_same_bits(tk.ops.sum, x.reshape(1, -1), axis=0)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "prod", "var", "argmax", "cumsum"])
def test_wrong_axes_have_the_words_of_the_operation(name):
    with pytest.raises(ValueError, match=r"axis 2|axis=2"):
        getattr(tk.ops, name)(tk.ones((2, 3)), axis=2)


@pytest.mark.parametrize("name", ["sum", "max", "cumsum", "softmax", "sigmoid"])
def test_tapes_hear_of_direct_calls(name):
    x = tk.Variable([[0.5, -1.0], [2.0, 3.0]])
    gradients = []
    for on in (True, False):
        before = native.switch(on)
        try:
            with tk.GradientTape() as tape:
                y = getattr(tk.ops, name)(x, *([0] if name == "cumsum" else []))
            gradients.append(tape.gradient(y, x).numpy())
        finally:
            native.switch(before)
    np.testing.assert_array_equal(*gradients)


def test_arrays_in_other_orders_are_left_to_numpy():
    x = np.random.default_rng(0).standard_normal((6, 8)).astype("float32")
    for view in (x.T, x[::2], x[:, 1:5], np.broadcast_to(x[0], (3, 8))):
        for op in (tk.ops.sum, tk.ops.softmax, tk.ops.sigmoid):
            assert_same_bits(op, view)


# ------------------------------------------------------------------ shapes


@given(arrays(("float32", "int32", "int64", "bool", "int8")), st.data())
def test_views_are_those_of_numpy(x, data):
    sizes = data.draw(st.permutations([*x.shape, 1]))
    free = data.draw(st.sampled_from([None, *range(len(sizes))]))
    shape = tuple(-1 if i == free else n for i, n in enumerate(sizes))
    where = data.draw(st.integers(-x.ndim - 1, x.ndim))
    views = [
        (reshape(wrap(x), shape=shape), x.reshape(shape)),
        (expand_dims(wrap(x), axis=(where,)), np.expand_dims(x, where)),
    ]
    for y, plain in views:
        y = y._array
        assert (y.shape, y.strides, y.dtype) == (plain.shape, plain.strides, plain.dtype)
        assert y.flags.num == plain.flags.num
        assert np.shares_memory(x, y)
        assert y.base is plain.base or plain.base is None


@pytest.mark.parametrize("shape", [(4,), (-1, -1), (-2, 6), (2, 0), (5, -1), (2**62, 4), (3, 2, 2)])
def test_shapes_that_do_not_fit_have_the_words_of_reshape(shape):
    with pytest.raises(ValueError, match="reshape"):
        tk.reshape(tk.ones((2, 3)), shape)


def test_views_of_read_only_arrays_are_read_only():
    x = np.arange(6.0)
    x.flags.writeable = False
    assert not reshape(wrap(x), shape=(2, 3))._array.flags.writeable


@given(arrays(("float32", "int32", "int64", "bool", "int8")), st.data())
def test_joined_arrays_are_those_of_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    count = data.draw(st.integers(1, 4))
    parts = [np.repeat(x, data.draw(st.integers(0, 2)), axis) for _ in range(count)]
    joined = concatenate(*map(wrap, parts), axis=axis)._array
    plain = np.concatenate(parts, axis)
    assert (joined.dtype, joined.tobytes()) == (plain.dtype, plain.tobytes())
    assert joined.shape == plain.shape
    place = data.draw(st.integers(-x.ndim - 1, x.ndim))
    alike = [x, x[::-1], np.ascontiguousarray(x[::-1])][:count]
    stacked, plain = stack(*map(wrap, alike), axis=place)._array, np.stack(alike, place)
    assert (stacked.dtype, stacked.tobytes()) == (plain.dtype, plain.tobytes())
    assert stacked.shape == plain.shape


def test_what_can_not_be_joined_has_the_words_of_the_operation():
    a, b = tk.ones((2, 3)), tk.ones((2, 4))
    for run in (lambda: tk.concat([a, b], 0), lambda: tk.stack([a, b]), lambda: tk.concat([a], 2)):
        with pytest.raises(ValueError, match=r"concatenate|stack"):
            run()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_nan_is_found_wherever_it_is(dtype):
    x = np.zeros((7, 5), dtype)
    assert not native.has_nan(x)
    for i in (0, 17, 34):
        x[:] = np.inf
        x.flat[i] = np.nan
        assert native.has_nan(x)
        assert native.has_nan(x.T)
        assert native.has_nan(x[::2]) == np.isnan(x[::2]).any()


# ------------------------------------------------------------------ lists of calls


def test_choices_and_limits_are_calls_too():
    def body(xp, x, *, low):
        return xp.where(xp.isnan(x) | (x < low), 0.5, xp.clip(x, low, 2)) * (x > 0)

    assert [call.name for call in steps_of(body, 1, ["low"])] == [
        *("isnan", "less", "bitwise_or", "clip", "where", "greater", "cast", "multiply")
    ]


@given(
    arrays(("float32", "float64", "float16")),
    st.sampled_from(
        [
            lambda x: tk.ops.hard_shrink(x, threshold=1.5),
            lambda x: tk.ops.soft_shrink(x, threshold=0.75),
            lambda x: tk.nn.leaky_relu(x, 0.2),
            *(tk.ops.hard_tanh, tk.ops.relu6, tk.nn.relu, tk.ops.isposinf, tk.ops.isneginf),
            lambda x: tk.clip_by_value(x, -0.5, 1.25),
        ]
    ),
)
def test_formulas_that_choose_have_the_bits_of_their_bodies(x, op):
    assert_same_bits(op, x)


@pytest.mark.parametrize("size", [1, 1023, 1025, 4097, 10_001])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_long_formulas_that_choose_go_part_by_part(size, dtype):
    x = np.random.default_rng(0).choice([*SPECIAL, 3.0, 0.3, -7.0], size).astype(dtype)
    y = tk.constant(x[::-1].copy())
    for op in (tk.ops.xlogy, tk.ops.divide_no_nan, tk.maximum, tk.minimum):
        assert_same_bits(lambda t, op=op: op(t, y), x)
    for op in (tk.ops.soft_shrink, tk.ops.hard_tanh, tk.ops.isposinf, tk.nn.relu):
        assert_same_bits(op, x)


def test_a_body_becomes_the_calls_that_it_makes():
    steps = steps_of(lambda xp, x, *, slope: xp.maximum(x, -x * slope), 1, ["slope"])
    assert steps == (
        ArrayCall(np.negative, (0,), (None,)),
        ArrayCall(np.multiply, (1, -1), (None, "slope")),
        ArrayCall(np.maximum, (0, 2), (None, None)),
    )


@pytest.mark.parametrize(
    "body",
    [
        lambda xp, x: x,
        lambda xp, x: x.astype("int32"),
        lambda xp, x: xp.where(x > 0, x, 0).astype("float16"),
        lambda xp, x: xp.where(x, x, 0),
        lambda xp, x: xp.equal(x > 0, True),
        lambda xp, x: x**3,
        lambda xp, x: xp.power(x.astype(x.dtype, copy=False), 2),
        lambda xp, x: x * (2 if x.dtype == np.float32 else 3),
        lambda xp, x: x + (1 / 3 if x.dtype == np.float32 else 1 / 7),
        lambda xp, x: xp.clip(x, 0, None),
        lambda xp, x: x.astype("float64") / 3,
        lambda xp, x: xp.frexp(x)[0],
        lambda xp, x: x + np.float64(1),
        lambda xp, x: xp.add.reduce(x),
        lambda xp, x: -x if x > 0 else x,
        lambda xp, x: (xp.exp(x), xp.sin(x)),
        lambda xp, x: xp.exp(x).dtype,
        lambda xp, x: xp.matmul(x, x),
        lambda xp, x: [xp.exp(x), -x][0],
    ],
)
def test_a_body_that_does_more_stays_what_is_called(body):
    assert steps_of(body, 1, []) is None


def test_a_body_may_ask_for_a_dtype_on_which_nothing_depends():
    def body(xp, x):
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
        wide = wide * (1 / 3)
        wide += x**2
        return xp.exp(wide).astype(x.dtype, copy=False)

    assert steps_of(body, 1, []) == (
        ArrayCall(np.multiply, (0, -1), (None, 1 / 3)),
        ArrayCall(np.square, (0,), (None,)),
        ArrayCall(np.add, (1, 2), (None, None)),
        ArrayCall(np.exp, (3,), (None,)),
    )


def test_numbers_made_of_settings_alone_are_pythons():
    assert steps_of(lambda xp, x, *, a: x * (a + 1), 1, ["a"]) is None


@pytest.mark.parametrize("shape", [(1,), (3, 5), (4096,), (4097,), (513, 512)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cubes_and_variances_have_the_bits_of_several_passes(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x.flat[0] = -np.inf
    assert_same_bits(lambda t: t**3.0, x)
    assert_same_bits(lambda t: t**3, x.T)
    assert_same_bits(tk.ops.var, x)


def test_cubes_have_their_gradient():
    x = tk.constant([[2.0, -1.0]])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x**3
    np.testing.assert_array_equal(tape.gradient(y, x), [[12.0, 3.0]])
    np.testing.assert_array_equal(y, x**3)


@pytest.mark.parametrize("size", [1024, 1056, 4096, 16384, 16416, 20_000, 1023, 1025, 1000, 0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_are_added_up_in_numpys_order(size, dtype):
    rng = np.random.default_rng(size)
    x = (rng.standard_normal(size) * 10.0 ** rng.uniform(-3, 3, size)).astype(dtype)
    total = native.vector_sum(x)
    assert (total is None) == (size < 1024 or size % 32 != 0)
    for values in (x, x * 0 - 0.0):
        if total is not None:
            assert bits(native.vector_sum(values)) == bits(np.add.reduce(values))


def test_sums_of_other_arrays_than_vectors_are_left_to_numpy():
    x = np.ones((64, 64), "float32")
    for other in (x, x.reshape(-1)[::2], x.reshape(-1).astype("int32"), x.astype("float16"), 3.0):
        assert native.vector_sum(other) is None


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (4, 2, 16), (9, 33, 50), (70, 200, 35)])
def test_products_of_integers_wrap_around(sizes):
    n, m, p = sizes
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**31), 2**31, (n, m), dtype="int32")
    y = rng.integers(-(2**31), 2**31, (m, p), dtype="int32")
    for a in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        for b in (y, np.asfortranarray(y)):
            assert_same_bits(lambda t, b=b: tk.matmul(t, wrap(b)), a)
            assert np.array_equal(tk.matmul(wrap(a), wrap(b)).numpy(), a @ b)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 32, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_and_means_over_pixels_have_the_bits_of_the_bodies(columns, dtype):
    rng = np.random.default_rng(0)
    for side in (1, 3, 15):
        x = rng.standard_normal((2, side, side, columns)) * 10.0 ** rng.uniform(-3, 3)
        x[0, :, :, 0] = -0.0
        for op in (tk.ops.sum, tk.ops.mean, tk.ops.max, tk.ops.min):
            assert_same_bits(op, x.astype(dtype), axis=(1, 2))
            assert_same_bits(op, x.astype(dtype), axis=(0, 1, 2), keepdims=True)
