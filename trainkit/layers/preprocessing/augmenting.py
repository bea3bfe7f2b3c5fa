"""When layers that augment do so where nobody says whether it is training."""

from __future__ import annotations

from typing import Any

from trainkit.layers.base.call_spec import FRAME
from trainkit.layers.base.layer import Layer

_PREPARE_DATA = ("trainkit.layers.preprocessing.", "trainkit.layers.augmentation.")


class Augmenting(Layer):
    """A layer that is on by itself, in a data set's `map` for instance, and off in a model's call.

    A model that was given no `training` is called for inference: what it gives is what `predict`
    gives, and what it serves when it is exported. They stay on in a model whose layers all prepare
    data, which is called for their sake, and in a `train_step` of the user's.
    """

    def _default_training_within(self, entry: Layer) -> Any:
        if FRAME.fits:
            return True
        leaves = [x for x in entry._flatten_layers() if not x._flatten_layers(include_self=False)]
        return all(_prepares_data(layer) for layer in leaves)


def _prepares_data(layer: Any) -> bool:
    kinds = type(layer).__mro__
    is_input = any(kind.__name__ == "InputLayer" for kind in kinds)
    return is_input or any(kind.__module__.startswith(_PREPARE_DATA) for kind in kinds)
