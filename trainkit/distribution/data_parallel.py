"""Keras's names for training with several devices: one process for each, started by a launcher."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainkit.collectives.world import world
from trainkit.core import devices as core_devices
from trainkit.distribution import strategy as strategies
from trainkit.distribution.strategy import MultiWorkerMirroredStrategy

_BATCH = "batch"
_KINDS = ("cpu", "gpu")


def list_devices(device_type: str | None = None) -> list[str]:
    """The devices that models are trained with: those of all processes that a launcher started.

    Args:
        device_type: `"cpu"` or `"gpu"`; by default GPUs where there are any, else CPUs.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> tk.keras.distribution.list_devices("cpu")
        ['cpu:0']
    """
    gpus = core_devices.gpu_count()
    kind = ("gpu" if gpus else "cpu") if device_type is None else device_type.lower()
    if kind not in _KINDS:
        raise ValueError(f"device_type must be one of {_KINDS} or None, got {device_type!r}")
    processes = world().size
    count = processes if kind == "cpu" else max(gpus, processes) if gpus else 0
    return [f"{kind}:{number}" for number in range(count)]


def get_device_count(device_type: str | None = None) -> int:
    """How many devices `list_devices` gives.

    Args:
        device_type: see `list_devices`.

    Example:
        >>> tk.keras.distribution.get_device_count("cpu")
        1
    """
    return len(list_devices(device_type))


def initialize(
    job_addresses: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Make sure that the processes of a job are connected, as their launcher has done it.

    What is not given is looked for in the environment, as `KERAS_DISTRIBUTION_NUM_PROCESSES` and
    so on.

    Args:
        job_addresses: only `None`: the launcher knows where the processes are.
        num_processes: how many there are to be.
        process_id: which one this is to be.

    Raises:
        ValueError: the launcher started others.

    Example:
        >>> tk.keras.distribution.initialize(num_processes=1, process_id=0)
    """
    addresses = job_addresses or os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES")
    if addresses:
        raise ValueError(
            f"initialize: job_addresses={addresses!r} is not used: start the script with mpiexec "
            "or srun, which knows the addresses, and leave them out"
        )
    group = world()
    count = _read_number(num_processes, "KERAS_DISTRIBUTION_NUM_PROCESSES")
    if count is not None and count != group.size:
        raise ValueError(
            f"initialize: there are to be {count} processes and {group.size} were started: start "
            f"the script with mpiexec -n {count}"
        )
    number = _read_number(process_id, "KERAS_DISTRIBUTION_PROCESS_ID")
    if number is not None and number != group.rank:
        raise ValueError(
            f"initialize: process_id={number}, and the launcher made this process number "
            f"{group.rank}: leave process_id out"
        )


def _read_number(value: int | None, variable: str) -> int | None:
    if value is None and variable in os.environ:
        return int(os.environ[variable])
    return value


class DeviceMesh:
    """Devices in a grid with named axes.

    Args:
        shape: sizes of the grid.
        axis_names: a name for each axis.
        devices: as many as the grid has places; by default those of `list_devices`.

    Raises:
        ValueError: the three do not fit together.

    Example:
        >>> mesh = tk.keras.distribution.DeviceMesh((1,), ["batch"], ["cpu:0"])
        >>> mesh.devices.tolist()
        ['cpu:0']
    """

    def __init__(self, shape: Any, axis_names: Any, devices: Any = None) -> None:
        if not shape or not axis_names:
            raise ValueError(
                "DeviceMesh: shape and axis_names must have an axis, got "
                f"shape={shape}, axis_names={axis_names}"
            )
        if len(shape) != len(axis_names):
            raise ValueError(
                "DeviceMesh: shape and axis_names must have the same length, got "
                f"shape={shape}, axis_names={axis_names}"
            )
        flat_devices = np.array(list_devices() if devices is None else devices)
        if math.prod(shape) != flat_devices.size:
            raise ValueError(
                f"DeviceMesh: shape={shape} has {math.prod(shape)} places for {flat_devices.size} "
                "devices"
            )
        self._shape, self._axis_names = shape, axis_names
        self._devices = flat_devices.reshape(shape)

    @property
    def shape(self) -> Any:
        """Sizes of the grid."""
        return self._shape

    @property
    def axis_names(self) -> Any:
        """A name for each axis."""
        return self._axis_names

    @property
    def devices(self) -> Any:
        """The names of the devices, an array of the shape of the grid."""
        return self._devices

    def __repr__(self) -> str:
        return f"<DeviceMesh shape={self.shape}, axis_names={self.axis_names}>"


