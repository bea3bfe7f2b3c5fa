"""Element-wise operations against NumPy over random shapes and dtypes."""

import numpy as np
import pytest
from hypothesis import given

import trainkit as tk
from tests.ops.numpy_compare import (
    FLOATS,
    INTEGERS,
    arrays,
    assert_same,
    broadcasting_pairs,
    example_settings,
    reference,
)
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable

# Operation, NumPy's name, dtypes, least and greatest value.
UNARY = [
    ("abs", "abs", FLOATS + INTEGERS, -50, 50),
    ("negative", "negative", (*FLOATS, "int32", "int64"), -50, 50),
    ("square", "square", (*FLOATS, "int32", "int64"), -50, 50),
    ("sign", "sign", (*FLOATS, "int32"), -50, 50),
    ("sqrt", "sqrt", FLOATS + INTEGERS, 0, 50),
    ("exp", "exp", FLOATS + INTEGERS, -20, 20),
    ("expm1", "expm1", FLOATS, -20, 20),
    ("exp2", "exp2", FLOATS, -20, 20),
    ("log", "log", FLOATS + INTEGERS, 1, 50),
    ("log1p", "log1p", FLOATS, -0.5, 50),
    ("log2", "log2", FLOATS, 0.125, 50),
    ("log10", "log10", FLOATS, 0.125, 50),
    ("cbrt", "cbrt", FLOATS, -50, 50),
    ("reciprocal", "reciprocal", FLOATS, 0.125, 50),
    ("sin", "sin", FLOATS + INTEGERS, -20, 20),
    ("cos", "cos", FLOATS, -20, 20),
    ("tan", "tan", FLOATS, -1.5, 1.5),
    ("arcsin", "arcsin", FLOATS, -1, 1),
    ("arccos", "arccos", FLOATS, -1, 1),
    ("arctan", "arctan", FLOATS, -50, 50),
    ("sinh", "sinh", FLOATS, -10, 10),
    ("cosh", "cosh", FLOATS, -10, 10),
    ("tanh", "tanh", FLOATS, -10, 10),
    ("arcsinh", "arcsinh", FLOATS, -50, 50),
    ("arccosh", "arccosh", FLOATS, 1, 50),
    ("arctanh", "arctanh", FLOATS, -0.875, 0.875),
    ("deg2rad", "deg2rad", FLOATS, -50, 50),
    ("rad2deg", "rad2deg", FLOATS, -50, 50),
    ("sinc", "sinc", FLOATS, -3, 3),
    ("i0", "i0", FLOATS, -10, 10),
    ("floor", "floor", FLOATS + INTEGERS, -50, 50),
    ("ceil", "ceil", FLOATS + INTEGERS, -50, 50),
    ("trunc", "trunc", FLOATS + INTEGERS, -50, 50),
    ("round", "round", FLOATS + INTEGERS, -50, 50),
    ("isfinite", "isfinite", FLOATS + INTEGERS, -50, 50),
    ("isnan", "isnan", FLOATS, -50, 50),
    ("signbit", "signbit", FLOATS + INTEGERS, -50, 50),
    ("logical_not", "logical_not", FLOATS + INTEGERS, -2, 2),
    ("bitwise_not", "bitwise_not", INTEGERS, -50, 50),
    ("real", "real", FLOATS + INTEGERS, -50, 50),
    ("imag", "imag", FLOATS + INTEGERS, -50, 50),
    ("conj", "conj", FLOATS + INTEGERS, -50, 50),
    ("angle", "angle", FLOATS, -50, 50),
    ("nan_to_num", "nan_to_num", FLOATS + INTEGERS, -50, 50),
    ("isreal", "isreal", FLOATS + INTEGERS, -50, 50),
]
BINARY = [
    ("add", "add", FLOATS + INTEGERS, -20, 20),
    ("subtract", "subtract", (*FLOATS, "int32", "int64"), -20, 20),
    ("multiply", "multiply", (*FLOATS, "int32", "int64"), -20, 20),
    ("divide", "divide", FLOATS + INTEGERS, 1, 20),
    ("power", "power", FLOATS, 0.5, 4),
    ("maximum", "maximum", FLOATS + INTEGERS, -20, 20),
    ("minimum", "minimum", FLOATS + INTEGERS, -20, 20),
    ("fmax", "fmax", FLOATS + INTEGERS, -20, 20),
    ("fmin", "fmin", FLOATS + INTEGERS, -20, 20),
    ("floor_divide", "floor_divide", FLOATS + INTEGERS, 1, 20),
    ("mod", "mod", INTEGERS, 1, 20),
    ("fmod", "fmod", INTEGERS, 1, 20),
    ("arctan2", "arctan2", FLOATS, -20, 20),
    ("hypot", "hypot", FLOATS, -20, 20),
    ("logaddexp", "logaddexp", FLOATS, -20, 20),
    ("logaddexp2", "logaddexp2", FLOATS, -20, 20),
    ("equal", "equal", FLOATS + INTEGERS, -2, 2),
    ("not_equal", "not_equal", FLOATS + INTEGERS, -2, 2),
    ("less", "less", FLOATS + INTEGERS, -2, 2),
    ("less_equal", "less_equal", FLOATS + INTEGERS, -2, 2),
    ("greater", "greater", FLOATS + INTEGERS, -2, 2),
    ("greater_equal", "greater_equal", FLOATS + INTEGERS, -2, 2),
    ("logical_and", "logical_and", FLOATS + INTEGERS, -2, 2),
    ("logical_or", "logical_or", FLOATS + INTEGERS, -2, 2),
    ("logical_xor", "logical_xor", FLOATS + INTEGERS, -2, 2),
    ("bitwise_and", "bitwise_and", INTEGERS, -20, 20),
    ("bitwise_or", "bitwise_or", INTEGERS, -20, 20),
    ("bitwise_xor", "bitwise_xor", INTEGERS, -20, 20),
    ("left_shift", "left_shift", ("int32", "int64"), 0, 10),
    ("right_shift", "right_shift", ("int32", "int64"), 0, 10),
    ("gcd", "gcd", INTEGERS, 0, 20),
    ("lcm", "lcm", ("int32", "int64"), 0, 20),
    ("heaviside", "heaviside", FLOATS, -2, 2),
    ("isclose", "isclose", FLOATS + INTEGERS, -2, 2),
]


