"""`MirroredStrategy`: replicas in one process, one for each of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary, ref

from trainkit import ops
from trainkit.collectives import replica as replicas
from trainkit.collectives.thread_group import ThreadGroup
from trainkit.collectives.turns import Turns
from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import string
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.variable import Variable
from trainkit.distribution.compiled_steps import CompiledSteps
from trainkit.distribution.cross_device_ops import sums_between
from trainkit.distribution.mirrored_variables import (
    CopiesByTurn,
    ScopedCopies,
    ValuesByTurn,
    alive,
    write_back,
)
from trainkit.distribution.per_replica import PerReplica, in_one, of_replica
from trainkit.distribution.replica_context import ReduceOp
from trainkit.distribution.strategy import Strategy, ValueContext
from trainkit.graph.tracing.python_calls import is_around_replicas, leave_trace


class OneDeviceStrategy(Strategy):
    """One replica, on a device.

    Args:
        device: such as `"/gpu:0"`.

    Raises:
        DeviceError: there is no such device.

    Example:
        >>> strategy = tk.distribute.OneDeviceStrategy("/cpu:0")
        >>> strategy.run(lambda: tk.ones(2) + 1.0).device
        '/device:CPU:0'
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = devices.parse(device)

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        with super().scope(), devices.device(self._device):
            yield self

    def placement(self) -> AbstractContextManager[Any]:
        return devices.device(self._device)

    def run(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        args, kwargs = _move((tuple(args), dict(kwargs or {})), self._device)
        return super().run(fn, args, kwargs, options)

    def replica(
        self, rows: replicas.GlobalRows | None = None, averages: bool = False
    ) -> replicas.Replica:
        return _OnDevice(self._device, self._group, rows, averages)


def _move(args: Any, where: devices.Device) -> Any:
    """A nest with its tensors of numbers on a device; those that are there stay as they are."""

    def move(x: Any) -> Any:
        if type(x) is not Tensor or x.dtype is string:
            return x
        array = devices.to_device(x._array, where)
        return x if array is x._array else wrap(array)

    return nest.map_structure(move, args)


class _OnDevice(replicas.Replica):
    """A replica that makes its tensors on a device."""

    def __init__(self, device: devices.Device, *facts: Any) -> None:
        super().__init__(*facts)
        self._device = devices.device(device)

    def __enter__(self) -> _OnDevice:
        self._device.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._device.__exit__()


class MirroredStrategy(Strategy):
    """A replica on each GPU of this process, for `fit` and for loops of your own.

    Each replica has a copy of every variable on its device and a thread of its own. The threads
    take turns: one runs until it waits for the others, and work on GPUs goes on meanwhile. So
    layers, metrics and code of yours are never in the middle of two steps at once, and Python
    itself gains nothing by more CPUs: for these start processes, `mpiexec -n 4 python train.py`
    with `MultiWorkerMirroredStrategy`. With one device it is one replica.

    `fit`, `evaluate`, `predict` and their like cut each batch by rows, one part for each device,
    and come to the weights, logs and outputs of one device, to rounding; each replica runs a
    compiled step of its own. On GPUs a step that sums over replicas is launched operation by
    operation, not as a CUDA graph. A `tk.function` given to `run` runs compiled in each replica,
    and so does what a `tk.function` around gives to `run`, which itself then runs as Python.

    A variable that steps change has to belong to the model, to its optimizer or its metrics, or be
    made in the scope or in a step.

    Args:
        devices: names of devices; by default, and for an empty list, all GPUs, or the CPU. The CPU
            may be named more than once, to try something out.
        cross_device_ops: how the devices add up: a `NcclAllReduce`, `HierarchicalCopyAllReduce` or
            `ReductionToOneDevice`. By default NCCL where all devices are different GPUs and CuPy
            finds it, else copies to the first device.
        communication_options: a `CommunicationOptions`, whose `bytes_per_pack` says about how many
            bytes of gradients are added up together. By NCCL this begins while the rest of the
            backward pass still runs.

    Raises:
        DeviceError: there is no such device.
        TypeError: `communication_options` is something else.
        ValueError: `cross_device_ops` is something else, or settings need what is not here or
            exclude each other.

    Example:
        >>> strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
        >>> result = strategy.run(
        ...     lambda: tk.distribute.get_replica_context().replica_id_in_sync_group + tk.ones(2)
        ... )
        >>> strategy.reduce("SUM", result).numpy()
        array([3., 3.], dtype=float32)
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        cross_device_ops: Any = None,
        communication_options: Any = None,
    ) -> None:
        super().__init__()
        self.devices = _devices_named(devices)
        self.turns = Turns(len(self.devices))
        sums, communication = sums_between(self.devices, cross_device_ops, communication_options)
        self.groups = [
            ThreadGroup(self.turns, rank, sums, communication) for rank in range(len(self.devices))
        ]
        self._sums = sums
        self._copies: list[ScopedCopies] = []
        for device in self.devices:
            self._copies.append(ScopedCopies(device, self._copies, sums))
        self._steps = CompiledSteps()
        self._values: WeakKeyDictionary[Any, ValuesByTurn] = WeakKeyDictionary()
        self._made: dict[int, ref[Variable]] = {}

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas make a step together."""
        return len(self.devices)

    @property
    def is_of_one_process(self) -> bool:  # type: ignore[override]
        return len(self.devices) > 1

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        before = trace_state.THREAD.made
        trace_state.THREAD.made = self._note if before is None else before
        try:
            with super().scope(), devices.device(self.devices[0]):
                yield self
        finally:
            trace_state.THREAD.made = before

    def placement(self) -> AbstractContextManager[Any]:
        return devices.device(self.devices[0])

    def _note(self, variable: Variable) -> None:
        self._made[id(variable)] = ref(variable)

    def replica(
        self, rows: replicas.GlobalRows | None = None, averages: bool = False
    ) -> replicas.Replica:
        """The only replica, where there is one device.

        Raises:
            FailedPreconditionError: there are several, of which each is in a thread of its own.
        """
        if len(self.devices) > 1:
            raise FailedPreconditionError(
                f"MirroredStrategy of {len(self.devices)} devices has no replica outside of "
                "strategy.run, fit, evaluate and predict"
            )
        return _OnDevice(self.devices[0], self._group, rows, averages)

    def run(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        """Call `fn` in each replica; gradients that it applies are added up over all.

        Args:
            fn: function of the values of one replica.
            args: its arguments, of which each replica gets the tensors on its device; of a
                `PerReplica` it gets its own value.
            kwargs: the same by name.
            options: only `None`.

        Returns:
            What `fn` gave, with a `PerReplica` in the place of each tensor. Variables have the
            values of the first replica afterwards. One whose `aggregation` is `"sum"` has changed
            by what all replicas did to it, one of `"mean"` by the mean of that.

        Raises:
            FailedPreconditionError: it is called in a replica.
        """
        if len(self.devices) == 1:
            args, kwargs = _move((tuple(args), dict(kwargs or {})), self.devices[0])
            return super().run(fn, args, kwargs, options)
        if options is not None:
            raise ValueError("Strategy.run: options are not supported; leave them out")
        if replicas.current() is None:
            leave_trace()
        if trace_state.THREAD.traces or replicas.current() is not None:
            raise FailedPreconditionError(
                "MirroredStrategy.run starts a thread for each replica and can't be called in a "
                "replica, nor while variables have other values for a while"
            )
        if is_around_replicas():
            fn = self._steps.of(fn)
        arguments = (tuple(args), dict(kwargs or {}))
        main, *_ = [copies.begin() for copies in self._copies]

        def work(rank: int) -> Any:
            with self.on_replica(rank), replicas.Replica(self.groups[rank]), self._copies[rank]:
                own, by_name = _move(of_replica(arguments, rank), self.devices[rank])
                return fn(*own, **by_name)

        try:
            results = self.in_turns(work, CopiesByTurn(self._copies))
        except BaseException:
            for copies in self._copies:
                copies.forget()
            raise
        write_back(self._copies, main, self._sums)
        return in_one(results)

    def in_turns(self, work: Callable[[int], Any], switches: Any = None) -> list[Any]:
        """What `work` gives for each replica, in the thread of each.

        Args:
            work: function of the replica's number.
            switches: see `Turns.run`.
        """
        for group in self.groups:
            group.forget()
        return self.turns.run(work, switches)

    @contextmanager
    def on_replica(self, rank: int) -> Iterator[None]:
        """Context in which a replica makes tensors, and launches kernels, on its device."""
        with super().scope(), devices.device(self.devices[rank]):
            yield

    def made_in_scope(self) -> list[Variable]:
        """The variables that were made in the scope, as far as they are still there."""
        return list(alive(self._made).values())

    def values_of(self, model: Any) -> ValuesByTurn:
        """What the variables of a model have in each replica.

        Args:
            model: that `fit` and its like train.
        """
        values = self._values.get(model)
        if values is None:
            values = self._values[model] = ValuesByTurn(self.devices, self._sums)
        return values

    def _reduced(self, leaves: list[Any], op: ReduceOp, axis: int | None) -> list[Any]:
        if len(self.devices) == 1:
            return super()._reduced(leaves, op, axis)
        return self._joined(leaves, op, axis)

    def _joined(self, leaves: list[Any], op: ReduceOp, axis: int | None) -> list[Any]:
        columns, counts = [], []
        for leaf in leaves:
            parts = self._parts(leaf)
            counts.append(float(len(parts)))
            if axis is not None:
                counts[-1] = float(sum(part.shape[axis] for part in parts))
                parts = [self._sum_parts(part, axis) for part in parts]
            columns.append(parts)
        alike = [i for i, parts in enumerate(columns) if self._lie_alike(parts)]
        sums = self._sums.reduce([[part._array for part in columns[i]] for i in alike])
        totals = {i: wrap(total) for i, total in zip(alike, sums, strict=True)}
        for i, parts in enumerate(columns):
            if i not in totals:
                totals[i] = _add(list(map(self._on_first, parts)))
        pairs = [(totals[i], count) for i, count in enumerate(counts)]
        return [total if op is ReduceOp.SUM else total / count for total, count in pairs]

    def _parts(self, leaf: Any) -> list[Tensor]:
        values = leaf.values if isinstance(leaf, PerReplica) else (leaf,) * len(self.devices)
        return [convert_to_tensor(value) for value in values]

    @staticmethod
    def _sum_parts(part: Tensor, axis: int) -> Tensor:
        with devices.kernels_on(devices.device_of(part._array)):
            summed: Tensor = ops.sum(part, axis)
        return summed

    def _lie_alike(self, parts: list[Tensor]) -> bool:
        """Whether there are numbers of one shape and dtype, each on the GPU of its replica."""
        first = parts[0]
        return self._lie_here(parts) and all(
            part.dtype is first.dtype
            and first.dtype.name != "bool"
            and part._array.shape == first._array.shape
            for part in parts
        )

    def _on_first(self, value: Tensor) -> Tensor:
        return wrap(devices.to_device(value._array, self.devices[0]))

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        if len(self.devices) == 1:
            return super().reduce(reduce_op, value, axis)
        joined = self._joined(nest.flatten(value), ReduceOp.of(reduce_op), axis)
        return nest.pack(value, joined)

    def gather(self, value: Any, axis: int) -> Any:
        if len(self.devices) == 1:
            return super().gather(value, axis)
        columns = [self._parts(leaf) for leaf in nest.flatten(value)]
        local_indices = [i for i, parts in enumerate(columns) if self._lie_here(parts)]
        gathered = self._sums.gather([[part._array for part in columns[i]] for i in local_indices])
        on_first = {
            i: list(map(wrap, arrays)) for i, arrays in zip(local_indices, gathered, strict=True)
        }
        for i, parts in enumerate(columns):
            if i not in on_first:
                on_first[i] = list(map(self._on_first, parts))
        joined = [ops.concatenate(on_first[i], axis) for i in range(len(columns))]
        return nest.pack(value, joined)

    def _lie_here(self, parts: list[Tensor]) -> bool:
        """Whether each is on the GPU of its replica."""
        return all(
            part.dtype is not string and devices.device_of(part._array) is device is not devices.CPU
            for part, device in zip(parts, self.devices, strict=True)
        )

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[[ValueContext], Any]
    ) -> Any:
        """A value for each replica, to be given to `run`.

        Args:
            value_fn: function of a `ValueContext` that gives the value of that replica.
        """
        count = self.num_replicas_in_sync
        return in_one([value_fn(ValueContext(rank, count)) for rank in range(count)])

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """What `run` gave in the replicas of this process, as a tuple."""
        return value.values if isinstance(value, PerReplica) else (value,)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """The batches of a data set, cut by rows into one part for each replica.

        Args:
            dataset: of batches for all replicas together.
            options: only `None`.

        Returns:
            What can be iterated again and again; an element is a nest of `PerReplica`s whose parts
            lie on their devices.
        """
        if len(self.devices) == 1:
            return super().experimental_distribute_dataset(dataset, options)
        if options is not None:
            raise ValueError("experimental_distribute_dataset: options must be None")
        return CutBatches(dataset, self.devices)


class CutBatches:
    """The batches of a data set, cut into parts.

    Attributes:
        dataset: the data set.
    """

    def __init__(self, dataset: Any, targets: list[devices.Device]) -> None:
        self.dataset, self._targets = dataset, targets

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.dataset:
            yield nest.map_structure(self._cut, batch)

    def _cut(self, x: Any) -> PerReplica:
        rows, count = x.shape[0], len(self._targets)
        if rows < count:
            raise FailedPreconditionError(
                f"a batch of {rows} rows can't be cut for {count} replicas: take larger batches, "
                "or batch(size, drop_remainder=True)"
            )
        edges = [rows * k // count for k in range(count + 1)]
        return PerReplica(
            tuple(
                wrap(devices.to_device(x[a:b]._array, device))
                for a, b, device in zip(edges, edges[1:], self._targets, strict=False)
            )
        )


def _add(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _devices_named(names: Sequence[str] | None) -> list[devices.Device]:
    if isinstance(names, str):
        raise ValueError(f"MirroredStrategy: devices must be a list of names, got {names!r}")
    if not names:
        gpus = [device for device in devices.all_devices() if device is not devices.CPU]
        return gpus or [devices.CPU]
    return [devices.parse(str(getattr(name, "name", name))) for name in names]
