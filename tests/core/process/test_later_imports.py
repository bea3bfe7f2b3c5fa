"""Modules that are imported when they are first needed."""

import sys
import types

import pytest

from trainkit.core.process.later_imports import DeferredModule, later_members


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that is not imported yet."""
    (tmp_path / "late_module.py").write_text("def double(x):\n    return 2 * x\n\nNUMBER = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_a_deferred_module_is_imported_by_the_first_call(module):
    late = DeferredModule(module)
    function = late.double
    assert module not in sys.modules
    assert repr(function) == "<double of <deferred late_module>>"
    assert function(2) == 4
    assert late.double is sys.modules[module].double
    with pytest.raises(AttributeError, match="__file__ is asked of the module itself"):
        _ = late.__file__


def door(modules):
    """A module whose names are imported when they are asked for."""
    space = types.ModuleType("door")
    vars(space)["__dir__"] = lambda: sorted(modules)
    vars(space)["__getattr__"] = later_members(vars(space), modules)
    return space


def test_a_name_is_imported_when_it_is_asked_for_and_kept(module):
    space = door({"NUMBER": module, module: module})
    assert module not in sys.modules
    assert space.NUMBER == vars(space)["NUMBER"] == 3
    assert space.late_module is sys.modules[module]


def test_an_unknown_name_is_refused_beside_near_ones(module):
    space = door({"NUMBER": module})
    with pytest.raises(AttributeError, match="'door' has no attribute 'NUMBR'; did you mean 'NUMB"):
        _ = space.NUMBR
    assert module not in sys.modules
