"""What the calibrated modes have in common: data, the layers of a block, what these see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.trackable import set_silently
from trainkit.quantizers.layer_filters import should_quantize_layer

_SEED = 42


def kernel_matrix(layer: Any, algorithm: str) -> tuple[int, int]:
    """How many inputs and outputs the kernel of `layer` has as a matrix.

    Raises:
        TypeError: the layer is no dense one.
    """
    shape = getattr(type(layer), "kernel_matrix_shape", None)
    if shape is None:
        raise TypeError(
            f"Unsupported layer type for {algorithm}: {type(layer).__name__}; it takes dense layers"
        )
    rows, columns = shape(layer)
    return rows, columns


def matrix_of(layer: Any, rows: int, columns: int) -> np.ndarray:
    """The kernel of `layer`, shape (outputs, inputs), a float32 array of its own."""
    kernel = layer._kernel.numpy().reshape(rows, columns).T
    return np.array(kernel, np.float32, order="C")


def as_rows(inputs: Any) -> np.ndarray:
    """Activations as float32 rows.

    Raises:
        ValueError: there are none, or they have no axis of features.
    """
    if inputs is None:
        raise ValueError("Input tensor cannot be None")
    array = np.asarray(inputs.numpy() if hasattr(inputs, "numpy") else inputs)
    if array.ndim < 2:
        raise ValueError(f"Input tensor must have rank >= 2, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"Input tensor cannot be empty, got shape {array.shape}")
    return array.reshape(-1, array.shape[-1]).astype(np.float32)


def find_layers_in_block(block: Any) -> dict[str, Any]:
    """The dense layers in `block`, itself among them, by their paths."""
    return {
        layer.path: layer
        for layer in block._flatten_layers()
        if hasattr(type(layer), "kernel_matrix_shape")
    }


@contextmanager
def watched_calls(layers: dict[str, Any], note: Callable[[str, Any], None]) -> Iterator[None]:
    """Context in which `note(name, inputs)` hears of each call of the layers."""

    def call_hooked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def hook(*args: Any, **kwargs: Any) -> Any:
            note(name, args[0] if args else kwargs["inputs"])
            return call(*args, **kwargs)

        return hook

    before = {name: layer.__dict__.get("call") for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            set_silently(layer, call=call_hooked(name, layer.call))
        yield
    finally:
        for name, layer in layers.items():
            if before[name] is None:
                layer.__dict__.pop("call", None)
            else:
                set_silently(layer, call=before[name])


def get_dataloader(
    tokenizer: Any,
    sequence_length: int,
    dataset: Any,
    num_samples: int = 128,
    *,
    strategy: str = "strided",
    seed: int = _SEED,
    stride: int | None = None,
    eos_id: int | None = None,
) -> np.ndarray:
    """Sequences of tokens out of texts or token arrays, which are repeated if they are short.

    Args:
        tokenizer: has `tokenize(text)`; for texts only.
        sequence_length: tokens of a sequence.
        dataset: iterable of texts, or of arrays of token numbers.
        num_samples: number of sequences.
        strategy: where they begin: `"strided"`, every `stride` tokens; `"linspace"`, evenly spread;
            `"random"`.
        seed: of the random places, and of the first one of a stride.
        stride: by default as large as the data allows.
        eos_id: token put between texts.

    Returns:
        Token numbers, int32, shape (num_samples, 1, sequence_length).

    Raises:
        TypeError: `dataset` is no iterable of these.
        ValueError: there is nothing in it, or the strategy does not exist.
    """
    if not hasattr(dataset, "__iter__") or isinstance(dataset, str | bytes):
        raise TypeError(
            "The `dataset` argument must be an iterable (a list of strings, a generator, a NumPy "
            f"array); got {type(dataset).__name__}"
        )
    tokens = _tokens(tokenizer, list(dataset), eos_id)
    needed = num_samples * sequence_length
    if tokens.size < needed:
        tokens = np.tile(tokens, math.ceil(needed / max(1, tokens.size)))
    last = tokens.size - sequence_length
    starts = _starts(strategy, last, num_samples, seed, stride)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, sequence_length)
    return windows[starts].astype(np.int32)[:, None, :]


def _tokens(tokenizer: Any, items: list[Any], eos_id: int | None) -> np.ndarray:
    if not items:
        raise ValueError("Provided dataset is empty")
    texts = isinstance(items[0], str)
    pieces = []
    for i, item in enumerate(items):
        ids = tokenizer.tokenize(item) if texts else item
        ids = ids.numpy() if hasattr(ids, "numpy") else ids
        pieces.append(np.asarray(ids).reshape(-1).astype(np.int32))
        if texts and eos_id is not None and i < len(items) - 1:
            pieces.append(np.array([eos_id], np.int32))
    tokens = np.concatenate(pieces)
    if not tokens.size:
        raise ValueError("Provided dataset is empty: no item of it has tokens")
    return tokens


def _starts(strategy: str, last: int, count: int, seed: int, stride: int | None) -> Any:
    if strategy == "random":
        return np.random.default_rng(seed).integers(0, last + 1, size=count)
    if strategy == "linspace":
        return np.linspace(0, last, count, dtype=np.int64)
    if strategy == "strided":
        step = max(1, (last + 1) // count) if stride is None else stride
        offset = int(np.random.default_rng(seed).integers(0, last + 1))
        return (offset + np.arange(count) * step) % (last + 1)
    raise ValueError(f"strategy must be 'strided', 'linspace' or 'random', got {strategy!r}")


def stacked(samples: list[Any]) -> Any:
    """Activations of several sequences, shape (length, features) or (1, ...), as one batch."""
    rows = [ops.expand_dims(x, 0) if len(x.shape) == 2 else x for x in samples]
    return rows[0] if len(rows) == 1 else ops.concatenate(rows, axis=0)


def batch_stream(samples: list[Any], size: int) -> Iterator[Any]:
    """`samples` as batches of at most `size`."""
    for start in range(0, len(samples), size):
        yield stacked(samples[start : start + size])


def check_structure(mode: str, structure: Any) -> None:
    """Raise unless `structure` says which blocks are calibrated.

    Raises:
        ValueError: there is none, or it has no blocks.
    """
    if not isinstance(structure, dict):
        raise ValueError(
            f"For mode {mode!r} a valid quantization structure must be provided, either as "
            "`config.quantization_layer_structure` or by a method "
            "`get_quantization_layer_structure(mode)` of the model: a dict with the keys "
            f"'pre_block_layers' and 'sequential_blocks'. Got {structure!r}"
        )


def check_data(mode: str, config: Any) -> None:
    """Raise unless there is something to calibrate with.

    Raises:
        ValueError: data or tokenizer are missing.
    """
    if config.dataset is None or config.tokenizer is None:
        raise ValueError(
            f"{mode.upper()} quantization requires a dataset and a tokenizer; give both to the "
            f"{type(config).__name__}"
        )


def quantize_model(
    mode: str,
    config: Any,
    structure: Any,
    filters: Any,
    solver: Callable[[Any, Any], Any],
    batch_size: int,
) -> None:
    """Quantize the dense layers of each block from what they see, one block after the other.

    A block sees what the quantized blocks before it give.

    Args:
        mode: what it is called in errors.
        config: of the mode, with data and tokenizer.
        structure: `"pre_block_layers"`, `"sequential_blocks"`.
        filters: which of the layers are meant.
        solver: makes of a layer and the config what has `observe(inputs)` and `quantize()`.
        batch_size: how many sequences go through a block at once.

    Raises:
        ValueError: data, structure or blocks are missing.
    """
    check_data(mode, config)
    check_structure(mode, structure)
    data = get_dataloader(
        config.tokenizer, config.sequence_length, config.dataset, num_samples=config.num_samples
    )
    blocks = structure.get("sequential_blocks") or []
    if not blocks:
        raise ValueError("No sequential blocks found in the structure to quantize")
    sequences = []
    for batch in data:
        x: Any = convert_to_tensor(np.asarray(batch, np.int32))
        for layer in structure.get("pre_block_layers") or []:
            x = layer(x)
        sequences.append(x)
    sequences = sequences[: config.num_samples]
    for number, block in enumerate(blocks):
        layers = {
            name: layer
            for name, layer in find_layers_in_block(block).items()
            if should_quantize_layer(layer, filters)
        }
        solvers = {name: solver(layer, config) for name, layer in layers.items()}
        with watched_calls(layers, lambda name, x, by_name=solvers: by_name[name].observe(x)):  # type: ignore[misc]
            for batch in batch_stream(sequences, batch_size) if layers else ():
                block(batch)
        for layer_solver in solvers.values():
            layer_solver.quantize()
        if number < len(blocks) - 1:
            sequences = _sent_on(block, sequences, batch_size)


def _sent_on(block: Any, sequences: list[Any], batch_size: int) -> list[Any]:
    """What the block gives for each sequence."""
    outputs: list[Any] = []
    for batch in batch_stream(sequences, batch_size):
        y = block(batch)
        y = y[0] if isinstance(y, list | tuple) else y
        outputs.extend(y[i] for i in range(int(y.shape[0])))
    return outputs
