"""`CSVFolderLogger`: metrics and hyperparameters as tables, images and artifacts as files."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from trainkit.callbacks.loggers.logger import Logger, Plain, copied
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder
from trainkit.ops.images.png import png_bytes

_METRICS = ("step", "name", "value")


class CSVFolderLogger(Logger):
    """Writes into a folder, which needs no library to be read.

    `metrics.csv` has a line for each number: `step,name,value`; names may come and go, and a run
    that goes on appends. `hyperparams.csv` has `name,value`, `images/NAME-STEP.png` the images,
    `artifacts/` the files. (`tk.callbacks.CSVLogger` writes a line per epoch instead.)

    Args:
        folder: it is made when it is missing.
        rank: see `Logger`.

    Example:
        >>> with tk.loggers.CSVFolderLogger("logs/a") as logger:
        ...     logger.log_metrics({"loss": 0.5}, step=10)
        >>> import pathlib
        >>> print(pathlib.Path("logs/a/metrics.csv").read_text().strip())
        step,name,value
        10,loss,0.5
    """

    def __init__(self, folder: str | os.PathLike[str], rank: int | None = None) -> None:
        super().__init__(rank)
        self.folder = Path(local_path(folder))

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        self._append("metrics.csv", _METRICS, [(step, *item) for item in values.items()])

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        self._append("hyperparams.csv", ("name", "value"), list(values.items()))

    def _append(self, name: str, head: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
        make_folder(self.folder, "CSVFolderLogger")
        with open(self.folder / name, "a", newline="", encoding="utf-8") as file:
            if not file.tell():
                csv.writer(file, lineterminator="\n").writerow(head)
            csv.writer(file, lineterminator="\n").writerows(rows)

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        folder = make_folder(self.folder / "images", "CSVFolderLogger")
        (folder / image_file(name, step)).write_bytes(png_bytes(pixels))

    def write_artifact(self, path: Path, name: str) -> None:
        copied(path, self.folder / "artifacts", name)


def image_file(name: str, step: int) -> str:
    """The name of a file for an image: letters that file systems take, whatever its own are.

    >>> image_file("wrong/first one", 12)
    'wrong_first_one-12.png'
    """
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    return f"{safe.lstrip('.')[:100] or '_'}-{step}.png"
