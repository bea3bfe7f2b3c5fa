"""Gives operations their facet `onnx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trainkit.core.dispatch.facets import Absent
from trainkit.core.tensor import PRIMITIVES

Rule = TypeVar("Rule", bound=Callable[..., object])


def onnx_form(*names: str) -> Callable[[Rule], Rule]:
    """Decorates the rule that writes these operations.

    A rule is a function `(to, *inputs, **settings)` of the `GraphBuilder`, a `Value` for each
    tensor, Python numbers and `None` as they are in the graph, and the settings of the call. It
    gives the result, or a tuple of them; dtypes are brought to those of the traced graph behind it.

    Args:
        *names: of operations, as in the registry.
    """

    def attach(rule: Rule) -> Rule:
        for name in names:
            PRIMITIVES[name].facets.declare(onnx=rule)
        return rule

    return attach


def no_onnx_form(reason: str, *names: str) -> None:
    """Say why these operations can't be written, as a part of a sentence."""
    for name in names:
        PRIMITIVES[name].facets.declare(onnx=Absent(reason))
