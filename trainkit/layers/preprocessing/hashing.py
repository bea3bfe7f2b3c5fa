"""Layers that number texts and integers by a hash: Hashing, HashedCrossing."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.fingerprints import crossed, fingerprint64, siphash
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.values.text_arrays import OBJECTS, as_bytes
from trainkit.layers.base.arguments import one_of, whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.categorical import checked_salt, encoded
from trainkit.ops.core.dynamic_shapes import Bound, like, needs_values
from trainkit.ops.indexing.fingerprint_arrays import text_buckets
from trainkit.ops.indexing.integer_tables import crossed_buckets, hash_buckets


def _as_data(a: Bound) -> Any:
    """What hashes integers, for a file of graphs; text is in none."""
    layer = a["layer"]
    if isinstance(layer.mask_value, str | bytes):
        return None
    salt = None if layer.salt is None else tuple(layer.salt)
    settings = {"buckets": layer.num_bins, "salt": salt, "mask": layer.mask_value}
    return hash_buckets, {**settings, "dtype": layer.index_dtype}


@needs_values("inputs", gives=lambda a: like(a["inputs"], a["layer"].index_dtype), data=_as_data)
def _bins(inputs: Any, layer: Any) -> Any:
    return layer._bins_of(devices.to_numpy(convert_to_tensor(inputs)._array))


def _crossed_data(a: Bound) -> Any:
    """The same for several features."""
    return crossed_buckets, {"buckets": a["layer"].num_bins, "dtype": a["layer"].index_dtype}


@needs_values("inputs", gives=lambda a: _crossed_spec(a), data=_crossed_data)
def _crossed(inputs: Any, layer: Any) -> Any:
    return layer._bins_of([devices.to_numpy(convert_to_tensor(x)._array) for x in inputs])


def _crossed_spec(a: Bound) -> Spec:
    return like(a["inputs"][0], a["layer"].index_dtype)


def _texts(values: Any) -> Any:
    """An array as one of bytes objects: integers in decimal, floats without what is behind 1."""
    if values.dtype == OBJECTS:
        return values
    if values.dtype.kind == "f":
        values = values.astype(np.int64)
    texts = np.empty(values.size, OBJECTS)
    texts[:] = [str(item).lower().encode() for item in values.ravel().tolist()]
    return texts.reshape(values.shape)


class Hashing(Layer):
    """Texts or integers as one of `num_bins` numbers, by a hash, without a vocabulary.

    The hash is FarmHash's Fingerprint64 of the text, or with a salt SipHash-2-4, modulo the number
    of bins; integers are hashed as their decimal text.
    Source: Weinberger et al. 2009, arXiv:0902.2206.
    Shapes: input any shape of text or integers; output the same shape of int64, or with vectors of
    length `num_bins` behind it.

    Args:
        num_bins: how many numbers there are, that of `mask_value` included.
        mask_value: a text or an integer whose number is 0, which nothing else then has.
        salt: one int or two, the key of the hash; other numbers for each salt.
        output_mode: `"int"`, `"one_hot"`, `"multi_hot"` or `"count"`.

    Raises:
        InvalidArgumentError: a setting is none of these, or `dtype` is not one of int32 and int64
            with output_mode="int".

    >>> Hashing(3)([["A"], ["B"], ["C"], ["D"], ["E"]]).numpy().ravel().tolist()
    [1, 0, 1, 1, 2]
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        modes = ("int", "one_hot", "multi_hot", "count")
        if output_mode == "int" and kwargs.get("dtype") is None:
            kwargs["dtype"] = "int64"
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.num_bins = whole(self, "num_bins", num_bins)
        self.output_mode = one_of(self, "output_mode", output_mode, modes)
        self.sparse = one_of(self, "sparse", bool(sparse), (False,))
        if output_mode == "int":
            one_of(self, "dtype", self.compute_dtype, ("int32", "int64"))
        self.mask_value = mask_value
        self.salt = checked_salt(self, salt)

    @property
    def index_dtype(self) -> str:
        """Of the numbers, before they become vectors."""
        return self.compute_dtype if self.output_mode == "int" else "int64"

    def call(self, inputs: Any) -> Any:
        if not hasattr(inputs, "shape"):  # a list or a text
            inputs = convert_to_tensor(inputs)
        if self.output_mode == "one_hot" and len(inputs.shape) and inputs.shape[-1] == 1:
            inputs = inputs[..., 0]
        return encoded(_bins(inputs, self), self.output_mode, self.num_bins, self.variable_dtype)

    def _bins_of(self, values: Any) -> Any:
        masked = self.mask_value is not None and self.num_bins > 1
        function = fingerprint64
        if self.salt is not None:
            function = functools.partial(siphash, key=(self.salt[0], self.salt[1]))
        bins = text_buckets(_texts(values), self.num_bins - masked, function)
        if masked:
            bins = np.where(self._is_mask(values), 0, bins + 1)
        return convert_to_tensor(bins.astype(self.index_dtype))

    def _is_mask(self, values: Any) -> Any:
        is_text = isinstance(self.mask_value, str | bytes)
        if is_text != (values.dtype == OBJECTS):
            raise InvalidArgumentError(
                f"Hashing {self.name!r}: mask_value {self.mask_value!r} is no element of an input "
                f"of {'text' if values.dtype == OBJECTS else values.dtype}"
            )
        return values == (as_bytes(self.mask_value) if is_text else self.mask_value)

    def get_config(self) -> dict[str, Any]:
        names = ("num_bins", "salt", "mask_value", "output_mode", "sparse")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class HashedCrossing(Layer):
    """Several features of texts or integers as one of `num_bins` numbers, by a joint hash.

    Shapes: input a list of two or more features of one shape, (), (batch,) or (batch, 1); output
    that shape of int64, or vectors of length `num_bins`.

    Args:
        num_bins: how many numbers there are.
        output_mode: `"int"` or `"one_hot"`.
        name: what the layer is called.
        dtype: of the result; by default int64 for numbers, and the default float for vectors.

    Raises:
        InvalidArgumentError: a setting is none of these, there are fewer than two features, or they
            have other or several shapes.

    >>> a, b = tk.constant(["A", "B", "A", "B", "A"]), tk.constant([101, 101, 101, 102, 102])
    >>> HashedCrossing(5)((a, b)).numpy().tolist()
    [1, 4, 1, 1, 3]
    """

    def __init__(
        self,
        num_bins: int,
        output_mode: str = "int",
        sparse: bool = False,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if output_mode == "int" and dtype is None:
            dtype = "int64"
        kwargs.setdefault("autocast", False)
        super().__init__(name=name, dtype=dtype, **kwargs)
        self.num_bins = whole(self, "num_bins", num_bins)
        self.output_mode = one_of(self, "output_mode", output_mode, ("int", "one_hot"))
        self.sparse = one_of(self, "sparse", bool(sparse), (False,))

    @property
    def index_dtype(self) -> str:
        """Of the numbers, before they become vectors."""
        return self.compute_dtype if self.output_mode == "int" else "int64"

    def call(self, inputs: Any) -> Any:
        many = isinstance(inputs, list | tuple)
        if many:
            inputs = [x if hasattr(x, "shape") else convert_to_tensor(x) for x in inputs]
        shapes = [tuple(x.shape) for x in inputs] if many else []
        if len(shapes) < 2 or len(set(shapes)) > 1:
            raise InvalidArgumentError(
                f"HashedCrossing {self.name!r}: takes a list of two or more features of one shape, "
                f"got {shapes or 'one tensor'}"
            )
        if len(shapes[0]) > 2 or (len(shapes[0]) == 2 and shapes[0][1] != 1):
            raise InvalidArgumentError(
                f"HashedCrossing {self.name!r}: features have shape (), (batch,) or (batch, 1), "
                f"got {shapes[0]}"
            )
        indices = _crossed(list(inputs), self)
        return encoded(indices, self.output_mode, self.num_bins, self.compute_dtype)

    def _bins_of(self, features: list[Any]) -> Any:
        columns = []
        for feature in features:
            if feature.dtype != OBJECTS and feature.dtype.kind not in "iu":
                raise InvalidArgumentError(
                    f"HashedCrossing {self.name!r}: takes text and integers, got {feature.dtype}"
                )
            items = feature.ravel().tolist()
            is_text = feature.dtype == OBJECTS
            columns.append([fingerprint64(item) for item in items] if is_text else items)
        bins = [crossed(list(row)) % self.num_bins for row in zip(*columns, strict=True)]
        return convert_to_tensor(np.array(bins, self.index_dtype).reshape(features[0].shape))

    def get_config(self) -> dict[str, Any]:
        names = ("num_bins", "output_mode", "sparse")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
