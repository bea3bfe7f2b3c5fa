"""What bars show on terminals of several widths, in notebooks and in files."""

import contextlib
import io
import os
import pty
import re
import sys
import termios
import threading

import numpy as np
import pytest
from tqdm import tqdm

import trainkit as tk
from trainkit.callbacks import progress
from trainkit.callbacks.progbar import Progbar, duration_text, logs_text, rate_text
from trainkit.callbacks.status_line import StatusLine, fitted, kind_of

RESULTS = ("loss", "accuracy", "val_loss", "val_accuracy")


class Screen:
    """A terminal of so many columns: what it shows when a program's bytes have come."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [""], 0, 0
        self.frames = []

    def feed(self, text):
        for token in re.findall(r"\x1b\[(\d*)([A-Z])|(\r)(?!\n)|(\r?\n)|([^\x1b\r\n])", text):
            count, letter, back, down, char = token
            if letter == "A":
                self.row -= int(count or 1)
            elif back:
                self.frames.append(self.text)
                self.column = 0
            elif down:
                self._down()
            elif char:
                if self.column == self.columns:
                    self._down()
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1

    def _down(self):
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.rows):
            self.rows.append("")

    @property
    def text(self):
        return "\n".join(row.rstrip() for row in self.rows)


@pytest.fixture
def terminal():
    """`terminal(columns, action)` is the screen after `action` printed to a real pty."""

    def run(columns, action, said=None):
        screen, (master, slave) = Screen(columns), pty.openpty()
        termios.tcsetwinsize(slave, (24, columns) if said is None else (0, said))
        parts = []

        def read():
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # the other end is closed
                    return
                if not part:
                    return
                parts.append(part)

        reader = threading.Thread(target=read)
        reader.start()
        with os.fdopen(slave, "w", encoding="utf-8") as stream:
            with contextlib.redirect_stdout(stream):
                action()
        reader.join()
        os.close(master)
        screen.written = b"".join(parts).decode()
        screen.feed(screen.written)
        return screen

    return run


@pytest.fixture
def _drawn_always(monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_DRAWS", -1.0)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE_FIRST_PREDICT_BAR", -1.0)


def train(epochs=2, verbose=1, **more):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3)])
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    x, y = np.ones((12, 4), np.float32), np.zeros(12, np.int32)
    return model.fit(
        x, y, batch_size=3, epochs=epochs, verbose=verbose, validation_data=(x, y), **more
    )


@pytest.mark.usefixtures("_drawn_always")
@pytest.mark.parametrize("columns", [30, 80, 100, 200])
def test_the_line_of_an_epoch_ends_with_the_validation(terminal, columns):
    screen = terminal(columns, train)
    shown = screen.text
    assert max(map(len, screen.rows)) <= columns
    joined = " ".join(shown.split())
    for epoch in ("Epoch 1/2", "Epoch 2/2"):
        assert joined.count(epoch) == 1
    for line in re.split(r"(?=Epoch)", joined)[1:]:
        assert re.fullmatch(
            r"Epoch ./2 4/4[ ━]* \S+s \d+[mu]s/step loss: [\d.]+ accuracy: [\d.]+ "
            r"val_loss: [\d.]+ val_accuracy: [\d.]+ ?",
            line.replace(" - ", " "),
        ), line
    assert not re.search(r" ,|\.\.\.", shown)


@pytest.mark.usefixtures("_drawn_always")
def test_wide_terminals_have_one_row_with_a_bar(terminal):
    screen = terminal(200, train)
    assert len([row for row in screen.rows if row]) == 2
    assert all("━" * 20 in row for row in screen.rows[:2])


@pytest.mark.usefixtures("_drawn_always")
@pytest.mark.parametrize("columns", [80, 200])
def test_training_and_validation_have_bars_and_times_left(terminal, columns):
    frames = "\n".join(terminal(columns, train).frames)
    assert re.search(r"Epoch 1/2  2/4.* left - loss", frames.replace("\n", " "))
    assert re.search(r"Epoch 1/2  validation 2/4.*left", frames)
    if columns == 200:
        assert re.search(r"validation 2/4 ━{10}╌{10} - \d+", frames)


@pytest.mark.parametrize("columns", [40, 200])
def test_the_last_line_of_an_epoch_is_drawn_once(terminal, columns):
    written = terminal(columns, train).written
    assert written.count("val_loss") == written.count("val_accuracy") == 2


def test_the_line_of_an_evaluation_breaks_between_its_numbers(terminal):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae", "mape"])
    x = np.ones((8, 4), np.float32)
    screen = terminal(40, lambda: model.evaluate(x, x[:, :1]))
    rows = [row for row in screen.rows if row.strip()]
    assert len(rows) > 1
    assert max(map(len, rows)) < 40
    assert re.fullmatch(
        r"Evaluated 1 batch \S+s loss: [\d.]+ mae: [\d.]+ mape: [\d.]+",
        " ".join(" ".join(rows).replace(" - ", " ").split()),
    )


@pytest.mark.usefixtures("_drawn_always")
def test_data_of_unknown_length_is_counted(terminal):
    def run():
        model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
        model.compile("sgd", "mse")
        batches = ((np.ones((2, 4)), np.ones((2, 1))) for _ in range(3))
        model.fit(batches, epochs=1)

    screen = terminal(80, run)
    assert "2 steps" in "\n".join(screen.frames)
    assert re.match(r"Epoch 1/1  3/3 ", screen.text)


@pytest.mark.usefixtures("_drawn_always")
def test_evaluate_and_predict_leave_no_bar_behind(terminal):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((96, 4), np.float32), np.ones((96, 1), np.float32)
    screen = terminal(80, lambda: model.evaluate(x, y))
    assert "Evaluate  2/3 " in "\n".join(screen.frames)
    assert re.fullmatch(r"Evaluated 3 batches - \S+s - loss: [\d.]+\n", screen.text)
    screen = terminal(80, lambda: model.evaluate(x[:32], y[:32]))
    assert screen.text.startswith("Evaluated 1 batch - ")
    screen = terminal(80, lambda: model.predict(x))
    assert "Predict  2/3 " in "\n".join(screen.frames)
    assert not screen.text.strip()


@pytest.mark.parametrize("verbose", [1, 2, "auto"])
def test_a_file_gets_a_plain_line_for_each_epoch(capsys, verbose):
    train(verbose=verbose)
    lines = capsys.readouterr().out.splitlines()
    if verbose == 2:  # two lines an epoch, as of Keras
        assert lines[::2] == ["Epoch 1/2", "Epoch 2/2"]
        lines = lines[1::2]
    assert len(lines) == 2
    for number, line in enumerate(lines, 1):
        assert line.startswith("4/4 - " if verbose == 2 else f"Epoch {number}/2 - ")
        assert "\x1b" not in line
        assert "\r" not in line
        assert [part.split(":")[0] for part in line.split(" - ")[2:]] == list(RESULTS)


def test_silence_is_silent(capsys, terminal):
    train(verbose=0)
    assert capsys.readouterr().out == ""
    assert terminal(80, lambda: train(verbose=0)).text == ""


def test_two_gives_plain_lines_on_a_terminal_too(terminal):
    screen = terminal(200, lambda: train(verbose=2))
    assert len([row for row in screen.rows if row]) == 4
    assert not screen.frames


class Notebook(io.StringIO):
    """Looks like the stream of a notebook's kernel."""


