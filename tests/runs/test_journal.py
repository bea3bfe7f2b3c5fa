"""The journal of a run: what it says, what it costs nothing to tear, and what it refuses."""

import itertools
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.journal import lines
from trainkit.journal.journal_reader import JournalError
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.retention import superfluous
from trainkit.journal.step_reader import StepReader

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 60)


def new_model(seed=3, rate=0.01, layers=()):
    tk.keras.utils.set_random_seed(seed)
    model = tk.Sequential(
        [
            tk.Input((4,)),
            tk.layers.Dense(8, activation="relu"),
            tk.layers.Dropout(0.3),
            tk.layers.BatchNormalization(),
            *layers,
            tk.layers.Dense(3),
        ]
    )
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


def journal(folder, **settings):
    return tk.callbacks.RunJournal(folder, **{"digest_every": 1, "save_every": 5, **settings})


def fitted(folder, epochs=3, model=None, callbacks=None, **settings):
    model = new_model() if model is None else model
    run = journal(folder, **settings)
    model.fit(X, Y, 16, epochs, verbose=0, callbacks=callbacks, run=run)
    return model


def test_each_step_has_a_line_with_digests(tmp_path):
    fitted(tmp_path / "a")
    run = tk.runs.open(tmp_path / "a")
    assert [s.step for s in run.steps] == list(range(1, 13))
    assert [s.epoch for s in run.steps] == [0] * 4 + [1] * 4 + [2] * 4
    assert run.status == "finished"
    assert not run.journal.problems()
    assert all(s.batch and s.random and s.weights and s.slots for s in run.steps)
    assert len({s.weights for s in run.steps}) == 12
    assert run.steps[0].rate == pytest.approx(0.01)
    assert run.steps[1].rate is None
    assert list(run.checkpoints) == [0, 5, 10, 12]
    raw = (tmp_path / "a" / lines.FILE).read_bytes().splitlines()
    steps = [line for line in raw if line.startswith(b'{"n"')]
    assert len(steps) == 12
    assert max(map(len, steps)) < lines.STEP_BYTES