@pytest.mark.parametrize(("name", "numpy_name", "dtypes", "low", "high"), UNARY, ids=str)
def test_unary_operation_agrees_with_numpy(name, numpy_name, dtypes, low, high):
    @example_settings
    @given(arrays(dtypes, low, high))
    def check(x):
        result = getattr(ops, name)(x)
        assert_same(result, reference(getattr(np, numpy_name), result, x), rtol=2e-5)

    check()


@pytest.mark.parametrize(("name", "numpy_name", "dtypes", "low", "high"), BINARY, ids=str)
def test_binary_operation_broadcasts_like_numpy(name, numpy_name, dtypes, low, high):
    @example_settings
    @given(broadcasting_pairs(dtypes, low, high))
    def check(pair):
        result = getattr(ops, name)(*pair)
        assert_same(result, reference(getattr(np, numpy_name), result, *pair), rtol=2e-5)

    check()


@example_settings
@given(broadcasting_pairs(FLOATS))
def test_where_broadcasts_like_numpy(pair):
    x, y = pair
    assert_same(ops.where(x > 0, x, y), np.where(x > 0, x, y))


@example_settings
@given(arrays(FLOATS + INTEGERS))
def test_clip_agrees_with_numpy(x):
    assert_same(ops.clip(x, 1, 7), np.clip(x, 1, 7))


@example_settings
@given(arrays(FLOATS, min_side=1))
def test_operations_take_variables_lists_arrays_and_numbers_alike(x):
    want = np.add(x, np.float32(1.5))
    for form in (x, convert_to_tensor(x), Variable(x)):
        assert_same(ops.add(form, 1.5), want)
        assert_same(ops.add(1.5, form), want)
    assert_same(ops.add(x.astype("float32").tolist(), 1.5), np.add(x.astype("float32"), 1.5))


