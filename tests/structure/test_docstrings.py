"""Methods and properties of public classes have docstrings, and these describe all arguments."""

import inspect
import re

import pytest

from tests.docs.test_reference import reference


def public_values():
    """What all doors have that is described in the reference."""
    for door in reference.DOORS:
        place = reference.holder(door)
        yield from (getattr(place, name) for name in reference.public_names(door))


def public_classes():
    """The classes among them."""
    return {value for value in public_values() if inspect.isclass(value)}


def is_member(value):
    """Whether a class has this as a method or a property."""
    return isinstance(value, property) or inspect.isfunction(getattr(value, "__func__", value))


def without_text(kind):
    """Public methods and properties of a class that neither it nor a base describes."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("trainkit")]
    for name in sorted({name for base in bases for name in vars(base) if name[0] != "_"}):
        members = [vars(base)[name] for base in kind.__mro__ if name in vars(base)]
        if is_member(members[0]) and not any(member.__doc__ for member in members):
            yield f"{kind.__module__}.{kind.__qualname__}.{name}"


def test_each_public_method_says_what_it_does():
    names = sorted(name for kind in public_classes() for name in without_text(kind))
    assert not names, "\n".join(["write a docstring, a line at least, for", *names])


def test_a_method_without_a_text_is_seen():
    class Base:
        """A class."""

        def described(self):
            """What it does."""

    Base.__module__ = "trainkit.base"

    class Kind(Base):
        """Another."""

        def described(self):
            return 1

        def bare(self):
            return 1

        @property
        def size(self):
            return 1

        @classmethod
        def make(cls):
            return 1

        def _private(self):
            return 1

    Kind.__module__, Kind.__qualname__ = "trainkit.kind", "Kind"
    expected = ["trainkit.kind.Kind.bare", "trainkit.kind.Kind.make", "trainkit.kind.Kind.size"]
    assert list(without_text(Kind)) == expected


@pytest.mark.parametrize("name", ["Dataset", "Tensor", "Sequential", "Adam"])
def test_classes_that_people_use_are_among_them(name):
    assert name in {kind.__name__ for kind in public_classes()}


def described(value):
    """Public functions behind a value: itself, or the methods of a class, and what describes them.

    The linter's rule reads the source, where arguments that a family shares stand in a table.
    """
    if inspect.isfunction(value):
        yield value.__name__, value, value.__doc__
    elif inspect.isclass(value):
        yield value.__qualname__, value.__init__, vars(value)["__doc__"]
        for name, member in vars(value).items():
            function = getattr(member, "__func__", member)
            if name[0] != "_" and inspect.isfunction(function):
                yield f"{value.__qualname__}.{name}", function, function.__doc__


def undescribed(value):
    """Arguments that a docstring which has a section for them leaves out."""
    for name, function, doc in described(value):
        _, heading, section = inspect.cleandoc(doc or "").partition("\nArgs:\n")
        code = getattr(inspect.unwrap(function), "__code__", None)
        if heading and code is not None:
            entries = re.findall(r"^    ([\w*, ]+):", section.partition("\n\n")[0], re.MULTILINE)
            known = {word.strip("* ") for entry in entries for word in entry.split(",")}
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            left_out = {a for a in arguments if a[0] != "_" and a not in ("self", "cls")} - known
            yield from (f"{name}: {argument}" for argument in sorted(left_out))


def test_each_argument_is_described_where_some_are():
    missing = sorted({line for value in public_values() for line in undescribed(value)})
    assert not missing, "\n".join(["describe these arguments", *missing])


def test_an_argument_without_an_entry_is_seen():
    def described_in_part(x, y, *, scale=1.0, name=None):
        """A function.

        Args:
            x, y: numbers.
            name: not kept.
        """

    assert list(undescribed(described_in_part)) == ["described_in_part: scale"]
