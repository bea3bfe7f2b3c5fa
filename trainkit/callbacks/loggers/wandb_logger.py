"""`WandbLogger`: a run of Weights & Biases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.callbacks.loggers.logger import Logger, Plain, library
from trainkit.core.files.local_paths import local_path


class WandbLogger(Logger):
    """Logs into a run of Weights & Biases; needs the package `wandb`, and `pillow` for images.

    Steps of one run must not go back there: what is logged for an earlier one, W&B drops with a
    warning.

    Args:
        project: its name.
        name: of the run.
        folder: for its files.
        mode: `"online"`, `"offline"` or `"disabled"`; by default what the environment says.
        run_id: of a run to go on with.
        rank: see `Logger`.
        **options: others of `wandb.init`.

    Raises:
        ImportError: the library is missing.
    """

    def __init__(
        self,
        project: str = "trainkit",
        name: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        mode: str | None = None,
        run_id: str | None = None,
        rank: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(rank)
        self._wandb = library("wandb", "WandbLogger")
        self.run_id = run_id
        self._options = {
            "project": project, "name": name, "mode": mode, "reinit": "create_new",
            "dir": None if folder is None else local_path(folder), **options,
        }  # fmt: skip
        self._run: Any = None

    @property
    def _open(self) -> Any:
        if self._run is None:
            resume = {} if self.run_id is None else {"id": self.run_id, "resume": "allow"}
            self._run = self._wandb.init(**self._options, **resume)
            self.run_id = self._run.id
        return self._run

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        self._open.log(values, step=step)

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        self._open.config.update(values, allow_val_change=True)

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        image = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
        self._open.log({name: self._wandb.Image(image)}, step=step)

    def write_artifact(self, path: Path, name: str) -> None:
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
        artifact = self._wandb.Artifact(safe, type="file")
        artifact.add_file(str(path), name=name)
        self._open.log_artifact(artifact)

    def close(self, how: str) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=0 if how in ("finished", "stopped") else 1)