# ---------------------------------------------------------------------- what a result is


def test_python_numbers_are_weak():
    half = ops.cast([1.0], "float16")
    assert ops.add(half, 1.5).dtype == "float16"
    assert ops.multiply(2, half).dtype == "float16"
    assert ops.add(ops.cast([1], "uint8"), 3).dtype == "uint8"
    assert ops.add(ops.cast([1], "int64"), 1.5).dtype == "float32"


def test_square_of_bools_counts():
    assert ops.square([True, False]).dtype == "int32"


def test_power_of_a_number_and_itself():
    np.testing.assert_array_equal(ops.power([2, 3], 2).numpy(), [4, 9])
    np.testing.assert_array_equal(ops.power(2, [2, 3]).numpy(), [4, 8])


def test_cast_drops_fractions_and_imaginary_parts():
    np.testing.assert_array_equal(ops.cast([1.7, -1.7], "int32").numpy(), [1, -1])
    np.testing.assert_array_equal(ops.cast([1 + 2j], "float32").numpy(), [1])


def test_saturate_cast_stops_at_the_ends():
    values = [300.0, -5.0, 7.9, np.nan]
    np.testing.assert_array_equal(ops.saturate_cast(values, "uint8").numpy(), [255, 0, 7, 0])
    np.testing.assert_array_equal(
        ops.saturate_cast([1e30, -1e30], "int32").numpy(), [2**31 - 1, -(2**31)]
    )
    np.testing.assert_array_equal(ops.saturate_cast([300, -300], "int8").numpy(), [127, -128])


def test_round_to_places():
    np.testing.assert_allclose(ops.round([1.245, -0.555], 2).numpy(), [1.24, -0.56], atol=0.006)
    np.testing.assert_array_equal(ops.round([125, 135], -1).numpy(), [120, 140])
    assert ops.round([125], -1).dtype == "int32"


def test_divide_no_nan_gives_zero():
    np.testing.assert_array_equal(ops.divide_no_nan([1.0, 2.0], [0.0, 4.0]).numpy(), [0, 0.5])


def test_products_with_zero_are_zero():
    np.testing.assert_array_equal(ops.xlogy([0.0, 1.0], [0.0, 1.0]).numpy(), [0, 0])
    np.testing.assert_array_equal(ops.xlog1py([0.0], [-1.0]).numpy(), [0])
    np.testing.assert_array_equal(ops.xdivy([0.0], [0.0]).numpy(), [0])


def test_nan_to_num_replaces():
    x = [np.nan, np.inf, -np.inf, 1.0]
    np.testing.assert_array_equal(ops.nan_to_num(x, 5.0, 7.0, -7.0).numpy(), [5, 7, -7, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [4, 5000])
def test_nan_to_num_is_the_same_in_graphs(rng, dtype, size):
    x = rng.normal(size=size)
    x[:3] = np.nan, np.inf, -np.inf
    x = ops.cast(x, dtype)
    low, high = x.dtype.limits
    for numbers in ({}, {"nan": 2, "posinf": 3.0}, {"nan": tk.constant(2.0, dtype), "neginf": -1}):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = ops.nan_to_num(x, **numbers)
        assert y.dtype is x.dtype
        expected = [float(numbers.get(name, number)) for name, number in
                    (("nan", 0), ("posinf", high), ("neginf", low))]  # fmt: skip
        np.testing.assert_array_equal(y.numpy()[:3].astype(float), expected)
        assert y.numpy()[3:].tobytes() == x.numpy()[3:].tobytes()
        np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [0, 0, 0] + [1] * (size - 3))
        compiled = tk.function(lambda x, numbers=numbers: ops.nan_to_num(x, **numbers))
        for _ in range(2):
            assert compiled(x).numpy().tobytes() == y.numpy().tobytes()


def test_isclose_knows_infinity_and_nan():
    x, y = [np.inf, np.nan, 1.0], [np.inf, np.nan, 1.0 + 1e-7]
    np.testing.assert_array_equal(ops.isclose(x, y).numpy(), [True, False, True])
    np.testing.assert_array_equal(ops.isclose(x, y, equal_nan=True).numpy(), [True] * 3)
    assert not bool(ops.allclose(x, y))


