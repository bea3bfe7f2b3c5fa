"""The kernel that updates many weights of a GPU at once, compiled as C++ and by nvcc."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.kernels.cuda.nvcc import NEEDS_NVCC, machine_code_by_name, separated
from tests.stand_in.kernels import RawKernel, has_compiler
from trainkit.kernels.jit import kernel_family
from trainkit.optimizers.base import update_cuda

RULES = {
    "sgd": lambda: tk.optimizers.SGD(0.1),
    "momentum": lambda: tk.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: tk.optimizers.Adam(0.01),
    "amsgrad": lambda: tk.optimizers.Adam(0.01, amsgrad=True),
    "adamw": lambda: tk.optimizers.AdamW(0.01, clipnorm=1.0),
    "adamax": lambda: tk.optimizers.Adamax(0.01),
    "nadam": lambda: tk.optimizers.Nadam(0.01),
    "rmsprop": lambda: tk.optimizers.RMSprop(0.01, momentum=0.9, centered=True),
    "adagrad": lambda: tk.optimizers.Adagrad(0.1),
    "adadelta": lambda: tk.optimizers.Adadelta(0.1),
    "lion": lambda: tk.optimizers.Lion(0.01),
}
SHAPES = [(), (1,), (3, 5), (0, 4), (update_cuda.PIECE + 7,), (2, update_cuda.PIECE)]


@pytest.fixture
def launches(monkeypatch):
    """The stand-in, with kernels on; gives the number of blocks of each launch."""
    if not has_compiler():
        pytest.skip("g++ is not here")
    found = []
    call = RawKernel.__call__
    monkeypatch.setattr(
        RawKernel, "__call__", lambda self, *a, **k: (found.append(a[0][0]), call(self, *a, **k))
    )
    kernel_family.set_mode("hot")
    with stand_in.in_place():
        yield found


def stepped(device, rule, shapes, dtype, steps=3):
    rng = np.random.default_rng(0)
    with tk.device(device):
        made = rule()
        weights = [tk.Variable(rng.normal(size=s).astype(dtype)) for s in shapes]
        for _ in range(steps):
            grads = [tk.constant(rng.normal(size=s).astype(dtype)) for s in shapes]
            made.apply(grads, weights)
        slots = [slot.numpy() for _, _, slot in made.slot_variables()]
        return [w.numpy() for w in weights] + slots


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_one_launch_gives_the_bits_of_the_cpu(launches, rule, dtype):
    here = stepped("/gpu:0", RULES[rule], SHAPES, dtype)
    assert launches == [7] * 3  # 1 + 1 + 1 + 0 + 2 + 2 pieces
    kernel_family.set_mode("off")
    for a, b in zip(here, stepped("/cpu:0", RULES[rule], SHAPES, dtype), strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_weights_take_some_launches(launches):
    shapes = [(i % 5 + 1,) for i in range(2 * update_cuda.MOST_WEIGHTS + 3)]
    here = stepped("/gpu:0", RULES["adam"], shapes, "float32", 1)
    assert launches == [update_cuda.MOST_WEIGHTS, update_cuda.MOST_WEIGHTS, 3]
    for a, b in zip(here, stepped("/cpu:0", RULES["adam"], shapes, "float32", 1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_values_that_were_read_stay(launches):
    weight, rule = tk.Variable([1.0, 2.0]), tk.optimizers.SGD(1.0)
    before = weight.value()
    rule.apply([tk.constant([1.0, 1.0])], [weight])
    kept = weight.value()
    rule.apply([tk.constant([1.0, 1.0])], [weight])
    found = [x.numpy().tolist() for x in (before, kept, weight)]
    assert found == [[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]]
    assert len(launches) == 2


def test_gradients_in_another_order_are_brought_in_order(launches):
    weight, rule = tk.Variable(np.zeros((2, 3), "float32")), tk.optimizers.SGD(1.0)
    rule.apply([tk.transpose(tk.constant(np.arange(6, dtype="float32").reshape(3, 2)))], [weight])
    assert (-weight.numpy()).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert len(launches) == 1


def test_short_weights_and_rules_of_other_kinds_go_operation_by_operation(launches):
    weight = tk.Variable(np.zeros(3, "float16"))
    tk.optimizers.SGD(1.0).apply([tk.constant(np.ones(3, "float16"))], [weight])
    table = tk.Variable(np.eye(3, dtype="float32"))
    tk.optimizers.Muon(0.1).apply([tk.constant(np.eye(3, dtype="float32"))], [table])
    assert launches == []
    assert weight.numpy().tolist() == [-1.0] * 3


def test_with_kernels_off_there_is_none(launches):
    kernel_family.set_mode("off")
    stepped("/gpu:0", RULES["adam"], SHAPES, "float32")
    assert launches == []


def test_without_a_compiler_it_goes_operation_by_operation_and_says_so(launches, monkeypatch):
    def fails(self):
        raise RuntimeError("no NVRTC here")

    monkeypatch.setattr(RawKernel, "compile", fails)
    monkeypatch.setattr("trainkit.kernels.cuda.raw_kernel._COMPILED", {})
    weight, rule = tk.Variable([1.0]), tk.optimizers.SGD(1.0)
    with pytest.warns(RuntimeWarning, match=r"can't be compiled here \(RuntimeError: no NVRTC"):
        rule.apply([tk.constant([1.0])], [weight])
    rule.apply([tk.constant([1.0])], [weight])
    assert weight.numpy().tolist() == [-1.0]


def test_weights_that_begin_within_a_word_are_updated_one_by_one(launches):
    import cupy

    whole = np.arange(40, dtype="float32")
    for start in (0, 1, 3):
        rule = tk.optimizers.SGD(1.0, momentum=0.9)
        parts = [cupy.asarray(whole)[start : start + 33] for _ in range(3)]
        rule.apply([tk.constant(np.ones(33, "float32"))], [tk.Variable(np.ones(33, "float32"))])
        (kernel,) = rule._programs._kernels.values()
        scalars = [1.0, 0.9][: len(kernel.program.scalars)]
        assert kernel.update([parts], scalars)
        expected = whole[start : start + 33]
        assert not np.array_equal(parts[0].get(), expected)
        twin = [cupy.asarray(whole[start : start + 33].copy()) for _ in range(3)]
        kernel.update([twin], scalars)
        for a, b in zip(parts, twin, strict=True):
            np.testing.assert_array_equal(a.get(), b.get())


@NEEDS_NVCC
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_cuda_compiler_takes_every_kernel(launches, tmp_path, dtype):
    texts = []
    for make in RULES.values():
        rule, weight = make(), tk.Variable(np.ones(1, dtype))
        rule.apply([tk.constant(np.ones(1, dtype))], [weight])
        (kernel,) = rule._programs._kernels.values()
        texts.append(("update", kernel.source.text))
    options = ("--fmad=false", "--diag-suppress=177")  # a rule may leave out a number that is there
    found = machine_code_by_name(separated(texts), tmp_path, options)
    assert len(found) == len(RULES)
    for code in found.values():
        assert (code.spills, code.registers <= 64) == (0, True), code


@pytest.mark.gpu
@pytest.mark.parametrize("rule", RULES)
def test_a_gpu_gives_what_the_cpu_gives(rule):
    if not tk.config.list_physical_devices("GPU"):
        pytest.skip("no working GPU")
    kernel_family.set_mode("hot")
    here = stepped("/gpu:0", RULES[rule], SHAPES, "float32")
    for a, b in zip(here, stepped("/cpu:0", RULES[rule], SHAPES, "float32"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
