"""Checkpoints: crash-safe HDF5 files of everything that a tree of objects holds."""

from trainkit.checkpoints.checkpoint import Checkpoint as Checkpoint
from trainkit.checkpoints.checkpoint import latest_checkpoint as latest_checkpoint
from trainkit.checkpoints.format.writer import CheckpointOptions as CheckpointOptions
from trainkit.checkpoints.interruption import Interruption as Interruption
from trainkit.checkpoints.manager import CheckpointManager as CheckpointManager
from trainkit.checkpoints.manager import DamagedCheckpointWarning as DamagedCheckpointWarning
from trainkit.checkpoints.restore.report import Difference as Difference
from trainkit.checkpoints.restore.report import Report as Report
from trainkit.checkpoints.restore.restoration import (
    IncompleteRestoreWarning as IncompleteRestoreWarning,
)
from trainkit.checkpoints.restore.status import RestoreStatus as RestoreStatus
from trainkit.checkpoints.resume import ResumeDifference as ResumeDifference
from trainkit.checkpoints.resume import ResumeReport as ResumeReport
from trainkit.checkpoints.resume import verify_resume as verify_resume
from trainkit.checkpoints.weights import load_weights as load_weights
from trainkit.checkpoints.weights import save_weights as save_weights
