"""`tk.train`: checkpoints and the optimizers of the first API."""

import importlib
from typing import TYPE_CHECKING, Any

from trainkit.checkpoints import Checkpoint as Checkpoint
from trainkit.checkpoints import CheckpointManager as CheckpointManager
from trainkit.checkpoints import CheckpointOptions as CheckpointOptions
from trainkit.checkpoints import latest_checkpoint as latest_checkpoint
from trainkit.checkpoints.python_state import PythonState as _PythonState
from trainkit.checkpoints.readers import checkpoints_iterator as checkpoints_iterator
from trainkit.checkpoints.readers import get_checkpoint_state as get_checkpoint_state
from trainkit.checkpoints.readers import list_variables as list_variables
from trainkit.checkpoints.readers import load_checkpoint as load_checkpoint
from trainkit.checkpoints.readers import load_variable as load_variable
from trainkit.core.names import public_names as _public_names
from trainkit.optimizers.gradient_descent import (
    GradientDescentOptimizer as GradientDescentOptimizer,
)
from trainkit.optimizers.moving_average import ExponentialMovingAverage as ExponentialMovingAverage
from trainkit.tf.left_out import namespace as _namespace
from trainkit.tf.left_out import not_here as _not_here

experimental = _namespace("train.experimental", PythonState=_PythonState)

# Messages are protocol buffers, whose library is loaded when one is first asked for.
_MESSAGES = (
    "BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList",
    "Int64List", "SequenceExample",
)  # fmt: skip


if TYPE_CHECKING:
    from trainkit.records.messages import BytesList as BytesList
    from trainkit.records.messages import Example as Example
    from trainkit.records.messages import Feature as Feature
    from trainkit.records.messages import FeatureList as FeatureList
    from trainkit.records.messages import FeatureLists as FeatureLists
    from trainkit.records.messages import Features as Features
    from trainkit.records.messages import FloatList as FloatList
    from trainkit.records.messages import Int64List as Int64List
    from trainkit.records.messages import SequenceExample as SequenceExample
else:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name in _MESSAGES:
            return getattr(importlib.import_module("trainkit.records.messages"), name)
        raise _not_here("train", name, __dir__())

    def __dir__() -> list[str]:
        return sorted({*_public_names(globals()), *_MESSAGES})