class DataParallel:
    """A replica of the model on each device, each with its rows of every batch.

    There is one process for a device: start the script with `mpiexec -n N` or `srun`.

    Args:
        device_mesh: the devices; by default one for each process.
        devices: a list of them in its place.
        auto_shard_dataset: whether data sets are divided among the processes; `False` says that
            each has a data set of its own, of its own rows.

    Raises:
        ValueError: there are not as many devices as processes, or the mesh has several axes.

    Example:
        >>> distribution = tk.keras.distribution.DataParallel()
        >>> with distribution.scope():
        ...     model = tk.Sequential([tk.layers.Dense(1)])
        >>> distribution.num_model_replicas
        1
    """

    def __init__(
        self,
        device_mesh: DeviceMesh | None = None,
        devices: Sequence[Any] | None = None,
        auto_shard_dataset: bool = True,
    ) -> None:
        self.strategy = MultiWorkerMirroredStrategy()
        count = self.strategy.num_replicas_in_sync
        if device_mesh is None:
            device_names = list_devices()[:count] if devices is None else list(devices)
            device_mesh = DeviceMesh((len(device_names),), [_BATCH], device_names)
        elif not isinstance(device_mesh, DeviceMesh):
            raise ValueError(f"DataParallel: device_mesh must be a DeviceMesh, got {device_mesh!r}")
        if device_mesh.devices.ndim != 1:
            raise ValueError(
                f"DataParallel: the mesh must have one axis, got {device_mesh!r}; weights are not "
                "split over devices here"
            )
        if device_mesh.devices.size != count:
            raise ValueError(
                f"DataParallel: {device_mesh.devices.size} devices for {count} processes, and "
                "each process trains on one: start the script with mpiexec -n "
                f"{device_mesh.devices.size}, or name {count}"
            )
        self._mesh = device_mesh
        self.auto_shard_dataset = auto_shard_dataset

    @property
    def auto_shard_dataset(self) -> bool:
        """Whether data sets are divided among the processes."""
        return self.strategy.divides_data_sets

    @auto_shard_dataset.setter
    def auto_shard_dataset(self, value: bool) -> None:
        self.strategy.divides_data_sets = bool(value)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The devices."""
        return self._mesh

    @property
    def batch_dim_name(self) -> str:
        """The name of the axis of the mesh."""
        return str(self._mesh.axis_names[0])

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        return self.strategy.num_replicas_in_sync

    @property
    def num_model_replicas(self) -> int:
        """How many replicas of the model there are."""
        return int(self._mesh.devices.size)

    @property
    def num_data_shards(self) -> int:
        """Into how many parts data is divided."""
        return min(self.num_model_replicas, self.num_processes)

    @property
    def data_shard_id(self) -> int:
        """Which part this process has, from 0."""
        return self.strategy.rank

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context in which this is the distribution."""
        before = distribution()
        set_distribution(self)
        try:
            yield
        finally:
            set_distribution(before)

    def __repr__(self) -> str:
        return f"<DataParallel device_mesh={self.device_mesh}>"


_CURRENT: list[DataParallel | None] = [None]


def distribution() -> DataParallel | None:
    """What `set_distribution` was given last.

    Example:
        >>> tk.keras.distribution.distribution() is None
        True
    """
    return _CURRENT[0]


def set_distribution(value: DataParallel | None) -> None:
    """Let all models be trained by the processes of a distribution, from now on.

    Args:
        value: a `DataParallel`; `None` for this process alone.

    Raises:
        TypeError: it is none of these.

    Example:
        >>> tk.keras.distribution.set_distribution(tk.keras.distribution.DataParallel())
        >>> tk.keras.distribution.set_distribution(None)
    """
    if value is not None and not isinstance(value, DataParallel):
        raise TypeError(f"set_distribution takes a DataParallel or None, got {value!r}")
    _CURRENT[0] = value
    strategies.set_strategy_of_all(None if value is None else value.strategy)
