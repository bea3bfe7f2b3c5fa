"""The compiled half of the eager path gives what the Python functions behind it give."""

import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.core import dtypes
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES, Tensor, wrap
from trainkit.core.tensor_shape import TensorShape

needs_native = pytest.mark.skipif(native.NATIVE is None, reason=str(native.FAILURE))
UFUNCS = sorted(name for name, p in PRIMITIVES.items() if p.is_ufunc)
ONE = [name for name in UFUNCS if PRIMITIVES[name].kernel.nin == 1]
TWO = [name for name in UFUNCS if PRIMITIVES[name].kernel.nin == 2]

VALUES = [0.0, -0.0, 0.5, -1.25, 3.0, 1e-40, 1e30, np.inf, -np.inf, np.nan]
SHAPES = [(), (1,), (3,), (17,), (0,), (0, 3), (4, 3), (2, 4, 3), (5000,), (1, 1), (4, 1)]


def values(shape, seed):
    drawn = np.random.default_rng(seed).choice(VALUES, shape)
    return np.asarray(drawn)


def laid_out(array, how):
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "strided" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if how == "scalar" and array.ndim == 0:
        return array[()]
    return array


def tensor(shape, seed, dtype, how):
    y = Tensor()
    y._array = laid_out(values(shape, seed).astype(dtype), how)
    return y


def both_ways(run):
    """What a call gives with the compiled half and without it: arrays, or the error's text."""
    found = []
    for on in (True, False):
        before = native.switch(on)
        try:
            found.append(run())
        except Exception as error:
            found.append((type(error), str(error)))
        finally:
            native.switch(before)
    return found


def same(a, b):
    if type(a) is tuple or type(b) is tuple:
        assert a == b
        return
    a, b = a.numpy(), b.numpy()
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


layouts = st.sampled_from(["plain", "fortran", "strided", "scalar"])
floats = st.sampled_from(["float32", "float64"])
numbers = st.sampled_from([0, 1, -3, 2.5, -0.0, 1e300, float("nan"), 2**53 + 1, 10**40, True, 1j])


@needs_native
@pytest.mark.parametrize("name", ONE)
@settings(max_examples=25)
@given(shape=st.sampled_from(SHAPES), dtype=floats, how=layouts, seed=st.integers(0, 99))
def test_ufuncs_of_one_input_give_the_same_bits(name, shape, dtype, how, seed):
    x = tensor(shape, seed, dtype, how)
    same(*both_ways(lambda: PRIMITIVES[name].op(x)))


@needs_native
@pytest.mark.parametrize("name", TWO)
@settings(max_examples=25)
@given(data=st.data())
def test_ufuncs_of_two_inputs_give_the_same_bits(name, data):
    inputs = []
    for seed in (1, 2):
        shape, dtype = data.draw(st.sampled_from(SHAPES)), data.draw(floats)
        inputs.append(tensor(shape, seed, dtype, data.draw(layouts)))
    place = data.draw(st.sampled_from([None, None, 0, 1]))
    if place is not None:
        inputs[place] = data.draw(numbers)
    same(*both_ways(lambda: PRIMITIVES[name].op(*inputs)))


@needs_native
@given(data=st.data())
def test_products_of_matrices_give_the_same_bits(data):
    n, m, k, p = (data.draw(st.integers(0, 9)) for _ in range(4))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "int8"]))
    k = m if data.draw(st.integers(0, 5)) else k
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = []
    for shape in ((n, m), (k, p)):
        scale = 2.0 ** (5 if dtype == "int8" else 28)
        array = (rng.standard_normal(shape).clip(-3, 3) * scale).astype(dtype)
        inputs.append(Tensor())
        inputs[-1]._array = laid_out(array, data.draw(layouts))
    same(*both_ways(lambda: tk.matmul(*inputs)))


