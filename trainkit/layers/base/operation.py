"""`Operation`: a function of tensors with settings, the base of those that users write."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import ConfigError
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base.layer import Layer

_PLAIN = (str, int, float, bool, type(None))


class Operation(Layer):
    """A function of tensors with settings and without weights, which also takes symbols of a model.

    A subclass keeps its settings in `__init__`, does its math in `call`, and may say in
    `compute_output_spec` what comes out of it, without values; else `call` is run on shapes. Called
    on symbols it is one operation of the model, and none of its layers.

    Args:
        name: by default the class name in snake case, numbered.

    Raises:
        ValueError: `name` is no name.
    """

    _init_arguments: Any

    _allow_non_tensor_positional_args = True
    _warns_of_lost_masks = False  # operations never knew of masks

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name, autocast=False)

    def build(self, *input_shapes: Any) -> None:
        """There is nothing to build."""

    def get_build_config(self) -> None:
        """`None`: operations are not built, and Keras's know of no build."""

    def get_config(self) -> dict[str, Any]:
        """The name, and the arguments the operation was made with if no subclass says them.

        Raises:
            NotImplementedError: there are arguments by position alone, or an argument is no number,
                text, bool or `None`, nor a list, tuple or dict of these.
        """
        kind: Any = type(self)
        # Called by the get_config of a subclass, which adds what it was made with.
        if kind.get_config is not Operation.get_config:
            return {"name": self.name}
        signature = signature_of(kind.__init__)
        bound = signature.bind(self, *self._init_arguments[0], **self._init_arguments[1])
        bound.apply_defaults()
        config: dict[str, Any] = {"name": self.name}
        takes_name = False
        for position, parameter in enumerate(signature.parameters.values()):
            argument = bound.arguments[parameter.name]
            takes_name |= parameter.kind is parameter.VAR_KEYWORD or parameter.name == "name"
            if not position or parameter.name == "name":
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                config.update({k: v for k, v in argument.items() if k != "name"})
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                if argument or parameter.kind is parameter.POSITIONAL_ONLY:
                    raise self._unwritten(f"{parameter.name!r} is given by position alone")
            else:
                config[parameter.name] = argument
        for name, value in config.items():
            if not all(isinstance(leaf, _PLAIN) for leaf in nest.flatten(value)):
                raise self._unwritten(f"{name!r} is {value!r}")
        # from_config gives the class all that stands here, and many have no argument `name`.
        return config if takes_name else {k: v for k, v in config.items() if k != "name"}

    def _unwritten(self, reason: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__}: {reason}, which no config holds by itself; write a get_config "
            "that gives what from_config needs"
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A new operation made with the arguments in `config`.

        Raises:
            ConfigError: they do not make one.
        """
        try:
            return cls(**config)
        except TypeError as error:
            raise ConfigError(
                f"{cls.__name__} can't be made from its config: {error}\n  config  {config}"
            ) from error
