"""`History`: the metrics of each epoch, which `fit` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs

_PREFIX = "history."


class History(Callback):
    """Keeps what each epoch ended with.

    Attributes:
        history: a list of floats, one per epoch, by name of the metric.
        epoch: the numbers of these epochs.
        interrupted: whether Ctrl-C or SIGTERM came while `fit` ran. It ended early then, unless the
            signal came when the last epoch was over; `epoch` tells.
    """

    _untracked = Callback._untracked | {"history", "epoch"}
    history: dict[str, list[Any]]
    epoch: list[int]
    interrupted: bool

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(history={}, epoch=[], interrupted=False)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epoch.clear()
        self.history.clear()
        self.interrupted = False

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)

    def state_arrays(self) -> dict[str, Any]:
        values = {_PREFIX + name: np.asarray(column) for name, column in self.history.items()}
        return {"epoch": np.asarray(self.epoch, np.int64), **values}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if "epoch" not in arrays:
            raise ValueError(f"History stores 'epoch', the file has {sorted(arrays)}")
        columns = {k.removeprefix(_PREFIX): v.tolist() for k, v in arrays.items() if k != "epoch"}
        self.__dict__.update(epoch=[int(n) for n in arrays["epoch"]], history=columns)