Notebook.__module__ = "ipykernel.iostream"


@pytest.mark.usefixtures("_drawn_always")
def test_a_notebook_draws_over_one_line_without_terminal_codes():
    stream = Notebook()
    assert kind_of(stream) == "notebook"
    with contextlib.redirect_stdout(stream):
        train()
    written = stream.getvalue()
    assert "\x1b" not in written
    lines = written.split("\n")
    assert len(lines) == 3
    assert all("\r" in line for line in lines[:2])
    for line in lines[:2]:
        assert "val_accuracy" in line.split("\r")[-1]


def test_what_does_not_fit_goes_on_in_the_next_row():
    pieces = ["12ms/step 3s left", "loss: 0.1234", "accuracy: 0.9876"]
    assert fitted("Epoch 1/3", 0.5, pieces, 200)[0].count("━") == 10
    assert fitted("Epoch 1/3", 0.5, pieces, 70)[0].count("━") == 2
    assert fitted("Epoch 1/3", 0.5, pieces, 64) == ["Epoch 1/3 - " + " - ".join(pieces)]
    rows = fitted("Epoch 1/3", 0.5, pieces, 30)
    assert rows == ["Epoch 1/3 - 12ms/step 3s left", "    loss: 0.1234", "    accuracy: 0.9876"]
    assert fitted("a", 0.5, [], 80, plain=True) == ["a " + "=" * 10 + "." * 10]


