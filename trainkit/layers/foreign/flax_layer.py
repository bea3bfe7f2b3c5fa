"""`FlaxLayer`: a module of Flax as a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.values.python_signatures import signature_of
from trainkit.interop.packages import flax_for, jax_for
from trainkit.layers.foreign.jax_layer import JaxLayer

_PARAMS = "params"


class FlaxLayer(JaxLayer):
    """A `flax.linen.Module` as a layer, which trains in `fit` and in loops of one's own.

    The method that is called has the argument `inputs`, and `training` where it wants it, by these
    names. The collection `params` becomes trainable variables, all others, such as `batch_stats`,
    non-trainable ones, which follow the calls. Keys for `make_rng("dropout")` are drawn for each
    call. Everything else is as in `JaxLayer`.

    Args:
        module: the module.
        method: the name of the method, or a function of the module and `inputs`; by default
            `__call__`.
        variables: what `module.init` gave, to start from; by default it is called when the layer
            is built.
        **kwargs: `seed`, `name`, `trainable`, `dtype` and the other arguments of layers.

    Raises:
        ImportError: Flax is not installed.
        TypeError: `module` is no `flax.linen.Module`.
        ValueError: the method lacks `inputs`, or the module has no such method.
        InvalidArgumentError: in a call, the state has come back with other shapes.
        UnimplementedError: a second derivative is asked for.

    Example:
        >>> import flax.linen as nn
        >>> class Scaled(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, inputs):
        ...         return nn.Dense(2)(inputs) * 3
        >>> layer = tk.layers.FlaxLayer(Scaled())
        >>> layer(tk.ones((4, 3))).shape
        TensorShape([4, 2])
    """

    def __init__(
        self,
        module: Any,
        method: str | Callable[..., Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        linen = flax_for("FlaxLayer")
        if not isinstance(module, linen.Module):
            raise TypeError(
                f"FlaxLayer: module must be a flax.linen.Module, got {type(module).__name__}"
            )
        takes_training = "training" in _arguments(module, method)
        name: Any = method
        if getattr(method, "__self__", None) is module:
            name = name.__name__

        def init_fn(rng: Any, inputs: Any, training: Any) -> tuple[Any, Any]:
            flags = {"training": training} if takes_training else {}
            first, second = jax_for("FlaxLayer").random.split(rng)
            keys = {_PARAMS: first, "dropout": second}
            return _split_by_use(module.init(keys, inputs, method=name, **flags))

        def call_fn(
            params: Any, state: Any, rng: Any, inputs: Any, training: Any
        ) -> tuple[Any, Any]:
            flags = {"training": training} if takes_training else {}
            values = {_PARAMS: params, **state} if params else state
            collections = list(state)  # what a module notes besides, by `sow`, is not among these
            outputs, after = module.apply(
                values, inputs, method=name, rngs={"dropout": rng}, mutable=collections, **flags
            )
            return outputs, {key: after.get(key, state[key]) for key in collections}

        params, state = (None, None) if variables is None else _split_by_use(variables)
        super().__init__(call_fn, init_fn, params=params, state=state, **kwargs)
        self.module, self.method = module, name

    def get_config(self) -> dict[str, Any]:
        """The settings, with the module, whose class has to be registered and have a config."""
        config = super().get_config()
        del config["call_fn"], config["init_fn"]
        method = self.method if isinstance(self.method, str) else serialize_object(self.method)
        return {**config, "module": serialize_object(self.module), "method": method}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> FlaxLayer:
        """A layer made by what `get_config` gave."""
        parts = {
            name: deserialize_object(config[name], custom_objects=custom_objects)
            for name in ("module", "method")
            if isinstance(config[name], dict)
        }
        return cls(**{**config, **parts})


def _arguments(module: Any, method: Any) -> tuple[str, ...]:
    """The names of a method's arguments."""
    function = getattr(module, method or "__call__", None) if not callable(method) else method
    if function is None:
        raise ValueError(f"FlaxLayer: {type(module).__name__} has no method {method!r}")
    names = tuple(signature_of(function).parameters)
    if "inputs" not in names:
        raise ValueError(
            f"FlaxLayer: the method has the arguments {', '.join(names) or 'none'}; it must have "
            "inputs, and may have training"
        )
    return names


def _split_by_use(variables: Mapping[str, Any]) -> tuple[Any, Any]:
    """The trainable variables of a module, and all others by collection."""
    state = {key: value for key, value in variables.items() if key != _PARAMS}
    return variables.get(_PARAMS, {}), state
