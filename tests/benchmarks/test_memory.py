"""The peaks of memory that `benchmarks/memory.py` prints."""

import re
from types import SimpleNamespace

import pytest


def test_a_cell_is_measured_in_a_process_of_its_own(bench_modules, monkeypatch, capsys):
    memory = bench_modules("memory")
    monkeypatch.setattr(memory, "NETWORKS", {"dense": ("two layers", [(2, 8)])})
    asked = []

    def measure(python, *cell):
        asked.append(cell)
        return {"trainkit": 50.0, "torch": 100.0}[cell[0]]

    monkeypatch.setattr(memory, "_in_a_process", measure)
    memory.main(["dense", "--torch", "python"])
    assert asked == [("trainkit", "dense", 2, 8, 8), ("torch", "dense", 2, 8, 8)]
    assert re.search(r"\| 2 \| 8 \| 50 \| 100 \| 0.50 \|", capsys.readouterr().out)


@pytest.mark.parametrize("network", ["dense", "conv"])
def test_steps_are_done_and_the_peak_is_above_the_import(bench_modules, monkeypatch, network):
    memory, losses = bench_modules("memory"), []
    monkeypatch.setattr(memory, "LEAST_SECONDS", 0.0)
    build = memory._keras_step

    def built(*cell):
        step = build(*cell)
        return lambda: losses.append(step())

    monkeypatch.setattr(memory, "_keras_step", built)
    # This process may have held more before; the peak that counts is one above what it holds now.
    peak = memory._resident() / 1024 + 10_000
    monkeypatch.setattr(memory.resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=peak))
    assert memory.measure("trainkit", network, 2, 2, 3) == pytest.approx(10.24, abs=9)
    assert len(losses) == 3
    assert losses[2] < losses[0]


def test_an_unknown_network_is_an_error(bench_modules, capsys):
    with pytest.raises(SystemExit):
        bench_modules("memory").main(["nobody"])
    assert "no network nobody; there are conv, dense, embedding" in capsys.readouterr().err
