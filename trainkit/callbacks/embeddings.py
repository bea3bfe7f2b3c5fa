"""Embeddings for the projector of TensorBoard: tables of vectors, and a file that names them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from trainkit.core.files.local_paths import path_text
from trainkit.core.files.output_folders import make_folder
from trainkit.layers.embedding import Embedding
from trainkit.summary.projector import entry_text, write_entries


def embeddings_of(model: Any) -> list[Any]:
    """The embedding layers of a model, those of models inside included."""
    layers: list[Any] = []
    for layer in model.layers:
        if isinstance(layer, Embedding):
            layers.append(layer)
        elif hasattr(layer, "layers"):
            layers += embeddings_of(layer)
    return layers


def labels_by_layer(layers: list[Any], metadata: Any) -> dict[str, str]:
    """The file of labels of each layer, from one file for all or a dict by names of layers.

    Raises:
        ValueError: the dict names a layer that is none, or there are no embeddings.
    """
    if metadata is None:
        return {}
    names = [layer.name for layer in layers]
    if not isinstance(metadata, dict):
        return dict.fromkeys(names, path_text(metadata))
    unknown = [name for name in metadata if name not in names]
    if unknown:
        raise ValueError(
            f"TensorBoard: embeddings_metadata names {', '.join(map(repr, unknown))}; the "
            f"embeddings of the model are {', '.join(names) or 'none'}"
        )
    return {name: path_text(path) for name, path in metadata.items()}


def write_embeddings(folder: str, layers: list[Any], labels: dict[str, str], epoch: int) -> None:
    """Write the vectors of each layer after an epoch, and what the projector needs to find them."""
    make_folder(folder, "TensorBoard")
    entries = {}
    for layer in layers:
        file = f"{layer.name}-{epoch}.tsv"
        np.savetxt(os.path.join(folder, file), layer.embeddings.numpy(), "%.8g", delimiter="\t")
        entry = {"tensor_name": layer.name, "tensor_path": file}
        if layer.name in labels:
            entry["metadata_path"] = labels[layer.name]
        entries[layer.name] = entry_text(entry)
    write_entries(folder, entries)
