"""Docstrings of which parts are written once for several objects."""

import inspect

import pytest

from trainkit.core.values.docstrings import describe_arguments, longer_docstring, same_but_summary
from trainkit.ops.core.dynamic_shapes import needs_values

TABLE = """
    x: tensor of floats.
    axis: int, or
        several ones.
    *others: more tensors.
    **kwargs: settings.
    name: not kept.
    """


def described(member, table=TABLE, package=None):
    member.__module__ = "package.module"
    members = {"__name__": "package.module", member.__name__: member}
    describe_arguments(members, table, package)
    return inspect.getdoc(member).split("\n")


def test_entries_stand_in_the_order_of_the_signature():
    def total(x, y, *others, axis=None, name=None, **kwargs):
        """A sum.

        Args:
            y: another.

        Example:
            >>> 1
            1
        """

    assert described(total) == [
        "A sum.",
        "",
        "Args:",
        "    x: tensor of floats.",
        "    y: another.",
        "    *others: more tensors.",
        "    axis: int, or",
        "        several ones.",
        "    name: not kept.",
        "    **kwargs: settings.",
        "",
        "Example:",
        "    >>> 1",
        "    1",
    ]


def test_a_section_is_made_before_the_others():
    def total(x):
        """A sum.

        Returns:
            A tensor.
        """

    assert described(total) == [
        *["A sum.", "", "Args:", "    x: tensor of floats.", "", "Returns:", "    A tensor."]
    ]


def test_the_last_section_may_be_the_one_of_arguments():
    def total(x, y):
        """A sum.

        Args:
            y: another.
        """

    expected = ["A sum.", "", "Args:", "    x: tensor of floats.", "    y: another."]
    assert described(total) == expected


def test_what_a_docstring_says_itself_stays():
    def total(x, name=None):
        """A sum.

        Args:
            x, name: see `other`.
            y: of nobody.
        """

    entries = ["    x, name: see `other`.", "    y: of nobody."]
    assert described(total) == ["A sum.", "", "Args:", *entries]


def test_attributes_describe_an_argument_too():
    class Total:
        """A sum.

        Attributes:
            name: in listings.
        """

        def __init__(self, name):
            pass

    assert described(Total) == ["A sum.", "", "Attributes:", "    name: in listings."]


def test_a_class_has_the_arguments_of_its_initializer():
    class Total:
        """A sum.

        Raises:
            ValueError: never.
        """

        def __init__(self, name):
            pass

    lines = described(Total)
    assert lines[2:4] == ["Args:", "    name: not kept."]


def test_a_class_without_a_docstring_leaves_that_of_its_base():
    class Base:
        """A base.

        Raises:
            ValueError: never.
        """

        def __init__(self, name):
            pass

    class Total(Base):
        pass

    described(Total)
    assert Total.__doc__ is None
    assert "Args" not in Base.__doc__


def test_a_docstring_of_one_paragraph_stays():
    def total(x):
        """A sum."""

    assert described(total) == ["A sum."]


def test_wrapped_functions_are_described():
    @needs_values("x", gives=lambda bound: None)
    def total(x):
        """A sum.

        Returns:
            A tensor.
        """

    assert "    x: tensor of floats." in described(total)


@pytest.mark.parametrize(
    ("package", "is_described"),
    [(None, True), ("package", True), ("pack", False), ("other", False)],
)
def test_members_of_the_package_alone_are_described(package, is_described):
    def total(x):
        """A sum.

        Returns:
            A tensor.
        """

    assert ("Args:" in described(total, package=package)) == is_described


def test_private_members_stay():
    def _total(x):
        """A sum.

        Returns:
            A tensor.
        """

    assert "Args:" not in described(_total)


def test_longer_docstrings_have_no_indentation():
    class Base:
        """A base.

        Args:
            x: a tensor.
        """

    text = """
        Example:
            >>> 1
            1
        """
    expected = "A base.\n\nArgs:\n    x: a tensor.\n\nExample:\n    >>> 1\n    1\n"
    assert longer_docstring(Base)(text) == expected


def test_another_summary_leaves_the_rest_of_a_docstring():
    class Base:
        """A base.

        Args:
            x: a tensor.
        """

    assert same_but_summary(Base, "Another.") == "Another.\n\nArgs:\n    x: a tensor.\n"
    Base.__doc__ = None
    assert same_but_summary(Base, "Another.") == "Another.\n"
