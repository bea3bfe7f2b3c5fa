"""`ProgressBar`: loss and metrics on the screen while a model is trained."""

from __future__ import annotations

import sys
import time
from typing import Any

from trainkit.callbacks.callback import Callback, Logs, numbers

_SECONDS_BETWEEN_DRAWS = 0.1
_SECONDS_BEFORE_FIRST_PREDICT_BAR = 0.5


def number_text(value: Any) -> str:
    """A metric as the bar shows it."""
    if not isinstance(value, float | int):
        return str(value)
    small = value != 0 and abs(value) < 1e-3
    return f"{value:.4e}" if small else f"{value:.4f}"


def logs_text(logs: Logs) -> str:
    """All metrics on one line: those of training, then those of validation."""
    names = sorted(logs, key=lambda name: (name.startswith("val_"), name != "loss", name))
    return " - ".join(f"{name}: {number_text(logs[name])}" for name in names)


class ProgressBar(Callback):
    """Shows how far an epoch is, with the metrics so far.

    On a terminal a tqdm bar is drawn, again and again by the clock rather than by batch, so that it
    costs next to nothing; elsewhere, such as in a file, each epoch ends with one plain line.

    Args:
        verbose: 1 for the bar where there is a terminal, 2 for the lines.
    """

    reads_batch_logs = False
    _untracked = Callback._untracked | {"bar"}

    def __init__(self, verbose: int = 1) -> None:
        super().__init__()
        self.draws = verbose == 1 and bool(getattr(sys.stdout, "isatty", lambda: False)())
        self.bar: Any = None
        self.drawn_at = 0.0
        self.began_at = 0.0
        self.steps_done = 0
        self.title = ""

    # ------------------------------------------------------------------ training

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.title = f"Epoch {epoch + 1}/{self.params.get('epochs', '?')}"
        self.began_at = time.perf_counter()
        self.steps_done = 0
        if self.draws:
            self._open(self.title)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.steps_done = batch + 1
        if self.bar is not None and time.perf_counter() - self.drawn_at > _SECONDS_BETWEEN_DRAWS:
            self._draw(logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.bar is not None:
            self.bar.total = self.bar.total or self.steps_done
            self._show(logs)
            self._close()  # which draws
        elif not self.draws:
            seconds = time.perf_counter() - self.began_at
            print(f"{self.title} - {seconds:.1f}s - {logs_text(logs or {})}", flush=True)

    def on_train_interrupted(self, logs: Logs | None = None) -> None:
        if self.bar is not None:
            self._show(logs)
            self._close()
        done = f"after batch {self.steps_done} of {self.title}" if self.title else "before training"
        print(f"stopped {done}", flush=True)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._close()

    # ------------------------------------------------------------------ drawing

    def _open(self, title: str) -> None:
        from tqdm import tqdm

        layout = "{desc} {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} {elapsed} {postfix}"
        open_end = "{desc} {n_fmt} batches {elapsed} {postfix}"
        steps = self.params.get("steps")
        self.bar = tqdm(
            total=steps,
            desc=title,
            file=sys.stdout,
            dynamic_ncols=True,
            mininterval=0,
            bar_format=layout if steps else open_end,
        )
        self.drawn_at = time.perf_counter()

    def _show(self, logs: Logs | None) -> None:
        """What the bar is to show when it is drawn next."""
        self.bar.n = self.steps_done
        self.bar.set_postfix_str(logs_text(numbers(logs)), refresh=False)

    def _draw(self, logs: Logs | None) -> None:
        self._show(logs)
        self.bar.refresh()
        self.drawn_at = time.perf_counter()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class LoopBar(ProgressBar):
    """The same for `evaluate` and `predict`; it appears only if they take their time."""

    def _begin(self) -> None:
        self.began_at = self.drawn_at = time.perf_counter()
        self.steps_done = 0

    def _step(self, batch: int, title: str, logs: Logs | None) -> None:
        self.steps_done = batch + 1
        now = time.perf_counter()
        if not self.draws or now - self.drawn_at < _SECONDS_BETWEEN_DRAWS:
            return
        if self.bar is None and now - self.began_at > _SECONDS_BEFORE_FIRST_PREDICT_BAR:
            self._open(title)
        if self.bar is not None:
            self._draw(logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._begin()

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._step(batch, "Evaluate", logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        self._close()
        seconds = time.perf_counter() - self.began_at
        text = logs_text(numbers(logs))
        print(f"Evaluated {self.steps_done} batches - {seconds:.1f}s - {text}", flush=True)

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._begin()

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._step(batch, "Predict", None)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._close()
