"""What PyTorch's functions of rebuilding describe: storages, and tensors as views of them.

A file of `torch.save` names some twenty functions and classes. Here each stands for a description;
nothing is allocated, and every number is looked at. Source: `torch/_utils.py` of PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from trainkit.weights.pickle_reading import BuilderName, PickleError, PlainObject

MOST_AXES = 32
_LARGEST = 1 << 62
_LARGEST_ZERO_POINT = 1 << 32

DTYPES: dict[str, Any] = {
    "float64": np.float64, "double": np.float64, "float32": np.float32, "float": np.float32,
    "float16": np.float16, "half": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "int64": np.int64, "long": np.int64, "int32": np.int32, "int": np.int32,
    "int16": np.int16, "short": np.int16, "int8": np.int8, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_,
    "complex64": np.complex64, "cfloat": np.complex64, "complex128": np.complex128,
    "cdouble": np.complex128, "qint8": np.int8, "quint8": np.uint8, "qint32": np.int32,
}  # fmt: skip
"""NumPy's dtypes by PyTorch's names."""

_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8", "QUInt8Storage": "quint8", "QInt32Storage": "qint32",
}  # fmt: skip


class UnsupportedTensorError(PickleError):
    """A whole file has a tensor of a kind that is not read."""


@dataclass(frozen=True)
class StorageKind:
    """A class of storages; `dtype` is None for one of bytes."""

    dtype: str | None


@dataclass(frozen=True)
class TorchDType:
    """An element type, by PyTorch's name."""

    name: str


@dataclass(frozen=True)
class StorageRecord:
    """Bytes of the file that tensors are views of.

    Attributes:
        key: the name of its member.
        dtype: PyTorch's, None for bytes.
        count: of elements.
    """

    key: str
    dtype: str | None
    count: int


@dataclass(frozen=True)
class Quantization:
    """What the integers of a quantized tensor stand for: (q - zero point) * scale.

    Attributes:
        scale: a number, or a tensor along `axis`.
        zero_point: the same.
        axis: None where there is one scale.
    """

    scale: Any
    zero_point: Any
    axis: int | None


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as a view of a storage.

    Attributes:
        storage: its bytes.
        dtype: PyTorch's name.
        offset: of the first element, in elements.
        shape: sizes.
        strides: in elements, one for each axis.
        quantization: of its integers, or None.
    """

    storage: StorageRecord
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    quantization: Quantization | None = None

    @property
    def extent(self) -> int:
        """How many elements of the storage it spans, from its first to its last."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the stored elements."""
        return np.dtype(DTYPES[self.dtype])


def storage_record(persistent_id: Any) -> StorageRecord:
    """The storage that a persistent id names: ("storage", class, key, device, elements).

    Raises:
        PickleError: it is no such tuple.
    """
    match persistent_id:
        case ("storage", StorageKind() as kind, str() as key, _, int() as count):
            if 0 <= count < _LARGEST:
                return StorageRecord(key, kind.dtype, count)
    raise PickleError("it refers to something that is no storage of this version of torch.save")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, dtype: str | None = None) -> Any:
    if not isinstance(storage, StorageRecord):
        raise PickleError("a tensor has no storage")
    shape, strides = _whole_numbers(size, "shape"), _whole_numbers(stride, "strides")
    if len(shape) != len(strides):
        raise PickleError(f"a tensor has {len(shape)} axes and {len(strides)} strides")
    (start,) = _whole_numbers((offset,), "offset")
    name = dtype or storage.dtype
    if name is None:
        raise PickleError("a tensor of bytes does not say its dtype")
    record = TensorRecord(storage, name, start, shape, strides)
    size_of = 1 if storage.dtype is None else np.dtype(DTYPES[storage.dtype]).itemsize
    end = (start + record.extent) * record.numpy_dtype.itemsize if record.extent else 0
    if end > storage.count * size_of:
        raise PickleError(
            f"a tensor of shape {shape} with strides {strides} from {start} on ends at byte {end} "
            f"of its storage {storage.key!r}, which has {storage.count * size_of}"
        )
    return record


