"""Gives operations their facet `onnx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trainkit.core.dispatch.facets import Absent
from trainkit.core.tensor import PRIMITIVES

COMPLEX_FORMS: dict[Any, Callable[..., Any]] = {}
"""By primitive, the rule for complex numbers, which ONNX does not have."""

CALL_FORMS: dict[tuple[str, str], Callable[..., Any]] = {}
"""By module and name of a function that needs values, the rule of its calls in a graph."""

Rule = TypeVar("Rule", bound=Callable[..., object])


def onnx_form(*names: str) -> Callable[[Rule], Rule]:
    """Decorates the rule that writes these operations.

    A rule is a function `(to, *inputs, **settings)` of the `GraphBuilder`, a `Value` for each
    tensor, Python numbers and `None` as they are in the graph, and the settings of the call. It
    gives the result, or a tuple of them; dtypes are brought to those of the traced graph behind it.
    """

    def attach(rule: Rule) -> Rule:
        for name in names:
            PRIMITIVES[name].facets.declare(onnx=rule)
        return rule

    return attach


def complex_form(*names: str) -> Callable[[Rule], Rule]:
    """Decorates the rule that writes these operations where an input or result is complex.

    Such a `Value` has its two parts on the last axis of `parts`.
    """

    def attach(rule: Rule) -> Rule:
        for name in names:
            COMPLEX_FORMS[PRIMITIVES[name]] = rule
        return rule

    return attach


def call_form(*functions: Callable[..., Any]) -> Callable[[Rule], Rule]:
    """Decorates the rule that writes calls of these functions, each one node of a traced graph.

    A rule is a function of the `GraphBuilder` and of all arguments by name.

    Args:
        *functions: decorated by `needs_values` or `sizes_later`.
    """

    def attach(rule: Rule) -> Rule:
        for function in functions:
            CALL_FORMS[function.__module__, function.__qualname__] = rule
        return rule

    return attach


def no_onnx_form(reason: str, *names: str) -> None:
    """Say why these operations can't be written, as a part of a sentence."""
    for name in names:
        PRIMITIVES[name].facets.declare(onnx=Absent(reason))
