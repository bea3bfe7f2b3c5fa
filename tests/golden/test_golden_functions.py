"""The same numbers from `tk.function`: each call, layer and metric of the golden cases, traced."""

import inspect
import warnings

import pytest

from tests.golden.test_golden import ARRAYS, CASES, RUNNER, TURNED

METHODS = {"call": "__call__", "layer": "__call__", "metric": "update_state"}


def _fits(case):
    """Whether the case can be traced: losses of a layer are read inside of the function only."""
    reads_losses = any(call.get("losses") for call in case.get("calls", ()))
    return case["run"] in METHODS and not reads_losses and case["id"] != TURNED


def traced_class(tk, cls, method, made):
    """A subclass whose `method` runs in a `tk.function`, one for each object, noted in `made`."""
    plain = getattr(cls, method)

    def call(self, *args, **kwargs):
        if not tk.executing_eagerly():  # a layer may call itself
            return plain(self, *args, **kwargs)
        if "_traced" not in self.__dict__:
            function = tk.function(lambda *args, **kwargs: plain(self, *args, **kwargs))
            object.__setattr__(self, "_traced", function)
            made.append(function)
        return self._traced(*args, **kwargs)

    return type(cls.__name__, (cls,), {method: call, "__module__": cls.__module__})


@pytest.fixture(scope="module")
def tk():
    return RUNNER.open_impl("trainkit")


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES if _fits(c)])
def test_a_function_gives_what_keras_and_tensorflow_give(tk, case, monkeypatch):
    resolve = RUNNER.resolve
    made = []

    def resolve_traced(tk, name):
        found = resolve(tk, name)
        method = METHODS[case["run"]]
        if inspect.isclass(found) and hasattr(found, method):
            return traced_class(tk, found, method, made)
        if callable(found) and not inspect.isclass(found):
            made.append(tk.function(found))
            return made[-1]
        return found

    assert not tk.config.functions_run_eagerly()

    monkeypatch.setattr(RUNNER, "resolve", resolve_traced)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, reason = RUNNER.run_case(tk, case, ARRAYS, limit=120)
    assert status == "passed", f"{case['id']}: {reason}"
    assert sum(function.experimental_get_tracing_count() for function in made)
