"""`PerReplica`: what the replicas of one process have, each its own."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest


class PerReplica:
    """A value for each replica of this process, in the place of one value.

    Attributes:
        values: in the order of the replicas.
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = tuple(values)

    def __repr__(self) -> str:
        inside = "\n".join(f"  {rank}: {value!r}" for rank, value in enumerate(self.values))
        return f"PerReplica:{{\n{inside}\n}}"


def of_replica(value: Any, rank: int) -> Any:
    """`value` with what one replica has in the place of each `PerReplica`."""
    return nest.map_structure(lambda x: x.values[rank] if isinstance(x, PerReplica) else x, value)


def in_one(results: list[Any]) -> Any:
    """A nest of `PerReplica`s from the nests of all replicas."""
    if len(results) == 1:
        return results[0]
    return nest.map_structure(lambda *values: PerReplica(values), *results)
