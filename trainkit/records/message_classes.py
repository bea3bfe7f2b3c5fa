"""Classes of protocol buffer messages, made from a description instead of a compiled file."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory


def message_classes(description: Any, *names: str) -> tuple[Any, ...]:
    """The classes of some messages, in a pool of their own.

    So they live beside those of the same package that another library in the process has.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(description.SerializeToString())
    kinds = [pool.FindMessageTypeByName(f"{description.package}.{name}") for name in names]
    return tuple(message_factory.GetMessageClass(kind) for kind in kinds)
