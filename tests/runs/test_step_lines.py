"""Lines of steps: those that the compiled half makes are those of `StepReader`, byte for byte."""

import math
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from trainkit.callbacks import run_journal
from trainkit.core.dispatch import native
from trainkit.journal import lines
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.step_reader import Digests, StepReader

RATE = tk.constant(0.1)
OTHER_RATE = tk.constant(0.05)


def numbers_of(logs):
    return {name: float(value) for name, value in logs.items() if not isinstance(value, str)}


def written(folder, waiting, compiled, averages=True):
    """The journal of `waiting`, and all that its reader knows afterwards."""
    reader = StepReader(numbers_of, averages)
    writer = JournalWriter(folder, reader=reader)
    before = native.switch(compiled)
    try:
        for item in waiting:
            writer.waiting.append(item)
            if item is None:
                writer.waiting.pop()
                writer.flush()
        writer.close()
    finally:
        native.switch(before)
    state = {name: getattr(reader, name) for name in StepReader.__slots__ if name != "_numbers"}
    return (folder / lines.FILE).read_bytes(), state


def both(folder, waiting, averages=True):
    compiled = written(folder / "compiled", waiting, True, averages)
    python = written(folder / "python", waiting, False, averages)
    return compiled, python


def facts(step, loss=0.5, epoch=0, waited=None, rows=8, rate=RATE, now=None, **metrics):
    logs = {name: value for name, value in metrics.items() if value is not None}
    if loss is not None:
        logs = {"loss": loss, **logs}
    waited = 1e-4 * step if waited is None else waited
    return 1e-3 * step if now is None else now, step, epoch, waited, rows, logs, rate


UNUSUAL = {
    "nothing": facts(3, tk.constant(0.25), accuracy=tk.constant(0.5)),
    "another epoch": facts(3, epoch=1, waited=1e-5),
    "a rate": facts(3, rate=OTHER_RATE),
    "no rate": facts(3, rate=None),
    "digests": (*facts(3, accuracy=0.5), Digests("0" * 16, None, "f" * 16, None)),
    "another metric": facts(3, recall=0.5),
    "a metric more": facts(3, accuracy=0.5, recall=0.25),
    "no metric": facts(3),
    "no loss": facts(3, None, accuracy=0.5),
    "nan": facts(3, float("nan"), accuracy=0.5),
    "infinity": facts(3, tk.constant(0.5), accuracy=tk.constant(-math.inf)),
    "float16": facts(3, tk.constant(0.1, "float16"), accuracy=0.5),
    "float64": facts(3, tk.constant(0.1, "float64"), accuracy=np.float64(1 / 3)),
    "whole numbers": facts(3, 1, accuracy=tk.constant(2)),
    "an array": facts(3, np.array(0.5), accuracy=np.float32(0.1)),
    "a text": facts(3, 0.5, accuracy="good"),
    "a tensor of one row": facts(3, 0.5, accuracy=tk.constant([0.5])),
    "loss behind": facts(3, None, accuracy=0.5, loss_of_head=0.25),
    "no rows": facts(3, rows=0, accuracy=0.5),
    "no wait": facts(3, waited=2e-4, accuracy=0.5),
    "a wait that shrinks": facts(3, waited=0.0, accuracy=0.5),
    "many metrics": facts(3, **{f"m{i}": 0.123456789 * i for i in range(40)}),
    "metrics that just do not fit": facts(3, **{f"m{i}": 0.123456789 for i in range(12)}),
    "a long step": facts(1 << 52, 1.23456789e-30, now=1e9, accuracy=1.23456789e-300),
    "time that runs back": facts(3, now=-1.0, accuracy=0.5),
    "a time": 0.0025,
    "a record": {"kind": "note", "text": "nothing"},
    "a write": None,
}


@pytest.mark.parametrize("averages", [True, False])
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_read_by_python_and_the_rest_alike(tmp_path, name, averages):
    usual = [facts(n, 1.0 / n, accuracy=tk.constant(n / 10)) for n in (1, 2, 4, 5)]
    usual[2:2] = [UNUSUAL[name]]
    compiled, python = both(tmp_path, [0.0, *usual], averages)
    assert compiled == python
    assert compiled[0].count(b'"n":') >= 4 - (name == "a record")


