"""`tk.distribute.experimental`: TensorFlow's earlier names of what is in `tk.distribute`."""

from __future__ import annotations

import enum

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
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
    "coordinator": _PROCESSES,
    "partitioners": "weights are copied to each replica, not cut; leave variable_partitioner out",
}


_explain_unknown_names(globals(), "trainkit.distribute.experimental", _LEFT_OUT)
