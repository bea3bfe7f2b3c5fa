"""Callbacks: what `fit`, `evaluate` and `predict` call at set points.

Those that only some programs use are loaded when they are asked for.
"""

from typing import TYPE_CHECKING

from trainkit.callbacks.callback import Callback as Callback
from trainkit.callbacks.callback_list import CallbackList as CallbackList
from trainkit.callbacks.history import History as History
from trainkit.callbacks.progress import ProgressBar as ProgressBar
from trainkit.core.names import public_names as _public_names
from trainkit.core.process.later_imports import later_members as _later_members

if TYPE_CHECKING:
    from trainkit.callbacks.backup import BackupAndRestore as BackupAndRestore
    from trainkit.callbacks.csv_logger import CSVLogger as CSVLogger
    from trainkit.callbacks.early_stopping import EarlyStopping as EarlyStopping
    from trainkit.callbacks.lambda_callback import LambdaCallback as LambdaCallback
    from trainkit.callbacks.learning_rate import LearningRateScheduler as LearningRateScheduler
    from trainkit.callbacks.learning_rate import ReduceLROnPlateau as ReduceLROnPlateau
    from trainkit.callbacks.model_checkpoint import ModelCheckpoint as ModelCheckpoint
    from trainkit.callbacks.orbax_checkpoint import OrbaxCheckpoint as OrbaxCheckpoint
    from trainkit.callbacks.remote_monitor import RemoteMonitor as RemoteMonitor
    from trainkit.callbacks.run_journal import RunJournal as RunJournal
    from trainkit.callbacks.swap_ema_weights import SwapEMAWeights as SwapEMAWeights
    from trainkit.callbacks.tensorboard import TensorBoard as TensorBoard
    from trainkit.callbacks.terminate_on_nan import TerminateOnNaN as TerminateOnNaN

ProgbarLogger = ProgressBar

_FILES = {
    "BackupAndRestore": "backup",
    "CSVLogger": "csv_logger",
    "EarlyStopping": "early_stopping",
    "LambdaCallback": "lambda_callback",
    "LearningRateScheduler": "learning_rate",
    "ReduceLROnPlateau": "learning_rate",
    "ModelCheckpoint": "model_checkpoint",
    "OrbaxCheckpoint": "orbax_checkpoint",
    "RemoteMonitor": "remote_monitor",
    "RunJournal": "run_journal",
    "SwapEMAWeights": "swap_ema_weights",
    "TensorBoard": "tensorboard",
    "TerminateOnNaN": "terminate_on_nan",
}
"""By the name of a callback, the file that holds it."""


if not TYPE_CHECKING:  # names that are not there are errors in editors
    __getattr__ = _later_members(globals(), {n: f"{__name__}.{f}" for n, f in _FILES.items()})
    __all__ = ["Callback", "CallbackList", "History", "ProgbarLogger", "ProgressBar", *_FILES]


def __dir__() -> list[str]:
    return sorted({*_public_names(globals()), *_FILES})
