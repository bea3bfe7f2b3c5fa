"""`tk.distribute`: one model trained by many processes, under TensorFlow's names."""

from __future__ import annotations

from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.distribution import cluster_resolver as cluster_resolver
from trainkit.distribution import experimental as experimental
from trainkit.distribution.communication_options import CommunicationOptions as CommunicationOptions
from trainkit.distribution.cross_device_ops import (
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
)
from trainkit.distribution.cross_device_ops import NcclAllReduce as NcclAllReduce
from trainkit.distribution.cross_device_ops import ReductionToOneDevice as ReductionToOneDevice
from trainkit.distribution.distributed_dataset import DistributedDataset as DistributedDataset
from trainkit.distribution.distributed_dataset import InputContext as InputContext
from trainkit.distribution.mirrored import MirroredStrategy as MirroredStrategy
from trainkit.distribution.mirrored import OneDeviceStrategy as OneDeviceStrategy
from trainkit.distribution.per_replica import PerReplica as PerReplica
from trainkit.distribution.replica_context import ReduceOp as ReduceOp
from trainkit.distribution.replica_context import ReplicaContext as ReplicaContext
from trainkit.distribution.strategy import (
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
)
from trainkit.distribution.strategy import Strategy as Strategy
from trainkit.distribution.strategy import get_replica_context as get_replica_context
from trainkit.distribution.strategy import get_strategy as get_strategy
from trainkit.distribution.strategy import has_strategy as has_strategy
from trainkit.distribution.strategy import in_cross_replica_context as in_cross_replica_context

_MANY = (
    "tk.distribute.MirroredStrategy trains on all GPUs of a process, "
    "tk.distribute.MultiWorkerMirroredStrategy, started by mpiexec, with many processes"
)
_OPTIONS = "experimental_distribute_dataset and run of a strategy have no options"
_VALUES = "use experimental_local_results of a strategy, which gives a tuple"
_LEFT_OUT = {
    "DistributedIterator": "use iter() of what experimental_distribute_dataset gives",
    "DistributedValues": _VALUES,
    "InputOptions": _OPTIONS,
    "InputReplicationMode": _OPTIONS,
    "RunOptions": _OPTIONS,
    "Server": f"weights are copied to each replica, not served; {_MANY}",
    "StrategyExtended": "use the methods of the strategy itself",
    "experimental_set_strategy": "use `with strategy.scope():`",
    "TPUStrategy": f"there are no TPUs here; {_MANY}",
    "ParameterServerStrategy": f"weights are copied to each replica, not served; {_MANY}",
    "CentralStorageStrategy": f"MirroredStrategy keeps a copy on each device; {_MANY}",
    "coordinator": _MANY,
    "CrossDeviceOps": "sums of one's own are not supported; cross_device_ops takes NcclAllReduce, "
    "HierarchicalCopyAllReduce or ReductionToOneDevice",
}


_explain_unknown_names(globals(), "trainkit.distribute", _LEFT_OUT)
