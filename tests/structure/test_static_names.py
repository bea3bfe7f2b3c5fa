"""Editors, which run nothing, know the names that a door has at run time, and no others."""

import importlib

import pytest

from tests.docs.test_reference import reference
from tests.structure.static_names import has_fallback, static_names

# Its names are those of `trainkit` beside its own.
WITH_FALLBACK = {"tk.compat.v1"}


@pytest.mark.parametrize("door", reference.DOORS)
def test_the_names_of_a_door_are_known_without_running_it(door):
    path = "trainkit" + door.removeprefix("tk")
    missing = set(reference.public_names(door)) - static_names(path)
    assert not missing, (
        f"{path}: write these under `if TYPE_CHECKING:`, as `from module import name as name`; a "
        "module under a second name has a file of one line, as trainkit/nn.py"
    )
    module = importlib.import_module(path)
    assert [name for name in static_names(path) if not hasattr(module, name)] == []
    assert has_fallback(path) == (door in WITH_FALLBACK), "write it under `if not TYPE_CHECKING:`"


def test_a_file_under_a_second_name_is_never_run():
    assert importlib.import_module("trainkit.nn").__name__ == "trainkit.tf.nn"
    assert importlib.import_module("trainkit.keras.layers").__name__ == "trainkit.layers"
