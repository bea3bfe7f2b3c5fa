"""Callbacks: what `fit`, `evaluate` and `predict` call at set points."""

from trainkit.callbacks.backup import BackupAndRestore as BackupAndRestore
from trainkit.callbacks.callback import Callback as Callback
from trainkit.callbacks.callback_list import CallbackList as CallbackList
from trainkit.callbacks.csv_logger import CSVLogger as CSVLogger
from trainkit.callbacks.early_stopping import EarlyStopping as EarlyStopping
from trainkit.callbacks.history import History as History
from trainkit.callbacks.lambda_callback import LambdaCallback as LambdaCallback
from trainkit.callbacks.learning_rate import LearningRateScheduler as LearningRateScheduler
from trainkit.callbacks.learning_rate import ReduceLROnPlateau as ReduceLROnPlateau
from trainkit.callbacks.model_checkpoint import ModelCheckpoint as ModelCheckpoint
from trainkit.callbacks.orbax_checkpoint import OrbaxCheckpoint as OrbaxCheckpoint
from trainkit.callbacks.progress import ProgressBar as ProgressBar
from trainkit.callbacks.remote_monitor import RemoteMonitor as RemoteMonitor
from trainkit.callbacks.run_journal import RunJournal as RunJournal
from trainkit.callbacks.swap_ema_weights import SwapEMAWeights as SwapEMAWeights
from trainkit.callbacks.tensorboard import TensorBoard as TensorBoard
from trainkit.callbacks.terminate_on_nan import TerminateOnNaN as TerminateOnNaN
from trainkit.core.names import explain_unknown_names as _explain_unknown_names

ProgbarLogger = ProgressBar

_explain_unknown_names(globals())
