"""The flat program: what it holds on to, how it fails, when it is compiled."""

import math
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime import tiers
from trainkit.graph.runtime.tiers import Program, TieredProgram
from trainkit.kernels.jit import kernel_family


def program_of(function, *specs):
    return Program(optimised(tk.function(function).get_concrete_function(*specs).graph))


X = tk.TensorSpec([3], tk.float32)


def test_a_program_has_a_line_per_node_and_drops_values_after_their_last_use():
    program = program_of(lambda x: tk.exp(tk.tanh(x) * 2.0), X)
    lines = program.source.splitlines()
    assert len([line for line in lines if "= k" in line]) == 3
    assert len([line for line in lines if line.strip().startswith("del ")]) == 2


@pytest.mark.usefixtures("on_cpu")
def test_constants_are_neither_copied_nor_written_to():
    c = tk.constant([1.0, 2.0, 3.0])
    program = program_of(lambda x: x + c, X)
    program([np.ones(3, "float32")])
    assert c.numpy().tolist() == [1.0, 2.0, 3.0]


def test_inputs_are_never_written_to():
    f = tk.function(lambda x: tk.nn.relu(x * 1.5 - 2.0) + x, jit_compile=True)
    x = tk.constant([1.0, -2.0, 3.0])
    f(x)
    assert x.numpy().tolist() == [1.0, -2.0, 3.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x / 2,
        lambda x: tk.cast(x, "float64") * x if False else tk.cast(x, "float64") * 2,
        lambda x: x > 1,
        lambda x: x**2,
        lambda x: tk.math.mod(x, 2),
        lambda x: -x,
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int8", "float16", "bfloat16", "float64"])
def test_every_dtype_comes_out_as_in_eager_code(f, dtype):
    x = tk.cast(tk.constant([1, 2, 3]), dtype)
    expected = f(x)
    got = tk.function(f)(x)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("f", [tk.exp, tk.sqrt, tk.tanh, tk.nn.sigmoid, tk.nn.softmax, tk.math.log])
def test_bfloat16_is_computed_in_float32_as_in_eager_code(f):
    x = tk.cast(tk.constant([0.1, 1.0, 3.3]), "bfloat16")
    got, expected = tk.function(f)(x), f(x)
    assert got.dtype == tk.bfloat16
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.fixture
def started(monkeypatch):
    """What would run in the background, where compiling begins at the first call."""
    targets = []

    monkeypatch.setattr(tiers.side_work, "start", lambda work, name: targets.append(work))
    monkeypatch.setattr(tiers.kernel_family, "mode", lambda: "auto")
    monkeypatch.setattr(tiers, "START_SECONDS", 0.0)
    monkeypatch.setattr(tiers, "_NODE_SECONDS", {})
    monkeypatch.setattr(tiers, "_IN_PROGRESS", set())
    return targets


def test_a_program_that_is_used_much_is_compiled_in_the_background(started):
    graph = tk.function(lambda x: x * 2.0 + 1.0).get_concrete_function(X).graph
    hot = TieredProgram(graph, None)
    x = np.array([1.0, 2.0, 3.0], "float32")
    before = hot([x])[0]
    assert len(started) == 1
    started[0]()
    assert hot.fused is not None
    np.testing.assert_array_equal(hot([x])[0], before)
    assert len(started) == 1


def test_one_more_graph_of_a_function_waits_until_compiling_pays(started):
    def doubled(x):
        return x * 2.0 + 1.0

    def hot(size):
        graph = tk.function(doubled).get_concrete_function(tk.TensorSpec([size])).graph
        assert graph.name == "doubled"
        return TieredProgram(graph, None)

    first, second = hot(3), hot(4)
    first([np.ones(3, "float32")])
    second([np.ones(4, "float32")])
    assert len(started) == 1  # the first goes on
    started[0]()
    (seconds,) = tiers._NODE_SECONDS.values()
    assert 0 < seconds < math.inf
    tiers._NODE_SECONDS["doubled", False] = 1e6
    for _ in range(3):
        second([np.ones(4, "float32")])
    assert len(started) == 1
    tiers._NODE_SECONDS["doubled", False] = 0.0
    third = hot(5)
    third([np.ones(5, "float32")])
    assert len(started) == 2
    started[1]()
    assert third.fused is not None
    assert second.fused is None


def test_what_unknown_sizes_take_says_nothing_of_known_ones(started):
    def doubled(x):
        return x * 2.0 + 1.0

    def hot(size):
        graph = tk.function(doubled).get_concrete_function(tk.TensorSpec([size])).graph
        return TieredProgram(graph, None)

    hot(None)([np.ones(3, "float32")])
    started[0]()
    tiers._NODE_SECONDS["doubled", True] = 1e6
    hot(4)([np.ones(4, "float32")])
    assert len(started) == 2
    hot(None)([np.ones(5, "float32")])
    assert len(started) == 2


def test_a_failure_of_the_compiler_lets_others_begin(started, monkeypatch):
    from trainkit.graph.runtime import fusion

    def broken(graph):
        raise MemoryError

    monkeypatch.setattr(fusion, "fuse", broken)
    graph = tk.function(lambda x: x * 2.0 + 1.0).get_concrete_function(X).graph
    TieredProgram(graph, None)([np.ones(3, "float32")])
    with pytest.raises(MemoryError):
        started[0]()
    assert not tiers._IN_PROGRESS


def updating(size):
    """A program that changes a variable of so many numbers, and the variable."""
    v = tk.Variable(tk.ones([size]))

    def updated(x):
        v.assign_sub(x * 0.5 - tk.square(x))
        return tk.reduce_sum(x)

    graph = tk.function(updated).get_concrete_function(tk.TensorSpec([size])).graph
    return TieredProgram(graph, None), v


def test_loops_that_change_large_variables_are_compiled_first(monkeypatch):
    monkeypatch.setattr(kernel_family._State, "mode", "hot")
    x = np.full(100, 2.0, "float32")
    small, _ = updating(100)
    small([x])
    assert small.fused is None
    monkeypatch.setattr(tiers, "CHANGED_BYTES", 1)
    large, v = updating(100)
    assert large.fused is None  # nothing is compiled for who never calls
    memory = v._value._array.ctypes.data
    large([x])
    assert large.fused is not None
    assert v.numpy().tolist() == [4.0] * 100
    assert v._value._array.ctypes.data == memory  # written over the old value


def test_a_compiler_that_fails_first_leaves_the_plain_program(monkeypatch):
    from trainkit.graph.runtime import fusion

    def broken(graph):
        raise MemoryError

    monkeypatch.setattr(kernel_family._State, "mode", "hot")
    monkeypatch.setattr(tiers, "CHANGED_BYTES", 1)
    monkeypatch.setattr(fusion, "fuse", broken)
    program, v = updating(100)
    with pytest.warns(RuntimeWarning, match="can't be compiled"):
        program([np.full(100, 2.0, "float32")])
    program([np.full(100, 2.0, "float32")])
    assert v.numpy().tolist() == [7.0] * 100


def test_jit_compile_false_never_compiles(monkeypatch):
    monkeypatch.setattr(tiers, "START_SECONDS", 0.0)
    graph = tk.function(lambda x: x * 2.0 + 1.0).get_concrete_function(X).graph
    hot = TieredProgram(graph, False)
    for _ in range(3):
        hot([np.ones(3, "float32")])
    assert hot.fused is None


def test_a_compiler_that_fails_leaves_the_plain_program(monkeypatch):
    from trainkit.graph.runtime import fusion

    def broken(self):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fusion.FusedKernel, "compile", broken)
    f = tk.function(lambda x: x * 2.0 + 1.0, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="no compiler"):
        assert f(tk.ones([3])).numpy().tolist() == [3.0, 3.0, 3.0]


def test_the_compiler_is_imported_in_small_pieces():
    # one long import beside a step would keep Python's lock from it
    code = """
import importlib, sys
from trainkit.graph.runtime import tiers
for name in tiers._COMPILER_MODULES:
    before = set(sys.modules)
    assert name not in before, name
    importlib.import_module(name)
    new = [m for m in set(sys.modules) - before if m.startswith("trainkit.") and m != name]
    assert len(new) <= 4, (name, new)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