def test_copysign_and_nextafter():
    np.testing.assert_array_equal(ops.copysign([1.0, -2.0], [-0.0, 3.0]).numpy(), [-1, 2])
    assert ops.nextafter(np.float32(1), np.float32(2)).numpy() == np.nextafter(
        np.float32(1), np.float32(2)
    )


def test_ldexp_scales_by_powers_of_two():
    np.testing.assert_array_equal(ops.ldexp([1.0, 3.0], [2, -1]).numpy(), [4, 1.5])
    with pytest.raises(TypeError, match="integer"):
        ops.ldexp([1.0], [2.0])


def test_complex_parts():
    z = np.array([3 + 4j, -1 - 1j])
    assert_same(ops.abs(z), np.abs(z))
    assert_same(ops.angle(z), np.angle(z.astype("complex64")))
    assert_same(tk.math.angle(z), np.angle(z))
    assert_same(ops.real(z), z.real)
    assert_same(ops.imag(z), z.imag)
    np.testing.assert_allclose(ops.polar(np.abs(z), np.angle(z)).numpy(), z)
    np.testing.assert_array_equal(ops.view_as_complex(ops.view_as_real(z)).numpy(), z)
    np.testing.assert_array_equal(ops.isreal([1j, 1 + 0j]).numpy(), [False, True])


