"""`RunJournal`: writes down what `fit` does, step by step, so that the run can be asked later."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.ranks import rank_of
from trainkit.checkpoints import Checkpoint
from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core import nest
from trainkit.core.dispatch import native
from trainkit.core.errors import CheckpointError
from trainkit.core.files.local_paths import local_path
from trainkit.core.registry import serialize_object
from trainkit.journal.replays import ProgramReplay, replay_of
from trainkit.journal.retention import bytes_of
from trainkit.journal.run_log import RunLog, unchanging
from trainkit.journal.state_digests import StateDigests, digest_of, leaf_digest, rows_of
from trainkit.journal.step_reader import StepEvent, StepReader
from trainkit.kernels.jit.kernel_family import KernelChoice
from trainkit.ops.sampling.generators import global_generator

MODEL_FILE, DATA_FOLDER = "model.json", "data"
_MOST_CONFIG = 1 << 16
_MOST_LAYERS = 1000


class RunJournal(Callback):
    """Writes the journal of a run of `fit`, and checkpoints to go back to; `fit(run=...)` adds one.

    `tk.runs.open(folder)` reads it: what happened, any past step exactly as it was, where two runs
    part. A run that was killed goes on from its last checkpoint when `fit` is called again.

    Args:
        folder: of the run.
        keep: how much disk checkpoints may take, as `"2GB"` or in bytes: dense near the end of the
            run, sparse before.
        save_every: `"auto"` for as often as it costs a hundredth of the time, `"epoch"`, or a
            number of steps.
        digest_every: `"auto"` for as often as it costs little, or a number of steps.
        keep_data: arrays of up to this size are stored with the run, which can then be gone back
            into without the program that made it.

    Raises:
        ValueError: a setting is out of its range.
        AlreadyExistsError: at the beginning of training, the folder has a run that is finished.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = tk.ones((8, 1))
        >>> history = model.fit(x, x, 2, epochs=2, verbose=0, run="runs/first")
        >>> tk.runs.open("runs/first").last_step
        8
    """

    reads_batch_logs = False
    stores_runs = True
    _untracked = Callback._untracked | {
        "log", "facts", "validation", "replay", "_optimizer", "_run", "_hot", "_reader",
        "_logs", "_earlier",
    }  # fmt: skip
    log: RunLog | None
    replay: ProgramReplay | None
    facts: dict[str, Any]
    steps: int
    _optimizer: Any
    _run: Any
    _reader: StepReader
    _logs: Any
    _hot: tuple[Any, ...]

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: int | float | str = "1GB",
        save_every: Any = "auto",
        digest_every: Any = "auto",
        keep_data: int | float | str = "256MB",
    ) -> None:
        super().__init__()
        self.folder = local_path(folder)
        self.settings = {"keep": keep, "save_every": save_every, "digest_every": digest_every}
        RunLog(folder, **self.settings)  # which refuses what is out of range
        self.keep_data = bytes_of(keep_data)
        self.log, self.replay, self.facts, self.validation = None, None, {}, None
        self._optimizer = self._run = None
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of any step."""
        self.steps, self._logs, self._hot = 0, None, ()
        self._reader = StepReader(_numbers_of)

    def describe(self, validation: Any = None, **facts: Any) -> None:
        """Take what only `fit` knows, for the header; and the feed of the validation."""
        self.facts, self.validation = facts, validation

    # ------------------------------------------------------------------ beginning

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._forget()
        self.replay, self._run = replay_of(self.folder), self.model.training_run
        self._earlier = None
        if self.replay is not None:
            self.replay.used = True
        if self.replay is None or self.replay.output is not None:
            if not rank_of(self.model):
                folder = self.folder if self.replay is None else self.replay.output
                self.log = RunLog(folder or self.folder, **self.settings)
                self._earlier = self.log.earlier()
        self._run.keeps_batches = self.log is not None or self.replay is not None
        self.model.training_run.before_training(self._begin)

    def _begin(self) -> None:
        """Once all callbacks have begun, and an earlier state was taken up."""
        run = self.model.training_run
        checkpoint = checkpoint_of(self.model)
        if self.replay is not None:
            self._begin_replay(checkpoint, self.replay)
        optimizer = self.model.optimizer
        while hasattr(optimizer, "inner_optimizer"):
            optimizer = optimizer.inner_optimizer
        self._optimizer = optimizer
        earlier, self._earlier = self._earlier, None
        if self.log is not None and earlier is not None and not run.resumed and not self.replay:

            def restore(path: str) -> None:
                checkpoint._restore(path, strict=True)

            self.log.restore_newest(earlier, restore)
        log, replay = self.log, self.replay
        reader = self._reader
        reader.epoch = run.epoch if run.step else -1
        self._hot = (run, None, None, optimizer, replay)
        if log is None:
            return
        state = StateDigests({"model": self.model, "random": global_generator()})
        log.begin(self.steps, earlier, checkpoint, state, self._facts, reader)
        self._hot = (run, log, log.waiting, optimizer, replay)
        if optimizer is None or optimizer.built:  # otherwise the first step makes what is missing
            log.save()

    def _begin_replay(self, checkpoint: Checkpoint, replay: ProgramReplay) -> None:
        if replay.adjust is not None:
            replay.adjust(self.model)
        if replay.start is not None:
            status = checkpoint.read(replay.start).expect_partial()
            report = status.report
            lacking = len(report) > len(report.of_kind("unused"))
            if lacking:
                raise CheckpointError(f"{replay.start} is of another model or program: {report}")
            if self.steps != replay.start_step:
                raise CheckpointError(
                    f"{replay.start} is of step {self.steps}, not of step {replay.start_step}"
                )
        if replay.prepare is not None:
            replay.prepare(self.model)

    def _facts(self) -> dict[str, Any]:
        """What the header says of the model and the data; and both are stored, if they can be."""
        feed, facts = self.model.training_run.feed, dict(self.facts)
        more = {} if self.replay is None else self.replay.more
        callbacks = [type(c).__name__ for c in self.model.training_run.callbacks.values()]
        return {
            "loop": "fit",
            "model": describe_model(self.model),
            "optimizer": describe_optimizer(self.model.optimizer),
            "compile": _bound(self.model.get_compile_config),
            "model_stored": self._store_model(),
            "data": self._describe_data(feed),
            **self._describe_validation(),
            "callbacks": [name for name in callbacks if name not in ("RunJournal", "History")],
            "fit": facts,
            "keep": self.settings,
            **more,
        }

    def _store_model(self) -> bool:
        """Write how the model is made and compiled, if it can be put into a config."""
        try:
            text = json.dumps(serialize_object(self.model))
        except Exception:  # a class without a config: the program is needed to go back
            return False
        assert self.log is not None
        with AtomicFile(self.log.folder / MODEL_FILE) as file:
            os.write(file.fd, text.encode())
            file.commit()
        return True

    def _describe_validation(self) -> dict[str, Any]:
        validation = self.__dict__["validation"]
        return {} if validation is None else {"validation": self._describe_data(validation)}

    def _describe_data(self, feed: Any) -> dict[str, Any]:
        facts: dict[str, Any] = {"kind": type(feed).__name__, "batches": feed.steps}
        parts = getattr(feed, "parts_given", None)
        if parts is None:
            spec = feed.spec()
            facts["spec"] = str(nest.map_structure(str, spec))[:2000]
            facts["source"] = type(getattr(feed, "source", getattr(feed, "dataset", feed))).__name__
            return facts
        leaves = [leaf for leaf in nest.flatten(parts) if leaf is not None]
        listed = [
            {"shape": list(leaf.shape), "dtype": leaf.dtype.name, "digest": leaf_digest(leaf)}
            for leaf in leaves
        ]
        facts.update(digest=digest_of(leaves), arrays=listed)
        can_be = all(leaf.dtype.kind in "biufc" for leaf in leaves)
        if can_be and sum(leaf.nbytes for leaf in leaves) <= self.keep_data:
            assert self.log is not None
            for leaf, about in zip(leaves, listed, strict=True):
                store_array(self.log.folder, str(about["digest"]), leaf)
            facts["structure"] = _structure(parts)
        return facts

    # ------------------------------------------------------------------ steps

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch_began = perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        replay = self.__dict__["replay"]
        if replay is not None:
            self._before_replayed(replay, self.__dict__["_run"].portion)

    def _before_replayed(self, replay: ProgramReplay, portion: Any) -> None:
        if replay.rates:
            rate = replay.rates.get(self.steps + 1)
            if rate is not None:
                self._optimizer.learning_rate = rate
        if replay.target is not None and self.steps + 1 >= replay.target:
            together = self.model.steps_per_execution
            portion.left, portion.kept = together, []
            for _ in range(together):
                try:
                    next(portion)
                except StopIteration:
                    break
            replay.break_off(self.model, portion.kept, self.steps)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        now = perf_counter()
        fields = self.__dict__
        # a step has taken this function's code and data out of the caches: the less it looks at
        # the better
        run, log, waiting, optimizer, replay = fields["_hot"]
        portion = run.portion
        batches = portion.kept
        if batches is None:  # another rank writes
            return
        steps = fields["steps"] = fields["steps"] + (len(batches) or 1)
        noted = (now, steps, run.epoch, portion.wait.seconds, batches, logs, optimizer)
        facts = _usual_facts(*noted) or _facts_of(*noted)
        if log is not None:
            waiting.append(facts)
            if steps < log.due_step and now < log.due_time and replay is None:
                return
        reader = fields["_reader"]
        if reader.averages is None:
            reader.averages = self._logs_average(facts[4])
        if log is not None and (steps >= log.due_step or now >= log.due_time):
            log.catch_up(batches)
        if replay is not None:
            self._after_replayed(replay, facts, batches)

    def _after_replayed(
        self, replay: ProgramReplay, facts: tuple[Any, ...], batches: list[Any]
    ) -> None:
        if self.log is None:
            self._logs = facts[5]
            if replay.lines is None:
                self._reader.count(facts[2], facts[4])
            else:
                step = self._reader.read(facts)._replace(seconds=0.0)
                replay.note(step, batches, {"model": self.model})
        if replay.watch is not None:
            replay.watch(self.model, self.steps)

    def _logs_average(self, rows: int) -> bool:
        """Whether the loss in the logs is the mean over the epoch's samples so far."""
        tracker = getattr(self.model, "_loss_tracker", None)
        count = None if tracker is None else getattr(tracker, "count", None)
        reader = self._reader
        row_count = rows + (reader.rows if reader.epoch == self._run.epoch else 0)
        return count is not None and row_count > 0 and float(count.numpy()) == row_count

    # ------------------------------------------------------------------ epochs and the end

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.model.training_run.after_epoch(lambda: self._after_epoch(epoch, dict(logs or {})))

    def _after_epoch(self, epoch: int, logs: dict[str, Any]) -> None:
        fields, log = self.__dict__, self.log
        if log is None:
            return
        seconds = perf_counter() - fields.get("_epoch_began", perf_counter())
        waited = fields["_run"].portion.wait.seconds
        log.record(
            "epoch",
            epoch=epoch,
            logs={name: value for name, value in logs.items() if _is_number(value)},
            seconds=round(seconds, 6),
            waited=round(waited, 6),
        )
        log.save_if_due(ends_epoch=True)

    def on_train_end(self, logs: Logs | None = None) -> None:
        log = self.log
        if log is None:
            return
        run = self.model.training_run
        if run.interrupted and run.epoch < self.params["epochs"]:
            ending = "interrupted"
        else:
            ending = "stopped" if run.epoch < self.params["epochs"] else "finished"
        log.save()
        log.end(ending)
        self.log = None

    @contextlib.contextmanager
    def open_until_the_end(self) -> Iterator[None]:
        """A context of training, after which the journal is closed and says what went wrong."""
        try:
            yield
        except BaseException as error:
            log, self.log = self.log, None
            if log is not None:
                log.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", error)
            raise

    def state_arrays(self) -> dict[str, Any]:
        if self.log is not None and self.log.writer is not None:
            self.log.flush()  # which moves the mean on
        run, reader, logs = self._run, self._reader, self._logs
        row_count = 0 if run is not None and not run.step else reader.rows
        mean, count = reader.mean, reader.mean_rows
        if self.log is None and logs is not None and row_count:  # of a replay, after its first step
            mean, count = numbers(logs).get("loss", 0.0), row_count
        return {
            "steps": np.int64(self.steps),
            "seen": np.int64(row_count),
            "mean": np.float64(mean),
            "count": np.int64(count),
        }

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if not {"steps", "seen", "mean", "count"} <= set(arrays):
            raise ValueError(f"RunJournal stores 'steps', 'seen', 'mean', got {sorted(arrays)}")
        reader = self._reader
        self.steps = int(arrays["steps"])
        reader.rows = int(arrays["seen"])
        reader.mean, reader.mean_rows = float(arrays["mean"]), int(arrays["count"])


