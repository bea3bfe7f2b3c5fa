"""`TrackioLogger`: a run of Trackio."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.callbacks.loggers.logger import Logger, Plain, library


class TrackioLogger(Logger):
    """Logs into a run of Trackio, on this machine unless options say otherwise; needs `trackio`.

    Trackio stores the settings of a run with its first numbers: log hyperparameters before those.

    Args:
        project: its name.
        name: of the run; a random one by default.
        rank: see `Logger`.
        **options: others of `trackio.init`, such as `space_id`.

    Raises:
        ImportError: the library is missing.
    """

    def __init__(
        self,
        project: str = "trainkit",
        name: str | None = None,
        rank: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(rank)
        self._trackio = library("trackio", "TrackioLogger")
        self.project, self.name = project, name or f"run-{uuid.uuid4().hex[:8]}"
        self._options, self._config = options, dict[str, Plain]()
        self._run: Any = None

    @property
    def _open(self) -> Any:
        if self._run is None:
            options = {"resume": "allow", "embed": False, **self._options}
            self._run = self._trackio.init(
                self.project, name=self.name, config=self._config, **options
            )
        return self._run

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        self._open.log(values, step=step)

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        self._config.update(values)
        if self._run is not None:
            self._run.config.update(values)

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        colored = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
        self._open.log({name: self._trackio.Image(colored)}, step=step)

    def write_artifact(self, path: Path, name: str) -> None:
        self._open.log_artifact(path, name=name, type="file")

    def close(self, how: str) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish()
