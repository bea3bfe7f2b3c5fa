"""`MLflowLogger`: a run of MLflow."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.callbacks.loggers.csv_folder import image_file
from trainkit.callbacks.loggers.logger import Logger, Plain, library
from trainkit.ops.images.png import png_bytes

_STATUS = {
    "finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED", "failed": "FAILED",
}  # fmt: skip
_MOST_METRICS, _MOST_PARAMS = 1000, 100
"""What MLflow takes in one batch."""
_MOST_VALUE = 6000
"""Letters of a value, from MLflow's validation."""


class MLflowLogger(Logger):
    """Logs into a run of MLflow; needs the package `mlflow` or `mlflow-skinny`.

    Args:
        experiment: the name of the experiment, which is made when it is missing.
        run_name: of a new run.
        tracking_uri: a server, or a file such as `"sqlite:///mlflow.db"`; by default what MLflow's
            environment says.
        run_id: of a run to go on with.
        rank: see `Logger`.

    Attributes:
        run_id: of the run, once something was logged.

    Raises:
        ImportError: the library is missing.
    """

    def __init__(
        self,
        experiment: str = "trainkit",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        run_id: str | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(rank)
        self._mlflow = library("mlflow", "MLflowLogger")
        self.experiment, self.run_name, self.run_id = experiment, run_name, run_id
        self.tracking_uri = tracking_uri
        self._client: Any = None

    @property
    def _open(self) -> Any:
        if self._client is None:
            client = self._mlflow.MlflowClient(self.tracking_uri)
            if self.run_id is None:
                experiment = client.get_experiment_by_name(self.experiment)
                number = client.create_experiment(self.experiment) if experiment is None else None
                number = experiment.experiment_id if number is None else number
                self.run_id = client.create_run(number, run_name=self.run_name).info.run_id
            else:
                client.update_run(self.run_id, status="RUNNING")
            self._client = client
        return self._client

    def write_metrics(self, values: dict[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        listed = [metric(name, value, now, step) for name, value in values.items()]
        for first in range(0, len(listed), _MOST_METRICS):
            self._open.log_batch(self.run_id, metrics=listed[first : first + _MOST_METRICS])

    def write_hyperparams(self, values: dict[str, Plain]) -> None:
        param = self._mlflow.entities.Param
        listed = [param(name, str(value)[:_MOST_VALUE]) for name, value in values.items()]
        for first in range(0, len(listed), _MOST_PARAMS):
            self._open.log_batch(self.run_id, params=listed[first : first + _MOST_PARAMS])

    def write_image(self, name: str, pixels: np.ndarray, step: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / image_file(name, step)
            path.write_bytes(png_bytes(pixels))
            self._open.log_artifact(self.run_id, str(path), "images")

    def write_artifact(self, path: Path, name: str) -> None:
        if path.name == name:
            self._open.log_artifact(self.run_id, str(path))
            return
        with tempfile.TemporaryDirectory() as folder:  # MLflow takes the name of the file
            link = Path(folder) / name
            link.symlink_to(path.resolve())
            self._open.log_artifact(self.run_id, str(link))

    def close(self, how: str) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.set_terminated(self.run_id, _STATUS[how])
