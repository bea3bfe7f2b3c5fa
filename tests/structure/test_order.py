"""Inside a room, imports go down, too: the folders and files of a package stand in an order."""

import pytest

from tests.structure.imports import import_graph

# What stands directly in a package, or one file of a folder as "folder.file", from the ground up.
# A file imports what stands before its own place, or at it. A file has the place of its folder
# unless it has one of its own.
ORDER = {
    "compiler": ["ir", "sizes", "generalized", "tracer", "flat", "schedule", "llvm", "cuda"],
    "graph": [
        "ir",
        "control_flow",
        "autograph",
        "runtime",
        "gpu",
        "runtime.tiers",  # chooses between programs, those of a GPU among them
        "tracing",
    ],
}


def place(module: str, room: str) -> str:
    """Where in the order of `room` a module stands: the longest entry that its name begins with."""
    name = module.removeprefix(f"trainkit.{room}.")
    fits = [entry for entry in ORDER[room] if f"{name}.".startswith(f"{entry}.")]
    if not fits:
        raise KeyError(f"give {name!r} a place in ORDER[{room!r}]")
    return max(fits, key=len)


def upward(room: str, arrows: dict[str, set[str]]) -> list[str]:
    """The imports that go up within a room."""
    inside = f"trainkit.{room}."
    rank = {entry: i for i, entry in enumerate(ORDER[room])}
    return [
        f"{here} imports {there}"
        for here, its in sorted(arrows.items())
        for there in sorted(its)
        if here.startswith(inside)
        and there.startswith(inside)
        and rank[place(there, room)] > rank[place(here, room)]
    ]


@pytest.mark.parametrize("room", ORDER)
def test_imports_within_a_room_go_down(room):
    arrows = {name: {found.target for found in its} for name, its in import_graph().items()}
    assert not upward(room, arrows)


def test_an_import_upward_is_found_and_a_file_can_stand_above_its_folder():
    arrows = {
        "trainkit.graph.ir.nodes": {"trainkit.graph.gpu.placement"},
        "trainkit.graph.runtime.program": {"trainkit.graph.ir.nodes"},
        "trainkit.graph.runtime.tiers": {"trainkit.graph.gpu.placement"},
        "trainkit.graph.gpu.placement": {"trainkit.graph.runtime.program"},
    }
    assert upward("graph", arrows) == [
        "trainkit.graph.ir.nodes imports trainkit.graph.gpu.placement"
    ]


def test_a_folder_without_a_place_is_reported():
    with pytest.raises(KeyError, match=r"give 'attic\.old' a place"):
        place("trainkit.graph.attic.old", "graph")
