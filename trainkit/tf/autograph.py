"""`tk.autograph`: how control flow is converted."""

import enum
from types import SimpleNamespace
from typing import Any

from trainkit.graph.autograph import converted
from trainkit.graph.autograph import do_not_convert as _do_not_convert
from trainkit.graph.loop_options import set_loop_options as _set_loop_options


class Feature(enum.Enum):
    """Optional parts of the conversion, TensorFlow's names; what is converted is always the same.

    All that the names stand for is part of every conversion here.
    """

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple["Feature", ...]:
        """All of them."""
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: Any) -> tuple["Feature", ...]:
        """All but `exclude`, one or several, and but `ALL`."""
        left_out = exclude if isinstance(exclude, list | tuple | set) else (exclude,)
        return tuple(set(cls) - {*left_out, cls.ALL})


experimental = SimpleNamespace(
    do_not_convert=_do_not_convert, set_loop_options=_set_loop_options, Feature=Feature
)


def to_graph(entity: Any, recursive: bool = True) -> Any:
    """The function with its control flow rewritten for tensors.

    Args:
        entity: a Python function.
        recursive: what it calls is converted too; `False` is not supported.

    Raises:
        ValueError: `recursive` is False.
    """
    if not recursive:
        raise ValueError("autograph.to_graph: only recursive=True is supported")
    return converted(entity)


def to_code(entity: Any, recursive: bool = True) -> str:
    """The rewritten source of a Python function."""
    import inspect

    return inspect.getsource(to_graph(entity, recursive))