def _whole_numbers(values: Any, field: str) -> tuple[int, ...]:
    numbers = values if type(values) in (tuple, list) else None
    if numbers is not None and len(numbers) > MOST_AXES:  # before it is gone through, each time
        raise PickleError(f"the {field} of a tensor has {len(numbers)} numbers")
    if numbers is None or not all(type(n) is int and 0 <= n < _LARGEST for n in numbers):
        raise PickleError(f"the {field} of a tensor is no tuple of whole numbers")
    return tuple(numbers)


def _plain_view(arguments: tuple[Any, ...]) -> TensorRecord:
    """`_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata)`."""
    metadata = arguments[6] if len(arguments) > 6 else None
    if metadata and (type(metadata) is not dict or len(metadata) > 8 or any(metadata.values())):
        raise UnsupportedTensorError(
            "a tensor is a conjugated or negated view; call resolve_conj() and resolve_neg() on it "
            "before torch.save"
        )
    return _check(_tensor, arguments[:4])


def _typed_view(arguments: tuple[Any, ...]) -> TensorRecord:
    """`_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype)`."""
    if len(arguments) < 7 or not isinstance(arguments[6], TorchDType):
        raise PickleError("a tensor does not say its dtype")
    return _check(_tensor, (*arguments[:4], arguments[6].name))


def _check(function: Any, arguments: tuple[Any, ...]) -> Any:
    if len(arguments) < 4:
        raise PickleError(f"a tensor has {len(arguments)} parts")
    return function(*arguments)


def _quantiz(arguments: tuple[Any, ...]) -> TensorRecord:
    """`_rebuild_qtensor(storage, offset, size, stride, quantizer, requires_grad, hooks)`."""
    record = _check(_tensor, arguments[:4])
    quantizer = arguments[4] if len(arguments) > 4 else None
    match quantizer:
        case (QuantizationScheme("per_tensor_affine"), float() | int(), int()) if (
            abs(quantizer[2]) < _LARGEST_ZERO_POINT
        ):
            quantization = Quantization(float(quantizer[1]), quantizer[2], None)
        case (
            QuantizationScheme("per_channel_affine"),
            TensorRecord() as scales,
            TensorRecord() as zero_points,
            int() as axis,
        ) if 0 <= axis < len(record.shape):
            size = (record.shape[axis],)
            if scales.shape != size or zero_points.shape != size:
                raise PickleError(
                    f"a quantized tensor of shape {record.shape} has scales of shape "
                    f"{scales.shape} along axis {axis}"
                )
            kinds = scales.numpy_dtype.kind, zero_points.numpy_dtype.kind
            if scales.quantization or zero_points.quantization or kinds != ("f", "i"):
                raise PickleError("the scales of a quantized tensor are no plain floats")
            quantization = Quantization(scales, zero_points, axis)
        case _:
            raise UnsupportedTensorError(
                "a quantized tensor has a scheme that is neither per_tensor_affine nor "
                "per_channel_affine; save tensor.dequantize()"
            )
    if record.dtype not in ("qint8", "quint8", "qint32"):
        raise UnsupportedTensorError(
            f"a quantized tensor holds {record.dtype}, and qint8, quint8 and qint32 are supported; "
            "save tensor.dequantize()"
        )
    return TensorRecord(
        record.storage, record.dtype, record.offset, record.shape, record.strides, quantization
    )


@dataclass(frozen=True)
class QuantizationScheme:
    """How a tensor is quantized, by PyTorch's name."""

    name: str


def _first_tensor(arguments: tuple[Any, ...]) -> TensorRecord:
    """`_rebuild_parameter(data, requires_grad, hooks)`, and the form with a state."""
    if not arguments or not isinstance(arguments[0], TensorRecord):
        raise PickleError("a parameter has no tensor")
    return arguments[0]


