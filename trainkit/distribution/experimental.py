"""`tk.distribute.experimental`: TensorFlow's earlier names of what is in `tk.distribute`."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from trainkit.core.names import unknown_name as _unknown_name
from trainkit.distribution.communication_options import CommunicationOptions as CommunicationOptions
from trainkit.distribution.strategy import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from trainkit.distribution.strategy import ValueContext as ValueContext


class CommunicationImplementation(enum.Enum):
    """What adds up gradients, for `CommunicationOptions(implementation=...)`.

    Attributes:
        AUTO: NCCL for arrays of GPUs where all processes have it, else MPI.
        NCCL: an error where processes lack it.

    Example:
        >>> options = tk.distribute.experimental.CommunicationOptions(
        ...     implementation=tk.distribute.experimental.CommunicationImplementation.AUTO
        ... )
        >>> options.implementation
        'AUTO'
    """

    AUTO = "AUTO"
    NCCL = "NCCL"


CollectiveCommunication = CommunicationImplementation

_PROCESSES = "tk.distribute.MultiWorkerMirroredStrategy trains with many processes"
_LEFT_OUT = {
    "CentralStorageStrategy": "tk.distribute.MirroredStrategy keeps a copy on each device",
    "ParameterServerStrategy": _PROCESSES,
    "TPUStrategy": _PROCESSES,
}


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        public = (n for n in globals() if not n.startswith("_"))
        raise _unknown_name("trainkit.distribute.experimental", name, public, _LEFT_OUT)
