"""`tk.autograph`: how control flow is converted."""

from typing import Any

from trainkit.graph.autograph.convert import Feature, converted
from trainkit.graph.autograph.convert import do_not_convert as _do_not_convert
from trainkit.graph.control_flow.loop_options import set_loop_options as _set_loop_options
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names
from trainkit.tf.left_out import namespace as _namespace

experimental = _namespace(
    "autograph.experimental",
    do_not_convert=_do_not_convert,
    set_loop_options=_set_loop_options,
    Feature=Feature,
)


def to_graph(
    entity: Any, recursive: bool = True, experimental_optional_features: Any = None
) -> Any:
    """The function with its control flow rewritten for tensors.

    Args:
        entity: a Python function.
        recursive: what it calls is converted too; `False` is not supported.
        experimental_optional_features: only `None`; the converter has no features to choose from.

    Raises:
        ValueError: `recursive` is False, or features are named.
    """
    if not recursive:
        raise ValueError("autograph.to_graph: only recursive=True is supported")
    if experimental_optional_features is not None:
        raise ValueError(
            "autograph.to_graph: only experimental_optional_features=None is supported, got "
            f"{experimental_optional_features!r}"
        )
    return converted(entity)


def to_code(entity: Any, recursive: bool = True, experimental_optional_features: Any = None) -> str:
    """The rewritten source of a Python function.

    Args:
        entity: a Python function.
        recursive: what it calls is converted too; `False` is not supported.
        experimental_optional_features: as for `to_graph`.

    Raises:
        ValueError: `recursive` is False, or features are named.
    """
    import inspect

    return inspect.getsource(to_graph(entity, recursive, experimental_optional_features))


_explain_unknown_names("autograph", globals())
