"""`TensorBoardLogger`: event files for TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from trainkit import summary
from trainkit.callbacks.loggers.logger import Logger, Plain, copied
from trainkit.core.files.local_paths import local_path


class TensorBoardLogger(Logger):
    """Writes event files, and artifacts beside them, of which TensorBoard lists the names as text.

    `tk.callbacks.TensorBoard` shows more of a model: histograms, gradients, the graph.

    Args:
        logdir: the folder of the run.
        rank: see `Logger`.

    Example:
        >>> with tk.loggers.TensorBoardLogger("logs/b") as logger:
        ...     logger.log_hyperparams({"rate": 0.1})
        ...     logger.log_metrics({"loss": 0.5}, step=10)
    """

    def __init__(self, logdir: str | os.PathLike[str], rank: int | None = None) -> None:
        super().__init__(rank)
        self.logdir = Path(local_path(logdir))
        self._writer: summary.SummaryWriter | None = None

    @property
    def _open(self) -> summary.SummaryWriter:
        if self._writer is None:
            self._writer = summary.create_file_writer(self.logdir)
        return self._writer

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        with self._open.as_default():
            for name, value in values.items():
                summary.scalar(name, value, step=step)

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        with self._open.as_default():
            summary.hparams({name: "None" if v is None else v for name, v in values.items()})

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        with self._open.as_default():
            summary.image(name, pixels[None], step=step)

    def write_artifact(self, path: Path, name: str) -> None:
        target = copied(path, self.logdir / "artifacts", name)
        with self._open.as_default():
            summary.text(f"artifacts/{name}", f"artifacts/{name}, {target.stat().st_size} bytes", 0)

    def close(self, how: str) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
