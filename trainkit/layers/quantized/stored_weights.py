"""`StoredWeights`: variants whose weights stand in files in Keras's order, LoRA merged in.

Keras has no more than the sum in its files, and sets both matrices of LoRA to zeros when it reads
one: their gradients are zeros from then on. Files of trainkit have what training needs beside it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from trainkit import initializers
from trainkit.core.errors import ShapeError
from trainkit.core.trackable import set_silently
from trainkit.layers.quantized.variants import Variant


class StoredWeights(Variant):
    """A variant that says by name what is stored of it.

    A class has `stored`, the attributes in order; those that a layer has not are left out. With
    LoRA, `_merged()` gives the values that take its place.
    """

    stored: ClassVar[tuple[str, ...]] = ()
    _lora_pair: ClassVar[tuple[str, str]] = ("lora_kernel_a", "lora_kernel_b")

    @classmethod
    def policy_name(cls, layer: Any, config: Any) -> str:
        """The name of the layer's dtype policy from now on."""
        return f"{cls.mode}_from_{layer.dtype_policy.at(layer._path).name}"

    def _merge(self) -> dict[str, Any]:
        """The stored values that LoRA changes, by name."""
        return {}

    def _store_now(self) -> list[str]:
        """The attributes that are stored of this layer."""
        return [name for name in self.stored if self.__dict__.get(name) is not None]

    def save_own_variables(self, store: Any) -> None:
        """Put the weights into a dict, as `"0"`, `"1"` ...

        Raises:
            ValueError: they have no values yet that could be stored.
        """
        if not self.built:
            return
        merged = self._merge() if self.lora_enabled else {}
        for number, name in enumerate(self._store_now()):
            value = merged.get(name, self.__dict__[name])
            store[str(number)] = value.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Take the weights that `save_own_variables` put into a dict; LoRA adds nothing at first.

        Raises:
            ValueError: there are more or fewer, or one has another shape; nothing is changed then.
        """
        if not self.built:
            return
        names = self._store_now()
        title = f"layer {self.name!r}"
        if len(store.keys()) != len(names):
            raise ValueError(
                f"{title} has {len(names)} variables of its own ({', '.join(names)}), the file has "
                f"{len(store.keys())} for it"
            )
        values = {name: np.asarray(store[str(i)]) for i, name in enumerate(names)}
        values = {name: self._as_now(name, value) for name, value in values.items()}
        for name, value in values.items():
            shape = tuple(self.__dict__[name].shape)
            if tuple(value.shape) != shape:
                raise ShapeError(
                    f"{title}: {name!r} has shape {shape}, the file has shape {value.shape}"
                )
        for name, value in values.items():
            variable = self.__dict__[name]
            variable.assign(value.astype(variable.dtype.dtype))
        if self.lora_enabled:  # were the first zeros as well, neither would have a gradient
            second = self.__dict__[self._lora_pair[1]]
            second.assign(np.zeros(tuple(second.shape), np.float32))

    def save_lora_state(self, store: Any) -> None:
        """Put what the stored sum does not tell into a dict: the two matrices, the frozen weights.

        Args:
            store: is given arrays by the names of attributes; none without LoRA.
        """
        if self.built and self.lora_enabled:
            for name in (*self._lora_pair, *self._merge()):
                store[name] = self.__dict__[name].numpy()

    def load_lora_state(self, store: Any) -> None:
        """Take what `save_lora_state` put into a dict, after the weights.

        A layer without LoRA, or with LoRA of another rank, keeps the sum that it has read.
        """
        if not (self.built and self.lora_enabled):
            return
        shapes = {name: tuple(getattr(self.__dict__.get(name), "shape", ())) for name in store}
        if shapes == {name: array.shape for name, array in store.items()}:
            for name, array in store.items():
                self.__dict__[name].assign(array)

    def _as_now(self, name: str, value: np.ndarray) -> np.ndarray:
        """A stored value in the layout that the layer has now."""
        return value


def add_pair(
    layer: Any, shapes: Any, regularizer: Any, rank: int, alpha: Any, starts: tuple[Any, Any]
) -> None:
    """Give `layer` the two matrices of LoRA.

    Args:
        layer: gets the attributes that its variant names in `_lora_pair`.
        shapes: of the two.
        regularizer: penalty on them.
        rank: columns of the first.
        alpha: how often their product counts, times `rank`; `None` for `rank`.
        starts: their initializers.

    Raises:
        ValueError: `rank` is no int above 0.
    """
    if not hasattr(rank, "__index__") or isinstance(rank, bool) or rank < 1:
        raise ValueError(
            f"layer {layer.name!r}: the rank of LoRA must be an int above 0, got {rank!r}"
        )
    for name, shape, start in zip(layer._lora_pair, shapes, starts, strict=True):
        weight = layer.add_weight(
            name,
            shape,
            initializer=initializers.get(start),
            dtype="float32",
            regularizer=regularizer,
        )
        setattr(layer, name, weight)
    set_silently(layer, lora_enabled=True)
    layer.lora_rank = int(rank)
    layer.lora_alpha = int(rank) if alpha is None else alpha


def check_lora(layer: Any, constraint: str) -> None:
    """Raise unless `layer` can get LoRA now.

    Raises:
        ValueError: it is not built, has it, or its weights have a constraint.
    """
    if getattr(layer, constraint, None) is not None:
        raise ValueError(
            f"layer {layer.name!r}: LoRA is incompatible with {constraint}; leave that argument out"
        )
    if not layer.built:
        raise ValueError(f"Cannot enable lora on layer {layer.name!r}, which isn't yet built")
    if layer.lora_enabled:
        raise ValueError(f"layer {layer.name!r}: lora is already enabled; it can be so only once")
