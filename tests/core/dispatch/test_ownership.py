"""Who holds an array: what is counted, and what is done where counts can't be trusted."""

import os
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native, ownership

counted = pytest.mark.skipif(
    ownership.COUNTS == ownership.NEVER, reason="references are not counted on this Python"
)
ASKS = [ownership._sole_array] + ([native.NATIVE.sole_array] if native.NATIVE else [])
HOLDS = {
    "value": lambda v: v._value,
    "array": lambda v: v._value._array,
    "view": lambda v: v._value._array[1:],
    "transposed": lambda v: v._value._array.T,
    "buffer": lambda v: memoryview(v._value._array),
    "dlpack": lambda v: np.from_dlpack(v._value._array),
    "tensor on the array": lambda v: tk.identity(v),
    "list": lambda v: [v._value._array],
    "bound method": lambda v: v._value._array.sum,
}


def new_variable():
    return tk.Variable(np.arange(4, dtype="float32"))


@counted
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_an_array_is_given_only_while_nobody_else_holds_it(ask, hold):
    v = new_variable()
    assert ask(v) is v._value._array
    held = [hold(v)]
    assert ask(v) is None
    held.clear()
    assert ask(v) is v._value._array


@counted
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_a_view_is_nobodys_own(ask):
    v = new_variable()
    v._value = tk.core.tensor.wrap(np.zeros(8, "float32")[:4])
    assert ask(v) is None


@counted
@pytest.mark.usefixtures("on_cpu")
def test_answers_stay_when_the_code_is_hot():
    v, mapping = new_variable(), {0: np.empty(1)}
    for ask in ASKS:
        for _ in range(20_000):
            ask(v)
        named = mapping[0]
        for _ in range(20_000):
            ownership.is_sole_entry(mapping, 0)
        assert ask(v) is not None
        assert ownership.is_sole_entry(mapping, 0)
        held = v._value, named
        assert ask(v) is None
        assert not ownership.is_sole_entry(mapping, 0)
        del held, named


@counted
def test_conditions_hold_in_the_text_of_functions():
    text = f"""
def alone(variable, make, held):
    x = variable._value._array
    y = make()
    held += [z for z, share in ((x, held[0]), (y, held[1]), (variable._value, held[2])) if share]
    return {ownership.condition("x", "variable")}, {ownership.condition("y")}
"""
    namespace = dict(ownership.NAMES)
    exec(text, namespace)
    ask = namespace["alone"]
    for held, expected in (
        ([False, False, False], (True, True)),
        ([True, False, False], (False, True)),
        ([False, True, False], (True, False)),
        ([False, False, True], (False, True)),
    ):
        assert ask(new_variable(), lambda: np.empty(1), held) == expected


# ---------------------------------------------------------------------- no trust


def falsified(wrong, monkeypatch):
    monkeypatch.setattr(ownership, "getrefcount", wrong)
    return ownership.measure_counts()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: 0,
        lambda x: 2 * sys.getrefcount(x),
        lambda x: min(sys.getrefcount(x), 3),
        lambda x: 1 << 30,
        ownership._count_nothing,
    ],
    ids=["none", "twice", "up to three", "immortal", "uncounted"],
)
def test_counts_that_do_not_rise_by_one_are_not_trusted(wrong, monkeypatch):
    assert falsified(wrong, monkeypatch) == ownership.NEVER


@counted
@pytest.mark.parametrize("extra", [-1, 0, 5])
def test_counts_that_are_higher_for_all_are_trusted(extra, monkeypatch):
    counts = falsified(lambda x: sys.getrefcount(x) + extra, monkeypatch)
    assert None not in counts
    assert counts.named_array - counts.tensor == (
        ownership.COUNTS.named_array - ownership.COUNTS.tensor
    )


@pytest.mark.parametrize("interpreter", ["pypy", "free threads", "a compiler"])
def test_other_interpreters_are_not_trusted(interpreter, monkeypatch):
    if interpreter == "pypy":
        monkeypatch.setattr(sys.implementation, "name", "pypy")
    elif interpreter == "free threads":
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    else:
        compiler = type("Compiler", (), {"is_enabled": staticmethod(lambda: True)})
        monkeypatch.setattr(sys, "_jit", compiler, raising=False)
    assert ownership.measure_counts() == ownership.NEVER


def test_where_nothing_is_trusted_nobody_is_alone(monkeypatch):
    monkeypatch.setattr(ownership, "COUNTS", ownership.NEVER)
    monkeypatch.setattr(ownership, "_TENSOR", None)
    monkeypatch.setattr(ownership, "_ENTRY", None)
    assert ownership.condition("x") == ownership.condition("x", "v") == "False"
    assert ownership._sole_array(new_variable()) is None
    assert not ownership.is_sole_entry({0: object()}, 0)


_STEPS = """
import numpy as np, trainkit as tk
from trainkit.core.dispatch import ownership

def address(v):
    return v._value._array.__array_interface__["data"][0]

with tk.device("/cpu:0"):
    v = tk.Variable(np.zeros(2000, "float32"))
    before = address(v)
    v.assign_add(1.0)
    v.assign(np.ones(2000, "float32"))
    print(ownership.COUNTS == ownership.NEVER, address(v) == before)
    with tk.GradientTape(persistent=True) as tape:
        b = v * 2
        c = v + b
        s = v + c
        e = (s + c * 3) * 1
    print(tape.gradient(e, v).numpy()[0])
    tk.random.set_seed(3)
    model = tk.Sequential([tk.layers.Dense(4, activation="relu"), tk.layers.Dense(1)])
    model.compile(tk.optimizers.Adam(), "mse")
    x = np.random.default_rng(0).normal(size=(32, 40)).astype("float32")
    model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
    print(sum(float(w.numpy().astype("float64").sum()) for w in model.weights).hex())
"""


def printed(code, **environment):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@counted
@pytest.mark.parametrize("half", ["0", "1"], ids=["python", "compiled"])
def test_without_trust_the_results_are_the_same_in_new_memory(half):
    if half == "1" and native.NATIVE is None:
        pytest.skip(str(native.FAILURE))
    alone = printed(_STEPS, TRAINKIT_NATIVE=half)
    no_lock = "import sys\nsys._is_gil_enabled = lambda: False\n"
    untrusting = printed(no_lock + _STEPS, TRAINKIT_NATIVE=half)
    assert alone[:3] == ["False", "True", "13.0"]
    assert untrusting[:3] == ["True", "False", "13.0"]
    assert alone[3] == untrusting[3]


_TRACED = """
import sys

def trace(frame, event, arg):
    if "ownership" in frame.f_code.co_filename:
        kept.append((frame, frame.f_locals, dict(frame.f_locals)))
    return trace

kept = []
sys.settrace(trace)
import trainkit as tk
from trainkit.core.dispatch import ownership
sys.settrace(None)
assert len(kept) > 20
kept.clear()

@tk.function
def step(v):
    v.assign_add(tk.ones([2000]) * 2.0)

for change in (lambda: v.assign(tk.ones([2000])), lambda: v.assign_sub(1.0), lambda: step(v)):
    v = tk.Variable(tk.zeros([2000]))
    tensor, array = tk.identity(v), v._value._array
    change()
    print(float(tk.reduce_sum(tensor)), array.sum())
"""


@counted
@pytest.mark.usefixtures("on_cpu")
def test_names_that_a_debugger_kept_at_import_make_nobody_alone_later():
    assert printed(_TRACED, TRAINKIT_NATIVE="0", TRAINKIT_JIT="eager") == ["0.0"] * 6
