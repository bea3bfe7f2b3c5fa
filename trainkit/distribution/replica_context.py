"""What code that runs in a replica asks of it: `get_replica_context()` under TensorFlow's name."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from trainkit.collectives import replica as replicas
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.collective.all_reduce import all_reduce

if TYPE_CHECKING:
    from trainkit.distribution.strategy import Strategy


class ReduceOp(enum.Enum):
    """How values of replicas become one: their sum, or their mean.

    Example:
        >>> tk.distribute.ReduceOp("SUM")
        <ReduceOp.SUM: 'SUM'>
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, value: Any) -> ReduceOp:
        """The member that a member or a name in any case stands for.

        Raises:
            ValueError: there is no such member.
        """
        if isinstance(value, cls):
            return value
        try:
            return cls(str(value).upper())
        except ValueError:
            raise ValueError(
                f"reduce_op must be ReduceOp.SUM or ReduceOp.MEAN, got {value!r}"
            ) from None


class ReplicaContext:
    """A replica as the code that runs in it sees it.

    Attributes:
        strategy: whose replica it is.
    """

    def __init__(self, strategy: Strategy, replica: replicas.Replica) -> None:
        self.strategy, self._replica = strategy, replica

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas make a step together."""
        return self._replica.count

    @property
    def replica_id_in_sync_group(self) -> int:
        """The number of this one, from 0."""
        return self._replica.rank

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """The sum or mean of a value over all replicas, which each of them gets.

        Args:
            reduce_op: `ReduceOp` or its name.
            value: a tensor, or a nest of tensors, of the same shapes in each replica. All travel
                together.
            options: only `None`: buckets are chosen by size.

        Returns:
            Tensors nested like `value`.
        """
        if options is not None:
            raise InvalidArgumentError("all_reduce: options are not supported; leave them out")
        op = ReduceOp.of(reduce_op)
        leaves = [convert_to_tensor(x) for x in nest.flatten(value)]
        joined = all_reduce(leaves, replica=self._replica)
        if op is ReduceOp.MEAN:
            joined = [x / self._replica.count for x in joined]
        return nest.pack(value, joined)

    def __repr__(self) -> str:
        return f"<ReplicaContext {self.replica_id_in_sync_group} of {self.num_replicas_in_sync}>"
