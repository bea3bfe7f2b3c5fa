"""`Pipeline`: layers one after the other, for data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core import masks, nest
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.augmenting import Augmenting


class Pipeline(Augmenting):
    """Layers that run one after the other, on anything that the first one takes.

    It has no input shape of its own, so that it serves in `Dataset.map` as well as in a model; each
    layer gets `training` and, from the one before, a mask, if its `call` takes them.

    Args:
        layers: the layers.
        name: by default `"pipeline"`, numbered.

    Raises:
        ValueError: `layers` is no list of layers.

    Example:
        >>> augment = tk.layers.Pipeline([tk.layers.Rescaling(1 / 255), tk.layers.CenterCrop(2, 2)])
        >>> augment(tk.ones((1, 4, 4, 3))).shape
        TensorShape([1, 2, 2, 3])
    """

    _allow_non_tensor_positional_args = True

    def __init__(self, layers: Sequence[Layer], name: str | None = None) -> None:
        super().__init__(name=name, autocast=False)
        if not isinstance(layers, list | tuple) or not all(isinstance(x, Layer) for x in layers):
            raise ValueError(f"Pipeline: layers must be a list of layers, got {layers!r}")
        self._pipeline_layers = list(layers)

    @property
    def layers(self) -> list[Layer]:
        """The layers, in their order."""
        return list(self._pipeline_layers)

    def call(self, inputs: Any, training: Any = True, mask: Any = None) -> Any:
        for layer in self._pipeline_layers:
            facts = layer._facts
            options = {"mask": mask} if "mask" in facts.mask_names else {}
            if facts.takes_training and training is not None:
                options["training"] = training
            inputs = layer(inputs, **options)
            mask = nest.map_structure(masks.mask_of, inputs)
        return inputs

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Pipeline:
        if not isinstance(config.get("layers"), list | tuple):
            raise ValueError(
                f"Pipeline: a config needs 'layers', a list of layers, got {config.get('layers')!r}"
            )
        pipeline: Pipeline = super().from_config(config)
        return pipeline
