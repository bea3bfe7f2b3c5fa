"""What a profile notes of eager steps, functions and `fit`."""

import gzip
import json
import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.tensor import PRIMITIVES
from trainkit.profiler import profiling, rows


@pytest.fixture(autouse=True)
def _none_is_left_running():
    yield
    assert profiling.running() is None


def counts(p, kind):
    return {(row.name, row.shapes): row.count for row in p.rows if row.kind == kind}


def model_of(run_eagerly):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    return model, (np.ones((12, 4), np.float32), np.ones((12, 3), np.float32))


def test_operations_are_counted_by_their_shapes():
    x, b = tk.ones((2, 3)), tk.ones(3)
    with tk.profiler.profile() as p:
        for _ in range(4):
            y = x + b
        tk.ops.exp(y * 2.0)
    assert counts(p, "op") == {
        ("add", "(2, 3) (3,)"): 4,
        ("multiply", "(2, 3) ()"): 1,
        ("exp", "(2, 3)"): 1,
    }


def test_a_call_that_converts_its_inputs_is_one_call():
    x = tk.ones(3, dtype="float64")
    with tk.profiler.profile() as p:
        tk.add(x, tk.constant([1, 2, 3]))
        tk.add(tk.Variable([1.0]), 1)
    found = counts(p, "op")
    assert sum(n for (name, _), n in found.items() if name == "add") == 2