def _facts_of(
    now: float,
    steps: int,
    epoch: int,
    waited: float,
    batches: list[Any],
    logs: Logs | None,
    optimizer: Any,
) -> StepEvent:
    """What is noted of a step; see `usual_facts` of the compiled half."""
    rows = sum(rows_of(batch) or 0 for batch in batches)
    # a tensor does not change, so the value that is held here tells that of the step later
    rate = getattr(getattr(optimizer, "_learning_rate", None), "_value", None)
    unchanged = {name: unchanging(value) for name, value in (logs or {}).items()}
    return now, steps, epoch, waited, rows, unchanged, rate


_usual_facts: Callable[..., StepEvent | None] = (
    _facts_of if native.NATIVE is None else native.NATIVE.usual_facts
)


def _numbers_of(logs: Logs | None) -> dict[str, float]:
    """Logs as numbers, without what is none."""
    return {name: value for name, value in numbers(logs).items() if isinstance(value, float)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def checkpoint_of(owner: Any) -> Checkpoint:
    """All that a training under way depends on, to be saved: of a model's `fit`, or of a loop."""
    own: Checkpoint | None = getattr(owner, "loop_checkpoint", None)
    return Checkpoint(run=owner.training_run, kernels=KernelChoice()) if own is None else own


def journal_of(run: Any) -> RunJournal:
    """The argument `run` of `fit`: a `RunJournal`, or the folder of one.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(run, RunJournal):
        return run
    if isinstance(run, str | os.PathLike):
        return RunJournal(run)
    raise TypeError(f"fit: run is a folder or a tk.callbacks.RunJournal, got {run!r}")


# ------------------------------------------------------------------ descriptions


def describe_model(model: Any) -> dict[str, Any]:
    """A model's class, its layers with the digests of their settings, and its size."""
    layers = []
    for layer in model._flatten_layers(include_self=False)[:_MOST_LAYERS]:
        try:
            config = json.dumps(serialize_object(layer), sort_keys=True, default=str)
        except Exception:  # a get_config of the user's own may raise what it likes
            config = type(layer).__name__
        digest = hashlib.sha256(config.encode()).hexdigest()[:8]
        layers.append([layer.name, type(layer).__name__, digest])
    return {
        "class": type(model).__name__,
        "name": model.name,
        "weights": [[v.path, list(v.shape), str(v.dtype)] for v in model.weights[:_MOST_LAYERS]],
        "layers": layers,
        "code": code_digest(model),
    }


def code_digest(model: Any) -> str:
    """A digest of the compiled code of a model's class and of its layers' classes."""
    kinds = {type(model), *(type(layer) for layer in model._flatten_layers(include_self=False))}
    own = sorted(
        (k for k in kinds if not k.__module__.startswith("trainkit.")), key=lambda k: k.__qualname__
    )
    digest = hashlib.sha256()
    for kind in own:
        digest.update(kind.__qualname__.encode())
        for name, value in sorted(vars(kind).items()):
            code = getattr(value, "__code__", None)
            if code is not None:
                digest.update(name.encode() + code.co_code + repr(_constants(code)).encode())
    return digest.hexdigest()[:16] if own else ""


def _constants(code: Any) -> list[str]:
    return [
        repr(_constants(c)) if hasattr(c, "co_code") else repr(c) for c in code.co_consts
    ] + list(code.co_names)


def describe_optimizer(optimizer: Any) -> Any:
    """An optimizer's class and settings, `None` without one."""
    return None if optimizer is None else _bound(lambda: serialize_object(optimizer))


def _bound(make: Any) -> Any:
    """Plain values, unless they can't be made or are too many for a header."""
    try:
        value = make()
        text = json.dumps(value, default=str)
    except Exception:  # the same; the header says None, and training goes on
        return None
    return json.loads(text) if len(text) <= _MOST_CONFIG else {"too_long": len(text)}


def store_array(folder: Path, digest: str, array: Any) -> None:
    """Keep an array under its digest; a run beside that has it already shares the file."""
    path = folder / DATA_FOLDER / f"{digest}.npy"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for other in sorted(folder.parent.glob(f"*/{DATA_FOLDER}/{digest}.npy"))[:1]:
        try:
            os.link(other, path)
            return
        except OSError:  # another disk, or one without links
            break
    with AtomicFile(path) as file, os.fdopen(os.dup(file.fd), "wb") as stream:
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
        stream.flush()
        file.commit()


def _structure(parts: Any) -> Any:
    """A nest as JSON, with digests in place of its arrays."""
    if isinstance(parts, dict):
        return {"dict": {str(key): _structure(parts[key]) for key in parts}}
    if isinstance(parts, list | tuple):
        kind = "list" if isinstance(parts, list) else "tuple"
        return {kind: [_structure(item) for item in parts]}
    return None if parts is None else leaf_digest(parts)


def nest_of(structure: Any, arrays: dict[str, Any]) -> Any:
    """The nest that `_structure` described."""
    if structure is None or isinstance(structure, str):
        return None if structure is None else arrays[structure]
    ((kind, content),) = structure.items()
    if kind == "dict":
        return {key: nest_of(item, arrays) for key, item in content.items()}
    items = [nest_of(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items
