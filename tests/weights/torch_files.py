"""Files of `torch.save`, written here instruction by instruction: no test needs PyTorch."""

import struct
import zipfile

import numpy as np

STORAGES = {
    "float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage", "int64": "LongStorage", "int8": "CharStorage",
    "uint8": "ByteStorage", "bool": "BoolStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value):
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def row(*parts):
    return b"(" + b"".join(parts) + b"t"


def numbers(values):
    return row(*map(integer, values))


def table(pairs):
    return b"}(" + b"".join(text(key) + value for key, value in pairs.items()) + b"u"


def ordered(pairs):
    """An OrderedDict with `_metadata`, as `state_dict` gives it."""
    filled = name("collections", "OrderedDict") + b")R("
    filled += b"".join(text(key) + value for key, value in pairs.items()) + b"u"
    return filled + table({"_metadata": b"}"}) + b"b"


def called(function, *parts):
    return function + row(*parts) + b"R"


def storage(key, count, kind):
    return row(text("storage"), kind, text(key), text("cpu"), integer(count)) + b"Q"


def view(key, count, shape, strides, offset=0, kind="FloatStorage"):
    return called(
        name("torch._utils", "_rebuild_tensor_v2"),
        storage(key, count, name("torch", kind)),
        integer(offset),
        numbers(shape),
        numbers(strides),
        b"\x89",
        name("collections", "OrderedDict") + b")R",
    )


def typed_view(key, size, shape, strides, dtype):
    return called(
        name("torch._utils", "_rebuild_tensor_v3"),
        storage(key, size, name("torch.storage", "UntypedStorage")),
        integer(0),
        numbers(shape),
        numbers(strides),
        b"\x89",
        name("collections", "OrderedDict") + b")R",
        name("torch", dtype),
    )


def row_strides(shape):
    return [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]


def tensor(key, array):
    kind = STORAGES[array.dtype.name]
    return view(key, array.size, array.shape, row_strides(array.shape), kind=kind)


def write_torch(path, value, storages, *, order="little", packing=zipfile.ZIP_STORED, more=()):
    """Write the archive for the instructions of a pickle and the bytes of storages by key."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("weights/data.pkl", b"\x80\x02" + value + b".")
        if order is not None:
            archive.writestr("weights/byteorder", order)
        for key, data in storages.items():
            archive.writestr(f"weights/data/{key}", data)
        archive.writestr("weights/version", "3\n")
        for member, data in more:
            archive.writestr(member, data)
    return path


def write_state(path, arrays, wrap=ordered, **more):
    """Write arrays by name as `torch.save(module.state_dict(), path)` does."""
    keys = {key: str(number) for number, key in enumerate(arrays)}
    value = wrap({key: tensor(keys[key], array) for key, array in arrays.items()})
    storages = {keys[key]: np.ascontiguousarray(a).tobytes() for key, a in arrays.items()}
    return write_torch(path, value, storages, **more)