def test_a_stream_that_knows_no_such_characters_gets_others(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with contextlib.redirect_stdout(stream):
        line = StatusLine()
        line.draw("a", 1.0)
        line.end("b", 1.0)
    assert b"====" in stream.buffer.getvalue()


def test_durations_and_rates():
    texts = [duration_text(s) for s in (0.04, 9.94, 12.3, 65, 3725)]
    assert texts == ["0.0s", "9.9s", "12s", "1:05", "1:02:05"]
    assert [rate_text(s, "step") for s in (2.5, 0.0123, 4.2e-5, 0)] == [
        "2.5s/step",
        "12ms/step",
        "42us/step",
        "0s/step",
    ]
    assert (
        logs_text({"val_a": 1.0, "b": 0.5, "loss": 1e-5})
        == "loss: 1.0000e-05 - b: 0.5000 - val_a: 1.0000"
    )


# ------------------------------------------------------------------ Progbar


@pytest.mark.parametrize(
    ("names", "shown"),
    [({}, "1.0"), ({"stateful_metrics": ["v"]}, "2.0"), ({"stateless_metrics": []}, "2.0")],
    ids=str,
)
def test_values_are_averaged_or_shown_as_they_are(capsys, names, shown):
    bar = Progbar(3, interval=0.0, **names)
    bar.update(1, values=[("v", 0.0)])
    bar.add(1, values=[("v", np.array([2.0, 2.0]))])
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"v: {shown}000")
    bar.add(1, values=[("v", 7.0)])
    last = capsys.readouterr().out
    assert last.startswith("3/3 - ")
    assert last.endswith("v: 7.0000\n")


def test_progbar_is_quiet_when_asked_and_brief_with_two(capsys):
    quiet, brief = Progbar(2, verbose=0), Progbar(2, verbose=2)
    for bar in (quiet, brief):
        bar.update(1, [("v", 1.0)])
    assert capsys.readouterr().out == ""
    quiet.update(2)
    brief.update(2)
    assert capsys.readouterr().out.startswith("2/2 - ")
    Progbar(0).update(0, finalize=True)
    Progbar(None).update(5, finalize=True)
    assert "5 steps" in capsys.readouterr().out


def test_progbar_refuses_what_contradicts():
    with pytest.raises(ValueError, match="Only one of"):
        Progbar(1, stateful_metrics=[], stateless_metrics=[])
    with pytest.raises(ValueError, match="verbose must be 0, 1 or 2"):
        Progbar(1, verbose=3)


def test_it_stands_below_a_bar_of_the_program(terminal):
    def run():
        with tqdm(total=2, desc="seeds", file=sys.stdout, ncols=60) as seeds:
            for _ in range(2):
                line = StatusLine()
                line.draw("epoch", 0.5, ["loss: 1"])
                line.draw("epoch", 1.0, ["loss: 0"])
                line.clear()
                seeds.update()

    screen = terminal(80, run)
    below = [frame.split("\n") for frame in screen.frames if "loss: 0" in frame]
    assert below
    assert all("seeds" in rows[0] and "epoch" in rows[1] for rows in below)
    (bar,) = (row for row in screen.rows if row.strip())
    assert "seeds: 100%" in bar