@needs_native
def test_errors_are_those_of_the_python_functions():
    a, b = tk.ones((2, 3)), tk.ones((4, 5))
    for run in (lambda: a + b, lambda: tk.matmul(a, b), lambda: tk.exp("text")):
        found, expected = both_ways(run)
        assert type(found) is tuple
        assert found == expected


@needs_native
def test_functions_have_names_and_texts():
    add = PRIMITIVES["add"].op
    assert add.__name__ == "add"
    assert add.__doc__
    assert isinstance(add.__wrapped__, types.FunctionType)
    assert add(x1=tk.constant(1.0), x2=tk.constant(2.0)).numpy() == 3


def test_missing_and_superfluous_arguments_name_the_operation(way):
    x = tk.constant([[1.0]])
    for name in ("add", "matmul"):
        op = PRIMITIVES[name].op
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 1 .*'x2'"):
            op(x)
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 1 .*'x1'"):
            op(x2=x)
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 2"):
            op()
        with pytest.raises(TypeError, match=rf"{name}\(\) takes 2 .*3 were given"):
            op(x, x, x)
    for name in ("exp", "relu"):
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 1"):
            PRIMITIVES[name].op()
        with pytest.raises(TypeError, match=rf"{name}\(\) takes 1 .*2 were given"):
            PRIMITIVES[name].op(x, x)


# ---------------------------------------------------------------------- tapes


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def way(request):
    if request.param and native.NATIVE is None:
        pytest.skip(str(native.FAILURE))
    before = native.switch(request.param)
    yield request.param
    native.switch(before)


