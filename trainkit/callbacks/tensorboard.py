"""`TensorBoard`: metrics, rates and weights as summaries."""

from __future__ import annotations

import operator
import os
import time
import warnings
from typing import Any

import numpy as np

from trainkit import profiler, summary
from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.embeddings import embeddings_of, labels_by_layer, write_embeddings
from trainkit.callbacks.gradients import GradientSampler, LooksAlong
from trainkit.callbacks.learning_rate import rates_now
from trainkit.core.files.local_paths import local_path
from trainkit.summary.pruning import drop_events, has_events


class TensorBoard(Callback):
    """Writes what TensorBoard shows of a run, under the tags that Keras has.

    Metrics of epochs are `epoch_loss` and so on, in the folders `train` and `validation`; those of
    batches are `batch_loss` and so on, over the number of steps. The values are those of the
    history. A run that is taken up again drops what the broken off one wrote of later steps.

    Args:
        log_dir: folder of the run.
        histogram_freq: write histograms of all weights each so many epochs; 0 for never.
        write_graph: write the graph of the model's outputs for a batch, if it can be traced, and
            that of its layers, if it was drawn up from them.
        write_images: write the weights as images, too, as often as histograms.
        write_steps_per_second: write how many batches a second went by.
        update_freq: `"epoch"`, `"batch"`, or a number of batches between summaries of batches.
        profile_batch: the batch to profile, or the first and the last of them, counted from 1 over
            the whole training; 0 for none. See `tk.profiler.profile.write_summary` for what is
            written, into `log_dir/train`.
        embeddings_freq: write the vectors of `Embedding` layers for the projector each so many
            epochs; 0 for never.
        embeddings_metadata: a file of labels, or a dict of these by names of layers.
        write_gradients: write the length of each gradient, that of each update by that of its
            weight, histograms of gradients and the learning rate, of as many steps as
            `time_budget` has time for. Those steps run operation by operation, with the same
            results. With several replicas they are the gradients of all, and all processes have to
            be given the callback.
        time_budget: the share of the time of training that `write_gradients` may take.

    Raises:
        ValueError: `update_freq`, `profile_batch` or `time_budget` is none of these; in training,
            `embeddings_metadata` names a layer that is no embedding.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> board = tk.callbacks.TensorBoard("logs", histogram_freq=1)
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[board])
    """

    reads_batch_logs = False
    only_rank_0 = True
    _untracked = Callback._untracked | {"profiled", "writers", "embeddings_metadata", "sampler"}
    embeddings_metadata: Any

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: Any = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
        write_gradients: bool = False,
        time_budget: float = 0.02,
    ) -> None:
        super().__init__()
        if update_freq not in ("epoch", "batch") and not (
            isinstance(update_freq, int) and update_freq > 0
        ):
            raise ValueError(
                f"TensorBoard: update_freq must be 'epoch', 'batch' or a number, got "
                f"{update_freq!r}"
            )
        self.log_dir, self.histogram_freq = local_path(log_dir), histogram_freq
        self.write_steps_per_second = write_steps_per_second
        self.write_graph, self.write_images = bool(write_graph), bool(write_images)
        self.embeddings_freq = embeddings_freq
        self.embeddings_metadata = embeddings_metadata
        self.every = {"epoch": 0, "batch": 1}.get(update_freq, update_freq)
        self.first_profiled, self.last_profiled = _batches_to_profile(profile_batch)
        self.sampler = GradientSampler(time_budget) if write_gradients else None
        self.batches_seen = 0
        self.profiled: Any = None
        self.writers: dict[str, Any] = {}
        self.step = 0
        self.graph_is_due = False
        self.began_at, self.began_step = 0.0, 0

    # ------------------------------------------------------------------ writers

    def _writer(self, name: str) -> Any:
        if name not in self.writers:
            folder = os.path.join(self.log_dir, name)
            self.writers[name] = summary.create_file_writer(
                folder, purge_step=self._first_again(folder)
            )
        return self.writers[name]

    def _first_again(self, folder: str) -> int | None:
        """From where on readers drop what an earlier process wrote; `None` if there was none.

        One number is for all tags. With summaries of batches it counts steps, and what stands over
        epochs is taken out of the files themselves.
        """
        run = self.model.training_run
        if run is None or not run.resumed:
            return None
        if not self.every and self.sampler is None:
            return int(run.first_epoch)
        own = {weight.path for weight in self.model.weights}

        def is_late(tag: str, step: int) -> bool:
            of_epochs = tag.startswith("epoch_") or tag.removesuffix("/image") in own
            return of_epochs and step >= run.first_epoch

        drop_events(folder, is_late)
        return int(run.first_step) + 1  # a step is written under the number of those done

    def _scalars(self, name: str, values: dict[str, Any], step: int) -> None:
        if values:
            with self._writer(name).as_default():
                for tag, value in values.items():
                    summary.scalar(tag, value, step=step)

    # ------------------------------------------------------------------ hooks

    def in_other_ranks(self) -> Callback | None:
        return None if self.sampler is None else LooksAlong(self.sampler)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.writers = {}
        self._end_profile(save=False)  # of a training that an error ended
        self.batches_seen = 0
        if self.sampler is not None:
            self.sampler.begin(self.model)
        if self.embeddings_freq:  # a wrong name is an error before any training
            labels_by_layer(embeddings_of(self.model), self.embeddings_metadata)
        self.graph_is_due = self.write_graph

    def _graph(self) -> None:
        """Write the graphs of the outputs and of the layers, if this is `fit`.

        A run that goes on has them from its first process.
        """
        run = self.model.training_run
        if run is not None and run.resumed and has_events(os.path.join(self.log_dir, "train")):
            return
        spec = None if run is None else run.feed.spec()
        traced = None
        if spec is not None and not self.model.run_eagerly:
            traced = self._operations(spec)
        described = self.model if self.model._graph is not None else None
        if described is None and traced is not None:
            described = self.model.layer_links(traced)
        if described is not None:
            with self._writer("train").as_default():
                summary.keras_model("keras", described, step=0)

    def _operations(self, spec: Any) -> Any:
        """Write the graph of the outputs, and return it; `None` if it can't be traced."""
        try:
            graph = self.model.graph_for(spec)
        except Exception as error:
            warnings.warn(
                f"TensorBoard: can't write the graph of {self.model.name!r}, which can't be "
                f"traced: {type(error).__name__}: {error}; write_graph=False leaves it out",
                stacklevel=2,
            )
            return None
        with self._writer("train").as_default():
            summary.graph(graph)
        return graph

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.step = self.began_step = int(self.model.optimizer.iterations)
        # not before: only now is it known whether the run goes on, and so what readers drop
        if self.graph_is_due:
            self.graph_is_due = False
            self._graph()
        self.began_at = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.batches_seen += 1
        if self.batches_seen == self.first_profiled:
            self.profiled = profiler.profile()
            self.profiled.__enter__()
        if self.sampler is not None:
            self.sampler.before_step(self.model)

    def _end_profile(self, save: bool = True) -> None:
        profile = self.profiled
        if profile is not None:
            self.profiled = None
            profile.__exit__()
            if save:
                profile.write_summary(os.path.join(self.log_dir, "train"))

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.batches_seen == self.last_profiled:
            self._end_profile()
        self.step += 1
        if self.sampler is not None:
            self._gradients(self.sampler)
        if self.every and self.step % self.every == 0:
            values = {f"batch_{name}": value for name, value in numbers(logs).items()}
            values |= self._batch_rates()
            if self.write_steps_per_second:
                values["batch_steps_per_second"] = self._steps_per_second()
            self._scalars("train", values, self.step)

    def _batch_rates(self) -> dict[str, float]:
        """The learning rates, under the names of values that are written after batches."""
        rates = self._collect_learning_rate({})
        return {f"batch_{name}": rate for name, rate in rates.items()}

    def _gradients(self, sampler: GradientSampler) -> None:
        """Write what was seen of the step, if it was one that is looked at."""
        began_at = sampler.began_at
        samples = sampler.after_step()
        if began_at is None:
            return
        if samples:
            values = {f"gradient_norm/{one.path}": one.norm for one in samples}
            values |= {f"update_ratio/{one.path}": one.ratio for one in samples}
            if not self.every:
                values |= self._batch_rates()
            self._scalars("train", values, self.step)
            with warnings.catch_warnings(), self._writer("train").as_default():
                warnings.simplefilter("ignore")  # a loss scale that is tried out gives infinities
                for one in samples:
                    summary.histogram(f"gradients/{one.path}", one.gradient, step=self.step)
        sampler.written(began_at)

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
        validation = {f"epoch_{k[4:]}": v for k, v in logs.items() if k.startswith("val_")}
        self._scalars("train", train, epoch)
        self._scalars("validation", validation, epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._histograms(epoch)
        if self.embeddings_freq and epoch % self.embeddings_freq == 0:
            layers = embeddings_of(self.model)
            labels = labels_by_layer(layers, self.embeddings_metadata)
            write_embeddings(os.path.join(self.log_dir, "train"), layers, labels, epoch)

    def _histograms(self, epoch: int) -> None:
        with self._writer("train").as_default():
            for weight in self.model.weights:
                summary.histogram(weight.path, weight, step=epoch)
                picture = _as_picture(weight.numpy()) if self.write_images else None
                if picture is not None:
                    summary.image(f"{weight.path}/image", picture, step=epoch)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._end_profile()
        if self.sampler is not None:
            self.sampler.release()
        for writer in self.writers.values():
            writer.close()
        self.writers = {}


def _batches_to_profile(profile_batch: Any) -> tuple[int, int]:
    """The first and the last batch to profile, 0 and 0 for none."""
    parts = profile_batch.split(",") if isinstance(profile_batch, str) else profile_batch
    pair = list(parts) if isinstance(parts, list | tuple) else [parts, parts]
    try:
        first, last = [int(n) if isinstance(n, str) else operator.index(n) for n in pair]
    except (TypeError, ValueError):
        first, last = -1, -1
    if not (first == last == 0 or 1 <= first <= last):
        raise ValueError(
            "TensorBoard: profile_batch must be 0, the number of a batch from 1 on, or a pair of "
            f"numbers, the first and the last batch, got {profile_batch!r}"
        )
    return first, last


def _as_picture(weight: np.ndarray) -> np.ndarray | None:
    """A weight as images (images, height, width, channels), `None` for one of other ranks.

    Vectors lie on their side, matrices are wide, of three axes the last counts the images.
    """
    values = np.squeeze(np.asarray(weight, np.float32))
    if values.ndim == 1:
        return values[None, :, None, None]
    if values.ndim == 2:
        return (values.T if values.shape[0] > values.shape[1] else values)[None, :, :, None]
    if values.ndim == 3:
        return np.transpose(values, (2, 0, 1))[..., None]
    if values.ndim == 4 and values.shape[-1] in (1, 3, 4):
        return values
    return None
