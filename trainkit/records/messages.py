"""`Example` and its parts: protocol buffer messages wire-compatible with TensorFlow's.

The messages are made from a description, in a pool of their own, so that they live beside those of
a TensorFlow in the same process.
Source: the public format of `tf.train.Example`, package `tensorflow`, fields as numbered below.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2

from trainkit.records.message_classes import message_classes

_FIELD = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
_PACKAGE = ".tensorflow."


def _message(file: Any, name: str) -> Any:
    return file.message_type.add(name=name)


def _numbers(file: Any, name: str, kind: int) -> None:
    """A message that holds a list of values."""
    field = _message(file, name).field.add(name="value", number=1, label=_MANY, type=kind)
    if kind != _FIELD.TYPE_BYTES:
        field.options.packed = True


def _map(file: Any, name: str, field: str, value: str) -> None:
    """A message that holds a map from texts to messages."""
    message = _message(file, name)
    entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_ONE, type=_FIELD.TYPE_STRING)
    entry.field.add(
        name="value", number=2, label=_ONE, type=_FIELD.TYPE_MESSAGE, type_name=_PACKAGE + value
    )
    message.field.add(
        name=field,
        number=1,
        label=_MANY,
        type=_FIELD.TYPE_MESSAGE,
        type_name=f"{_PACKAGE}{name}.{entry.name}",
    )


def _parts(message: Any, names: dict[str, str], one_of: str | None = None) -> None:
    """Fields of a message that hold messages, numbered from 1."""
    if one_of is not None:
        message.oneof_decl.add(name=one_of)
    for number, (name, kind) in enumerate(names.items(), start=1):
        field = message.field.add(
            name=name,
            number=number,
            label=_ONE,
            type=_FIELD.TYPE_MESSAGE,
            type_name=_PACKAGE + kind,
        )
        if one_of is not None:
            field.oneof_index = 0


def _description() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="trainkit/records/example.proto", package="tensorflow", syntax="proto3"
    )
    _numbers(file, "BytesList", _FIELD.TYPE_BYTES)
    _numbers(file, "FloatList", _FIELD.TYPE_FLOAT)
    _numbers(file, "Int64List", _FIELD.TYPE_INT64)
    kinds = {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}
    _parts(_message(file, "Feature"), kinds, one_of="kind")
    _map(file, "Features", "feature", "Feature")
    list_of = _message(file, "FeatureList").field.add(name="feature", number=1, label=_MANY)
    list_of.type, list_of.type_name = _FIELD.TYPE_MESSAGE, _PACKAGE + "Feature"
    _map(file, "FeatureLists", "feature_list", "FeatureList")
    _parts(_message(file, "Example"), {"features": "Features"})
    sequence = {"context": "Features", "feature_lists": "FeatureLists"}
    _parts(_message(file, "SequenceExample"), sequence)
    return file


(
    BytesList, FloatList, Int64List, Feature, Features, FeatureList, FeatureLists, Example,
    SequenceExample,
) = message_classes(
    _description(), "BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList",
    "FeatureLists", "Example", "SequenceExample",
)  # fmt: skip