def test_what_was_recorded_is_the_same(way):
    x = tk.constant([1.0, 2.0])
    w = tk.Variable([3.0, 4.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = w * x + 2.0
        tk.exp(x)
        _ = 1.0 + tk.constant(2.0)
        assert (x > 1.0).numpy().tolist() == [False, True]
    assert [(entry[0].name, len(entry[1])) for entry in tape.entries] == [
        ("multiply", 2),
        ("add", 2),
        ("exp", 1),
    ]
    assert tape.entries[1][1][1] == 2.0
    assert [e.how for e in tape.exits] == ["greater"]
    found = tape.gradient(y, [x, w])
    assert [g.numpy().tolist() for g in found] == [[3.0, 4.0], [1.0, 2.0]]


def test_another_threads_tape_hears_nothing(way):
    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: x * x)
        thread.start()
        thread.join()
    assert tape.entries == []


def test_sums_are_not_made_in_arrays_that_others_hold(way):
    given = tk.constant(np.full(32, 2.0, "float32"))
    x = tk.constant(np.ones(32, "float32"))
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x + x
        z = y + x + x * 3.0
    first = tape.gradient(z, [x, y], output_gradients=given)
    second = tape.gradient(z, [x, y], output_gradients=given)
    assert given.numpy().tolist() == [2.0] * 32
    for found in (first, second):
        assert [g.numpy()[0] for g in found] == [12.0, 2.0]


def test_gradients_pass_numbers_broadcasts_and_strides(way):
    x = tk.constant(np.arange(6, dtype="float32").reshape(2, 3) + 1)
    b = tk.Variable([1.0, 2.0, 3.0])
    s = tk.Variable(2.0)

    def run():
        y = tk.transpose(x * b) / 2.0 - 1.0
        return tk.reduce_sum(tk.tanh(3.0 / (s * y + 7.0)) * tk.transpose(x + s))

    with tk.GradientTape() as tape:
        tape.watch(x)
        loss = run()
    found = tape.gradient(loss, [x, b, s])
    with tk.GradientTape(persistent=True):  # one that listens keeps the backward pass on tensors
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = run()
        expected = tape.gradient(loss, [x, b, s])
    for a, e in zip(found, expected, strict=True):
        assert a.shape == e.shape
        np.testing.assert_array_equal(a.numpy(), e.numpy())


@needs_native
def test_gradient_rules_that_are_given_later_are_taken(monkeypatch):
    prim = PRIMITIVES["exp"]
    monkeypatch.setattr(prim, "rules", prim.rules)
    monkeypatch.setattr(prim, "array_vjps", None)
    x = tk.constant([1.0])

    def slope():
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.exp(x)
        return tape.gradient(y, x).numpy()[0]

    assert slope() == pytest.approx(np.e)
    prim.op.gradients(lambda g, y, x: g * 5.0)
    assert slope() == 5.0


# ---------------------------------------------------------------------- its door


def printed(code, **environment):
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_TRY = """
import trainkit as tk
from trainkit.core import dtypes
from trainkit.core.dispatch import native
x = tk.Variable(3.0)
with tk.GradientTape() as tape:
    y = x * x
print(native.NATIVE, native.FAILURE, float(tape.gradient(y, x)))
"""


def test_it_can_be_turned_off():
    assert printed(_TRY, TRAINKIT_NATIVE="0") == "None TRAINKIT_NATIVE=0 is set 6.0"


_BROKEN = """
import importlib.machinery, sys, types, warnings

class Broken:  # a compiled module that raises {error} in {where}
    def find_spec(self, name, path=None, target=None):
        if name == "trainkit.core.dispatch._native":
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        module.VERSION = {version}
        module.bind = module.bind_tape = module.bind_properties = lambda *given: None
        module.switch = module.trust_counts = module.sole_array = lambda given: False
        module.use_huge_pages = lambda given: None
        module.is_on = lambda: False
        def fail(*given):
            raise {error}("an integer is required")
        for name in {made}:
            setattr(module, name, fail)
        if {where!r} == "import":
            fail()
        elif {where!r} != "op":
            setattr(module, {where!r}, fail)

sys.meta_path.insert(0, Broken())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import trainkit
assert ["compiled half" in str(w.message) for w in caught].count(True) == 1, caught
"""
_MADE = ["unary_ufunc", "binary_ufunc", "unary", "binary", "general", "matmul"]


@pytest.mark.parametrize("error", ["TypeError", "SystemError"])
@pytest.mark.parametrize(
    "where",
    ["import", "use_huge_pages", "trust_counts", "sole_array", "bind", "bind_properties", "op"],
)
def test_a_failure_of_the_compiled_half_keeps_nothing_from_working(where, error):
    code = _BROKEN.format(where=where, error=error, made=_MADE, version=native.VERSION) + _TRY
    assert printed(code, TRAINKIT_NATIVE="1") == f"None {error}: an integer is required 6.0"


def test_one_that_was_compiled_for_another_version_is_not_taken():
    name = "trainkit.core.dispatch._native"
    fake = f"import sys, types\nfake = types.ModuleType('{name}')\nfake.VERSION = 0\n"
    code = fake + f"sys.modules['{name}'] = fake\n" + _TRY
    assert (
        printed(code, TRAINKIT_NATIVE="1")
        == f"None it was compiled for another trainkit (0, not {native.VERSION}) 6.0"
    )


@pytest.mark.parametrize("dims", [(), (3,), (0, 2), (1, 2, 3, 4, 5)])
def test_shapes_and_dtypes_are_those_of_python(dims):
    properties = {name: getattr(Tensor, name).fget for name in ("shape", "dtype")}
    arrays = [np.zeros(dims, d.dtype) for d in dtypes.ALL if d.dtype.kind != "O"]
    for array in (*arrays, np.float32(1), np.bool_(True), np.zeros(dims).T):
        x = wrap(array)
        assert type(properties["shape"](x)) is TensorShape
        assert x.shape == TensorShape(array.shape)
        assert all(type(n) is int for n in x.shape)
        assert x.dtype is dtypes.as_dtype(array.dtype)
    for getter in properties.values():
        with pytest.raises(AttributeError):
            getter(3)
        with pytest.raises(AttributeError):
            getter(Tensor())
