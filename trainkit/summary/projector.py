"""`embedding`: vectors that TensorBoard's projector shows as points, with labels and pictures."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.files.readable_files import read_text
from trainkit.ops.images.png import png_bytes
from trainkit.summary.defaults import as_array
from trainkit.summary.recording import record, writes_files

CONFIG = "projector_config.pbtxt"
_LARGEST_SPRITE = 8192


def embedding(
    name: str,
    vectors: Any,
    step: Any = None,
    metadata: Sequence[Any] | None = None,
    metadata_header: Sequence[str] | None = None,
    sprites: Any = None,
) -> Any:
    """Record vectors for the projector, with what each of them stands for.

    The projector shows files: `name-step.tsv` and its like in the writer's folder. A later call of
    the same name takes the place of the earlier one; the files of it stay.

    Args:
        name: name of the vectors.
        vectors: numbers, shape (points, size).
        step: the step; None for the default step.
        metadata: a label for each point, or a row of several, as `metadata_header` says.
        metadata_header: the names of the columns of such rows.
        sprites: a picture for each point, shape (points, height, width, channels) with 1, 3 or 4
            channels, uint8 or floats from 0 to 1.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: a shape does not fit, the sprites are too many for one picture of 8192 pixels,
            or there is no step.

    Example:
        >>> vectors, names = [[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"]
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     tk.summary.embedding("words", vectors, step=0, metadata=names)
        True
    """
    lines = None if metadata is None else _lines(name, metadata, metadata_header)
    pictures = None if sprites is None else as_array(sprites)
    return record(_write_embedding, name, vectors, step, lines, pictures)


@writes_files
def _write_embedding(
    folder: str,
    name: str,
    step: int,
    vectors: np.ndarray,
    lines: list[str] | None,
    pictures: np.ndarray | None,
) -> None:
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiubV":
        raise ValueError(
            f"summary {name!r}: vectors have shape {vectors.shape} and dtype {vectors.dtype}, "
            "expected numbers of shape (points, size)."
        )
    points = len(vectors)
    base = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{step}"
    entry = {"tensor_name": name, "tensor_path": f"{base}.tsv"}
    files: dict[str, bytes] = {f"{base}.tsv": _as_tsv(vectors)}
    if lines is not None:
        _check_count(name, "labels", len(lines) - ("\t" in lines[0]), points)
        entry["metadata_path"] = f"{base}-labels.tsv"
        files[entry["metadata_path"]] = ("\n".join(lines) + "\n").encode()
    if pictures is not None:
        _check_count(name, "sprites", len(pictures), points)
        entry["sprite"] = f"{base}-sprites.png"
        files[entry["sprite"]] = png_bytes(sprite_sheet(name, pictures))
    for file, content in files.items():
        with open(os.path.join(folder, file), "wb") as out:
            out.write(content)
    size = None if pictures is None else (pictures.shape[2], pictures.shape[1])
    write_entries(folder, {name: entry_text(entry, size)})


def _check_count(name: str, noun: str, count: int, points: int) -> None:
    if count != points:
        raise ValueError(f"summary {name!r}: there are {points} vectors and {count} {noun}.")


def _as_tsv(vectors: np.ndarray) -> bytes:
    rows = ["\t".join([f"{x:.8g}" for x in row]) for row in vectors.astype(np.float64).tolist()]
    return ("\n".join(rows) + "\n").encode()


def _lines(name: str, metadata: Sequence[Any], header: Sequence[str] | None) -> list[str]:
    """The lines of a file of labels: one column without a head, or several with one."""
    if header is None:
        return [_cell(label) for label in metadata]
    rows = [list(header), *[list(row) for row in metadata]]
    for row in rows:
        if len(row) != len(rows[0]) or len(row) < 2:
            raise ValueError(
                f"summary {name!r}: a row of metadata has {len(row)} columns, metadata_header has "
                f"{len(rows[0])}; there must be 2 or more, and as many as there."
            )
    return ["\t".join(map(_cell, row)) for row in rows]


def _cell(value: Any) -> str:
    """A label on one line of a table."""
    return re.sub(r"\s", " ", str(value)) or " "


def sprite_sheet(name: str, pictures: np.ndarray) -> np.ndarray:
    """Pictures in rows of one square picture, as the projector reads them.

    Args:
        name: of the vectors, for errors.
        pictures: shape (points, height, width, channels).

    Returns:
        uint8 of shape (rows * height, rows * width, channels).
    """
    if pictures.ndim != 4 or pictures.shape[3] not in (1, 3, 4) or 0 in pictures.shape:
        raise ValueError(
            f"summary {name!r}: sprites have shape {pictures.shape}, expected (points, height, "
            "width, channels) with 1, 3 or 4 channels."
        )
    count, height, width, channels = pictures.shape
    side = math.ceil(math.sqrt(count))
    if side * max(height, width) > _LARGEST_SPRITE:
        raise ValueError(
            f"summary {name!r}: {count} sprites of {height} by {width} pixels need a picture of "
            f"{side * max(height, width)} pixels, the projector takes {_LARGEST_SPRITE}."
        )
    if pictures.dtype != np.uint8:
        unit = np.clip(np.nan_to_num(pictures.astype(np.float64)), 0, 1)
        pictures = (unit * 255.5).astype(np.uint8)
    sheet = np.zeros((side * side, height, width, channels), np.uint8)
    sheet[:count] = pictures
    rows = sheet.reshape(side, side, height, width, channels)
    return rows.transpose(0, 2, 1, 3, 4).reshape(side * height, side * width, channels)


# ------------------------------------------------------------------ the projector's list


def entry_text(entry: dict[str, str], sprite_size: tuple[int, int] | None = None) -> str:
    """An entry of the projector's list of vectors, as text of a protocol buffer.

    Args:
        entry: `tensor_name`, `tensor_path`, and perhaps `metadata_path` and `sprite`.
        sprite_size: width and height of one picture of the sprites.
    """
    lines = [f"  {key}: {json.dumps(value)}" for key, value in entry.items() if key != "sprite"]
    if sprite_size is not None:
        width, height = sprite_size
        lines += [
            "  sprite {",
            f"    image_path: {json.dumps(entry['sprite'])}",
            f"    single_image_dim: {width}",
            f"    single_image_dim: {height}",
            "  }",
        ]
    return "\n".join(["embeddings {", *lines, "}", ""])


def write_entries(folder: str, entries: dict[str, str]) -> None:
    """Put entries, by name of the vectors, into the projector's list in a folder.

    Those of other names stay as they are.
    """
    path = os.path.join(folder, CONFIG)
    try:
        sections = re.findall(r"embeddings \{\n.*?\n\}\n", read_text(path), re.DOTALL)
    except FileNotFoundError:
        sections = []
    section_of = {re.search(r'tensor_name: ("(?:[^"\\]|\\.)*")', part): part for part in sections}
    named = {json.loads(match[1]): part for match, part in section_of.items() if match is not None}
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w", encoding="utf-8") as file:
        file.write("".join((named | entries).values()))
    os.replace(partial, path)
