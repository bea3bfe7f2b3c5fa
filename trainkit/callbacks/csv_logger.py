"""`CSVLogger`: the metrics of each epoch as a line of a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.callbacks.callback import Callback, Logs
from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder


class CSVLogger(Callback):
    """Writes a line per epoch; the first line names the columns, `epoch` and the metrics by name.

    An epoch without validation has `NA` in its columns, which are there even if the first epochs
    have none; an array is a list in brackets. When a run is taken up again, lines of
    epochs that are done once more go away.

    Args:
        filename: path of the file.
        separator: what stands between values.
        append: add to a file that exists, rather than begin it anew.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile("sgd", "mse")
        >>> log = tk.callbacks.CSVLogger("log.csv")
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=1, verbose=0, callbacks=[log])
        >>> import pathlib
        >>> print(pathlib.Path("log.csv").read_text().strip())
        epoch,loss,val_loss
        0,0.0,NA
    """

    only_rank_0 = True
    _untracked = Callback._untracked | {"columns"}

    def __init__(
        self, filename: str | os.PathLike[str], separator: str = ",", append: bool = False
    ) -> None:
        super().__init__()
        self.filename, self.separator, self.append = local_path(filename), separator, append
        self.columns: list[str] | None = None
        self.done = 0
        self.resumed = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.columns = None
        self.done, self.resumed = 0, False
        folder = os.path.dirname(self.filename)
        if folder:
            make_folder(folder, "CSVLogger")

    def _rows(self) -> list[list[str]]:
        if not os.path.exists(self.filename):
            return []
        with open(self.filename, newline="", encoding="utf-8") as file:
            return list(csv.reader(file, delimiter=self.separator))

    def _begin(self, epoch: int, logs: Logs) -> None:
        """Write the head, or take up the file that there is."""
        rows = self._rows() if self.append or self.resumed else []
        if rows and rows[0] and rows[0][0] == "epoch":
            self.columns = rows[0][1:]
            if self.resumed:
                rows = [rows[0], *(row for row in rows[1:] if row and int(row[0]) < epoch)]
        else:
            columns = sorted(logs)
            if not any(name.startswith("val_") for name in logs):
                # later epochs may be validated
                columns += [f"val_{name}" for name in columns]
            self.columns = columns
            rows = [["epoch", *columns]]
        self._rewrite(rows)

    def _rewrite(self, rows: list[list[str]]) -> None:
        """Let the file hold these rows; an interruption must not lose those of earlier epochs."""
        path = os.path.realpath(self.filename)  # a link stays one
        if len(rows) < 2 or not os.path.isfile(path):
            with open(path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file, delimiter=self.separator).writerows(rows)
            return
        with AtomicFile(path) as out:
            with open(os.dup(out.fd), "w", newline="", encoding="utf-8") as file:
                csv.writer(file, delimiter=self.separator).writerows(rows)
            out.commit()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        if self.columns is None or (set(logs) - set(self.columns) and epoch == 0):
            self._begin(epoch, logs)
        assert self.columns is not None
        line = [epoch, *(_cell(logs.get(name, "NA")) for name in self.columns)]
        with open(self.filename, "a", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=self.separator).writerow(line)
        self.done = epoch + 1

    def state_arrays(self) -> dict[str, Any]:
        return {"done": np.int64(self.done)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        if set(arrays) != {"done"}:
            raise ValueError(f"CSVLogger stores 'done', the file has {sorted(arrays)}")
        self.done, self.resumed = int(arrays["done"]), int(arrays["done"]) > 0


def _cell(value: Any) -> Any:
    """A value as it stands in the file."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    if not getattr(value, "ndim", 1):  # an array that is one number
        return value
    return f"[{', '.join(map(str, value))}]"
