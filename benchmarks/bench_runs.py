"""What the journal of `fit(run=...)` takes of a step: lines and digests, by default settings.

Steps with and without a journal differ by much less than one differs from the next, so the
journal's own functions are timed where `fit` calls them, in caches that the step has emptied:
processor time of the one thread, so that a busy machine makes steps and journal slower alike. Two
looks at that clock take as long as a third of the journal, so the share of a callback that does
nothing, measured in the same way, is taken off. The steps need one thread too, which is set from
outside as a process can't have more again:

    NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/run.py journal
"""

import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from timing import Benchmark

import trainkit as tk

WARM_STEPS = 100
"""Not counted: the first digests find out what they take."""


class TimedJournal(tk.callbacks.RunJournal):
    """Adds up what the journal's functions take that are called in an epoch.

    Args:
        folder: of the run.
        hook: what is called after each step.
    """

    def __init__(self, folder: str, hook: Callable[..., None]) -> None:
        super().__init__(folder, save_every=1 << 30)
        self.__dict__.update(spent=0.0, began=0.0, share=0.0, hook=hook)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        hook = self.__dict__["hook"]
        began = time.thread_time()
        hook(self, batch, logs)
        fields, now = self.__dict__, time.thread_time()
        fields["spent"] += now - began
        if batch == WARM_STEPS:
            fields.update(spent=0.0, began=now)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        began = time.thread_time()
        super().on_epoch_end(epoch, logs)
        assert self.log is not None
        self.log.flush()
        now, fields = time.thread_time(), self.__dict__
        spent = fields["spent"] + now - began
        fields["share"] = spent / (now - fields["began"] - spent)


class JournalShare:
    """The time of a journal by that of the steps it tells of.

    Args:
        width: of three layers.
        batch: rows in one.
        steps: how many are counted.
        folder: of the runs.
    """

    fresh = True

    def __init__(self, width: int, batch: int, steps: int, folder: str) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(32 * batch, width)).astype(np.float32)
        rows = tk.data.Dataset.from_tensor_slices((x, rng.integers(0, 10, len(x))))
        self._batches = rows.batch(batch).repeat().take(steps + WARM_STEPS)
        layers = [tk.layers.Dense(width, activation="relu") for _ in range(3)]
        self._model = tk.Sequential([tk.Input((width,)), *layers, tk.layers.Dense(10)])
        loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(tk.optimizers.Adam(1e-5), loss, metrics=["accuracy"])
        self._folder = Path(folder)
        self._runs = 0

    def measured(self) -> float:
        """The share, of an epoch."""
        hook = tk.callbacks.RunJournal.on_train_batch_end
        return self._share(hook) - self._share(_no_hook)

    def _share(self, hook: Callable[..., None]) -> float:
        self._runs += 1
        journal = TimedJournal(str(self._folder / f"run{self._runs}"), hook)
        self._model.fit(self._batches, verbose=0, run=journal)
        return float(journal.share)

    def __call__(self) -> float:
        """The same."""
        return self.measured()


def _no_hook(journal: TimedJournal, batch: int, logs: Any) -> None:
    """What a callback costs that does nothing."""


def _share(*sizes: int) -> Iterator[JournalShare]:
    with tempfile.TemporaryDirectory() as folder:
        yield JournalShare(*sizes, folder)


STEPS = {
    "journal in steps of about 1 ms": (256, 80, 3000),
    "journal in steps of about 20 ms": (640, 256, 400),
}
BENCHMARKS = [
    Benchmark(name, "% of a step", 100, {"trainkit": functools.partial(_share, *sizes)}, rounds=3)
    for name, sizes in STEPS.items()
]
