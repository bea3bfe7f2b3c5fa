"""`TFSMLayer`: what was exported as a folder, as a layer of another model."""

from __future__ import annotations

from typing import Any

from trainkit.core.config_values import SafeModeScope, check_outside_file, config_scope
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.registry import CustomObjectScope
from trainkit.layers.base.layer import Layer

_model_loading = DeferredModule("trainkit.saved_graph.model_loading")


class TFSMLayer(Layer):
    """A layer that calls an endpoint of what `Model.export` or `tk.saved_model.save` wrote.

    The variables behind the endpoint are its weights, which can be trained. The folder is in
    trainkit's own format; SavedModels of TensorFlow, for which Keras named the layer, are not read.
    A config names the folder, so a layer is made of one with `safe_mode=False` alone: otherwise a
    file of a stranger could read any exported folder of whoever loads it.

    Args:
        filepath: the folder.
        call_endpoint: the name of a function of what is loaded, or of a signature.
        call_training_endpoint: the same, with `training=True`; by default `call_endpoint`.
        trainable: whether the weights are trained.
        name: of the layer.
        dtype: policy, to whose type floating inputs are cast; by default `"float32"`, whatever the
            global policy is, as endpoints take the types that they were saved for.

    Raises:
        NotFoundError: there is no such folder.
        ConfigError: a config names the folder, and the safe mode is on.
        UnimplementedError: it is an address of another system, such as `s3://bucket/name`.
        ValueError: it has no such endpoint.

    Example:
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> model.export("exported", verbose=False)
        >>> layer = tk.layers.TFSMLayer("exported")
        >>> layer(tk.ones((4, 3))).shape
        TensorShape([4, 2])
    """

    def __init__(
        self,
        filepath: Any,
        call_endpoint: str = "serve",
        call_training_endpoint: str | None = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype or "float32")
        self.filepath = local_path(filepath)
        self.call_endpoint = call_endpoint
        self.call_training_endpoint = call_training_endpoint
        check_outside_file(self.filepath, type(self).__name__, "an exported model")
        loaded = _model_loading.load_model(self.filepath)
        self._endpoint = _endpoint(loaded, call_endpoint)
        self._training_endpoint = (
            self._endpoint
            if call_training_endpoint is None
            else _endpoint(loaded, call_training_endpoint)
        )
        variables = {id(v): v for v in self._endpoint.variables + self._training_endpoint.variables}
        self._loaded_variables = list(variables.values())
        self.built = True

    def call(self, inputs: Any, training: bool | None = False, **kwargs: Any) -> Any:
        """The results of the endpoint.

        Args:
            inputs: what it takes, as it was nested there.
            training: whether to call `call_training_endpoint`.
            **kwargs: further arguments of the endpoint.
        """
        endpoint = self._training_endpoint if training else self._endpoint
        if hasattr(endpoint, "named_outputs") and isinstance(inputs, dict):  # a signature
            return endpoint(**inputs, **kwargs)
        return endpoint(inputs, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filepath": self.filepath,
            "call_endpoint": self.call_endpoint,
            "call_training_endpoint": self.call_training_endpoint,
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> TFSMLayer:
        """A layer of its own over the same folder, which is read again, with the weights of now."""
        twin = type(self).from_config(self.get_config(), safe_mode=False)
        memo[id(self)] = twin
        for new, old in zip(twin._loaded_variables, self._loaded_variables, strict=True):
            memo[id(old)] = new
            new.assign(old)
        return twin

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None, safe_mode: bool | None = None
    ) -> TFSMLayer:
        """A layer made by what `get_config` gave.

        Args:
            config: what `get_config` gave.
            custom_objects: classes by name, for a policy of a class of one's own.
            safe_mode: whether the folder, which is outside of the config, is left alone; so it is
                unless a `SafeModeScope` around it says otherwise.

        Raises:
            ConfigError: the safe mode is on.
        """
        with CustomObjectScope(custom_objects), SafeModeScope(safe_mode), config_scope():
            return cls(**config)


def _endpoint(loaded: Any, name: str) -> Any:
    function = vars(loaded).get(name, loaded.signatures.get(name))
    if not callable(function):
        raise ValueError(
            f"TFSMLayer: {name!r} is neither a function nor a signature of what was loaded; it has "
            f"{', '.join(loaded.signatures) or 'no signatures'}"
        )
    return function
