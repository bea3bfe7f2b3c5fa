"""Runs in a terminal and as a page: what is drawn, how wide, and nothing injected."""

import io
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import trainkit as tk
from trainkit.cli import run_views
from trainkit.cli.main import main
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.lines import Step
from trainkit.runs.views import text_cells
from trainkit.runs.views.curves import Curve, CurvePair, binned, scale_of
from trainkit.runs.views.html_page import page_of
from trainkit.runs.views.overview import board_lines, show_lines, table_lines
from trainkit.runs.views.run_facts import ending, run_facts
from trainkit.runs.views.terminal import Terminal, terminal_of
from trainkit.runs.views.text_chart import chart

EVIL = "\x1b[31mred\n<script>alert(1)</script>&\u202e"


def written(
    folder, losses, end="finished", epochs=(), header=None, resumed=(), names=("accuracy",)
):
    """A journal with a step for each loss, and what is said of epochs."""
    writer = JournalWriter(folder)
    writer.header({"id": "0", "started": "2026-01-02T03:04:05", **(header or {})})
    for n, loss in enumerate(losses, 1):
        metrics = {name: n / 100 for name in names}
        writer.step(Step(n, 0, loss, metrics, 0.01, 0.001, *[None] * 6))
        if n in resumed:
            writer.record("resume", n=n, process=0, environment={})
    for step, epoch, logs in epochs:
        writer.record("epoch", n=step, epoch=epoch, logs=logs, seconds=1.0, waited=0.1)
    if end:
        writer.record("end", n=len(losses), how=end)
    writer.close()
    return tk.runs.open(folder)


def falling(count=100):
    return [2.0 / (1 + i / 10) for i in range(count)]


@pytest.fixture
def run(tmp_path):
    epochs = [
        (50, 0, {"loss": 1.0, "val_loss": 0.9, "val_accuracy": 0.5}),
        (100, 1, {"loss": 0.4, "val_loss": 0.5, "val_accuracy": 0.4}),
    ]
    header = {"fit": {"epochs": 2}, "data": {"batches": 50}}
    return written(tmp_path / "a", falling(), epochs=epochs, header=header)


# ------------------------------------------------------------------ facts


@pytest.mark.parametrize("end", ["finished", "stopped", "interrupted", "failed"])
def test_the_end_that_is_written_is_said(tmp_path, end):
    assert ending(written(tmp_path, [1.0], end)) == end


def test_without_an_end_the_process_tells(tmp_path):
    alive = written(tmp_path / "a", [1.0], None, header={"process": os.getpid()})
    gone = written(tmp_path / "b", [1.0], None, header={"process": 2**31 - 2})
    assert (ending(alive), ending(gone)) == ("running", "killed")


def test_facts_of_a_run(run):
    facts = run_facts(run)
    assert (facts["steps"], facts["steps_planned"]) == (100, 100)
    assert (facts["epochs"], facts["epochs_planned"]) == (2, 2)
    assert facts["best"] == {"val_loss": (0.5, 1), "val_accuracy": (0.5, 0)}
    assert facts["seconds"] == pytest.approx(1.0)
    assert facts["steps_per_second"] == pytest.approx(100)


def test_headers_of_strangers_are_data(tmp_path):
    header = {
        "fit": [], "data": {"batches": "x", "arrays": [3, {"shape": 5}]}, "parent": 4, "code": 1,
        "model": {"layers": 2, "weights": [[0], ["a", ["b"]], "c"]}, "optimizer": 7, "started": 9,
    }  # fmt: skip
    epochs = [(5, 0, {"x": [1], "y": "nan"}), ("z", 0, {}), (5, None, {}), (5, 1, 3)]
    run = written(tmp_path, [1.0], epochs=epochs, header=header)
    for width in (40, 200):
        assert show_lines(run, Terminal(width))
        assert board_lines([run], Terminal(width))
    assert "<svg" in page_of(run)


