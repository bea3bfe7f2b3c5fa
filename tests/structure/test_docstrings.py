"""Methods and properties of public classes have docstrings, their own or those of a base."""

import inspect

import pytest

from tests.docs.test_reference import reference


def public_classes():
    """The classes of all doors that are described in the reference."""
    values = (
        getattr(reference.holder(door), name)
        for door in reference.DOORS
        for name in reference.public_names(door)
    )
    return {value for value in values if inspect.isclass(value)}


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