def _of_type(arguments: tuple[Any, ...]) -> Any:
    """`_rebuild_from_type_v2(function, type, arguments, state)`: a subclass of tensors."""
    if len(arguments) < 3 or not isinstance(arguments[0], BuilderName):
        raise PickleError("a tensor of another class does not say how it is built")
    if type(arguments[2]) is not tuple or not isinstance(arguments[1], TensorClass):
        raise PickleError("a tensor of another class has no arguments")
    return arguments[0].build(arguments[2])


@dataclass(frozen=True)
class TensorClass:
    """A class of tensors that adds nothing to their values."""

    name: str


def _ordered_dict(arguments: tuple[Any, ...]) -> dict[Any, Any]:
    # what is in it follows; a copy of a list at each call could fill the memory
    if arguments:
        raise PickleError("an OrderedDict is built of a list, which torch.save never does")
    return {}


def _size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    if len(arguments) != 1:
        raise PickleError("a torch.Size has no sizes")
    return _whole_numbers(arguments[0], "size")


def _refusal(advice: str) -> Any:
    def refuse(arguments: tuple[Any, ...]) -> Any:
        raise UnsupportedTensorError(advice)

    return refuse


def _plain(kind: str) -> Any:
    return lambda arguments: PlainObject(kind)


_UTILS = {
    "_rebuild_tensor": _plain_view,
    "_rebuild_tensor_v2": _plain_view,
    "_rebuild_tensor_v3": _typed_view,
    "_rebuild_parameter": _first_tensor,
    "_rebuild_parameter_with_state": _first_tensor,
    "_rebuild_qtensor": _quantiz,
    "_rebuild_sparse_tensor": _refusal("it has a sparse tensor; save tensor.to_dense()"),
    "_rebuild_nested_tensor": _refusal("it has a nested tensor; save its parts by unbind()"),
    "_rebuild_meta_tensor_no_storage": _refusal(
        "it has a tensor of the device 'meta', which has no values; save one that has"
    ),
    "_rebuild_device_tensor_from_numpy": _refusal(
        "it has a tensor of a device that torch.save writes by NumPy; save tensor.cpu()"
    ),
    "_rebuild_device_tensor_from_cpu_tensor": _first_tensor,
    "_rebuild_wrapper_subclass": _refusal(
        "it has a tensor of a class of its own; save its plain tensors"
    ),
}

_OTHERS = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch", "Size"): _size,
    ("torch", "device"): _plain("torch.device"),
    ("torch.serialization", "_get_layout"): _plain("torch.layout"),
    ("torch._tensor", "_rebuild_from_type_v2"): _of_type,
    ("_codecs", "encode"): _plain("bytes"),
    ("numpy", "dtype"): _plain("numpy.dtype"),
    **{
        (f"numpy.{core}.multiarray", name): _plain("NumPy value")
        for core in ("core", "_core")
        for name in ("scalar", "_reconstruct")
    },
}

NAMES: dict[tuple[str, str], Any] = {
    **{("torch._utils", name): BuilderName(name, build) for name, build in _UTILS.items()},
    **{key: BuilderName(".".join(key), build) for key, build in _OTHERS.items()},
    **{("torch", name): StorageKind(dtype) for name, dtype in _STORAGES.items()},
    ("torch.storage", "UntypedStorage"): StorageKind(None),
    **{("torch", name): TorchDType(name) for name in DTYPES},
    **{
        ("torch", name): QuantizationScheme(name)
        for name in ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")
    },
    ("torch", "Tensor"): TensorClass("Tensor"),
    ("torch.nn.parameter", "Parameter"): TensorClass("Parameter"),
    ("torch.nn.parameter", "Buffer"): TensorClass("Buffer"),
    ("numpy", "ndarray"): PlainObject("numpy.ndarray"),
}
"""What stands for the functions and classes that files of PyTorch name."""


def expanded(record: TensorRecord) -> bool:
    """Whether a view has more elements than the storage part that it spans, as of `expand`."""
    return math.prod(record.shape) > max(record.extent, 1)
