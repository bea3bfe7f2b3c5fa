"""`FeatureSpace`: named columns of a table as vectors, each by a layer of its own."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.callbacks.progbar import Progbar
from trainkit.core import nest
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import unique_name
from trainkit.core.registry import deserialize_object
from trainkit.core.trackable import set_silently
from trainkit.data import Dataset
from trainkit.layers.base.keras_tensor import Input
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import CategoryEncoding, Discretization
from trainkit.layers.preprocessing.feature_normalization import Normalization, Rescaling
from trainkit.layers.preprocessing.hashing import HashedCrossing, Hashing
from trainkit.layers.preprocessing.lookup import IntegerLookup, StringLookup
from trainkit.models.feature_parts import (
    Cross,
    FeatureKind,
    TFDIdentity,
    categories_of,
    knows_already,
    one_of,
)
from trainkit.models.saving import save_model

_BATCH = 32


class FeatureSpace(Layer):
    """Named columns of a table as one vector, or a dict of vectors.

    A feature is the name of a kind, or what a method makes:

    | kind | method | what it does |
    | --- | --- | --- |
    | `"float"` | `float()` | nothing |
    | `"float_rescaled"` | `float_rescaled(scale, offset)` | x * scale + offset |
    | `"float_normalized"` | `float_normalized()` | learned mean 0 and variance 1 |
    | `"float_discretized"` | `float_discretized(num_bins)` | learned bins |
    | `"integer_categorical"` | `integer_categorical(max_tokens)` | a learned vocabulary |
    | `"string_categorical"` | `string_categorical(max_tokens)` | a learned vocabulary |
    | `"integer_hashed"` | `integer_hashed(num_bins)` | a hash |
    | `"string_hashed"` | `string_hashed(num_bins)` | a hash |
    | | `feature(dtype, preprocessor, output_mode)` | a layer of yours |

    Args:
        features: kinds by the names of columns.
        output_mode: `"concat"` for one vector, `"dict"` for one of each feature and cross.
        crosses: tuples of names of features whose values are hashed together, or what `cross` made.
        crossing_dim: length of the vectors of crosses.
        hashing_dim: length of the vectors of the kinds that hash.
        num_discretization_bins: bins of `"float_discretized"`.
        name: of the layer.

    Raises:
        InvalidArgumentError: an argument is none of these, or a cross has an unknown name.

    >>> space = tk.keras.utils.FeatureSpace({"age": "float", "city": "string_categorical"})
    >>> table = {"age": [3.0, 5.0], "city": ["Rome", "Oslo"]}
    >>> space.adapt(table, verbose=0)
    >>> space(table).shape
    TensorShape([2, 4])
    """

    _config_identity = ("keras.utils", "FeatureSpace", None)
    _saved_alone = True

    def __init__(
        self,
        features: dict[str, Any],
        output_mode: str = "concat",
        crosses: Any = None,
        crossing_dim: int = 32,
        hashing_dim: int = 32,
        num_discretization_bins: int = 32,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not features:
            raise InvalidArgumentError("FeatureSpace: features must be a dict that is not empty")
        self.output_mode = one_of("FeatureSpace", "output_mode", output_mode, ("concat", "dict"))
        self.crossing_dim, self.hashing_dim = crossing_dim, hashing_dim
        self.num_discretization_bins = num_discretization_bins
        kinds = {key: self._feature(key, value) for key, value in features.items()}
        self._crosses = [self._cross(cross, kinds) for cross in crosses or ()]
        self.features = kinds
        self.preprocessors = {key: feature.preprocessor for key, feature in kinds.items()}
        self.crossers = {c.name: HashedCrossing(c.crossing_dim, name=c.name) for c in self.crosses}
        self.one_hot_encoders: dict[str, Any] = {}
        self._learned = {key for key, layer in self.preprocessors.items() if knows_already(layer)}
        self._adapted = not self._to_adapt()
        self._symbols: Any = None

    # ------------------------------------------------------------------ kinds of features

    @classmethod
    def cross(cls, feature_names: Any, crossing_dim: int, output_mode: str = "one_hot") -> Cross:
        """Features whose values are hashed together.

        Args:
            feature_names: of the features.
            crossing_dim: how many numbers the hash has.
            output_mode: `"one_hot"` or `"int"`.
        """
        return Cross(feature_names, crossing_dim, output_mode=output_mode)

    @classmethod
    def feature(cls, dtype: str, preprocessor: Any, output_mode: str) -> FeatureKind:
        """A column that goes through a layer of yours.

        Args:
            dtype: of the column.
            preprocessor: the layer.
            output_mode: `"one_hot"` for the numbers it gives as vectors, `"int"` or `"float"` for
                what it gives.
        """
        return FeatureKind(dtype, preprocessor, output_mode)

    @classmethod
    def float(cls, name: str | None = None) -> FeatureKind:
        """Numbers as they are; `name` is the beginning of its layer's, here and below."""
        layer = TFDIdentity(dtype="float32", name=_name(name, "float"))
        return FeatureKind("float32", layer, "float")

    @classmethod
    def float_rescaled(
        cls, scale: builtins.float = 1.0, offset: builtins.float = 0.0, name: str | None = None
    ) -> FeatureKind:
        """Numbers as x * scale + offset."""
        return FeatureKind(
            "float32", Rescaling(scale, offset, name=_name(name, "float_rescaled")), "float"
        )

    @classmethod
    def float_normalized(cls, name: str | None = None) -> FeatureKind:
        """Numbers with mean 0 and variance 1, as learned by `adapt`."""
        return FeatureKind("float32", Normalization(name=_name(name, "float_normalized")), "float")

    @classmethod
    def float_discretized(
        cls,
        num_bins: int,
        bin_boundaries: Any = None,
        output_mode: str = "one_hot",
        name: str | None = None,
    ) -> FeatureKind:
        """Numbers as the bins in which they fall.

        Args:
            num_bins: how many bins `adapt` makes, each with nearly the same share of the data.
            bin_boundaries: ascending numbers, in place of `adapt`.
            output_mode: `"one_hot"` or `"int"`.
            name: see `float`.
        """
        count = num_bins if bin_boundaries is None else None
        layer = Discretization(bin_boundaries, count, name=_name(name, "float_discretized"))
        return FeatureKind("float32", layer, output_mode)

    @classmethod
    def integer_categorical(
        cls,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        output_mode: str = "one_hot",
        name: str | None = None,
    ) -> FeatureKind:
        """Integers by their place in a vocabulary, as in `layers.IntegerLookup`."""
        layer = IntegerLookup(max_tokens, num_oov_indices, name=_name(name, "integer_categorical"))
        return FeatureKind("int32", layer, output_mode)

    @classmethod
    def string_categorical(
        cls,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        output_mode: str = "one_hot",
        name: str | None = None,
    ) -> FeatureKind:
        """Texts by their place in a vocabulary, as in `layers.StringLookup`."""
        layer = StringLookup(max_tokens, num_oov_indices, name=_name(name, "string_categorical"))
        return FeatureKind("string", layer, output_mode)

    @classmethod
    def string_hashed(
        cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None
    ) -> FeatureKind:
        """Texts as one of `num_bins` numbers, by a hash."""
        return FeatureKind(
            "string", Hashing(num_bins, name=_name(name, "string_hashed")), output_mode
        )

    @classmethod
    def integer_hashed(
        cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None
    ) -> FeatureKind:
        """Integers as one of `num_bins` numbers, by a hash."""
        return FeatureKind(
            "int32", Hashing(num_bins, name=_name(name, "integer_hashed")), output_mode
        )

    def _feature(self, name: str, value: Any) -> FeatureKind:
        if isinstance(value, dict):
            value = deserialize_object(value)
        if isinstance(value, FeatureKind):
            return value
        constructors = {
            "float": lambda: self.float(name=name),
            "float_normalized": lambda: self.float_normalized(name=name),
            "float_rescaled": lambda: self.float_rescaled(name=name),
            "float_discretized": lambda: self.float_discretized(
                self.num_discretization_bins, name=name
            ),
            "integer_categorical": lambda: self.integer_categorical(name=name),
            "string_categorical": lambda: self.string_categorical(name=name),
            "integer_hashed": lambda: self.integer_hashed(self.hashing_dim, name=name),
            "string_hashed": lambda: self.string_hashed(self.hashing_dim, name=name),
        }
        return constructors[
            one_of(f"FeatureSpace: feature {name!r}", "kind", value, tuple(constructors))
        ]()

    def _cross(self, cross: Any, features: dict[str, FeatureKind]) -> Cross:
        if isinstance(cross, dict):
            cross = deserialize_object(cross)
        if not isinstance(cross, Cross):
            if not self.crossing_dim:
                raise InvalidArgumentError(
                    f"FeatureSpace: crosses need a crossing_dim, got {self.crossing_dim!r}"
                )
            cross = Cross(cross, self.crossing_dim)
        unknown = [name for name in cross.feature_names if name not in features]
        if unknown:
            raise InvalidArgumentError(
                f"FeatureSpace: the cross {cross.feature_names} has {unknown}, which are no "
                f"features; there are {sorted(features)}"
            )
        return cross

    @property
    def crosses(self) -> list[Cross]:
        """The features that are hashed together."""
        return self._crosses

    # ------------------------------------------------------------------ learning

    def _to_adapt(self) -> list[str]:
        """The features whose layers learn, and were not given what they would learn."""
        return [
            name
            for name, layer in self.preprocessors.items()
            if hasattr(layer, "adapt") and name not in self._learned
        ]

    def adapt(self, dataset: Any, verbose: int = 1) -> None:
        """Let all layers that learn look at a table; what they had learned is forgotten.

        Args:
            dataset: a dict of columns, or a `Dataset` of such dicts, batched or row by row.
            verbose: 0 for silence, 1 for a bar.

        Raises:
            InvalidArgumentError: it is neither, or lacks a column.
        """
        if isinstance(dataset, dict):
            dataset = Dataset.from_tensor_slices(dataset)
        if not isinstance(dataset, Dataset):
            raise InvalidArgumentError(
                "FeatureSpace.adapt takes a dict of columns or a Dataset of dicts, got "
                f"{type(dataset).__name__}"
            )
        names = self._to_adapt()
        if names:
            self._learn(names, _batch(dataset, names), verbose)
        self._adapted, self._symbols = True, None
        self.get_encoded_features()

    def _learn(self, names: list[str], dataset: Dataset, verbose: int) -> None:
        step_by_step = [name for name in names if hasattr(self.preprocessors[name], "update_state")]
        for name in step_by_step:
            self.preprocessors[name].reset_state()
        cardinality = int(dataset.cardinality())
        steps = cardinality if cardinality >= 0 else None
        bar = Progbar(steps, verbose=1 if verbose else 0)
        step = 0
        for step, batch in enumerate(dataset, 1):
            for name in step_by_step:
                self.preprocessors[name].update_state(_column(batch, name))
            bar.update(step, finalize=False)
        for name in step_by_step:
            self.preprocessors[name].finalize_state()
        for name in names:
            if name not in step_by_step:
                self.preprocessors[name].adapt(_columns(dataset, name))
        bar.update(step, finalize=True)

    # ------------------------------------------------------------------ encoding

    def get_inputs(self) -> dict[str, Any]:
        """Symbolic columns, from which `get_encoded_features` starts.

        Raises:
            InvalidArgumentError: it has not been adapted.
        """
        self.get_encoded_features()
        return dict(self._symbols[0])

    def get_encoded_features(self) -> Any:
        """The symbolic vector, or dict of vectors, for a model that begins with the columns.

        Raises:
            InvalidArgumentError: it has not been adapted.
        """
        self._check_adapted()
        if self._symbols is None:
            inputs = {
                name: Input(shape=(1,), dtype=feature.dtype, name=name)
                for name, feature in self.features.items()
            }
            self._choose_encoders()
            set_silently(self, _symbols=(inputs, self._encode(inputs)))
            self.built = True
        return self._symbols[1]

    def _check_adapted(self) -> None:
        if not self._adapted:
            raise InvalidArgumentError(
                f"FeatureSpace {self.name!r}: call adapt(dataset) before; there is something to "
                f"learn for {self._to_adapt()}"
            )

    def _choose_encoders(self) -> None:
        modes = {name: feature.output_mode for name, feature in self.features.items()}
        modes |= {cross.name: cross.output_mode for cross in self.crosses}
        layers = {**self.preprocessors, **self.crossers}
        self.one_hot_encoders = {
            name: CategoryEncoding(categories_of(name, layers[name]))
            for name, mode in modes.items()
            if mode == "one_hot"
        }

    def __call__(self, data: Any) -> Any:
        """The vector of one row, or of each row of a batch; or a dict of vectors.

        Args:
            data: values by the names of columns, each one value, (batch,) or (batch, 1).

        Raises:
            InvalidArgumentError: `data` is no dict or lacks a column, or nothing was learned yet.
        """
        self.get_encoded_features()
        if not isinstance(data, dict) or not set(self.features) <= set(data):
            got = sorted(data) if isinstance(data, dict) else type(data).__name__
            raise InvalidArgumentError(
                f"FeatureSpace {self.name!r} takes a dict with {sorted(self.features)}, got {got}"
            )
        columns = {name: ops.convert_to_tensor(data[name]) for name in self.features}
        single = [name for name, x in columns.items() if len(x.shape) == 0]
        for name, x in columns.items():
            if len(x.shape) < 2:
                columns[name] = ops.reshape(x, (1, 1)) if name in single else _column(columns, name)
        encoded = self._encode(columns)
        if not single:
            return encoded
        return nest.map_structure(lambda x: ops.squeeze(x, 0) if len(x.shape) > 1 else x, encoded)

    def _encode(self, columns: dict[str, Any]) -> Any:
        values = {name: self.preprocessors[name](columns[name]) for name in self.features}
        crossed = {
            cross.name: self.crossers[cross.name]([values[name] for name in cross.feature_names])
            for cross in self.crosses
        }
        parts = {}
        for group in (values, crossed):
            for name in sorted(group):
                encoder = self.one_hot_encoders.get(name)
                parts[name] = group[name] if encoder is None else encoder(group[name])
        if self.output_mode == "dict":
            return parts
        for name, part in parts.items():
            if not as_dtype(part.dtype).is_floating:
                raise InvalidArgumentError(
                    f"FeatureSpace {self.name!r}: output_mode='concat' takes floats, and feature "
                    f"{name!r} is {as_dtype(part.dtype).name}; use output_mode='dict', or "
                    "'one_hot' for this feature"
                )
        return ops.concatenate(list(parts.values()), axis=-1)

    # ------------------------------------------------------------------ saving

    def get_config(self) -> dict[str, Any]:
        return {
            "features": dict(self.features),
            "output_mode": self.output_mode,
            "crosses": list(self.crosses),
            "crossing_dim": self.crossing_dim,
            "hashing_dim": self.hashing_dim,
            "num_discretization_bins": self.num_discretization_bins,
        }

    def get_build_config(self) -> dict[str, Any]:
        return {name: layer.get_build_config() for name, layer in self.preprocessors.items()}

    def build_from_config(self, config: dict[str, Any]) -> None:
        for name, settings in config.items():
            layer = self.preprocessors[name]
            if not layer.built and settings:
                layer.build_from_config(settings)
        self._adapted = True

    def save(self, filepath: Any) -> None:
        """Write the space with all it has learned; `models.load_model` reads it.

        Args:
            filepath: ends in `.keras`.
        """
        save_model(self, filepath)  # type: ignore[arg-type]


def _name(name: str | None, kind: str) -> str:
    return f"{name or unique_name(kind)}_preprocessor"


def _batch(dataset: Dataset, names: list[str]) -> Dataset:
    """The rows in batches, if they come one by one."""
    first = next(iter(dataset), None)
    if not isinstance(first, dict) or not set(names) <= set(first):
        got = sorted(first) if isinstance(first, dict) else type(first).__name__
        raise InvalidArgumentError(
            f"FeatureSpace.adapt takes rows that are dicts with {sorted(names)}, got {got}"
        )
    return dataset.batch(_BATCH) if len(first[names[0]].shape) == 0 else dataset


def _column(batch: dict[str, Any], name: str) -> Any:
    """A column of a batch, (batch, ...), of two axes or more."""
    column = batch[name]
    return ops.expand_dims(column, -1) if len(column.shape) < 2 else column


def _columns(dataset: Dataset, name: str) -> Iterator[Any]:
    for batch in dataset:
        yield np.asarray(_column(batch, name))
