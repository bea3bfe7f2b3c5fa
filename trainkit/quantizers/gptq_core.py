"""GPTQ for a whole model, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainkit.quantizers import calibration
from trainkit.quantizers.calibration import find_layers_in_block as find_layers_in_block
from trainkit.quantizers.calibration import get_dataloader as get_dataloader
from trainkit.quantizers.calibration import stacked as _stack_calibration_batch  # noqa: F401
from trainkit.quantizers.gptq import GPTQ


@contextmanager
def stream_hessians(layers_map: dict[str, Any], gptq_objects: dict[str, GPTQ]) -> Iterator[None]:
    """Context in which calls of layers feed the `GPTQ` objects of the same names.

    Args:
        layers_map: the layers by name.
        gptq_objects: what is fed.
    """
    with calibration.watched_calls(layers_map, lambda name, x: gptq_objects[name].observe(x)):
        yield


def gptq_quantize(config: Any, quantization_layer_structure: Any, filters: Any = None) -> None:
    """Quantize the dense layers of the blocks, which are prepared for it already.

    Args:
        config: a `GPTQConfig` with data and tokenizer.
        quantization_layer_structure: dict with `"pre_block_layers"` and `"sequential_blocks"`.
        filters: which layers are meant.

    Raises:
        ValueError: data or structure are missing.
    """
    calibration.quantize_model(
        "gptq", config, quantization_layer_structure, filters, GPTQ, config.calibration_batch_size
    )
