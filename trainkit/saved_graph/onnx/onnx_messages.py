"""The messages of an ONNX file, and tensors as such messages.

They are made from a description, in a pool of their own, so that they live beside those of an
installed `onnx` in the same process.
Source: the public format of ONNX, package `onnx`, fields as numbered below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2

from trainkit.core import dtypes
from trainkit.records.message_classes import message_classes

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "int64": _FIELD.TYPE_INT64,
    "int32": _FIELD.TYPE_INT32,
    "float": _FIELD.TYPE_FLOAT,
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "double": _FIELD.TYPE_DOUBLE,
    "uint64": _FIELD.TYPE_UINT64,
}

# A field is "name number type", with a star behind the type where there may be many.
_FIELDS = {
    "ModelProto": """ir_version 1 int64; producer_name 2 string; producer_version 3 string;
        domain 4 string; model_version 5 int64; doc_string 6 string; graph 7 GraphProto;
        opset_import 8 OperatorSetIdProto*; metadata_props 14 StringStringEntryProto*;
        functions 25 FunctionProto*""",
    "FunctionProto": """name 1 string; input 4 string*; output 5 string*; attribute 6 string*;
        node 7 NodeProto*; opset_import 9 OperatorSetIdProto*; domain 10 string;
        attribute_proto 11 AttributeProto*""",
    "SparseTensorProto": "values 1 TensorProto; indices 2 TensorProto; dims 3 int64*",
    "OperatorSetIdProto": "domain 1 string; version 2 int64",
    "StringStringEntryProto": "key 1 string; value 2 string",
    "GraphProto": """node 1 NodeProto*; name 2 string; initializer 5 TensorProto*;
        doc_string 10 string; input 11 ValueInfoProto*; output 12 ValueInfoProto*;
        value_info 13 ValueInfoProto*; sparse_initializer 15 SparseTensorProto*""",
    "NodeProto": """input 1 string*; output 2 string*; name 3 string; op_type 4 string;
        attribute 5 AttributeProto*; doc_string 6 string; domain 7 string""",
    "AttributeProto": """name 1 string; f 2 float; i 3 int64; s 4 bytes; t 5 TensorProto;
        g 6 GraphProto; floats 7 float*; ints 8 int64*; strings 9 bytes*; type 20 int32;
        ref_attr_name 21 string""",
    "TensorProto": """dims 1 int64*; data_type 2 int32; float_data 4 float*; int32_data 5 int32*;
        string_data 6 bytes*; int64_data 7 int64*; name 8 string; raw_data 9 bytes;
        double_data 10 double*; uint64_data 11 uint64*; external_data 13 StringStringEntryProto*;
        data_location 14 int32""",
    "ValueInfoProto": "name 1 string; type 2 TypeProto",
    "TypeProto": "tensor_type 1 TensorTypeProto",
    "TensorTypeProto": "elem_type 1 int32; shape 2 TensorShapeProto",
    "TensorShapeProto": "dim 1 DimensionProto*",
    "DimensionProto": "dim_value 1 int64; dim_param 2 string",
}

ELEMENT_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
"""The numbers that ONNX has for dtypes."""

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 5, 6, 7, 8
"""The numbers that ONNX has for kinds of attributes."""


def _add_field(message: Any, text: str) -> None:
    name, number, kind = text.split()
    many = kind.endswith("*")
    kind = kind.rstrip("*")
    field = message.field.add(
        name=name,
        number=int(number),
        label=_FIELD.LABEL_REPEATED if many else _FIELD.LABEL_OPTIONAL,
        type=_TYPES.get(kind, _FIELD.TYPE_MESSAGE),
    )
    if kind not in _TYPES:
        field.type_name = f".onnx.{kind}"


def _description() -> Any:
    # with the presence of fields as in the older syntax: ONNX tells 0 from nothing
    file = descriptor_pb2.FileDescriptorProto(
        name="trainkit/saved_graph/onnx.proto", package="onnx", syntax="proto2"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for text in fields.split(";"):
            _add_field(message, text)
    return file


ModelProto, GraphProto, AttributeProto = message_classes(
    _description(), "ModelProto", "GraphProto", "AttributeProto"
)


OUTSIDE = 1
"""The number that ONNX has for tensors in another file."""


def content_of(array: Any) -> Any:
    """The elements of an array one after the other, least byte first, as an array."""
    little_endian = array.dtype.newbyteorder("<") if array.dtype.kind in "iuf" else array.dtype
    return np.ascontiguousarray(array).astype(little_endian, copy=False)


def fill_tensor(
    message: Any, name: str, array: Any, outside: tuple[str, int] | None = None
) -> None:
    """Write an array into a `TensorProto`.

    Args:
        message: to fill.
        name: of the tensor.
        array: of one of `ELEMENT_TYPES`.
        outside: name of the file that has the elements, and where they begin there.
    """
    message.name = name
    message.data_type = ELEMENT_TYPES[dtypes.as_dtype(array.dtype).name]
    message.dims.extend(array.shape)
    if outside is None:
        message.raw_data = content_of(array).tobytes()
        return
    message.data_location = OUTSIDE
    facts = {"location": outside[0], "offset": outside[1], "length": array.nbytes}
    for key, value in facts.items():
        message.external_data.add(key=key, value=str(value))


def array_of(message: Any) -> Any:
    """The array in a `TensorProto` that `fill_tensor` wrote."""
    names = {number: name for name, number in ELEMENT_TYPES.items()}
    dtype = dtypes.as_dtype(names[message.data_type]).dtype
    return np.frombuffer(message.raw_data, dtype).reshape(tuple(message.dims))


def fill_attribute(message: Any, name: str, value: Any) -> None:
    """Write a setting of a node into an `AttributeProto`.

    Args:
        message: to fill.
        name: of the attribute.
        value: an int, float or str, a sequence of ints or floats, or a function that fills a
            `GraphProto`.
    """
    message.name = name
    if callable(value):
        value(message.g)
        message.type = GRAPH
    elif isinstance(value, str):
        message.s, message.type = value.encode("utf-8"), STRING
    elif isinstance(value, float):
        message.f, message.type = value, FLOAT
    elif isinstance(value, int):
        message.i, message.type = int(value), INT
    elif any(isinstance(x, float) for x in value):
        message.floats.extend(value)
        message.type = FLOATS
    else:
        message.ints.extend(int(x) for x in value)
        message.type = INTS


def fill_value(message: Any, name: str, dtype: str, shape: Any) -> None:
    """Say name, dtype and shape of an input or result in a `ValueInfoProto`.

    Args:
        message: to fill.
        name: of the value.
        dtype: one of `ELEMENT_TYPES`.
        shape: sizes, names of sizes, and `None` for sizes that nothing is said of.
    """
    message.name = name
    message.type.tensor_type.elem_type = ELEMENT_TYPES[dtype]
    dims = message.type.tensor_type.shape
    dims.SetInParent()
    for size in shape:
        dim = dims.dim.add()
        if isinstance(size, str):
            dim.dim_param = size
        elif size is not None:
            dim.dim_value = size
