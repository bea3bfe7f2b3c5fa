"""Collections are off inside a block, and begin where large models may be garbage."""

import gc
import subprocess
import sys
import weakref

import pytest

import trainkit as tk
from trainkit.core.process import garbage
from trainkit.core.process.garbage import no_collections


def test_collections_are_off_inside_and_as_before_behind():
    assert gc.isenabled()
    with no_collections():
        assert not gc.isenabled()
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), no_collections():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_trace_that_fails_leaves_collections_on():
    seen = []

    @tk.function
    def f(x):
        seen.append(gc.isenabled())
        raise LookupError("nothing")

    with pytest.raises(LookupError):
        f(tk.constant(1.0))
    assert seen == [False]
    assert gc.isenabled()


@pytest.fixture
def own_count(monkeypatch):
    """Two megabytes are enough for a collection, and Python begins none by itself."""
    gc.collect()
    monkeypatch.setattr(garbage, "NEW_BYTES", 1 << 21)
    monkeypatch.setattr(garbage._Large, "enough", 1 << 21)
    monkeypatch.setattr(garbage._Large, "new_bytes", 0)
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    yield garbage._Large
    gc.set_threshold(*thresholds)


def model(units):
    return tk.Sequential([tk.Input((1024,)), tk.layers.Dense(units)])


def test_a_large_model_that_is_gone_makes_room_for_the_next(own_count):
    first = model(600)
    kernel = weakref.ref(first.layers[0].kernel)
    del first
    assert kernel() is not None  # it is part of a cycle
    second = model(600)
    assert kernel() is None
    assert own_count.enough == 1 << 21
    # what is in use stays, and the next look at it comes later
    third = model(600)
    assert own_count.enough == 1 << 22
    assert own_count.new_bytes == third.layers[0].kernel.numpy().nbytes
    assert second(tk.ones((1, 1024))).shape == (1, 600)


def test_small_models_and_collections_that_are_off_cost_nothing(own_count, monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda *generation: pytest.fail("collected"))
    first = model(16)
    del first
    model(16)
    assert own_count.new_bytes == 0
    gc.disable()
    try:
        model(600)
        model(600)
    finally:
        gc.enable()
    assert own_count.new_bytes > 1 << 21


_IMPORTS = """
import gc, sys
import trainkit as tk

class States:
    def find_spec(self, name, path, target=None):
        self.states[name] = gc.isenabled()

states = States.states = {}
sys.meta_path.insert(0, States())
"""


@pytest.mark.parametrize(
    "line", ["tk.layers", "tk.Model", "tk.keras.layers", "from trainkit.keras.layers import Dense"]
)
def test_families_are_imported_without_collections(line):
    code = f"{_IMPORTS}\n{line}\nprint(states['trainkit.layers.dense'], gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_the_first_model_of_a_process_follows_none(own_count, monkeypatch):
    monkeypatch.setattr(own_count, "had_model", False)
    inputs = tk.Input((1024,))
    outputs = tk.layers.Dense(600)(inputs)
    looked = []
    monkeypatch.setattr(gc, "collect", lambda: looked.append(len(own_count.owners)))
    tk.Model(inputs, outputs)
    assert not looked
    tk.Model(inputs, outputs)
    assert len(looked) == 1


_AGES = """
import gc, sys
from trainkit.core.process import garbage
if {freezes}:
    gc.freeze()
module = garbage.import_module("trainkit.layers")
assert gc.isenabled() and module is sys.modules["trainkit.layers"]
assert bool(gc.get_freeze_count()) == {freezes}
young = {{id(x) for generation in (0, 1) for x in gc.get_objects(generation=generation)}}
print(any(id(x) in young for x in (module.Dense, module.__dict__)))
"""


@pytest.mark.parametrize("freezes", [False, True])
def test_what_an_import_brings_is_old_unless_the_user_freezes_objects(freezes):
    code = _AGES.format(freezes=freezes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(freezes)]
