"""`ModelCheckpoint`: saves a model, or its weights, while it is trained."""

from __future__ import annotations

import math
import os
import string
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.callbacks.callback import Logs, numbers
from trainkit.callbacks.monitoring import MetricMonitor
from trainkit.callbacks.ranks import rank_of, wait_for_rank_0
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder
from trainkit.core.process.console import say


class ModelCheckpoint(MetricMonitor):
    """Saves after each epoch, or each so many batches, and when training is interrupted.

    Args:
        filepath: where; it ends in `.keras` or `.h5` for the whole model, in `.weights.h5` for the
            weights.
            `{epoch}` (from 1), `{batch}` and the names of metrics in braces stand for their values,
            as in `"{epoch:02d}-{val_loss:.2f}.keras"`.
        monitor: name of the metric by which the best is known.
        verbose: 1 says what is saved.
        save_best_only: save only when the metric is better than ever before.
        save_weights_only: the weights rather than the whole model.
        mode: `"min"`, `"max"`, or `"auto"` by the name or class of the metric.
        save_freq: `"epoch"`, or a number of batches.
        initial_value_threshold: only values better than this are saved.

    With `save_best_only` a metric that does not exist is a warning, and the model is saved.

    Attributes:
        best: the best value so far, `None` before the first.

    Raises:
        ValueError: the end of `filepath` does not fit, or `save_freq` is neither.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> keep = tk.callbacks.ModelCheckpoint("best.keras", monitor="loss", save_best_only=True)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[keep])
        >>> type(tk.models.load_model("best.keras")).__name__
        'Sequential'
    """

    reads_batch_logs = False

    _owner = "ModelCheckpoint"

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode)
        self.filepath = local_path(filepath)
        is_model_file = self.filepath.endswith((".keras", ".h5"))
        if save_weights_only and not self.filepath.endswith(".weights.h5"):
            raise ValueError(
                "ModelCheckpoint: with save_weights_only=True the path must end in '.weights.h5', "
                f"got {self.filepath!r}"
            )
        if not save_weights_only and not is_model_file:
            raise ValueError(
                "ModelCheckpoint: with save_weights_only=False the path must end in '.keras' or "
                f"'.h5', got {self.filepath!r}"
            )
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(
                f"ModelCheckpoint: save_freq must be 'epoch' or a number of batches, got "
                f"{save_freq!r}"
            )
        self.verbose, self.save_freq = verbose, save_freq
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.best = initial_value_threshold
        self.batches = 0
        self._current_epoch = 0
        self.unsaved = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.unsaved = False

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._current_epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self._should_save_on_batch(batch):
            self._save_model(self._current_epoch, batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save_model(epoch, None, logs)

    def on_train_interrupted(self, logs: Logs | None = None) -> None:
        if self.unsaved and not self.save_best_only:
            path = self._get_file_path(self._current_epoch, None, logs, interrupted=True)
            self._write(path)

    # The next three have Keras's names: subclasses of other libraries, such as W&B's, call them.

    def _should_save_on_batch(self, batch: int) -> bool:
        """Count a batch, and say whether a file is due after it."""
        self.batches += 1
        self.unsaved = True
        return self.save_freq != "epoch" and self.batches % self.save_freq == 0

    def _save_model(self, epoch: int, batch: int | None, logs: Logs | None) -> None:
        if self.save_best_only and not self._improves(numbers(logs)):
            return
        self._write(self._get_file_path(epoch, batch, logs))

    def _improves(self, logs: Logs) -> bool:
        if not self._is_due(logs):
            return False
        value = self._monitored_value(logs)
        if value is None:  # which is a warning
            return True
        if math.isnan(value):
            return False
        up = self.monitor_op is ops.greater
        if self.best is not None and not (value > self.best if up else value < self.best):
            return False
        self.best = value
        return True

    def _get_file_path(
        self, epoch: int, batch: int | None, logs: Logs | None, interrupted: bool = False
    ) -> str:
        names = {**numbers(logs), "epoch": epoch + 1, "batch": 0 if batch is None else batch + 1}
        if interrupted:  # an epoch without validation has no such value
            names = {**_NoValue.for_names(self.filepath, names), **names}
        try:
            return self.filepath.format(**names)
        except KeyError as error:
            raise ValueError(
                f"ModelCheckpoint: the path {self.filepath!r} names {error}; there are "
                f"{', '.join(sorted(names))}"
            ) from None

    def _write(self, path: str) -> None:
        folder = os.path.dirname(path)
        if folder and not rank_of(self.model):
            make_folder(folder, "ModelCheckpoint")
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)
        wait_for_rank_0(self.model, f"{path} is written")
        self.unsaved = False
        if self.verbose:
            say(f"saved {path}")

    def state_arrays(self) -> dict[str, Any]:
        best = math.nan if self.best is None else self.best
        return {"best": np.float64(best), "batches": np.int64(self.batches)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"best", "batches"}:
            raise ValueError(
                f"ModelCheckpoint stores 'best' and 'batches', the file has {sorted(arrays)}"
            )
        best = float(arrays["best"])
        self.best = None if math.isnan(best) else best
        self.batches = int(arrays["batches"])


class _NoValue(float):
    """Stands for a metric that has no value: `nan` in any format."""

    @classmethod
    def for_names(cls, template: str, logs: Logs) -> Logs:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
        return {name: cls("nan") for name in fields if name not in logs}
