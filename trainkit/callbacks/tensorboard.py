"""`TensorBoard`: metrics, rates and weights as summaries."""

from __future__ import annotations

import operator
import os
import time
from typing import Any

from trainkit import profiler, summary
from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.learning_rate import rates_now
from trainkit.core.errors import UnimplementedError


class TensorBoard(Callback):
    """Writes what TensorBoard shows of a run, under the tags that Keras has.

    Metrics of epochs are `epoch_loss` and so on, in the folders `train` and `validation`; those of
    batches are `batch_loss` and so on, over the number of steps. The values are those of the
    history. A run that is taken up again drops what the broken off one wrote of later steps.

    Args:
        log_dir: folder of the run.
        histogram_freq: write histograms of all weights each so many epochs; 0 for never.
        write_graph, write_images: must be false; see `tk.summary.graph` and `tk.summary.image`.
        write_steps_per_second: write how many batches a second went by.
        update_freq: `"epoch"`, `"batch"`, or a number of batches between summaries of batches.
        profile_batch: the batch to profile, or the first and the last of them, counted from 1 over
            the whole training; 0 for none. See `tk.profiler.profile.write_summary` for what is
            written, into `log_dir/train`.
        embeddings_freq: must be 0.
        embeddings_metadata: must be `None`.

    Raises:
        UnimplementedError: an argument that must be false or 0 is not.
        ValueError: `update_freq` or `profile_batch` is none of these.
    """

    reads_batch_logs = False
    _untracked = Callback._untracked | {"profiled", "writers"}

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = False,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: Any = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
    ) -> None:
        super().__init__()
        unsupported = {
            "write_graph": write_graph,
            "write_images": write_images,
            "embeddings_freq": embeddings_freq,
            "embeddings_metadata": embeddings_metadata,
        }
        for name, value in unsupported.items():
            if value:
                raise UnimplementedError(
                    f"TensorBoard: {name}={value!r} is not supported; log_dir, histogram_freq, "
                    "write_steps_per_second, update_freq and profile_batch are"
                )
        if update_freq not in ("epoch", "batch") and not (
            isinstance(update_freq, int) and update_freq > 0
        ):
            raise ValueError(
                f"TensorBoard: update_freq must be 'epoch', 'batch' or a number, got "
                f"{update_freq!r}"
            )
        self.log_dir, self.histogram_freq = os.fsdecode(log_dir), histogram_freq
        self.write_steps_per_second = write_steps_per_second
        self.every = {"epoch": 0, "batch": 1}.get(update_freq, update_freq)
        self.first_profiled, self.last_profiled = _batches_to_profile(profile_batch)
        self.batches_seen = 0
        self.profiled: Any = None
        self.writers: dict[str, Any] = {}
        self.step = 0
        self.began_at, self.began_step = 0.0, 0

    # ------------------------------------------------------------------ writers

    def _writer(self, name: str) -> Any:
        if name not in self.writers:
            run = self.model.training_run
            resumed = run is not None and run.resumed
            first = None if not resumed else run.first_step if self.every else run.first_epoch
            self.writers[name] = summary.create_file_writer(
                os.path.join(self.log_dir, name), purge_step=first
            )
        return self.writers[name]

    def _scalars(self, name: str, values: dict[str, Any], step: int) -> None:
        if values:
            with self._writer(name).as_default():
                for tag, value in values.items():
                    summary.scalar(tag, value, step=step)

    # ------------------------------------------------------------------ hooks

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.__dict__["writers"] = {}
        self._end_profile(save=False)  # of a training that an error ended
        self.batches_seen = 0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.step = self.began_step = int(self.model.optimizer.iterations)
        self.began_at = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.batches_seen += 1
        if self.batches_seen == self.first_profiled:
            self.__dict__["profiled"] = profiler.profile()
            self.profiled.__enter__()

    def _end_profile(self, save: bool = True) -> None:
        taken = self.profiled
        if taken is not None:
            self.__dict__["profiled"] = None
            taken.__exit__()
            if save:
                taken.write_summary(os.path.join(self.log_dir, "train"))

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.batches_seen == self.last_profiled:
            self._end_profile()
        self.step += 1
        if self.every and self.step % self.every == 0:
            values = {f"batch_{name}": value for name, value in numbers(logs).items()}
            if self.write_steps_per_second:
                values["batch_steps_per_second"] = self._steps_per_second()
            self._scalars("train", values, self.step)

    def _collect_learning_rate(self, logs: dict[str, Any]) -> dict[str, Any]:
        """`logs` with the learning rate, or with that of each of several optimizers."""
        optimizer = self.model.optimizer
        return logs if optimizer is None else {**logs, **rates_now(optimizer)}

    def _steps_per_second(self) -> float:
        seconds = max(time.perf_counter() - self.began_at, 1e-9)
        return (self.step - self.began_step) / seconds

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        train = {f"epoch_{k}": v for k, v in logs.items() if not k.startswith("val_")}
        for name, rate in self._collect_learning_rate({}).items():
            train.setdefault(f"epoch_{name}", rate)
        if self.write_steps_per_second:
            train["epoch_steps_per_second"] = self._steps_per_second()
        held = {f"epoch_{k[4:]}": v for k, v in logs.items() if k.startswith("val_")}
        self._scalars("train", train, epoch)
        self._scalars("validation", held, epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._histograms(epoch)

    def _histograms(self, epoch: int) -> None:
        with self._writer("train").as_default():
            for weight in self.model.weights:
                summary.histogram(weight.path, weight, step=epoch)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._end_profile()
        for writer in self.writers.values():
            writer.close()
        self.__dict__["writers"] = {}


def _batches_to_profile(asked: Any) -> tuple[int, int]:
    """The first and the last batch to profile, 0 and 0 for none."""
    given = asked.split(",") if isinstance(asked, str) else asked
    pair = list(given) if isinstance(given, list | tuple) else [given, given]
    try:
        first, last = [int(n) if isinstance(n, str) else operator.index(n) for n in pair]
    except (TypeError, ValueError):
        first, last = -1, -1
    if not (first == last == 0 or 1 <= first <= last):
        raise ValueError(
            "TensorBoard: profile_batch must be 0, the number of a batch from 1 on, or a pair of "
            f"numbers, the first and the last batch, got {asked!r}"
        )
    return first, last