def test_a_terminal_that_does_not_say_its_size_has_a_bar(terminal):
    """As a terminal of a container or a serial line: it says that it has no columns."""

    def run():
        line = StatusLine()
        line.draw("epoch", 0.5, ["loss: 1"])
        line.end("epoch", 1.0, ["loss: 0"])

    def shown(columns):
        return [row.rstrip() for row in terminal(columns, run, said=0).rows if row.strip()]

    assert shown(80) == ["epoch " + "━" * 20 + " - loss: 0"]


def test_a_note_stands_above_the_line(terminal):
    def run():
        line = StatusLine()
        line.draw("epoch", 0.5, ["loss: 1"])
        line.note("tracing ...")
        line.end("epoch", 1.0, ["loss: 0"])

    rows = [row.strip() for row in terminal(80, run).rows if row.strip()]
    assert rows == ["tracing ...", "epoch " + "━" * 20 + " - loss: 0"]


def test_a_status_stands_below_the_line_until_it_is_over(terminal):
    def run():
        line = StatusLine()
        line.status("compiling ...")
        line.draw("epoch 1", 0.5, ["loss: 1"])
        line.status("compiling more ...")
        line.end("epoch 1", 1.0, ["loss: 0"])
        line.draw("epoch 2", 0.5, ["loss: 1"])
        line.status("")
        line.end("epoch 2", 1.0, ["loss: 0"])

    screen = terminal(80, run)
    half, full = "━" * 10 + "╌" * 10, "━" * 20
    frames = [frame.rstrip().split("\n") for frame in screen.frames]
    for rows in (
        ["compiling ..."],
        [f"epoch 1 {half} - loss: 1", "    compiling ..."],
        [f"epoch 1 {half} - loss: 1", "    compiling more ..."],
        [f"epoch 1 {full} - loss: 0", f"epoch 2 {half} - loss: 1", "    compiling more ..."],
    ):
        assert rows in frames
    rows = [row.strip() for row in screen.rows if row.strip()]
    assert rows == [f"epoch 1 {full} - loss: 0", f"epoch 2 {full} - loss: 0"]


@pytest.mark.parametrize("way", ["leave", "clear"])
def test_a_status_does_not_stay_when_a_loop_is_left(terminal, way):
    def run():
        line = StatusLine()
        line.draw("epoch", 0.5, ["loss: 1"])
        line.status("compiling ...")
        getattr(line, way)()
        print("the end", file=sys.stdout)

    rows = [row.strip() for row in terminal(80, run).rows if row.strip()]
    assert rows == ["epoch " + "━" * 10 + "╌" * 10 + " - loss: 1"] * (way == "leave") + ["the end"]


def test_a_status_that_is_too_long_for_a_terminal_is_cut(terminal):
    def run():
        line = StatusLine()
        line.draw("epoch", 0.5, ["loss: 1"])
        line.status("compiling " + "x" * 90)
        line.leave()

    screen = terminal(40, run)
    assert any("compiling xxx" in frame for frame in screen.frames)
    assert all(len(row) < 40 for frame in screen.frames for row in frame.split("\n"))


def test_in_a_notebook_a_status_is_in_the_line():
    line, stream = StatusLine(), Notebook()
    with contextlib.redirect_stdout(stream):
        line.draw("epoch", 0.5, ["loss: 1"])
        line.status("compiling ...")
        line.draw("epoch", 1.0, ["loss: 0"])
        line.status("")
        line.leave()
    shown = [text.strip() for text in stream.getvalue().split("\r") if text.strip()]
    half, full = "━" * 10 + "╌" * 10, "━" * 20
    assert shown[1:4] == [
        f"epoch {half} - loss: 1 - compiling ...",
        f"epoch {full} - loss: 0 - compiling ...",
        f"epoch {full} - loss: 0",
    ]
    assert "\x1b" not in stream.getvalue()


def test_a_file_has_no_status(capsys):
    line = StatusLine()
    line.draw("epoch")
    line.status("compiling ...")
    line.leave()
    assert capsys.readouterr().out == "epoch\n"
