"""`MirroredStrategy`: replicas in one process, one for each of its devices."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from trainkit import ops
from trainkit.autodiff.variable_scope import VariableScope
from trainkit.collectives import replica as replicas
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.thread_group import Meeting, ThreadGroup
from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import AbortedError, FailedPreconditionError, UnimplementedError
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.distribution.per_replica import PerReplica, in_one, of_replica
from trainkit.distribution.replica_context import ReduceOp
from trainkit.distribution.strategy import Strategy


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

    def replica(
        self, rows: replicas.GlobalRows | None = None, averages: bool = False
    ) -> replicas.Replica:
        return _OnDevice(self._device, self._group, rows, averages)


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
    """A replica on each GPU of this process, in a loop of your own.

    Each replica has a copy of every variable on its device and runs in a thread of its own; its
    functions run operation by operation. For `fit`, and for more speed, start a process for each
    GPU: `mpiexec -n 4 python train.py` with `MultiWorkerMirroredStrategy`. With one device it is
    one replica, also for `fit`.

    Args:
        devices: names of devices; by default all GPUs, or the CPU. The CPU may be named more than
            once, to try something out.
        cross_device_ops: only `None`.

    Raises:
        DeviceError: there is no such device.

    Example:
        >>> strategy = tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
        >>> result = strategy.run(
        ...     lambda: tk.distribute.get_replica_context().replica_id_in_sync_group + tk.ones(2)
        ... )
        >>> strategy.reduce("SUM", result).numpy()
        array([3., 3.], dtype=float32)
    """

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None) -> None:
        if cross_device_ops is not None:
            raise ValueError(
                "MirroredStrategy: cross_device_ops must be None: sums are made on the devices"
            )
        super().__init__()
        self._devices = _chosen(devices)
        self._meeting = Meeting(len(self._devices))
        self._copies = [_Copies(device) for device in self._devices]

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas make a step together."""
        return len(self._devices)

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        with super().scope(), devices.device(self._devices[0]):
            yield self

    @property
    def group(self) -> ProcessGroup:
        """The group of the only replica, where there is one device.

        Raises:
            UnimplementedError: there are several.
        """
        self._require_one()
        return super().group

    def _require_one(self) -> None:
        if len(self._devices) > 1:
            raise UnimplementedError(
                f"MirroredStrategy of {len(self._devices)} devices runs loops of your own, by "
                "strategy.run. For fit start a process for each device: mpiexec -n "
                f"{len(self._devices)} python train.py, with MultiWorkerMirroredStrategy()"
            )

    def replica(
        self, rows: replicas.GlobalRows | None = None, averages: bool = False
    ) -> replicas.Replica:
        """The only replica, where there is one device.

        Raises:
            UnimplementedError: there are several.
        """
        self._require_one()
        return _OnDevice(self._devices[0], self._group, rows, averages)

    def run(
        self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        """Call `fn` in each replica; gradients that it applies are added up over all.

        Args:
            fn: function of the values of one replica.
            args: its arguments; of a `PerReplica` each replica gets its own value.
            kwargs: the same by name.
            options: only `None`.

        Returns:
            What `fn` gave, with a `PerReplica` in the place of each tensor. Variables have the
            values of the first replica afterwards, and sums where their `aggregation` is `"sum"`.

        Raises:
            FailedPreconditionError: it is called while a function is traced, or in a replica.
        """
        if len(self._devices) == 1:
            return super().run(fn, args, kwargs, options)
        if options is not None:
            raise ValueError("Strategy.run: options are not supported; leave them out")
        if trace_state.THREAD.traces or replicas.current() is not None:
            raise FailedPreconditionError(
                "MirroredStrategy.run starts a thread for each replica and can't be called while "
                "a function is traced, or in a replica: decorate the function that it is given, "
                "not the one that calls it"
            )
        arguments = (tuple(args), dict(kwargs or {}))
        main = self._copies[0].begin(self._copies[1:])
        results: list[Any] = [None] * len(self._devices)
        errors: list[tuple[int, BaseException]] = []
        threads = []
        for rank in range(len(self._devices)):
            context = contextvars.copy_context()
            call = (context.run, self._work, rank, fn, arguments, results, errors)
            threads.append(threading.Thread(target=call[0], args=call[1:], name=f"replica {rank}"))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            self._meeting.barrier.reset()
            for copies in self._copies:
                copies.forget()
            own = [error for _, error in sorted(errors, key=lambda pair: pair[0])]
            raise next((e for e in own if not isinstance(e, AbortedError)), own[0])
        _write_back(self._copies, main)
        return in_one(results)

    def _work(
        self,
        rank: int,
        fn: Callable[..., Any],
        arguments: Any,
        results: list[Any],
        errors: list[tuple[int, BaseException]],
    ) -> None:
        """One replica's part of `run`."""
        copies = self._copies[rank]
        try:
            with (
                replicas.Replica(ThreadGroup(self._meeting, rank)),
                devices.device(copies.device),
                _kernels_on(copies.device),
                copies,
            ):
                args, kwargs = of_replica(arguments, rank)
                results[rank] = fn(*args, **kwargs)
        except BaseException as error:
            errors.append((rank, error))
            self._meeting.barrier.abort()

    def _reduced(self, leaves: list[Any], op: ReduceOp, axis: int | None) -> list[Any]:
        if len(self._devices) == 1:
            return super()._reduced(leaves, op, axis)
        return [self._joined(leaf, op, axis) for leaf in leaves]

    def _joined(self, leaf: Any, op: ReduceOp, axis: int | None) -> Any:
        values = leaf.values if isinstance(leaf, PerReplica) else (leaf,) * len(self._devices)
        parts = [self._on_first(convert_to_tensor(value)) for value in values]
        count = float(len(parts))
        if axis is not None:
            count = float(sum(part.shape[axis] for part in parts))
            parts = [ops.sum(part, axis) for part in parts]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total if op is ReduceOp.SUM else total / count

    def _on_first(self, value: Tensor) -> Tensor:
        return wrap(devices.to_device(value._array, self._devices[0]))

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        if len(self._devices) == 1:
            return super().reduce(reduce_op, value, axis)
        op = ReduceOp.of(reduce_op)
        return nest.map_structure(lambda leaf: self._joined(leaf, op, axis), value)

    def gather(self, value: Any, axis: int) -> Any:
        if len(self._devices) == 1:
            return super().gather(value, axis)

        def gathered(leaf: Any) -> Any:
            values = leaf.values if isinstance(leaf, PerReplica) else (leaf,) * len(self._devices)
            parts = [self._on_first(convert_to_tensor(part)) for part in values]
            return ops.concatenate(parts, axis)

        return nest.map_structure(gathered, value)

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
        if len(self._devices) == 1:
            return super().experimental_distribute_dataset(dataset, options)
        if options is not None:
            raise ValueError("experimental_distribute_dataset: options must be None")
        return _CutBatches(dataset, self._devices)


class _CutBatches:
    """The batches of a data set, cut into parts."""

    def __init__(self, dataset: Any, targets: list[devices.Device]) -> None:
        self._dataset, self._targets = dataset, targets

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset:
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


class _Copies(VariableScope):
    """The values that variables have in one replica, on its device.

    Args:
        device: where.
    """

    def __init__(self, device: devices.Device) -> None:
        super().__init__()
        self.device = device
        self._main: dict[int, Any] = {}
        self._variables: dict[int, Any] = {}

    def begin(self, others: list[_Copies]) -> dict[int, Any]:
        """Forget values of variables that were assigned outside; what variables have outside."""
        for key, variable in list(self._variables.items()):
            if variable._value is not self._main[key]:
                for copies in (self, *others):
                    copies.values.pop(key, None)
        return self._main

    def forget(self) -> None:
        """Begin anew with what variables have outside."""
        self.values.clear()
        self._variables.clear()
        self._main.clear()

    def read_variable(self, variable: Any) -> Any:
        value = self.values.get(id(variable))
        if value is None:
            array = variable._value._array
            value = variable._value
            if devices.device_of(array) is not self.device:
                value = wrap(devices.to_device(array, self.device))
            self.put(variable, value)
        return value

    def put(self, variable: Any, value: Any) -> None:
        self._variables[id(variable)] = variable
        self._main.setdefault(id(variable), variable._value)
        self.values[id(variable)] = value


def _kernels_on(device: devices.Device) -> AbstractContextManager[Any]:
    """Context in which CuPy launches kernels on `device`, if that is a GPU."""
    if device is devices.CPU:
        return nullcontext()
    found: AbstractContextManager[Any] = device.xp.cuda.Device(device.index)
    return found


def _write_back(copies: list[_Copies], main: dict[int, Any]) -> None:
    """Give variables, outside, what they have in the replicas now."""
    first = copies[0]
    for key, variable in first._variables.items():
        if getattr(variable, "aggregation", None) == "sum":
            before = main[key]
            total = before
            for other in copies:
                value = other.values.get(key)
                if value is not None:
                    there = wrap(devices.to_device(value._array, devices.device_of(before._array)))
                    total = total + (there - before)
            variable._value = total
            for other in copies:
                other.values.pop(key, None)
        elif key in first.values:
            variable._value = first.values[key]
        for other in copies:
            if key in other._variables:
                other._main[key] = variable._value


def _chosen(names: Sequence[str] | None) -> list[devices.Device]:
    if names is None:
        gpus = [device for device in devices.all_devices() if device is not devices.CPU]
        return gpus or [devices.CPU]
    if isinstance(names, str) or not names:
        raise ValueError(f"MirroredStrategy: devices must be a list of names, got {names!r}")
    return [devices.parse(str(name)) for name in names]