@pytest.mark.parametrize("call", [lambda f: f, tk.function], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_angle_of_minus_zero_is_that_of_zero(call, dtype):
    x = tk.cast([-0.0, 0.0, -1.0, 2.0, float("nan"), -np.inf], dtype)
    for angle in (ops.angle, tk.math.angle):
        expected = np.array([0.0, 0.0, np.pi, 0.0, np.nan, np.pi])
        angles = call(angle)(x)
        assert angles.dtype == dtype
        np.testing.assert_allclose(tk.cast(angles, "float64"), expected, rtol=4e-3)
        products = call(lambda x, angle=angle: angle(x * 0.0))(x[:4])
        assert products.numpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("call", [lambda f: f, tk.function], ids=["eager", "function"])
def test_angles_and_pairs_have_the_dtypes_of_keras(call):
    def angle(x):
        return call(lambda: ops.angle(x))()

    def pairs(x):
        return call(lambda: ops.view_as_complex(x))()

    for dtype, expected in [
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int32", "float32"),
        ("complex64", "float32"),
        ("complex128", "float32"),
    ]:
        x = tk.cast([[1.0, 2.0]], dtype)
        assert angle(x).dtype == expected
        if not x.dtype.is_complex:
            assert pairs(x).dtype == "complex64"
            assert pairs(x).tolist() == [1 + 2j]
    x = tk.constant([1.0 + 1.0j])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = call(ops.angle)(x)
    assert tape.gradient(y, x).dtype == x.dtype == "complex128"
    assert tk.math.angle(x).dtype == "float64"


# ---------------------------------------------------------------------- gradients at kinks


def gradients(function, *values):
    tensors = [convert_to_tensor(v) for v in values]
    with GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return [None if g is None else g.numpy().tolist() for g in tape.gradient(y, tensors)]


def test_gradient_at_ties_goes_to_the_first():
    assert gradients(ops.maximum, [1.0, 2.0], [1.0, 3.0]) == [[1, 0], [0, 1]]
    assert gradients(ops.minimum, [1.0, 2.0], [1.0, 3.0]) == [[1, 1], [0, 0]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("size", [0, 10, 9000])
def test_clip_of_integers(rng, dtype, size):
    x = rng.integers(0, 100, size).astype(dtype)
    for low, high in [(20, 50), (50, 20), (0, 0)]:
        clipped = ops.clip(x, low, high)
        assert clipped.dtype == dtype
        np.testing.assert_array_equal(clipped, np.clip(x, low, max(low, high)))
        turned = ops.clip(tk.transpose(tk.constant(x.reshape(-1, 5))), low, high)
        np.testing.assert_array_equal(turned, clipped.numpy().reshape(-1, 5).T)
    assert ops.clip(x, 20.0, 50).dtype == "float32"


def test_gradient_of_clip_stops_outside():
    assert gradients(lambda x: ops.clip(x, -1.0, 1.0), [-2.0, -1.0, 0.0, 1.0, 2.0]) == [
        [0, 1, 1, 1, 0]
    ]


def test_gradient_of_power_at_zero():
    assert gradients(ops.power, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0]) == [
        [0, 0, 0],
        [0, 0, pytest.approx(np.log(2))],
    ]


def test_gradient_of_divide_no_nan_is_zero_at_zero():
    assert gradients(ops.divide_no_nan, [1.0, 2.0], [0.0, 4.0]) == [[0, 0.25], [0, -0.125]]


def test_rounding_has_no_gradient():
    for op in (ops.floor, ops.ceil, ops.round, ops.trunc):
        assert gradients(op, [1.5]) == [None]


# ---------------------------------------------------------------------- bad input


def test_shapes_that_do_not_broadcast_are_shown():
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(4,\)"):
        ops.add(np.zeros((2, 3)), np.zeros(4))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("op", [ops.floor_divide, ops.mod, ops.fmod])
def test_integer_division_by_zero_raises(op):
    with pytest.raises(InvalidArgumentError, match="by zero"):
        op([1, 2], [1, 0])


def test_integer_to_a_negative_power_raises():
    with pytest.raises(InvalidArgumentError, match="power"):
        ops.power([2], [-1])


def test_bits_of_floats_raise():
    with pytest.raises(InvalidArgumentError, match="bitwise_and"):
        ops.bitwise_and([1.0], [2.0])


def test_where_needs_both_or_neither():
    with pytest.raises(InvalidArgumentError, match="both"):
        ops.where([True], [1.0])


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("exponent", [2, 3, 2.0, 3.0])
def test_small_powers_are_products_of_the_dtype_of_other_powers(dtype, exponent):
    values = np.array([-2, 0, 3], dtype)
    y = convert_to_tensor(values) ** exponent
    np.testing.assert_array_equal(y.numpy(), values ** int(exponent))
    assert y.dtype == (convert_to_tensor(values) ** type(exponent)(4)).dtype


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_saturate_cast_without_a_dtype_gives_the_default_float(dtype):
    assert ops.saturate_cast(np.ones(2, dtype), None).dtype == "float32"


def test_ldexp_keeps_zeros_and_infinities():
    x = np.array([0.0, -0.0, np.inf, -np.inf, 1.5], "float32")
    powers = np.array([2000, 2000, -2000, -2000, 3])
    np.testing.assert_array_equal(ops.ldexp(x, powers), [0, -0.0, np.inf, -np.inf, 12])


@pytest.mark.parametrize("dtype", ["int32", "float16", "float64", "complex64"])
def test_view_as_real_of_any_number(dtype):
    x = tk.constant(np.array([1, 3], dtype) * (1j if dtype == "complex64" else 1))
    pairs = [[0, 1], [0, 3]] if dtype == "complex64" else [[1, 0], [3, 0]]
    assert ops.view_as_real(x).numpy().tolist() == pairs
    assert ops.view_as_real(x).dtype == ("float32" if dtype == "complex64" else dtype)
    if dtype != "int32":
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(ops.view_as_real(x) ** 2)
        gradient = tape.gradient(y, x)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, 2 * x.numpy())


def test_a_normalized_scalar_is_a_vector_of_length_one():
    assert ops.normalize(-2.5).numpy().tolist() == [-1]
    assert ops.normalize(-2.5, order=1).numpy().tolist() == [-1]


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_bools_are_not_shifted_by_bools(name):
    flags = tk.constant([True, False])
    for run in (lambda f: f, tk.function):
        for call in (getattr(tk.bitwise, name), getattr(tk.ops, name)):
            with pytest.raises(InvalidArgumentError, match="bools have no bits to move"):
                run(call)(flags, flags)
    assert getattr(tk.ops, name)(flags, 1).dtype == "int32"
