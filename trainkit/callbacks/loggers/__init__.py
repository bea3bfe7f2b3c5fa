"""Where the numbers of a run go: TensorBoard, CSV, MLflow, Weights & Biases, Trackio, one's own."""

from trainkit.callbacks.loggers.csv_folder import CSVFolderLogger as CSVFolderLogger
from trainkit.callbacks.loggers.log_metrics import LogMetrics as LogMetrics
from trainkit.callbacks.loggers.logger import Logger as Logger
from trainkit.callbacks.loggers.mlflow_logger import MLflowLogger as MLflowLogger
from trainkit.callbacks.loggers.tensorboard_logger import TensorBoardLogger as TensorBoardLogger
from trainkit.callbacks.loggers.trackio_logger import TrackioLogger as TrackioLogger
from trainkit.callbacks.loggers.wandb_logger import WandbLogger as WandbLogger
