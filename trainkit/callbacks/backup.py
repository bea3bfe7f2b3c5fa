"""`BackupAndRestore`: a run of `fit` that was killed goes on where it was, to the bit."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from trainkit.callbacks.callback import Callback, Logs
from trainkit.callbacks.ranks import rank_of, wait_for_rank_0
from trainkit.checkpoints import Checkpoint, CheckpointManager
from trainkit.core.files.local_paths import local_path
from trainkit.kernels.jit.kernel_family import KernelChoice


class BackupAndRestore(Callback):
    """Stores the whole run now and then, and takes it up again at the beginning of `fit`.

    Stored are the model and its optimizer, the metrics, the position in the data and the order of
    what is still to come, random generators, the history and the other callbacks. The same call of
    `fit` in a new process then ends with the weights that it would have ended with. Ctrl-C,
    SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP have it stored at any moment; a second signal may leave
    what was stored before.

    Args:
        backup_dir: folder for it; one run at a time.
        save_freq: `"epoch"`, or a number of batches. It is stored at the end of each epoch in any
            case, and when training is interrupted.
        double_checkpoint: keep at least the two newest, so that one that is damaged does no harm.
        delete_checkpoint: remove it when training ends as planned, without a signal, and the folder
            if nothing else is in it.
        restore: whether an earlier run is taken up; otherwise the first store removes its files.
        max_to_keep: how many of the newest to keep.
        exit_status: the process ends with this status, from 1 to 255, when a signal has stopped
            training before it was done; else `fit` returns, the program goes on, and whoever
            started it takes 0 for done. 75 means "try again" (`EX_TEMPFAIL`) to many schedulers.

    Raises:
        ValueError: `save_freq` is neither, there is no `backup_dir`, or `exit_status` is none.
        SystemExit: at the end of `fit`, with `exit_status`, once all callbacks have ended.
        CheckpointMismatchError: at the beginning of training, the model differs from the stored
            one.

    Example:
        >>> model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> backup = tk.callbacks.BackupAndRestore("backup")
        >>> x = tk.ones((4, 1))
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[backup])
        >>> len(history.history["loss"])
        2
    """

    reads_batch_logs = False
    stores_runs = True
    _untracked = Callback._untracked | {"exit_status", "manager", "fresh", "stored"}
    stored: tuple[int, int] | None  # the epoch and step that were stored last

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: Any = "epoch",
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
        restore: bool = True,
        max_to_keep: int = 2,
        exit_status: int | None = None,
    ) -> None:
        super().__init__()
        if not backup_dir:
            raise ValueError(f"BackupAndRestore needs a folder backup_dir, got {backup_dir!r}")
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(
                f"BackupAndRestore: save_freq must be 'epoch' or a number of batches, got "
                f"{save_freq!r}"
            )
        if exit_status is not None and not (type(exit_status) is int and 0 < exit_status < 256):
            raise ValueError(
                f"BackupAndRestore: exit_status must be a number from 1 to 255 or None, got "
                f"{exit_status!r}"
            )
        self.exit_status = exit_status
        self.backup_dir, self.save_freq = local_path(backup_dir), save_freq
        self.delete_checkpoint, self.restore = delete_checkpoint, restore
        self.double_checkpoint = bool(double_checkpoint)
        self.max_to_keep = max(max_to_keep, 2) if double_checkpoint else max_to_keep
        self.manager: Any = None
        self.fresh = False
        self.stored = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.stored = None
        self._manage(self.max_to_keep if self.restore else 1)
        if self.restore:
            # After the other callbacks have begun, since their state is restored as well.
            self.model.training_run.before_training(self.manager.restore_or_initialize)

    def _manage(self, max_to_keep: int) -> None:
        checkpoint = Checkpoint(run=self.model.training_run, kernels=KernelChoice())
        self.manager = CheckpointManager(
            checkpoint, self.backup_dir, max_to_keep, checkpoint_name="run"
        )
        self.fresh = max_to_keep != self.max_to_keep

    def _save(self) -> None:
        run = self.model.training_run
        self.manager.save()  # which the first of several processes writes
        wait_for_rank_0(self.model, f"{self.backup_dir} is written")
        self.stored = (run.epoch, run.step)
        if self.fresh:  # this removed the files of an earlier run
            self._manage(self.max_to_keep)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.save_freq != "epoch" and (batch + 1) % self.save_freq == 0:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        # After the other callbacks have heard of the epoch.
        self.model.training_run.after_epoch(self._save)

    def on_train_interrupted(self, logs: Logs | None = None) -> None:
        run = self.model.training_run
        begun = run.step or run.epoch > run.first_epoch
        # Before the first batch, only a restorable run has its weights made and is worth keeping.
        if (begun or self.restore) and self.stored != (run.epoch, run.step):
            self._save()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if not self.delete_checkpoint or self.model.training_run.interrupted:
            return
        if not rank_of(self.model):
            for path in self.manager.checkpoints:
                with suppress(FileNotFoundError):  # somebody has cleared the folder
                    os.remove(path)
            with suppress(OSError):  # it holds something else, or is gone
                os.rmdir(self.backup_dir)
        wait_for_rank_0(self.model, f"{self.backup_dir} is cleared")