def test_the_loss_of_a_step_is_its_own(tmp_path):
    losses = []

    class Own(tk.Sequential):
        def train_step(self, data):
            logs = super().train_step(data)
            losses.append(float(self._loss_tracker.total))
            return logs

    model = Own([tk.Input((4,)), tk.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(X, np.zeros((60, 3), "f"), 16, 2, verbose=0, run=journal(tmp_path / "a"))
    totals = np.array(losses).reshape(2, 4)
    rows = [16, 16, 16, 12]
    expected = np.diff(totals, axis=1, prepend=0) / rows
    found = [step.loss for step in tk.runs.open(tmp_path / "a").steps]
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4)


def test_two_runs_alike_have_the_same_digests(tmp_path):
    for name in "ab":
        fitted(tmp_path / name)
    one, other = (tk.runs.open(tmp_path / name).steps for name in "ab")
    for a, b in zip(one, other, strict=True):
        assert a._replace(seconds=0, waited=0) == b._replace(seconds=0, waited=0)
    shared = list((tmp_path / "a" / "data").iterdir())
    assert all(path.stat().st_nlink == 2 for path in shared)


def test_the_journal_changes_no_bits(tmp_path):
    with_journal = fitted(tmp_path / "a")
    alone = new_model()
    alone.fit(X, Y, 16, 3, verbose=0)
    for one, other in zip(with_journal.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


class Stop(tk.callbacks.Callback):
    """Fails or stops after some batches."""

    def __init__(self, after, how):
        super().__init__()
        self.after, self.how = after, how

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.after:
            if self.how == "stopped":
                self.model.stop_training = True
            elif self.how == "failed":
                raise RuntimeError("broken")
            else:
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("how", ["stopped", "failed", "interrupted"])
def test_how_a_run_ends_is_said(tmp_path, how):
    ends = pytest.raises(RuntimeError) if how == "failed" else None
    if ends:
        with ends:
            fitted(tmp_path / "a", callbacks=[Stop(6, how)])
    else:
        fitted(tmp_path / "a", callbacks=[Stop(6, how)])
    run = tk.runs.open(tmp_path / "a")
    assert run.status == how
    assert run.last_step == (5 if how == "failed" else 6)  # the sixth had not ended
    assert not run.is_alive
    if how == "failed":
        assert "broken" in run.journal.records[-1]["error"]


def test_a_run_that_failed_goes_on_to_the_same_bits(tmp_path):
    whole = fitted(tmp_path / "whole", callbacks=[Stop(0, "failed")])
    with pytest.raises(RuntimeError):
        fitted(tmp_path / "a", callbacks=[Stop(7, "failed")])
    resumed = fitted(tmp_path / "a", callbacks=[Stop(0, "failed")])
    for one, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    one, other = (tk.runs.open(tmp_path / name) for name in ("whole", "a"))
    assert [s.step for s in other.steps] == list(range(1, 13))
    assert [s.weights for s in one.steps] == [s.weights for s in other.steps]
    assert [s.loss for s in one.steps] == pytest.approx([s.loss for s in other.steps], rel=1e-5)
    assert len(other.journal.records_of("resume")) == 1
    assert other.status == "finished"


_KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
import trainkit as tk
from tests.runs.test_journal import fitted
class Kill(tk.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == 8:
            os.kill(os.getpid(), 9)
fitted({folder!r}, callbacks=[Kill()])
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_killed_run_is_readable_and_goes_on(tmp_path):
    folder = tmp_path / "a"
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    code = _KILLED.format(tests=root, folder=str(folder))
    environment = os.environ | {"PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, check=False)
    assert done.returncode == -9
    run = tk.runs.open(folder)
    assert run.status == "open"
    assert not run.is_alive
    assert run.last_step >= 5
    with open(folder / lines.FILE, "ab") as file:
        file.write(b'{"n":9,"e":2,"l":0.')  # as a machine that lost its power leaves it
    assert "not written to its end" in tk.runs.open(folder).journal.problems()
    fitted(folder, callbacks=[tk.callbacks.Callback()])
    whole = fitted(tmp_path / "whole", callbacks=[tk.callbacks.Callback()])
    run = tk.runs.open(folder)
    assert [s.step for s in run.steps] == list(range(1, 13))
    assert run.status == "finished"
    assert "torn" in run.journal.problems()
    assert run.steps[-1].weights == tk.runs.open(tmp_path / "whole").steps[-1].weights
    assert whole is not None


class Look(tk.callbacks.Callback):
    """Notes how far the journal is on the disk, after each step."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.steps = folder, []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append(tk.runs.open(self.folder).last_step if batch % 512 > 508 else None)


def test_a_process_that_is_killed_can_lose_no_more_than_512_lines(tmp_path):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    look = Look(tmp_path / "a")
    settings = {"digest_every": 1 << 20, "save_every": 1 << 20}
    rows = np.zeros((1030, 4), "f")
    run = journal(tmp_path / "a", **settings)
    model.fit(rows, rows[:, :1], 1, verbose=0, callbacks=[look], run=run)
    unwritten = [step - last for step, last in enumerate(look.steps) if last is not None]
    assert len(unwritten) == 6
    assert max(unwritten) <= 512
    assert tk.runs.open(tmp_path / "a").last_step == 1030


class Rates(tk.callbacks.Callback):
    """Sets another learning rate before some steps."""

    def on_train_batch_begin(self, batch, logs=None):
        if batch in (2, 3):
            self.model.optimizer.learning_rate = 0.01 / batch
        elif batch == 4:
            self.model.optimizer.learning_rate.assign_add(0.5)


@pytest.mark.parametrize("as_data", ["arrays", "dicts", "lists", "together"])
def test_lines_that_are_made_later_tell_of_their_step(tmp_path, as_data):
    rng = np.random.default_rng(0)
    sizes = [5, 3, 8, 1, 6, 2]
    rows = [rng.normal(size=(size, 4)).astype("f") for size in sizes]
    batches = {
        "arrays": [(x, x[:, :1]) for x in rows],
        "dicts": [({"x": x}, x[:, :1]) for x in rows],
        "lists": [([x], x[:, :1]) for x in rows],
        "together": [(x, x[:, :1]) for x in rows],
    }[as_data]
    together = 2 if as_data == "together" else 1
    x = tk.Input((4,), name="x")
    inputs = {"dicts": {"x": x}, "lists": [x]}.get(as_data, x)
    model = tk.Model(inputs, tk.layers.Dense(1)(x))
    optimizer = tk.optimizers.SGD(0.01)
    model.compile(optimizer, "mse", run_eagerly=True, steps_per_execution=together)
    before = model.get_weights()
    folder = tmp_path / "a"
    model.fit(
        iter(batches), verbose=0, run=journal(folder, digest_every=64),
        callbacks=[] if together > 1 else [Rates()], steps_per_epoch=6,
    )  # fmt: skip
    model.set_weights(before)
    model.optimizer.learning_rate = 0.01
    losses = []
    for number, batch in enumerate(batches):
        if together == 1:
            rates = {2: 0.005, 3: 0.01 / 3, 4: 0.01 / 3 + 0.5}
            model.optimizer.learning_rate = rates.get(number, model.optimizer.learning_rate)
        losses.append(float(model.train_on_batch(*batch)))
    steps = tk.runs.open(folder).steps
    if together == 2:
        means = [np.average(losses[n : n + 2], weights=sizes[n : n + 2]) for n in (0, 2, 4)]
        assert [step.loss for step in steps] == pytest.approx(means, rel=1e-4)
        assert [step.step for step in steps] == [2, 4, 6]
        return
    assert [step.loss for step in steps] == pytest.approx(losses, rel=1e-4)
    rates = [0.01, None, 0.005, 0.01 / 3, 0.01 / 3 + 0.5, None]
    assert [step.rate for step in steps] == [None if r is None else pytest.approx(r) for r in rates]


@pytest.mark.filterwarnings("ignore:fit. the loss is NaN:UserWarning")
def test_the_step_that_gave_nan_has_the_digest_of_its_batch(tmp_path):
    rows = np.where(np.arange(60)[:, None] == 40, np.nan, X)
    digests = []
    for explain in (True, False):
        stop = tk.callbacks.TerminateOnNaN(explain=explain, bundle_dir=tmp_path / "nan")
        run = journal(tmp_path / str(explain))
        new_model().fit(rows, Y, 16, verbose=0, shuffle=False, callbacks=[stop], run=run)
        digests.append([step.batch for step in tk.runs.open(tmp_path / str(explain)).steps])
    assert len(digests[0]) == 3
    assert digests[0] == digests[1]


def test_what_can_not_be_read_keeps_no_line_before_it_back(tmp_path):
    class LostTensor:
        def __float__(self):
            raise ValueError("the device is lost")

    def numbers(logs):
        return {name: float(value) for name, value in logs.items()}

    writer = JournalWriter(tmp_path, reader=StepReader(numbers))
    writer.header({"id": "0"})
    for n in range(1, 4):
        loss = 0.5 if n < 3 else LostTensor()
        writer.waiting.append((0.1 * n, n, 0, 0.01 * n, 8, {"loss": loss}, None))
    with pytest.raises(ValueError, match="device"):
        writer.close()
    assert tk.runs.open(tmp_path).last_step == 2


def test_a_finished_run_is_not_written_into(tmp_path):
    fitted(tmp_path / "a")
    before = (tmp_path / "a" / lines.FILE).read_bytes()
    with pytest.raises(FileExistsError, match="is finished, after 12 steps"):
        fitted(tmp_path / "a")
    assert (tmp_path / "a" / lines.FILE).read_bytes() == before


# ------------------------------------------------------------------ files of others


def written(folder, count=5):
    writer = JournalWriter(folder)
    writer.header({"id": "0"})
    for n in range(1, count + 1):
        writer.step(lines.Step(n, 0, 0.5, {}, 0.1, 0.0, *[None] * 6))
    writer.close()
    return folder / lines.FILE


@pytest.mark.parametrize("line", range(1, 5))
def test_a_changed_line_and_all_after_it_are_not_trusted(tmp_path, line):
    path = written(tmp_path)
    raw = path.read_bytes().split(b"\n")
    raw[line] = raw[line].replace(b"0.5", b"0.4")
    path.write_bytes(b"\n".join(raw))
    run = tk.runs.open(tmp_path)
    assert run.last_step == line - 1
    assert "torn or was changed" in run.journal.problems()


@pytest.mark.parametrize("change", ["drop", "swap", "insert"])
def test_lines_can_be_neither_dropped_nor_moved_nor_put_in(tmp_path, change):
    path = written(tmp_path)
    raw = path.read_bytes().split(b"\n")
    if change == "drop":
        del raw[2]
    elif change == "swap":
        raw[2], raw[3] = raw[3], raw[2]
    else:
        raw.insert(2, raw[1])
    path.write_bytes(b"\n".join(raw))
    steps = [step.step for step in tk.runs.open(tmp_path).steps]
    assert steps == ([1, 2, 3, 4, 5] if change == "insert" else steps[:2])
    assert tk.runs.open(tmp_path).journal.problems()


def test_every_cut_of_a_journal_can_be_read(tmp_path):
    data = written(tmp_path / "whole").read_bytes()
    header = data.index(b"\n") + 1
    (tmp_path / "cut").mkdir()
    for size in range(header, len(data), 7):
        (tmp_path / "cut" / lines.FILE).write_bytes(data[:size])
        assert tk.runs.open(tmp_path / "cut").last_step == data[:size].count(b"\n") - 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not written to its end"),
        (b"hello\n" * 50, "does not fit"),
        (b"[" * 100_000 + b"\n", "does not fit"),
        (b"\x00" * 3_000_000, "more than"),
    ],
    ids=["empty", "text", "nested", "zeros"],
)
def test_foreign_files_are_refused(tmp_path, content, text):
    (tmp_path / lines.FILE).write_bytes(content)
    with pytest.raises(JournalError, match=text):
        tk.runs.open(tmp_path)


def _single(folder, record):
    line, _ = lines.sealed(json.dumps(record)[:-1].encode(), lines.START)
    (folder / lines.FILE).write_bytes(line)


def test_a_journal_of_a_later_version_names_it(tmp_path):
    _single(tmp_path, {"trainkit_run": 9, "versions": {"trainkit": "7.0"}})
    with pytest.raises(JournalError, match=r"format 9, written by trainkit 7\.0"):
        tk.runs.open(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": -1, "e": 0},
        {"n": True, "e": 0},
        {"n": 1 << 80, "e": 0},
        {"n": 1, "e": "x"},
        {"n": 1, "e": 0, "l": [1]},
        {"n": 1, "e": 0, "w": "zz"},
        {"n": 1, "e": 0, "m": [1.0]},
        {"kind": 5},
        {"kind": "resume", "n": "all"},
        {"kind": "names", "metrics": [1]},
    ],
    ids=str,
)
def test_fields_of_another_kind_are_not_trusted(tmp_path, fields):
    head, digest = lines.sealed(b'{"trainkit_run":1', lines.START)
    line, _ = lines.sealed(json.dumps(fields)[:-1].encode(), digest)
    (tmp_path / lines.FILE).write_bytes(head + line)
    run = tk.runs.open(tmp_path)
    assert not run.steps
    assert run.journal.problems()


def test_no_run_is_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        tk.runs.open(tmp_path)


def test_a_record_does_not_lead_out_of_the_folder(tmp_path):
    head, digest = lines.sealed(b'{"trainkit_run":1', lines.START)
    fields = {"kind": "checkpoint", "n": 3, "file": "/etc/passwd"}
    line, _ = lines.sealed(json.dumps(fields)[:-1].encode(), digest)
    (tmp_path / lines.FILE).write_bytes(head + line)
    assert tk.runs.open(tmp_path).checkpoints == {}


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("inside", ["train.py", "train.py/first"])
def test_a_file_is_no_folder_of_a_run(tmp_path, inside):
    (tmp_path / "train.py").write_text("print(1)")
    with pytest.raises(NotADirectoryError, match=r"a run is a folder, and '.*train\.py' is a file"):
        tk.runs.Recorder(tmp_path / inside)
    assert (tmp_path / "train.py").read_text() == "print(1)"


@pytest.mark.parametrize(
    "settings", [{"keep": "many"}, {"keep": -1}, {"save_every": 0}, {"digest_every": "often"}]
)
def test_settings_out_of_range_are_refused(tmp_path, settings):
    with pytest.raises(ValueError, match=r"number|must be"):
        tk.callbacks.RunJournal(tmp_path, **settings)


def test_checkpoints_stay_within_the_budget(tmp_path):
    fitted(tmp_path / "a", save_every=1, keep="300kB")
    checkpoints = tk.runs.open(tmp_path / "a").checkpoints
    assert 0 in checkpoints
    assert 12 in checkpoints
    assert 3 <= len(checkpoints) < 6
    assert sum(path.stat().st_size for path in checkpoints.values()) <= 300_000


def test_thinned_checkpoints_are_dense_near_the_end():
    steps: list[int] = []
    for step in range(0, 10_000, 10):
        steps.append(step)
        for gone in superfluous(steps, [1] * len(steps), 20):
            steps.remove(gone)
    gaps = np.diff(steps)
    assert len(steps) == 20
    assert steps[0] == 0
    assert steps[-1] == 9990
    assert max(gaps[-5:]) <= 200
    assert all(gap <= 9990 - step + 10 for gap, step in zip(gaps, steps, strict=False))


# ------------------------------------------------------------------ loops of one's own


def train(folder, stop=None, settings=None):
    tk.keras.utils.set_random_seed(5)
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(8), tk.layers.Dropout(0.4)])
    optimizer = tk.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    rows = tk.data.Dataset.from_tensor_slices(X).shuffle(60, seed=2).batch(8)
    data = iter(rows.repeat(2))
    settings = {"save_every": 4, "digest_every": 1} | (settings or {})
    with tk.runs.Recorder(folder, model=model, optimizer=optimizer, data=data, **settings) as own:
        for batch in own.watch(data):
            with tk.GradientTape() as tape:
                loss = tk.reduce_mean(model(batch, training=True) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            own.end_step(loss=loss, size=len(batch))
            if own.steps == stop:
                raise RuntimeError("broken")
    return model


def test_a_loop_of_ones_own_is_written_and_goes_on(tmp_path):
    whole = train(tmp_path / "whole")
    with pytest.raises(RuntimeError):
        train(tmp_path / "a", stop=10)
    resumed = train(tmp_path / "a")
    for one, other in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    one, other = (tk.runs.open(tmp_path / name) for name in ("whole", "a"))
    for field in ("step", "loss", "batch", "random", "weights", "slots", "metrics"):
        assert [getattr(s, field) for s in one.steps] == [getattr(s, field) for s in other.steps]
    assert other.status == "finished"
    assert len(other.steps) == 16


@pytest.mark.parametrize("loss", [0.5, -1.25e-20, 0.0, 123456.789, None, np.nan, -np.inf])
def test_a_line_says_the_numbers_of_a_step_whatever_they_are(loss):
    nothing, all_due = (None,) * 6, (*["0" * 16] * 4, 0.1, 2.5)
    some_due = (None, None, "a" * 16, None, 0.5, None)
    for waited, count, odd, due in itertools.product(
        (0.0, 0.002), (0, 1, 3, 9, 40), (0.75, np.inf), (nothing, all_due, some_due)
    ):
        metrics = {f"m{i}": odd if i == 1 else 1 / (3 + i) for i in range(count)}
        step = lines.Step(7, 2, loss, metrics, 0.0125, waited, *due)
        line, _ = lines.sealed(lines.encode_step(step, list(metrics.values())), lines.START)
        assert len(line) <= lines.STEP_BYTES
        copy = lines.step_of(lines.decode(line[:-1]), list(metrics))
        assert copy[:2] == (7, 2)
        assert copy[4:] == pytest.approx((0.0125, waited, *due))
        assert copy.loss == (None if loss is None else pytest.approx(loss, rel=1e-8, nan_ok=True))
        fitting = dict(list(metrics.items())[: len(copy.metrics)])
        assert copy.metrics == pytest.approx(fitting, rel=1e-8)
        assert len(fitting) == count or len(line) >= lines.STEP_BYTES - len(",0.0123456789")


def test_logs_that_are_no_numbers_on_the_host_are_read_when_the_line_is_written(tmp_path):
    class Own(tk.Sequential):
        def train_step(self, data):
            logs = super().train_step(data)
            return {**logs, "nested": {"size": 3}, "text": tk.constant("x"), "two": tk.ones(2)}

    model = Own([tk.Input((4,)), tk.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(X, np.zeros((60, 3), "f"), 16, 1, verbose=0, run=journal(tmp_path / "a"))
    assert [step.metrics for step in tk.runs.open(tmp_path / "a").steps] == [{"size": 3.0}] * 4


def test_a_recorder_notes_what_numbers_are_at_the_end_of_their_step(tmp_path):
    variable, array = tk.Variable(0.0), np.zeros(())
    with tk.runs.Recorder(tmp_path / "run", weights=tk.Variable([1.0])) as recorder:
        for i in range(3):
            variable.assign(i)
            array[...] = i
            recorder.end_step(array, of_variable=variable, of_array=array)
    steps = list(tk.runs.open(tmp_path / "run").steps)
    assert [step.loss for step in steps] == [0, 1, 2]
    assert [step.metrics for step in steps] == [{"of_variable": i, "of_array": i} for i in range(3)]


class StepOfVariables(tk.Model):
    """Its step returns a variable, which the next step changes."""

    def __init__(self):
        super().__init__()
        self.dense = tk.layers.Dense(1)
        self.count = tk.Variable(0.0, trainable=False)

    def train_step(self, data):
        self.dense(data[0])
        self.count.assign_add(1.0)
        return {"loss": self.count, "count": self.count.value()}


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_fit_notes_what_variables_are_at_the_end_of_their_step(tmp_path, run_eagerly):
    model = StepOfVariables()
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    x, y = np.ones((20, 2), "f"), np.ones((20, 1), "f")
    model.fit(x, y, batch_size=4, verbose=0, run=tmp_path / "run")
    steps = list(tk.runs.open(tmp_path / "run").steps)
    assert [(step.loss, step.metrics) for step in steps] == [(i, {"count": i}) for i in range(1, 6)]
