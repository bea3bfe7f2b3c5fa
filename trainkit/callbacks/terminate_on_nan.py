"""`TerminateOnNaN`: ends training when the loss is no number any more, and says why."""

from __future__ import annotations

import math
import os
from typing import Any

from trainkit.callbacks.callback import Callback, Logs
from trainkit.callbacks.nan_report import Replay, Snapshot, not_finite, read_bundle, write_bundle
from trainkit.core.files.local_paths import local_path
from trainkit.ops.sampling.generators import global_generator
from trainkit.profiler.numerics import checking_numerics


class TerminateOnNaN(Callback):
    """Stops training after a batch whose loss is NaN or infinite.

    With `explain` it stops after the first step that gives such a weight, too, and does that step
    again operation by operation, from the state before it. The text names the operation, the layer,
    the line, and the values that went in; a folder keeps the state, the batch and a script that
    reproduces the step. The model is left as it was before the step. Explaining keeps the weights
    of the step before in memory and looks at each weight after each step.

    Args:
        raise_error: end it with an error rather than as if it had been asked to stop; then no
            callback hears of an end of training, and `BackupAndRestore` keeps what it stored.
        explain: find out what went wrong.
        bundle_dir: the folder for `explain`; if there is one of this name, a number is put behind.

    Raises:
        RuntimeError: in training, with `raise_error`, the loss is NaN or infinite.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = tk.ones((4, 1))
        >>> stop = tk.callbacks.TerminateOnNaN(explain=True)
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[stop])
    """

    _untracked = Callback._untracked | {"_before", "_has_all"}
    _before: Snapshot | None
    _has_all: bool

    def __init__(
        self,
        raise_error: bool = False,
        explain: bool = False,
        bundle_dir: str | os.PathLike[str] = "nan_bundle",
    ) -> None:
        super().__init__()
        self.raise_error, self.explain = bool(raise_error), bool(explain)
        self.bundle_dir = local_path(bundle_dir)
        self._before, self._has_all = None, False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if self.explain:  # slots that the first step would make could not be put back
            self.model.training_run.keeps_batches = True
            self.model.prepare(self.model.training_run.feed.spec())
        self._before, self._has_all = None, False

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        if not self.explain:
            return
        if self._before is not None and self._has_all:
            self._before = self._before.again()
            return
        # slots and metrics are made by the first step; those taken after it are all there are
        self._has_all = self._before is not None
        optimizer = self.model.optimizer
        slots = [] if optimizer is None else optimizer.variables
        self._before = Snapshot(self.model, global_generator(), others=slots)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            self._end(f"the loss of batch {batch} is {loss}")
        elif self.explain:
            weights = not_finite(self.model.trainable_variables)
            if weights:
                self._end(f"after batch {batch} not all of {', '.join(weights)} is finite")

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._before, self._has_all = None, False

    def _end(self, message: str) -> None:
        hint = "look for NaN in the data, or for a learning rate that is too large"
        if self.explain:
            hint = self._explain_stop()
        if self.raise_error:
            raise RuntimeError(f"TerminateOnNaN: {message}; {hint}")
        print(f"{message}, training ends" + (f"; {hint}" if self.explain else ""), flush=True)
        self.model.stop_training = True

    def _explain_stop(self) -> str:
        assert self._before is not None
        replay = Replay(self.model, self._before, self.model.training_run.portion.kept)
        text = replay.report(int(self.model.optimizer.iterations))
        arguments = (self.model, global_generator(), replay.batch, text)
        folder = write_bundle(self.bundle_dir, *arguments)
        return f"{text}\nThe step is kept in {folder}; python {folder}/reproduce.py does it again."

    @staticmethod
    def reproduce(folder: str | os.PathLike[str], model: Any) -> dict[str, Any]:
        """Do the step of a bundle again, with every operation checked.

        Args:
            folder: that `explain` wrote.
            model: compiled as it was; its weights and the optimizer's state are read from there.

        Returns:
            The logs of the step, if it gives neither NaN nor infinity this time.

        Raises:
            InvalidArgumentError: an operation gave NaN or infinity; the text explains.
        """
        batch = read_bundle(folder, model, global_generator())
        with checking_numerics():
            return dict(model.train_step(batch))
