"""`ProgressBar`: loss and metrics on the screen while a model is trained."""

from __future__ import annotations

import functools
import time
from contextlib import AbstractContextManager, nullcontext

from trainkit.callbacks.callback import Callback, Logs, numbers
from trainkit.callbacks.progbar import Pace, count_text, duration_text, logs_pieces, logs_text
from trainkit.callbacks.status_line import StatusLine
from trainkit.core.dispatch import slow_work
from trainkit.core.process.console import say, say_beside

_SECONDS_BETWEEN_DRAWS = 0.1
_SECONDS_BEFORE_FIRST_PREDICT_BAR = 0.5


class _Bar(Callback):
    """What the bars of all loops share: a line, drawn by the clock, and who hears of slow work."""

    reads_batch_logs = False
    only_rank_0 = True
    _untracked = Callback._untracked | {"line", "pace"}

    def __init__(self, verbose: int = 1) -> None:
        super().__init__()
        self.line = StatusLine()
        self.may_draw = verbose == 1
        self.says_begin = verbose == 2
        self.pace = Pace()
        self.drawn_at = 0.0
        self.steps_done = 0

    def _begin(self) -> None:
        self.pace = Pace()
        self.drawn_at = time.perf_counter()
        self.steps_done = 0

    @functools.cached_property
    def draws(self) -> bool:
        """Whether there is a screen, which is asked when there is something to show first."""
        return self.may_draw and self.line.kind != "file"

    def _is_due(self) -> bool:
        return time.perf_counter() - self.drawn_at > _SECONDS_BETWEEN_DRAWS and self.draws

    def _head(self, title: str, total: int | None) -> str:
        return f"{title}  {count_text(self.steps_done, total, 'step')}"

    def _show(self, title: str, total: int | None, logs: Logs | None, over: bool = False) -> None:
        """Draw the line, for good if the loop is over."""
        pieces = self.pace.pieces(self.steps_done, total, "step", over)
        pieces += logs_pieces(numbers(logs))
        share = self.steps_done / total if total else None
        (self.line.end if over else self.line.draw)(self._head(title, total), share, pieces)
        self.drawn_at = time.perf_counter()

    def _listen(self) -> None:
        slow_work.notify(self._hear)

    def _hear(self, text: str, stage: str) -> None:
        """Show what takes long with the bar, and say it where none is drawn, beside the epochs."""
        is_done = stage == slow_work.IS_DONE
        if self.draws and self.line.kind != "file":
            self.line.status("" if is_done else text)
            if is_done:
                self.line.note(text)
        elif is_done or stage == slow_work.BEGINS:
            say_beside(text)

    def _listen_no_more(self) -> None:
        slow_work.notify(None)


class ProgressBar(_Bar):
    """Shows how far an epoch is, with the metrics so far, and the validation after it.

    On a terminal and in a notebook one line is drawn again and again, by the clock rather than by
    batch, so that it costs next to nothing: how many batches, the time of one and the time left,
    then the metrics. What does not fit beside the bar goes on in a further row. Elsewhere, such as
    in a file, each epoch ends with one plain line.

    Args:
        verbose: 1 for the bar where there is a screen, 2 for two plain lines an epoch, when it
            begins and when it ends, as Keras writes them.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = tk.ones((4, 1))
        >>> bar = tk.callbacks.ProgressBar(verbose=2)  # what `verbose=2` of `fit` makes
        >>> history = model.fit(x, x, callbacks=[bar], verbose=0)
        Epoch 1/1
        1/1 - ... - loss: ...
    """

    def __init__(self, verbose: int = 1) -> None:
        super().__init__(verbose)
        self.title = ""
        self.batch_logs: Logs = {}
        self.validating: Pace | None = None

    _untracked = _Bar._untracked | {"batch_logs", "validating"}

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.title = ""
        self._listen()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.title = f"Epoch {epoch + 1}/{self.params.get('epochs', '?')}"
        self._begin()
        if self.draws:
            self.line.draw(self._head(self.title, self.params.get("steps")))
        elif self.says_begin:
            say(self.title)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.steps_done = batch + 1
        self.batch_logs = logs or {}
        if self._is_due():
            self._show(self.title, self.params.get("steps"), logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        if self.draws and self.title:
            self.validating = Pace()
            self.batch_logs = numbers(self.batch_logs)
            self._show_validation(0)

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.validating is not None and self._is_due():
            self._show_validation(batch + 1)

    def on_test_end(self, logs: Logs | None = None) -> None:
        self.validating = None

    def _show_validation(self, step_count: int) -> None:
        """The line with the bar of the validation in place of that of training."""
        assert self.validating is not None
        total = self.params.get("validation_steps")
        head = f"{self.title}  validation {count_text(step_count, total, 'step')}"
        pieces = self.validating.pieces(step_count, total, "step", over=False) if step_count else []
        share = step_count / total if total else None
        self.line.draw(head, share, pieces + logs_pieces(self.batch_logs))
        self.drawn_at = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.draws:
            self._show(self.title, self.params.get("steps") or self.steps_done, logs, over=True)
        else:
            rate = self.pace.pieces(self.steps_done, None, "step", over=True)[0]
            steps = f"{self.steps_done}/{self.params.get('steps') or self.steps_done}"
            head = steps if self.says_begin else self.title
            say(f"{head} - {rate} - {logs_text(numbers(logs))}")
        run = getattr(self.model, "training_run", None)
        if run is not None and run.data_wait:
            say(f"    {run.data_wait}")

    def on_train_interrupted(self, logs: Logs | None = None) -> None:
        self.line.leave()
        position = (
            f"after batch {self.steps_done} of {self.title}" if self.title else "before training"
        )
        say(f"stopped {position}")

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.line.leave()
        self.title = ""
        self._listen_no_more()


class LoopBar(_Bar):
    """The same for `evaluate` and `predict`; it appears only if they take their time."""

    def _step(self, batch: int, title: str, logs: Logs | None) -> None:
        self.steps_done = batch + 1
        if self._is_due() and self.pace.seconds > _SECONDS_BEFORE_FIRST_PREDICT_BAR:
            self._show(title, self.params.get("steps"), logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._begin()
        self._listen()

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._step(batch, "Evaluate", logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        self.line.clear()
        self._listen_no_more()
        took = duration_text(self.pace.seconds)
        batches = "1 batch" if self.steps_done == 1 else f"{self.steps_done} batches"
        self.line.say(f"Evaluated {batches}", [took, *logs_pieces(numbers(logs))])

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._begin()
        self._listen()

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._step(batch, "Predict", None)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self.line.clear()
        self._listen_no_more()


class _LateBar:
    """A context in which slow work has the bar of a loop, which is made when there is some."""

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._bar: LoopBar | None = None

    def __enter__(self) -> None:
        slow_work.notify(self._hear)

    def __exit__(self, *exc: object) -> None:
        slow_work.notify(None)
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.line.clear()

    def _hear(self, text: str, stage: str) -> None:
        if self._bar is None:
            self._bar = LoopBar(self._verbose)
        self._bar._hear(text, stage)


@functools.cache  # one for all calls: to make it takes as long as a layer of a tiny network
def late_bar(verbose: int) -> AbstractContextManager[None]:
    """A context in which slow work has the bar of a loop, which is made when there is some.

    Args:
        verbose: as for `ProgressBar`; 0 for no bar.
    """
    return _LateBar(verbose) if verbose else nullcontext()