def test_spans_contain_one_another():
    w = tk.Variable(tk.ones((3, 3)))
    optimizer = tk.optimizers.SGD(0.1)
    optimizer.build([w])
    with tk.profiler.profile() as p:
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(w * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    assert counts(p, "tape") == {("GradientTape.gradient", ""): 1}
    assert counts(p, "optimizer") == {("SGD", ""): 1}
    whole = sum(p.parts.values())
    assert whole == pytest.approx(p.seconds, rel=1e-6)
    for row in p.rows:
        assert 0 <= row.self_seconds <= row.total_seconds <= p.seconds
        assert row.mean_seconds == row.total_seconds / row.count
    assert {"op", "tape", "optimizer", rows.REST} <= set(p.parts)


def test_nodes_of_a_function_with_the_line_that_made_them():
    @tk.function(jit_compile=False)
    def f(x):
        return tk.reduce_sum(tk.matmul(x, x))

    x = tk.ones((4, 4))
    f(x)
    with tk.profiler.profile() as p:
        for _ in range(3):
            f(x)
    found = counts(p, "node")
    assert {name.split()[0] for name, _ in found} == {"matmul", "sum"}
    assert all("(test_profiling.py:" in name for name, _ in found)
    assert set(found.values()) == {3}
    assert ("matmul", "(4, 4) (4, 4)") in {(n.split()[0], shapes) for n, shapes in found}
    assert counts(p, "function") == {("f", ""): 3}


def test_fused_nodes_show_what_is_in_them():
    @tk.function(jit_compile=True)
    def f(x):
        return tk.exp(x * 2.0) + 1.0

    x = tk.ones((4, 4))
    f(x)
    with tk.profiler.profile() as p:
        f(x)
    assert counts(p, "node") == {("fused multiply exp add", "(4, 4)"): 1}


@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_operations_are_rows_of_their_own():
    x = tk.Variable(tk.ones((4, 4)))

    def step():
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(tk.tanh(x))
        tape.gradient(loss, x)

    step()
    with tk.profiler.profile() as p:
        step()
    assert sum(n for (name, _), n in counts(p, "op").items() if name == "tanh gradient") == 1


def test_the_body_of_a_loop_is_a_program_of_its_own():
    @tk.function(jit_compile=False)
    def f(x):
        while tk.reduce_sum(x) < 100.0:
            x = x * 2.0
        return x

    with tk.profiler.profile() as p:
        f(tk.ones(4))
    assert ("f", "") in counts(p, "function")
    assert counts(p, "tracing")


@pytest.mark.usefixtures("on_cpu")
def test_an_error_in_a_function_ends_its_spans():
    @tk.function
    def f(x, i):
        return tk.gather(x, i)

    f(tk.ones(3), tk.constant(1))
    with tk.profiler.profile() as p:
        with pytest.raises(tk.errors.InvalidArgumentError):
            f(tk.ones(3), tk.constant(7))
        tk.ones(3) + 1.0
    assert p.session.owner.stack == []
    assert ("add", "(3,) ()") in counts(p, "op")


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_fit_step_by_step(run_eagerly):
    model, (x, y) = model_of(run_eagerly)
    with tk.profiler.profile() as p:
        model.fit(x, y, batch_size=3, epochs=2, verbose=0)
    assert counts(p, "data")["batch", ""] == 8
    steps = counts(p, "step")
    assert steps["train_step", ""] == 8 if run_eagerly else steps["compiled step", ""] == 8
    assert counts(p, "callbacks")["on_train_batch_end", ""] == 8
    assert counts(p, "callbacks")["on_epoch_end", ""] == 2
    assert any(name.startswith("Dense") for name, _ in counts(p, "layer"))


@pytest.mark.usefixtures("on_cpu")  # a GPU computes it by cuDNN or by products of windows
def test_kernels_are_seen():
    x, w = tk.ones((1, 5, 5, 1)), tk.ones((3, 3, 1, 1))
    tk.ops.conv(x, w)
    with tk.profiler.profile() as p:
        tk.ops.conv(x, w)
    assert any(name.startswith("conv_") for name, _ in counts(p, "kernel"))


def test_other_threads_are_noted_under_their_names():
    x = tk.ones(3)

    def work():
        tk.ops.exp(x)

    with tk.profiler.profile() as p:
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
    (row,) = [row for row in p.rows if row.kind == "op"]
    assert (row.name, row.thread) == ("exp", "worker")
    assert p.table().splitlines()[-1].split()[:3] == ["op", "exp", "[worker]"]
    assert "op" not in p.parts


def test_what_is_noted_while_a_profile_is_set_up_does_not_count(monkeypatch):
    instrument = profiling.instrument

    def busy(session):
        undo = instrument(session)
        tk.ops.exp(tk.ones(3))
        return undo

    monkeypatch.setattr(profiling, "instrument", busy)
    with tk.profiler.profile() as p:
        pass
    assert p.rows == []
    assert set(p.parts) == {rows.REST}


def test_results_are_the_same_while_a_profile_runs():
    def results():
        model, (x, y) = model_of(False)
        model.set_weights([np.full((4, 3), 0.5, np.float32), np.zeros(3, np.float32)])
        model.fit(x, y, batch_size=3, epochs=2, verbose=0, shuffle=False)
        return [w.numpy() for w in model.weights]

    plain = results()
    with tk.profiler.profile():
        profiled = results()
    for a, b in zip(plain, profiled, strict=True):
        np.testing.assert_array_equal(a, b)


def test_there_is_one_profile_at_a_time():
    with tk.profiler.profile() as p:
        with pytest.raises(FailedPreconditionError, match="a profile runs already"):
            tk.profiler.profile().__enter__()
        tk.ones(3) + 1.0
    assert ("add", "(3,) ()") in counts(p, "op")
    with pytest.raises(FailedPreconditionError, match="no profile runs, so none can be ended"):
        profiling.end()
    with pytest.raises(FailedPreconditionError, match="use it in a with block"):
        _ = tk.profiler.profile().rows


def test_an_error_in_the_block_ends_the_profile():
    before = PRIMITIVES["add"].op.__code__
    with pytest.raises(ZeroDivisionError), tk.profiler.profile():
        _ = 1 // 0
    assert PRIMITIVES["add"].op.__code__ is before


def test_the_table_has_parts_and_rows():
    x = tk.ones((2, 3))
    with tk.profiler.profile() as p:
        for _ in range(3):
            tk.ops.exp(x)
        tk.ops.log(x)
    text = p.table(sort_by="count", limit=1)
    lines = text.splitlines()
    assert lines[0] == f"{1e3 * p.seconds:.3f} ms"
    assert lines[2].split() == ["where", "self", "ms", "share"]
    assert lines[-3].split()[:4] == ["kind", "name", "shapes", "count"]
    assert lines[-2].split()[:5] == ["op", "exp", "(2,", "3)", "3"]
    assert lines[-1] == "(1 more rows)"
    by_name = p.table(sort_by="name").splitlines()
    assert [line.split()[1] for line in by_name[-2:]] == ["exp", "log"]
    with pytest.raises(ValueError, match=r"sorted by one of .*, not 'color'"):
        p.table(sort_by="color")


def test_a_trace_for_perfetto(tmp_path):
    with tk.profiler.profile() as p:
        tk.ops.exp(tk.ones((2, 3)))
    p.save(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    names = {e["name"]: e["args"] for e in data["traceEvents"] if e["ph"] == "M"}
    assert names["process_name"] == {"name": "trainkit"}
    assert names["thread_name"] == {"name": "MainThread"}
    (span,) = [e for e in data["traceEvents"] if e["name"] == "exp"]
    assert (span["ph"], span["cat"], span["args"]) == ("X", "op", {"shapes": "(2, 3)"})
    assert 0 <= span["ts"] <= span["ts"] + span["dur"] <= 1e6 * p.seconds
    p.save(tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"] == data["traceEvents"]


def test_spans_beyond_the_limit_are_counted_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("trainkit.profiler.session.MOST_EVENTS", 2)
    x = tk.ones(3)
    with tk.profiler.profile() as p:
        for _ in range(5):
            tk.ops.exp(x)
    assert counts(p, "op") == {("exp", "(3,)"): 5}
    p.save(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    assert data["otherData"]["events_left_out"] == 3
    assert len([e for e in data["traceEvents"] if e["ph"] == "X"]) == 2


@pytest.mark.parametrize(
    ("shapes", "text"),
    [(None, ""), (((2, 3), (), (4,)), "(2, 3) () (4,)"), (((None, 3), None), "(?, 3) -")],
)
def test_shapes_as_text(shapes, text):
    assert rows.shapes_text(shapes) == text


def test_long_texts_are_cut_in_the_table():
    assert rows.cut("a" * 48, 48) == "a" * 48
    assert rows.cut("a" * 49, 48) == "a" * 45 + "..."


def test_a_gpu_is_waited_for(monkeypatch):
    waits = []
    monkeypatch.setattr("trainkit.profiler.session.wait_for_gpu", lambda: waits.append(1))
    x = tk.ones(3)
    with tk.profiler.profile(synchronize=True):
        tk.ops.exp(x)
    assert waits == [1]
