"""The table of single operations: trainkit's side of each row runs, on small matrices."""

import importlib
import pathlib
import sys

import numpy as np
import pytest

import trainkit as tk

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


def modules(*names):
    sys.path.insert(0, str(FOLDER))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(FOLDER))
        for name in (*names, "rarer_calls"):
            sys.modules.pop(name, None)


OP_CALLS, OP_OPERANDS = modules("op_calls", "op_operands")
BY_NAME = {call.name: call for call in OP_CALLS.CALLS}


def test_names_are_of_one_row_each():
    assert len(BY_NAME) == len(OP_CALLS.CALLS)
    assert set(OP_CALLS.DIFFERENTIATED) <= set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_each_call_gives_tensors(name):
    call = BY_NAME[name]
    arrays = [OP_OPERANDS.operand(letter, 10) for letter in call.operands]
    y = call.ours(tk, *map(tk.constant, arrays))
    for tensor in y if isinstance(y, list | tuple) else [y]:
        assert isinstance(tensor, tk.Tensor)


@pytest.mark.parametrize("name", OP_CALLS.DIFFERENTIATED)
def test_differentiated_calls_have_gradients(name):
    call = BY_NAME[name]
    tensors = [tk.constant(OP_OPERANDS.operand(letter, 10)) for letter in call.operands]
    sources = [x for x in tensors if x.dtype.is_floating]
    with tk.GradientTape() as tape:
        for x in sources:
            tape.watch(x)
        y = call.ours(tk, *tensors)
    for gradient, x in zip(tape.gradient(y, sources), sources, strict=True):
        assert gradient.shape == x.shape
        assert np.isfinite(gradient.numpy()).all()


def test_the_script_sends_both_the_same_calls(bench_modules, monkeypatch, capsys):
    one_thread = bench_modules("one_thread")
    asked = []

    class Stand:
        def __init__(self, framework):
            self.framework = framework

        def ask(self, **question):
            asked.append((self.framework, question.get("name")))
            return {"seconds": 1.0 if self.framework == "trainkit" else 4.0}

        def end(self):
            asked.append((self.framework, "end"))

    monkeypatch.setattr(one_thread, "Contestant", Stand)
    one_thread.main(["expm1", "--rounds", "2"])
    assert "| expm1 | 0.25 | 0.25 | 0.25 |" in capsys.readouterr().out
    assert asked[:2] == [("trainkit", "expm1"), ("torch", "expm1")]
    assert asked[-2:] == [("trainkit", "end"), ("torch", "end")]


def test_the_script_serves_what_it_is_asked_for(bench_modules):
    one_thread = bench_modules("one_thread")
    contestant = one_thread.Contestant("trainkit")
    try:
        for gradients in (False, True):
            question = {"name": "add", "size": 10, "gradients": gradients, "seconds": 1e-4}
            assert contestant.ask(**question) == {}
            assert contestant.ask()["seconds"] > 0
    finally:
        contestant.end()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [({"torch": 4.0, "tensorflow": 2.0}, "0.50"), ({"torch": 4.0}, "0.25"), ({}, "nan")],
)
def test_the_script_compares_with_the_fastest_peer_that_has_the_call(
    bench_modules, monkeypatch, capsys, seconds, shown
):
    one_thread = bench_modules("one_thread")

    class Stand:
        def __init__(self, framework):
            self.framework = framework

        def ask(self, **question):
            if self.framework == "trainkit":
                return {"seconds": 1.0}
            if self.framework in seconds:
                return {"seconds": seconds[self.framework]}
            return {"lacking": "AttributeError"}

        def end(self):
            pass

    monkeypatch.setattr(one_thread, "Contestant", Stand)
    one_thread.main(["expm1", "--peers", "torch,tensorflow"])
    assert f"| expm1 | {shown} |" in capsys.readouterr().out


def test_operands_of_capital_letters_lie_scattered():
    x, turned = OP_OPERANDS.operand("x", 5), OP_OPERANDS.operand("X", 5)
    np.testing.assert_array_equal(turned, x.T)
    assert not turned.flags.c_contiguous