def test_the_compiled_half_makes_usual_lines(tmp_path):
    if native.NATIVE is None:
        pytest.skip("nothing is compiled here")
    waiting = [0.0, *(facts(n, 1.0 / n, accuracy=0.5) for n in range(1, 6))]
    reader = StepReader(numbers_of, True)
    first = [reader.read(item) for item in waiting[1:2]]
    assert first[0].loss == 1.0
    ready = []
    head = bytes(32)
    made = native.NATIVE.usual_lines(
        waiting, 2, reader, ["accuracy"], head, ready, lines.hashlib.sha256, lines.STEP_ROOM
    )
    assert made[0] == len(waiting)
    assert len(ready) == 4
    for line in ready:
        head = lines.hash_of(line[:-1], head)
    assert head == made[1]
    assert reader.step == 5


RATED = types.SimpleNamespace(_learning_rate=tk.Variable(0.1))
BATCHES = {
    "x and y": [(tk.ones((4, 2)), tk.ones(4))],
    "nested": [((tk.ones((3, 2)), tk.ones((3, 1))), tk.ones(3))],
    "one tensor": [tk.ones((5,))],
    "a dict": [({"b": tk.ones((2, 1)), "a": tk.ones((2, 2))}, tk.ones(2))],
    "arrays": [(np.ones((6, 2)), np.ones(6))],
    "a list": [[tk.ones((7, 2))]],
    "a scalar": [(tk.constant(1.0), tk.ones(4))],
    "none": [(None, tk.ones(4))],
    "nothing": [()],
    "two of them": [(tk.ones((4, 2)),), (tk.ones((3, 2)),)],
    "no batch": [],
}
LOGS = {
    "tensors": {"loss": tk.constant(0.5), "accuracy": tk.constant(1.0)},
    "numbers": {"loss": 0.5, "accuracy": np.float32(1.0)},
    "a variable": {"loss": tk.Variable(0.5)},
    "empty": {},
    "none": None,
}


@pytest.mark.parametrize("optimizer", [RATED, None, object()], ids=["rate", "none", "other"])
@pytest.mark.parametrize("logs", LOGS)
@pytest.mark.parametrize("batches", BATCHES)
def test_the_compiled_half_notes_what_python_does(batches, logs, optimizer):
    if native.NATIVE is None:
        pytest.skip("nothing is compiled here")
    noted = (1.5, 3, 1, 0.25, BATCHES[batches], LOGS[logs], optimizer)
    compiled, python = native.NATIVE.usual_facts(*noted), run_journal._facts_of(*noted)
    is_usual = batches in ("x and y", "nested", "one tensor") and logs in ("tensors", "empty")
    assert (compiled is not None) == is_usual
    if compiled is None:
        return
    assert compiled[:5] == python[:5]
    assert compiled[5].keys() == python[5].keys()
    assert all(compiled[5][name] is python[5][name] for name in python[5])
    assert compiled[6] is python[6]


numbers = st.floats(allow_nan=True, allow_infinity=True)
scalars = st.one_of(
    numbers, st.floats(width=32).map(tk.constant), numbers.map(lambda x: tk.constant(x, "float64"))
)
rows_of_metrics = st.dictionaries(st.sampled_from(["accuracy", "recall", "f", "g"]), scalars)
any_facts = st.tuples(
    st.floats(0, 1e6), st.integers(1, 1 << 53), st.integers(0, 2), st.floats(0, 1e3),
    st.integers(0, 64), st.tuples(st.booleans(), scalars, rows_of_metrics).map(
        lambda parts: {"loss": parts[1], **parts[2]} if parts[0] else parts[2]
    ),
    st.sampled_from([RATE, RATE, RATE, OTHER_RATE, None]),
)  # fmt: skip


@given(st.lists(any_facts, max_size=8), st.booleans())
def test_any_steps_have_the_same_lines(tmp_path_factory, steps, averages):
    with np.errstate(all="ignore"):
        compiled, python = both(tmp_path_factory.mktemp("runs"), [0.0, *steps], averages)
    assert repr(compiled) == repr(python)
