"""What counts as a result or an argument of which an editor knows nothing."""

import pytest

from tests.editors import signatures

PAGE = """
from typing import Any, overload

def typed(x: int, *more: str) -> str: return more[x]
def untyped(x, y=1): ...
def partly(x: Any, y: int, z: Any | None = None) -> Any: ...
@overload
def chosen(x: int) -> int: ...
@overload
def chosen(x: Any) -> Any: ...
def chosen(x: Any) -> Any: ...

class Base:
    def __init__(self, size: int, name: Any = None) -> None: ...
    def call(self, inputs: Any) -> Any: ...
    def _private(self, x: Any) -> Any: ...
    @property
    def shape(self) -> Any: ...

class Derived(Base):
    def save(self, path: Any) -> None: ...

class Called:
    def __call__(self, x: Any) -> int: return 1

called = Called()
tk_typed, tk_untyped, tk_partly, tk_chosen, tk_called = typed, untyped, partly, chosen, called
tk_Derived = Derived
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return signatures.read_types(PAGE, str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("typed", set()),
        ("untyped", {"return", "x", "y"}),
        ("partly", {"return", "x", "z"}),
        ("chosen", set()),
        ("called", {"x"}),
    ],
)
def test_gaps_of_a_function(page, name, unknown):
    parts = signatures.unknown_parts(f"tk.{name}", page.names[f"tk_{name}"].node)
    assert set(parts) == {(f"tk.{name}", gap) for gap in unknown}


def test_gaps_of_a_class_are_those_of_its_methods_and_bases(page):
    assert set(signatures.unknown_parts("tk.Derived", page.names["tk_Derived"].node)) == {
        ("page.Base.__init__", "name"),
        ("page.Base.shape", "return"),
        ("page.Derived.save", "path"),
    }


def test_a_page_with_an_error_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"mypy: .*Name .nothing. is not defined"):
        signatures.read_types("x = nothing\n", str(tmp_path))


def test_counts_may_fall_alone():
    parts = [("tk.nn.relu", "return"), ("tk.nn.relu", "x"), ("tk.nn.relu", "y")]
    now = signatures.counts({"tk.nn": parts})
    assert now == {"tk.nn": [1, 2]}
    assert list(signatures.grown(now, {"tk.nn": [1, 2], "tk": [3, 3]})) == []
    assert list(signatures.grown(now, {"tk.nn": [2, 1]})) == [
        "tk.nn: 2 arguments without a type, 1 before"
    ]
    assert len(list(signatures.grown(now, {}))) == 2


def test_the_kept_counts_are_of_doors():
    names = {name.rpartition(".")[0] for name in signatures.public_names()}
    kept = signatures.read_kept()
    assert kept
    assert set(kept) <= names
