"""Strategies: which replicas train a model together, under TensorFlow's names (`tk.distribute`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from trainkit import ops
from trainkit.collectives import replica as replicas
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.virtual_replica import VirtualReplica
from trainkit.collectives.world import world
from trainkit.core import nest, rng
from trainkit.core.errors import FailedPreconditionError, UnimplementedError
from trainkit.core.tensor import convert_to_tensor
from trainkit.distribution import distributed_dataset
from trainkit.distribution.communication_options import CommunicationOptions, communication_of
from trainkit.distribution.replica_context import ReduceOp, ReplicaContext
from trainkit.distribution.virtual_replicas import virtual_replicas_of
from trainkit.ops.collective.all_reduce import all_reduce


class ValueContext(NamedTuple):
    """For which replica a value is to be made.

    Attributes:
        replica_id_in_sync_group: its number, from 0.
        num_replicas_in_sync: how many there are.
    """

    replica_id_in_sync_group: int
    num_replicas_in_sync: int


class WorkerTask(NamedTuple):
    """Which of the processes this is, as `strategy.cluster_resolver` of TensorFlow says it.

    Attributes:
        task_type: `"worker"`; the one with `task_id` 0 writes files.
        task_id: the number of this process, from 0.
    """

    task_type: str
    task_id: int


class _StrategyStack(threading.local):
    def __init__(self) -> None:
        self.strategies: list[Strategy] = []


_THREAD = _StrategyStack()
_OF_ALL: list[Strategy] = []  # at most one, of all code that is in no scope


def set_strategy_of_all(strategy: Strategy | None) -> None:
    """Let code that is in no scope be in that of `strategy`; of none for `None`."""
    _OF_ALL[:] = [] if strategy is None else [strategy]


class Strategy:
    """Replicas that make each step together; the one that is there by default has one replica.

    Args:
        group: the processes that have a replica each.
        shard_optimizer_state: each replica keeps the slots of optimizers for its share of the
            weights, updates these and gives them to the others. Checkpoints do not depend on it.

    Attributes:
        divides_data_sets: whether `fit` and its like divide data sets among the replicas; otherwise
            each has a data set of its own rows.
        is_of_one_process: whether several replicas are threads of this process.
    """

    is_of_one_process = False

    def __init__(
        self, group: ProcessGroup | None = None, shard_optimizer_state: bool = False
    ) -> None:
        self._group = ProcessGroup() if group is None else group
        self.shard_optimizer_state = bool(shard_optimizer_state)
        self.divides_data_sets = True

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas make a step together."""
        return self._group.size

    @property
    def virtual(self) -> VirtualReplica | None:
        """The virtual replicas of this process, where it has several by turns."""
        return None

    @property
    def group(self) -> ProcessGroup:
        """The processes that have a replica each."""
        return self._group

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._group.rank

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Context in which models and optimizers are made that are trained by all replicas.

        Raises:
            FailedPreconditionError: it is in the scope of another strategy.
        """
        for outer in (*_OF_ALL, *_THREAD.strategies):
            if outer is not self:
                raise FailedPreconditionError(
                    f"{type(self).__name__}.scope() is inside of {type(outer).__name__}.scope(): "
                    "one strategy trains a model; leave one of them out"
                )
        _THREAD.strategies.append(self)
        try:
            yield self
        finally:
            _THREAD.strategies.pop()

    def placement(self) -> AbstractContextManager[Any]:
        """Context in which `fit` and its like make tensors where the strategy says."""
        return nullcontext()

    def replica(self, rows: replicas.GlobalRows | None = None, averages: bool = False) -> Any:
        """The replica of this process, a context to make a step in.

        Args:
            rows: which rows of the global batch it has.
            averages: gradients are those of means over its rows.
        """
        return replicas.Replica(self._group, rows, averages, self.shard_optimizer_state)

    def run(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        """Call `fn` in each replica; gradients that it applies are added up over all.

        Args:
            fn: function of the values of one replica.
            args: its arguments, such as a batch of a distributed data set.
            kwargs: the same by name.
            options: only `None`.

        Returns:
            What `fn` gave in this process, for `reduce`.
        """
        _refuse_options("run", options)
        with self.replica():
            return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """What `run` gave, summed or averaged over all replicas.

        Args:
            reduce_op: `ReduceOp.SUM`, `ReduceOp.MEAN` or their names.
            value: a tensor or a nest of tensors.
            axis: also reduce along this axis, over all elements of all replicas alike, so that a
                mean is right where the last batch is uneven. `None` for element by element.

        Returns:
            Tensors nested like `value`, the same in each process.
        """
        op = ReduceOp.of(reduce_op)
        leaves = [convert_to_tensor(x) for x in nest.flatten(value)]
        joined = self._reduced(leaves, op, axis)
        return nest.pack(value, joined)

    def _reduced(self, leaves: list[Any], op: ReduceOp, axis: int | None) -> list[Any]:
        replica = self.replica()
        if axis is None:
            joined = all_reduce(leaves, replica=replica)
            if op is ReduceOp.MEAN:
                joined = [x / self.num_replicas_in_sync for x in joined]
            return joined
        sums = all_reduce([ops.sum(x, axis) for x in leaves], replica=replica)
        if op is ReduceOp.SUM:
            return sums
        counts = all_reduce(
            [convert_to_tensor(float(x.shape[axis])) for x in leaves], replica=replica
        )
        return [s / ops.cast(n, s.dtype) for s, n in zip(sums, counts, strict=True)]

    def gather(self, value: Any, axis: int) -> Any:
        """What `run` gave in all replicas, one after the other along `axis`.

        Args:
            value: a tensor or a nest of tensors; sizes may differ along `axis` alone.
            axis: along which they are joined.

        Returns:
            Tensors nested like `value`, the same in each process.
        """

        def gather(x: Any) -> Any:
            rows = np.moveaxis(convert_to_tensor(x).numpy(), axis, 0)
            parts = self._group.all_gather(rows, "gather")
            return convert_to_tensor(np.moveaxis(np.concatenate(parts), 0, axis))

        return nest.map_structure(gather, value)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """The part of a data set of whole batches that the replica of this process gets.

        Args:
            dataset: a `Dataset` whose batches have the size that all replicas have together; its
                option `experimental_distribute.auto_shard_policy` says how it is divided.
            options: only `None`.

        Returns:
            A `DistributedDataset`, to be iterated or given to `fit`.

        Raises:
            TypeError: it is no `Dataset`.
            InvalidArgumentError: it can't be divided so.
        """
        _refuse_options("experimental_distribute_dataset", options)
        return distributed_dataset.distributed(self._group, dataset, self.virtual is not None)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        """The data set that a function makes for this process.

        Args:
            dataset_fn: function of an `InputContext` that gives a `Dataset` of batches of one
                replica's size.
            options: only `None`.

        Returns:
            A `DistributedDataset`.

        Raises:
            TypeError: the function gives no `Dataset`.
        """
        _refuse_options("distribute_datasets_from_function", options)
        return distributed_dataset.from_function(self._group, dataset_fn)

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[[ValueContext], Any]
    ) -> Any:
        """A value for each replica of this process, to be given to `run`.

        Args:
            value_fn: function of a `ValueContext` that gives the value of that replica.
        """
        return value_fn(ValueContext(self.rank, self.num_replicas_in_sync))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """What `run` gave in the replicas of this process, as a tuple: one value."""
        return (value,)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self.num_replicas_in_sync} replicas>"


class MultiWorkerMirroredStrategy(Strategy):
    """Train with all processes that `mpiexec` or `srun` started, a replica in each.

    The script is that of one process, plus this line; started without a launcher, it is one
    replica and needs nothing.

    Args:
        cluster_resolver: only `None`: the launcher says which processes there are.
        communication_options: a `CommunicationOptions`: sizes of messages, and a dtype in which
            gradients travel. It counts for what this strategy joins.
        deterministic: add up in an order that follows from the number of processes alone, so that
            a run with as many processes gives the same bits again, with any MPI. Another number of
            processes gives other last digits.
        shard_optimizer_state: see `Strategy`: with Adam the state of a process shrinks from two
            numbers a weight to two numbers for each of its share.
        virtual_replicas: cut each global batch for so many replicas, a multiple of the number of
            processes, each of which runs its share of them one after the other. Any number of
            processes that divides it comes to the same bits then, with the same batches, one alone
            included. It implies `deterministic`, and `enable_op_determinism` for the whole
            process: products of matrices take one thread. For `fit`, `evaluate`, `predict` and
            `train_on_batch`. `num_replicas_in_sync` is this number.
        communication: the older way to say `CommunicationOptions(implementation=...)`.

    Raises:
        ValueError: `virtual_replicas` is no multiple of the number of processes, or comes with a
            `gradient_dtype`.
        UnavailableError: mpi4py is missing, or belongs to another MPI than the launcher.

    Example:
        >>> strategy = tk.distribute.MultiWorkerMirroredStrategy()
        >>> with strategy.scope():
        ...     model = tk.keras.Sequential([tk.keras.layers.Dense(1)])
        >>> strategy.num_replicas_in_sync
        1
    """

    def __init__(
        self,
        cluster_resolver: Any = None,
        communication_options: Any = None,
        shard_optimizer_state: bool = False,
        deterministic: bool = False,
        virtual_replicas: int | None = None,
        communication: Any = None,
    ) -> None:
        if communication is not None:
            if communication_options is not None:
                raise ValueError(
                    f"{type(self).__name__}: give communication_options alone, with its "
                    "implementation=; communication is the older way to say the same"
                )
            communication_options = CommunicationOptions(implementation=communication)
        if cluster_resolver is not None:
            raise ValueError(
                f"{type(self).__name__}: cluster_resolver must be None: the launcher (mpiexec, "
                "srun) says which processes there are"
            )
        settings = communication_of(communication_options)
        in_order = bool(deterministic) or virtual_replicas is not None
        settings = settings._replace(in_order=in_order)
        super().__init__(world().with_communication(settings), shard_optimizer_state)
        self._virtual: VirtualReplica | None = None
        if virtual_replicas is not None:
            self._virtual = virtual_replicas_of(self._group, virtual_replicas)
        _share_seed(self._group)

    @property
    def cluster_resolver(self) -> WorkerTask:
        """Which of the processes this is: `task_type`, always `"worker"`, and `task_id`."""
        return WorkerTask("worker", self.rank)

    @property
    def num_replicas_in_sync(self) -> int:
        return self._group.size if self._virtual is None else self._virtual.count

    @property
    def virtual(self) -> VirtualReplica | None:
        return self._virtual

    def replica(self, rows: replicas.GlobalRows | None = None, averages: bool = False) -> Any:
        self._refuse_virtual("replica")
        return super().replica(rows, averages)

    def run(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        self._refuse_virtual("run")
        return super().run(fn, args, kwargs, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        self._refuse_virtual("distribute_datasets_from_function")
        return super().distribute_datasets_from_function(dataset_fn, options)

    def _refuse_virtual(self, method: str) -> None:
        if self._virtual is not None:
            raise UnimplementedError(
                f"Strategy.{method} with virtual_replicas={self._virtual.count}: batches are "
                "cut and gradients joined by fit, evaluate, predict and train_on_batch alone; "
                "write the step as train_step of a Model, or leave virtual_replicas out"
            )


def _refuse_options(method: str, options: Any) -> None:
    if options is not None:
        raise ValueError(f"Strategy.{method}: options are not supported; leave them out")


def _share_seed(group: ProcessGroup) -> None:
    """Let all processes derive the same seeds, so that their models begin alike."""
    if group.size > 1 and rng.current_seed() is None:
        rng.set_seed(group.exchange(rng.next_seed(), "the seed")[0])


_DEFAULT = Strategy()


def get_strategy() -> Strategy:
    """The strategy of the scope that this code runs in; one of a single replica elsewhere.

    Example:
        >>> tk.distribute.get_strategy().num_replicas_in_sync
        1
    """
    return scoped_strategy() or _DEFAULT


def scoped_strategy() -> Strategy | None:
    """The strategy of the scope that this code runs in, if it runs in one."""
    strategies = _THREAD.strategies or _OF_ALL
    return strategies[-1] if strategies else None


def has_strategy() -> bool:
    """Whether this code runs in the scope of a strategy.

    Example:
        >>> tk.distribute.has_strategy()
        False
    """
    return scoped_strategy() is not None


def get_replica_context() -> ReplicaContext | None:
    """The replica that this code runs in; `None` in the scope of a strategy, outside of `run`."""
    replica = replicas.current()
    if replica is not None:
        return ReplicaContext(get_strategy(), replica)
    return None if has_strategy() else ReplicaContext(_DEFAULT, _DEFAULT.replica())


def in_cross_replica_context() -> bool:
    """Whether this code runs in the scope of a strategy, outside of `run`."""
    return get_replica_context() is None
