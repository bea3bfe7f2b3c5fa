"""`tk.train`: checkpoints and the optimizers of the first API."""

from trainkit.checkpoints import Checkpoint as Checkpoint
from trainkit.checkpoints import CheckpointManager as CheckpointManager
from trainkit.checkpoints import CheckpointOptions as CheckpointOptions
from trainkit.checkpoints import latest_checkpoint as latest_checkpoint
from trainkit.optimizers.gradient_descent import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
