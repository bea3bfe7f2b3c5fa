"""`SaveOptions` and `LoadOptions`: what of TensorFlow's has a meaning for trainkit's folders."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from trainkit.core.errors import InvalidArgumentError

_HERE = ("/job:localhost", "localhost")


def _check(options: Any, **besides: tuple[Any, ...]) -> None:
    """Refuse values that ask for what there is not: others than the defaults, and those `besides`.

    Raises:
        InvalidArgumentError: one does.
    """
    for field in fields(options):
        value, choices = getattr(options, field.name), (field.default, *besides.get(field.name, ()))
        if not any(value is x or (type(value) is type(x) and value == x) for x in choices):
            words = " or ".join(map(repr, choices))
            raise InvalidArgumentError(
                f"{type(options).__name__}: {field.name} is {value!r}; it can be {words}"
            )


@dataclass
class SaveOptions:
    """How `tk.saved_model.save` writes; other values than those named raise.

    Args:
        namespace_whitelist: `None` or empty: there are no namespaces of operations.
        save_debug_info: `False`.
        function_aliases: `None`.
        experimental_debug_stripper: `False`.
        experimental_io_device: `None` or `"/job:localhost"`: the machine that saves.
        experimental_variable_policy: `None`: variables come back on the device of the moment.
        experimental_custom_gradients: `True`: they are part of the graphs.
        experimental_image_format: `False`: a file of any size is written as it is.
        experimental_skip_saver: `False`.
        experimental_sharding_callback: `None`: there is one file.
        extra_tags: `None`: there is one set of graphs.

    Raises:
        InvalidArgumentError: another value.

    Example:
        >>> tk.saved_model.SaveOptions(experimental_io_device="/job:localhost").extra_tags is None
        True
    """

    namespace_whitelist: Any = None
    save_debug_info: bool = False
    function_aliases: Any = None
    experimental_debug_stripper: bool = False
    experimental_io_device: str | None = None
    experimental_variable_policy: Any = None
    experimental_custom_gradients: bool = True
    experimental_image_format: bool = False
    experimental_skip_saver: bool = False
    experimental_sharding_callback: Any = None
    extra_tags: Any = None

    def __post_init__(self) -> None:
        _check(
            self,
            namespace_whitelist=([], ()),
            function_aliases=({},),
            experimental_io_device=_HERE,
            extra_tags=([], ()),
        )


@dataclass
class LoadOptions:
    """How `tk.saved_model.load` reads; other values than those named raise.

    Args:
        allow_partial_checkpoint: `False` or `True`: a file holds all of its variables anyway.
        experimental_io_device: `None` or `"/job:localhost"`: the machine that loads.
        experimental_skip_checkpoint: `False`.
        experimental_variable_policy: `None`: variables come back on the device of the moment.
        experimental_load_function_aliases: `False`.

    Raises:
        InvalidArgumentError: another value.

    Example:
        >>> tk.saved_model.LoadOptions().experimental_skip_checkpoint
        False
    """

    allow_partial_checkpoint: bool = False
    experimental_io_device: str | None = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: Any = None
    experimental_load_function_aliases: bool = False

    def __post_init__(self) -> None:
        _check(self, allow_partial_checkpoint=(True,), experimental_io_device=_HERE)
