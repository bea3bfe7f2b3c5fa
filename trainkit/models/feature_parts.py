"""The parts of a feature space: features, crosses, and what is asked of their layers."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import Registry, deserialize_object
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import CategoryEncoding, Discretization
from trainkit.layers.preprocessing.feature_normalization import Normalization
from trainkit.layers.preprocessing.hashing import HashedCrossing, Hashing
from trainkit.layers.preprocessing.lookup import Lookup
from trainkit.layers.preprocessing.text_vectorization import TextVectorization

PARTS = Registry("feature_space", "part of a feature space")

MODULE = "keras.src.layers.preprocessing.feature_space"


def one_of(owner: str, name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """`value` if it is among `allowed`.

    Raises:
        InvalidArgumentError: it is not.
    """
    if value not in allowed:
        raise InvalidArgumentError(
            f"{owner}: {name} must be one of {', '.join(map(repr, allowed))}, got {value!r}"
        )
    return value


@PARTS.add
class Cross:
    """Features whose values are hashed together; `FeatureSpace.cross` makes it.

    Args:
        feature_names: of the features.
        crossing_dim: how many numbers the hash has.
        output_mode: `"one_hot"` or `"int"`.
    """

    _config_identity = (MODULE, "Cross", "Cross")

    def __init__(self, feature_names: Any, crossing_dim: int, output_mode: str = "one_hot") -> None:
        self.feature_names = tuple(feature_names)
        self.crossing_dim = crossing_dim
        self.output_mode = one_of("Cross", "output_mode", output_mode, ("int", "one_hot"))

    @property
    def name(self) -> str:
        """The names of the features, joined."""
        return "_X_".join(self.feature_names)

    def get_config(self) -> dict[str, Any]:
        """The arguments, as plain values."""
        return {
            "feature_names": self.feature_names,
            "crossing_dim": self.crossing_dim,
            "output_mode": self.output_mode,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Cross:
        """A cross as `get_config` described it."""
        return cls(**config)


class FeatureKind:
    """A column of a table and the layer it goes through; `FeatureSpace.feature` makes it.

    Args:
        dtype: of the column.
        preprocessor: the layer, or its config.
        output_mode: `"one_hot"`, `"int"` or `"float"`: what becomes of the layer's output.
    """

    _config_identity = (MODULE, "Feature", "Feature")

    def __init__(self, dtype: str, preprocessor: Any, output_mode: str) -> None:
        modes = ("int", "one_hot", "float")
        self.output_mode = one_of("Feature", "output_mode", output_mode, modes)
        self.dtype = dtype
        if isinstance(preprocessor, dict):
            preprocessor = deserialize_object(preprocessor)
        self.preprocessor = preprocessor

    def get_config(self) -> dict[str, Any]:
        """The arguments, the layer among them."""
        return {
            "dtype": self.dtype,
            "preprocessor": self.preprocessor,
            "output_mode": self.output_mode,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> FeatureKind:
        """A feature as `get_config` described it."""
        return cls(**config)


PARTS.add(FeatureKind, "Feature")  # what Keras calls it


class TFDIdentity(Layer):
    """Plain numbers as they are, in the element type of the layer."""

    _config_identity = (MODULE, "TFDIdentity", "TFDIdentity")

    def call(self, inputs: Any) -> Any:
        return ops.cast(inputs, self.compute_dtype)


def knows_already(layer: Any) -> bool:
    """Whether a layer was given what it would learn."""
    if isinstance(layer, Lookup | TextVectorization):
        return len(layer.get_vocabulary(include_special_tokens=False)) > 0
    if isinstance(layer, Normalization):
        return layer.get_config()["mean"] is not None
    return isinstance(layer, Discretization) and bool(layer.bin_boundaries)


def categories_of(name: str, layer: Any) -> int:
    """How many numbers a layer gives."""
    if isinstance(layer, Lookup):
        return layer.vocabulary_size()
    if isinstance(layer, CategoryEncoding):
        return layer.num_tokens
    if isinstance(layer, Discretization):
        return layer.num_bins or len(layer.bin_boundaries or ()) + 1
    if isinstance(layer, Hashing | HashedCrossing):
        return layer.num_bins
    raise InvalidArgumentError(
        f"FeatureSpace: feature {name!r} has output_mode='one_hot', and nobody knows how many "
        f"numbers its layer {type(layer).__name__} gives; use output_mode='int'"
    )