# ------------------------------------------------------------------ in a terminal


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_nothing_is_wider_than_the_terminal(tmp_path, width, is_ascii):
    runs = [
        written(tmp_path / f"{name}日本", falling(30 + i), epochs=[(9, 0, {"val_loss": 1.0})])
        for i, name in enumerate("abc")
    ]
    terminal = Terminal(width, 24, False, is_ascii)
    lines = [
        *board_lines(runs, terminal),
        *show_lines(runs[0], terminal),
        *table_lines([run_facts(run) for run in runs], terminal),
    ]
    assert max(map(text_cells.width_of, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    assert all(line.isascii() for line in lines) or not is_ascii


def test_runs_stand_side_by_side_where_there_is_room(run):
    two = board_lines([run, run], Terminal(80))
    one = board_lines([run, run], Terminal(40))
    assert sum("loss" in line and "val" in line for line in two) == 1
    assert sum("loss" in line and "val" in line for line in one) == 2


def test_a_falling_curve_falls(tmp_path):
    curve = Curve(np.arange(1.0, 101), np.linspace(1, 0, 100))
    pair = CurvePair("loss", curve, None)
    lines = chart(pair, scale_of([curve]), 100, Terminal(40, is_ascii=True), 40, 6)[1:-1]
    starts = [len(line) - len(line[9:].lstrip()) for line in lines]
    assert starts == sorted(starts)
    assert len(set(starts)) == 6


def test_charts_of_few_or_unusual_values():
    for values in (
        [1.0],
        [3.0, 3.0],
        [np.nan, np.inf],
        [],
        [1e308, -1e308],
        [1e-300, 1e300],
        [0.0],
    ):
        curve = Curve(np.arange(1.0, len(values) + 1), np.array(values, np.float64))
        for terminal in (Terminal(40), Terminal(40, is_ascii=True)):
            lines = chart(
                CurvePair("x", curve, curve), scale_of([curve]), len(values), terminal, 40, 5
            )
            assert len(lines) == 7
            assert all(text_cells.width_of(line) == 40 for line in lines)


def test_the_first_step_that_is_not_finite_is_named(tmp_path):
    run = written(tmp_path, [1.0, 0.5, float("nan"), float("inf")])
    assert "not finite from step 3" in "\n".join(show_lines(run, Terminal(80)))


def test_a_spike_stays_within_its_bin():
    curve = Curve(np.arange(1.0, 1001), np.ones(1000))
    curve.values[500] = 9
    low, mean, high = binned(curve, 1, 1000, 10)
    assert high.max() == 9
    assert np.argmax(high) == np.argmax(mean) == 5
    assert low.max() == 1


def test_names_of_others_are_shown_escaped(tmp_path):
    run = written(tmp_path / "a", [1.0, 2.0], names=(EVIL,), header={"model": {"name": EVIL}})
    for terminal in (Terminal(200), Terminal(200, is_ascii=True)):
        text = "\n".join([*show_lines(run, terminal), *board_lines([run], terminal, [EVIL])])
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"\x1b[31mred" in text


def test_colors_only_where_they_are_shown(run, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    class Stream(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    assert terminal_of(Stream()).colored
    assert not terminal_of(io.StringIO()).colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal_of(Stream()).colored
    assert "\x1b[36m" in "\n".join(show_lines(run, Terminal(80, colored=True)))
    Stream.encoding = "latin-1"
    assert terminal_of(Stream()).is_ascii


# ------------------------------------------------------------------ a page


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def test_a_page_needs_nothing_and_lets_nothing_in(tmp_path):
    logs = {EVIL: 1.0, f"val_{EVIL}": 2.0, "val_loss": 0.1}
    header = {"model": {"name": EVIL}, "versions": {EVIL: EVIL}, "id": EVIL, "started": EVIL}
    run = written(tmp_path / "<b>", falling(), names=(EVIL,), epochs=[(9, 0, logs)], header=header)
    text = page_of(run)
    page = Page(text)
    assert "script" not in page.tags
    assert {"svg", "table", "details"} <= set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name[:2] == "on"]
    assert not re.search(r"url\(|https?:|@import", text)
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_page_of_many_steps_is_small(tmp_path):
    run = written(tmp_path / "a", list(np.random.default_rng(0).uniform(size=5000)))
    assert len(page_of(run)) < 40_000


# ------------------------------------------------------------------ commands


def test_commands(tmp_path, capsys, run):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "journal.jsonl").write_text("no journal\n" * 3)
    assert main(["runs", "ls", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "finished" in out
    assert "unreadable" in out
    assert main(["runs", "ls", str(tmp_path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert sorted(item["ending"] for item in listed) == ["finished", "unreadable"]
    folder = str(run.folder)
    assert main(["runs", "show", folder]) == 0
    assert "best val_loss 0.5, in epoch 2" in capsys.readouterr().out
    assert main(["runs", "show", folder, "--json"]) == 0
    curves = json.loads(capsys.readouterr().out)["curves"]
    assert curves["loss"]["training"]["values"] == pytest.approx(falling())
    page = tmp_path / "page.html"
    assert main(["runs", "show", folder, "--html", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    capsys.readouterr()
    assert main(["runs", "board", folder, folder, "--once"]) == 0
    assert "loss" in capsys.readouterr().out
    assert main(["runs", "board", folder, "--metric", "typo"]) == 1
    assert "no run has 'typo'; they have loss, accuracy" in capsys.readouterr().err
    assert main(["runs", "ls", str(tmp_path / "nowhere")]) == 1
    (tmp_path / "empty").mkdir()
    assert main(["runs", "ls", str(tmp_path / "empty")]) == 0


def test_a_live_board_draws_until_the_run_ends(tmp_path, capsys, monkeypatch):
    writer = JournalWriter(tmp_path / "a")
    writer.header({"id": "0", "process": os.getpid()})
    writer.step(Step(1, 0, 1.0, {}, 0.01, 0.0, *[None] * 6))
    writer.flush()

    def go_on(seconds):
        assert seconds == 2.0
        writer.step(Step(2, 0, 0.25, {}, 0.01, 0.0, *[None] * 6))
        writer.record("end", n=2, how="finished")
        writer.close()

    monkeypatch.setattr(run_views.time, "sleep", go_on)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["runs", "board", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert out.count("\x1b[H") == 3
    assert "running" in out
    assert "finished" in out
    assert out.endswith("\x1b[?25h\n")
