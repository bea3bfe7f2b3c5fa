"""A function, layer or model of trainkit in a program of JAX."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.interop.jax_arrays import tensor_of

jax = pytest.importorskip("jax")
jnp = jax.numpy


def squares(x):
    return tk.reduce_sum(tk.sin(x) ** 2)


def test_values_and_gradients_with_and_without_jit():
    fn = tk.interop.jax_function(squares)
    x = jnp.arange(4.0)
    for run in (lambda f: f, jax.jit):
        np.testing.assert_allclose(run(fn)(x), np.sum(np.sin(x) ** 2), rtol=1e-6)
        np.testing.assert_allclose(run(jax.grad(fn))(x), np.sin(2 * x), atol=1e-6)


def test_second_derivatives_and_vmap():
    fn = tk.interop.jax_function(squares)
    x = jnp.arange(4.0)
    np.testing.assert_allclose(jax.jacrev(jax.grad(fn))(x), np.diag(2 * np.cos(2 * x)), atol=1e-6)
    rows = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(jax.vmap(fn)(rows), np.sum(np.sin(rows) ** 2, 1), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(fn)))(rows), np.sin(2 * rows), atol=1e-6)


def test_nests_none_and_python_values():
    seen = []

    def fn(x, scale, mode, flag=False):
        seen.append((mode, flag))
        return {"y": x["a"] * scale, "none": None, "rest": (tk.argmax(x["a"]), 3)}

    wrapped = tk.interop.jax_function(fn)
    result = wrapped({"a": jnp.array([1.0, 5.0])}, 2.0, "text", flag=True)
    assert result["none"] is None
    assert result["y"].tolist() == [2.0, 10.0]
    assert [int(y) for y in result["rest"]] == [1, 3]
    assert set(seen) == {("text", True)}
    grads = jax.grad(lambda x, s: wrapped({"a": x}, s, "m")["y"].sum(), (0, 1))
    gx, gs = grads(jnp.array([1.0, 5.0]), 2.0)
    assert gx.tolist() == [2.0, 2.0]
    assert float(gs) == 6.0


def test_integers_bools_and_what_is_not_used_have_no_gradient():
    fn = tk.interop.jax_function(lambda x, k, m, z: tk.gather(x, k) * tk.cast(m, "float32"))
    k, m = jnp.array([0, 0, 1]), jnp.array([True, True, False])
    gx, gz = jax.grad(lambda x, z: fn(x, k, m, z).sum(), (0, 1))(jnp.ones(2), jnp.ones(3))
    assert gx.tolist() == [2.0, 0.0]
    assert gz.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "complex64"])
def test_dtypes_stay(dtype):
    fn = tk.interop.jax_function(lambda x: x * x * x)
    x = jnp.array([1.0, 2.0]).astype(dtype) * (1 + 2j if dtype == "complex64" else 1)
    y, back = jax.vjp(fn, x)
    expected, reference = jax.vjp(lambda x: x * x * x, x)
    assert y.dtype == expected.dtype == dtype
    seed = jnp.ones_like(y) * (1 - 1j if dtype == "complex64" else 1)
    np.testing.assert_allclose(back(seed)[0], reference(seed)[0], rtol=1e-2)
    assert back(seed)[0].dtype == dtype


def test_sizes_of_zero_large_arrays_and_scalars():
    fn = tk.interop.jax_function(lambda x: x * 2.0)
    assert fn(jnp.zeros((0, 3))).shape == (0, 3)
    assert float(fn(3.0)) == 6.0
    big = jnp.ones((1500, 1500))
    assert float(jax.jit(lambda x: fn(x @ x)[0, 0] + fn(x).sum())(big)) == 3000 + 2 * 1500**2


def test_wide_results_are_as_jax_has_them():
    assert tk.interop.jax_function(lambda x: tk.cast(x, "float64"))(jnp.ones(2)).dtype == "float32"


def test_what_can_not_be_done_is_refused_in_words():
    x = jnp.ones(2)
    weight = tk.Variable(2.0, name="weight")
    with pytest.raises(ValueError, match=r"trainable variables \['weight:0'\]"):
        tk.interop.jax_function(lambda x: x * weight)(x)
    with pytest.raises(Exception, match="bool") as raised:
        tk.interop.jax_function(lambda x: x * 2 if x[0] > 0 else x)(x)
    assert "without values" in raised.value.__notes__[0]
    with pytest.raises(tk.errors.InvalidArgumentError, match="sizes depend on values"):
        tk.interop.jax_function(lambda x: tk.boolean_mask(x, x > 0))(x)
    with pytest.raises(tk.errors.InvalidArgumentError, match="float8_e4m3fn, which trainkit has"):
        tk.interop.jax_function(lambda x: x)(x.astype("float8_e4m3fn"))
    with pytest.raises(TypeError, match="jvp"):
        jax.jvp(tk.interop.jax_function(squares), (x,), (x,))
    with pytest.raises(TypeError, match="give a function, layer or model, got 3"):
        tk.interop.jax_function(3)
    with pytest.raises(ValueError, match="not built"):
        tk.interop.jax_function(tk.layers.Dense(1))


def test_a_model_takes_its_variables_and_gives_them_back():
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3), tk.layers.BatchNormalization()])
    before = model.get_weights()
    fn = tk.interop.jax_function(model)
    trainable, other = fn.trainable_variables(), fn.non_trainable_variables()
    x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")

    def loss(trainable):
        y, after = fn(trainable, other, jnp.asarray(x), training=True)
        return (y**3).sum(), after

    grads, after = jax.jit(jax.grad(loss, has_aux=True))(trainable)
    with tk.GradientTape() as tape:
        value = tk.reduce_sum(model(x, training=True) ** 3)
    for g, expected in zip(grads, tape.gradient(value, model.trainable_variables), strict=True):
        np.testing.assert_allclose(g, expected.numpy(), rtol=1e-4, atol=1e-4)
    for a, v in zip(after, model.non_trainable_variables, strict=True):
        np.testing.assert_allclose(a, v.numpy(), rtol=1e-5)
    assert not np.array_equal(after[0], other[0])
    for a, w in zip(trainable, before[: len(trainable)], strict=True):
        np.testing.assert_array_equal(a, w)


def test_arrays_are_read_where_they_lie():
    def fn(x):
        return tk.reduce_sum(tk.cumsum(x)[-1:]) + tk.reduce_sum(x)

    x = jnp.ones(1_000_000)
    assert float(tk.interop.jax_function(fn)(x)) == 2e6
    assert float(jax.grad(tk.interop.jax_function(fn))(x)[0]) == 2.0
    shared = tensor_of(x, "test")
    assert np.asarray(shared).ctypes.data == np.asarray(x).ctypes.data
    row = tensor_of(jnp.ones((2, 3), "bfloat16"), "test")
    assert (row.dtype.name, tuple(row.shape)) == ("bfloat16", (2, 3))


def test_results_stay_when_a_variable_changes():
    state = tk.Variable(np.ones(1000, "float32"), trainable=False)
    fn = tk.interop.jax_function(lambda x: (state.value(), x))
    x = jnp.ones(1000)
    value, same = fn(x)
    state.assign_add(np.ones(1000, "float32"))
    assert (value == 1.0).all()
    assert (fn(x)[0] == 2.0).all()
    assert np.asarray(same).ctypes.data != np.asarray(x).ctypes.data
