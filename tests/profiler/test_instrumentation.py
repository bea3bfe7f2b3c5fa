"""Functions are exchanged in place, and put back as they were."""

import inspect
import types

import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES
from trainkit.profiler import instrumentation
from trainkit.profiler.session import Session


def around(calls):
    def make(original):
        def run(*args, **kwargs):
            calls.append((args, kwargs))
            return original(*args, **kwargs)

        return run

    return make


def test_whoever_holds_the_function_runs_the_other():
    secret = 3

    def f(x, y=2, *, z=1):
        return x + y + z + secret

    held, calls = f, []
    undo = instrumentation.exchanged(f, around(calls))
    assert held(1) == 7
    assert held(1, 5, z=0) == 9
    assert calls == [((1,), {}), ((1, 5), {"z": 0})]
    undo()
    assert held(1) == 7
    assert len(calls) == 2
    assert f.__kwdefaults__ == {"z": 1}
    assert inspect.signature(f) == inspect.signature(lambda x, y=2, *, z=1: None)


def test_methods_that_are_bound_already_and_super():
    class Base:
        def value(self):
            return 1

    class Derived(Base):
        def value(self):
            return super().value() + 1

    bound, calls = Derived().value, []
    undo = instrumentation.exchanged(Derived.value, around(calls))
    assert bound() == 2
    assert len(calls) == 1
    undo()
    assert bound() == 2
    assert len(calls) == 1


def test_an_exception_passes():
    def f():
        raise KeyError("x")

    undo = instrumentation.exchanged(f, around([]))
    with pytest.raises(KeyError, match="x"):
        f()
    undo()


@pytest.mark.parametrize("point", instrumentation.POINTS, ids=lambda p: p.path)
def test_every_point_is_there(point):
    assert isinstance(instrumentation.function_at(point), types.FunctionType)


def test_every_operation_is_looked_in_at_and_put_back():
    # What stands before a Python function in machine code is out of the way meanwhile.
    functions = {n: native.python_function(p.op) for n, p in PRIMITIVES.items()}
    codes = {n: f.__code__ for n, f in functions.items() if hasattr(f, "__code__")}
    assert len(codes) > 100
    undo = instrumentation.instrument(Session())
    changed = [n for n, code in codes.items() if functions[n].__code__ is not code]
    assert len(changed) == len(codes)
    assert native.NATIVE is None or not native.NATIVE.is_on()
    undo()
    assert all(functions[n].__code__ is code for n, code in codes.items())
    assert all(not functions[n].__kwdefaults__ for n in codes)
    assert native.NATIVE is None or native.NATIVE.is_on()


def test_a_point_that_is_missing_leaves_all_as_it_was(monkeypatch):
    point = instrumentation.Point("core.tensor", "Tensor.no_such_method", "x", lambda args: "x")
    monkeypatch.setattr(instrumentation, "POINTS", (*instrumentation.POINTS, point))
    add = native.python_function(PRIMITIVES["add"].op)
    before = add.__code__
    with pytest.raises(KeyError, match="no_such_method"), tk.profiler.profile():
        pass
    assert add.__code__ is before
    monkeypatch.undo()
    with tk.profiler.profile():  # and another one can be taken
        pass


def test_shapes_of_all_sorts_of_inputs():
    given = (tk.ones((2, 3)), 1.0, "text", tk.Variable([1.0]), [1, 2])
    assert instrumentation.shapes_of(given) == ((2, 3), (), None, (1,), None)


class Shapeless:
    @property
    def shape(self):
        raise RuntimeError("asked for a shape")


def test_something_without_a_shape_has_none():
    assert instrumentation.shapes_of((Shapeless(), 1)) == (None, ())


def test_a_span_that_can_not_be_named_ends_all_the_same():
    session = Session()

    def name(args):
        raise RuntimeError("no name")

    def work(x):
        return x + 1

    assert session.timed(work, name)(1) == 2
    assert session.owner.stack == []
    ((label, _),) = session.owner.totals.items()
    assert label.kind == "unnamed"
    assert label.name.endswith("work")


@pytest.mark.usefixtures("on_cpu")
def test_rules_that_are_written_out_in_a_profile_are_the_usual_ones():
    """They are found by running rules on stand-ins, which the profile must not disturb."""
    x = tk.Variable(tk.ones((4, 4)))
    primitive = PRIMITIVES["log1p"]
    primitive.array_vjps = None
    with tk.profiler.profile():
        with tk.GradientTape() as tape:
            y = tk.ops.log1p(x)
        tape.gradient(y, x)
    assert isinstance(primitive.array_vjps[x.numpy().dtype], types.FunctionType)
