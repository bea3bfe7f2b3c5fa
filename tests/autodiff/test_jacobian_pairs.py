import numpy as np
import pytest

import trainkit as tk

compute_gradient = tk.test.compute_gradient


def test_jacobians_of_each_argument_are_tensorflows():
    theoretical, numerical = compute_gradient(lambda x, y: x * x * y, [[1.0, 2.0], 3.0])
    for jacobians in (theoretical, numerical):
        assert len(jacobians) == 2
        assert {j.dtype.name for j in jacobians} == {"float32"}
        np.testing.assert_allclose(jacobians[0], [[6, 0], [0, 12]], atol=1e-3)
        np.testing.assert_allclose(jacobians[1], [[1], [4]], atol=1e-3)


def test_complex_numbers_are_pairs():
    x = tk.constant([1 + 2j], tk.complex128)
    for (jacobian,) in compute_gradient(lambda x: x * x, [x]):
        np.testing.assert_allclose(jacobian, [[2, -4], [4, 2]], atol=1e-9)
    for (jacobian,) in compute_gradient(tk.math.real, [x]):
        np.testing.assert_allclose(jacobian, [[1, 0]], atol=1e-9)
    for (jacobian,) in compute_gradient(lambda x: tk.complex(x, 2 * x), [tk.constant([3.0])]):
        np.testing.assert_allclose(jacobian, [[1], [2]], atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_jacobians_have_the_dtype_of_the_argument(dtype):
    for (jacobian,) in compute_gradient(lambda x: x * x, [tk.constant([1.0], dtype)], 1 / 8):
        assert jacobian.dtype == tk.as_dtype(dtype).as_numpy_dtype
        assert jacobian.tolist() == [[2]]


def test_the_step_is_delta():
    theoretical, numerical = compute_gradient(lambda x: x * x * x, [1.0], delta=0.5)
    assert theoretical[0].tolist() == [[3]]
    assert numerical[0].tolist() == [[3.25]]


def test_a_wrong_rule_is_seen():
    @tk.custom_gradient
    def square(x):
        return x * x, lambda g: g * x

    theoretical, numerical = compute_gradient(square, [3.0])
    assert theoretical[0].tolist() == [[3]]
    np.testing.assert_allclose(numerical[0], [[6]], atol=1e-3)


def test_what_has_no_gradient_has_zeros():
    theoretical, numerical = compute_gradient(tk.stop_gradient, [1.0])
    assert (theoretical[0].tolist(), numerical[0].tolist()) == ([[0]], [[1]])


def test_sizes_of_0():
    for (jacobian,) in compute_gradient(lambda x: x[:0], [[1.0]]):
        assert jacobian.shape == (0, 1)
    for (jacobian,) in compute_gradient(tk.reduce_sum, [np.zeros(0, "f")]):
        assert jacobian.shape == (1, 0)


def test_functions_compiled_and_rows_named_twice():
    for (jacobian,) in compute_gradient(tk.function(lambda x: tk.gather(x, [1, 1])), [[1.0, 2, 3]]):
        np.testing.assert_allclose(jacobian, [[0, 1, 0], [0, 1, 0]], atol=1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compute_gradient(tk.exp, tk.constant(1.0)), "list or tuple of f's arguments"),
        (lambda: compute_gradient(lambda x, i: x, [1.0, 2]), "argument 1 must be .* got int32"),
        (lambda: compute_gradient(lambda x: (x, x), [1.0]), "one tensor .* got tuple"),
        (lambda: compute_gradient(lambda x: x > 0, [1.0]), "got bool"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, words):
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        call()


def test_machines(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    available = tk.test.is_cpu_target_available
    assert available("x86")
    assert available("x86_64")
    assert not available("aarch64")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert available("aarch64")
    assert not available("x86")
    with pytest.raises(ValueError, match="'avx' is none of 'x86', 'x86_64'"):
        available("avx")


def test_what_it_is_built_with():
    assert tk.test.is_built_with_rocm() is tk.test.is_built_with_xla() is False
    assert tk.test.is_built_with_gpu_support() is tk.test.is_built_with_cuda()
    assert {"compute_gradient", "TestCase", "is_built_with_xla"} <= set(dir(tk.test))
