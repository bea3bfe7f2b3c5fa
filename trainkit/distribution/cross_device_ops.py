"""How the devices of a `MirroredStrategy` add up, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.collectives.communication import Communication
from trainkit.collectives.device_sums import DeviceSums, OneDeviceSums, TreeSums
from trainkit.collectives.nccl import why_not
from trainkit.collectives.nccl_devices import NcclDeviceSums
from trainkit.core import devices
from trainkit.distribution.communication_options import communication_of


class NcclAllReduce:
    """Sums by NCCL, from GPU to GPU.

    All devices have to be different GPUs, and CuPy has to find NCCL
    (`pip install nvidia-nccl-cu13`). What NCCL does not take, such as complex numbers, is copied as
    by `ReductionToOneDevice`.

    Args:
        num_packs: into how many messages of about the same size the gradients of a step go. 0 sends
            each by itself.

    Raises:
        ValueError: `num_packs` is no whole number of 0 or more.

    Example:
        >>> tk.distribute.NcclAllReduce(num_packs=2)
        NcclAllReduce(num_packs=2)
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = _packs(type(self).__name__, num_packs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_packs={self.num_packs})"


class HierarchicalCopyAllReduce:
    """Sums by copies between pairs of devices: neighbours, then pairs of these; then back to all.

    Args:
        num_packs: see `NcclAllReduce`.

    Raises:
        ValueError: `num_packs` is no whole number of 0 or more.

    Example:
        >>> ops = tk.distribute.HierarchicalCopyAllReduce()
        >>> strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * 3, cross_device_ops=ops)
        >>> context = tk.distribute.get_replica_context
        >>> total = strategy.run(lambda: context().all_reduce("SUM", tk.ones(())))
        >>> [float(y) for y in total.values]
        [3.0, 3.0, 3.0]
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = _packs(type(self).__name__, num_packs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_packs={self.num_packs})"


class ReductionToOneDevice:
    """Sums on one device, to which all others copy theirs and from which they get the result.

    Args:
        reduce_to_device: which device; by default that of the first replica. With `"/cpu:0"` they
            go through the host.
        accumulation_fn: only `None`: values are added in the order of the replicas.

    Raises:
        DeviceError: there is no such device.
        ValueError: `accumulation_fn` is given.

    Example:
        >>> tk.distribute.ReductionToOneDevice("/cpu:0")
        ReductionToOneDevice('/device:CPU:0')
    """

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        if accumulation_fn is not None:
            raise ValueError(
                "ReductionToOneDevice: accumulation_fn must be None: values are added, in the "
                f"order of the replicas; got {accumulation_fn!r}"
            )
        self.reduce_to_device: devices.Device | None = None
        if reduce_to_device is not None:
            name = getattr(reduce_to_device, "name", reduce_to_device)
            self.reduce_to_device = devices.parse(str(name))

    def __repr__(self) -> str:
        where = self.reduce_to_device
        return f"{type(self).__name__}({'' if where is None else repr(where.name)})"


def sums_between(
    places: Sequence[devices.Device], cross_device_ops: Any, options: Any = None
) -> tuple[DeviceSums, Communication]:
    """What adds up between devices, and how gradients are divided into messages.

    Args:
        places: the device of each replica.
        cross_device_ops: what a program asks for, or `None`.
        options: a `CommunicationOptions`, or `None`.

    Raises:
        TypeError: `options` is something else.
        ValueError: `cross_device_ops` is none of the classes here, NCCL is asked for and can't be
            had, or there are settings that exclude each other.
    """
    sums, communication = _choose_ops(places, cross_device_ops)
    if options is None:
        return sums, communication
    bucket_settings = communication_of(options)
    if bucket_settings.gradient_dtype is not None:
        raise ValueError(
            "MirroredStrategy: gradient_dtype must be None, got "
            f"{bucket_settings.gradient_dtype!r}; between processes, MultiWorkerMirroredStrategy "
            "takes it"
        )
    if communication.packs is not None:
        raise ValueError(
            f"MirroredStrategy: {cross_device_ops!r} says how many messages there are, and "
            f"{options!r} how large they are; leave one of them out"
        )
    if options.implementation == "NCCL" and not isinstance(sums, NcclDeviceSums):
        lacks = _why_no_nccl(places) or f"{cross_device_ops!r} is asked for"
        raise ValueError(f"MirroredStrategy: implementation='NCCL' adds up by NCCL, and {lacks}")
    return sums, communication._replace(bucket_bytes=bucket_settings.bucket_bytes)


def _choose_ops(
    replica_devices: Sequence[devices.Device], cross_device_ops: Any
) -> tuple[DeviceSums, Communication]:
    if cross_device_ops is None:
        lacks = _why_no_nccl(replica_devices)
        sums = OneDeviceSums() if lacks else NcclDeviceSums(replica_devices, OneDeviceSums())
        return sums, Communication()
    if type(cross_device_ops) is ReductionToOneDevice:
        return OneDeviceSums(cross_device_ops.reduce_to_device), Communication()
    if type(cross_device_ops) is HierarchicalCopyAllReduce:
        return TreeSums(), Communication(packs=cross_device_ops.num_packs)
    if type(cross_device_ops) is not NcclAllReduce:
        raise ValueError(
            "MirroredStrategy: cross_device_ops must be None, or a NcclAllReduce, "
            "HierarchicalCopyAllReduce or ReductionToOneDevice of tk.distribute, got "
            f"{cross_device_ops!r}"
        )
    if lacks := _why_no_nccl(replica_devices):
        raise ValueError(
            f"MirroredStrategy: cross_device_ops=NcclAllReduce() adds up by NCCL, and {lacks}; "
            "take HierarchicalCopyAllReduce or ReductionToOneDevice, or leave it out"
        )
    packs = cross_device_ops.num_packs
    return NcclDeviceSums(replica_devices, OneDeviceSums()), Communication(packs=packs)


def _why_no_nccl(replica_devices: Sequence[devices.Device]) -> str:
    """Why NCCL can't add up between devices; nothing if it can."""
    for device in replica_devices:
        if device is devices.CPU:
            return f"{device.name} is no GPU"
    double = [device.name for device in replica_devices if list(replica_devices).count(device) > 1]
    if double:
        return f"it takes a GPU for each replica, and {double[0]} is that of several"
    return why_not()


def _packs(name: str, num_packs: Any) -> int:
    if type(num_packs) is not int or num_packs < 0:
        raise ValueError(f"{name}: num_packs must be a whole number, 0 or more, got {num_packs!r}")
    return num_packs
