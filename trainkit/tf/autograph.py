"""`tk.autograph`: how control flow is converted."""

from types import SimpleNamespace
from typing import Any

from trainkit.graph.autograph.convert import Feature, converted
from trainkit.graph.autograph.convert import do_not_convert as _do_not_convert
from trainkit.graph.control_flow.loop_options import set_loop_options as _set_loop_options

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
    """The rewritten source of a Python function.

    Args:
        entity: a Python function.
        recursive: what it calls is converted too; `False` is not supported.
    """
    import inspect

    return inspect.getsource(to_graph(entity, recursive))
