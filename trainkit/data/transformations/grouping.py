"""Elements sorted into groups: by key, by length, into other batch sizes, and without repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.data import structure
from trainkit.data.calling import Caller, InnerStage
from trainkit.data.node import (
    UNKNOWN,
    DatasetOp,
    Leaves,
    Piped,
    Stage,
    batched_spec,
    block_size,
    join_blocks,
)
from trainkit.data.transformations.choosing import SameElements


class UniqueNode(SameElements):
    """Each element once, where it comes first."""

    title = "Unique"

    def stage(self) -> Stage:
        return UniqueStage(self.source.stage())


class UniqueStage(Piped):
    """Remembers all elements that have passed."""

    def __init__(self, source: Stage) -> None:
        super().__init__(source)
        self.given: list[Leaves] = []
        self.identities: set[Any] = set()

    def next(self) -> Leaves:
        while True:
            leaves = self.source.next()
            key = _identity(leaves)
            if key not in self.identities:
                self.identities.add(key)
                self.given.append(leaves)
                return leaves

    def state(self) -> dict[str, Any]:
        return {**super().state(), "given": [list(leaves) for leaves in self.given]}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.given = [list(leaves) for leaves in state["given"]]
        self.identities = {_identity(leaves) for leaves in self.given}


def _identity(leaves: Leaves) -> Any:
    """What two elements share only if they are equal."""
    return tuple((np.shape(x), np.asarray(x).dtype.str, _content(np.asarray(x))) for x in leaves)


def _content(array: Any) -> Any:
    return tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()


class RebatchNode(SameElements):
    """Batches of other sizes.

    Args:
        source: gives batches.
        sizes: of the batches to give, taken in turn.
        drop: leave out a last batch that is smaller.
    """

    title = "Rebatch"

    def __init__(self, source: DatasetOp, sizes: tuple[int, ...], drop: bool) -> None:
        super().__init__(source)
        if not sizes or min(sizes) < 0 or not any(sizes):
            raise InvalidArgumentError(
                f"rebatch: sizes must be 0 or more, and one of them at least 1; got {sizes}"
            )
        self.sizes, self.drop = sizes, drop

    def spec(self) -> Any:
        rows = structure.rows_spec(self.source.spec())
        return batched_spec(
            rows, self.sizes[0] if self.drop and len(set(self.sizes)) == 1 else None
        )

    def stage(self) -> Stage:
        return RebatchStage(self)


class RebatchStage(Piped):
    """Cuts and joins batches."""

    def __init__(self, node: RebatchNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.rest: list[Leaves] = []
        self.empty: Leaves | None = None
        self.given = 0
        self.ended = False

    def next(self) -> Leaves:
        batch_size = self.node.sizes[self.given % len(self.node.sizes)]
        if batch_size == 0 and self.empty is not None:
            self.given += 1
            return list(self.empty)
        # an empty batch, too, has the shapes and dtypes of the source's
        self._read(max(batch_size, 1))
        if not self.rest:
            raise StopIteration
        rows = join_blocks(self.rest)
        if (have := block_size(rows)) == 0 or (self.node.drop and have < batch_size):
            raise StopIteration
        self.empty = [leaf[:0] for leaf in rows]
        self.rest = [[leaf[batch_size:] for leaf in rows]] if have > batch_size else []
        self.given += 1
        return [leaf[:batch_size] for leaf in rows]

    def _read(self, batch_size: int) -> None:
        """Take batches until there are as many rows."""
        while not self.ended and sum(map(block_size, self.rest)) < batch_size:
            try:
                leaves = self.source.next()
            except StopIteration:
                self.ended = True
                return
            structure.same_count(leaves, "rebatch")
            self.rest.append(leaves)

    def state(self) -> dict[str, Any]:
        own_state: dict[str, Any] = {"given": self.given, "ended": self.ended}
        if self.empty is not None:
            own_state["empty"] = list(self.empty)
        return {**super().state(), "rest": [list(leaves) for leaves in self.rest], **own_state}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.rest = [list(leaves) for leaves in state["rest"]]
        self.empty = list(state["empty"]) if "empty" in state else None
        self.given, self.ended = int(state["given"]), bool(state["ended"])


class GroupByWindowNode(DatasetOp):
    """Elements gathered by key; each full group becomes a data set that a function makes of it.

    Args:
        source: gives the elements.
        key: gives an int for an element.
        reduce: makes a data set of a key and a data set of elements.
        size: gives how many elements a group of a key has.
        make: makes a data set of a list of elements.
    """

    title = "GroupByWindow"

    def __init__(
        self,
        source: DatasetOp,
        key: Callable[..., Any],
        reduce: Callable[..., Any],
        size: Callable[[Any], Any],
        make: Callable[[list[Leaves]], Any],
    ) -> None:
        self.source, self.reduce, self.size, self.make = source, reduce, size, make
        self.key = Caller(key, source)
        self.found: tuple[Any, Any] | None = None

    def reduced(self, key: int, group: list[Leaves]) -> DatasetOp:
        """The data set for a key and its elements."""
        dataset = self.reduce(structure.tensor(np.int64(key)), self.make(group))
        if not hasattr(dataset, "node"):
            raise TypeError(
                f"group_by_window: reduce_func must give a Dataset, it gave {dataset!r}"
            )
        node: DatasetOp = dataset.node
        if self.found is None:
            self.found = node.spec(), structure.template_of(node.template())
        return node

    def _facts(self) -> tuple[Any, Any]:
        if self.found is None:
            self.reduced(0, [self.key.example(self.source.spec())])
        assert self.found is not None
        return self.found

    def spec(self) -> Any:
        return structure.loose(self._facts()[0])

    def template(self) -> Any:
        return self._facts()[1]

    def stage(self) -> Stage:
        return GroupByWindowStage(self)


class GroupByWindowStage(Piped):
    """Holds the groups that are not full, and the data set that is being given."""

    def __init__(self, node: GroupByWindowNode) -> None:
        super().__init__(node.source.stage())
        self.node = node
        self.groups: dict[int, list[Leaves]] = {}
        self.giving: tuple[int, list[Leaves], InnerStage] | None = None
        self.ended, self.opened = False, 0

    def next(self) -> Leaves:
        while True:
            if self.giving is not None:
                try:
                    return self.giving[2].next()
                except StopIteration:
                    self.giving = None
            self._fill()

    def _fill(self) -> None:
        """Open the next group that is full, or at the end the next of what is left."""
        while not self.ended:
            try:
                leaves = self.source.next()
            except StopIteration:
                self.ended = True
                break
            key = int(np.asarray(self.node.key(leaves)))
            group = self.groups.setdefault(key, [])
            group.append(leaves)
            if len(group) >= self._size(key):
                self._open(key)
                return
        if not self.groups:
            raise StopIteration
        self._open(min(self.groups))

    def _size(self, key: int) -> int:
        size = int(np.asarray(self.node.size(structure.tensor(np.int64(key)))))
        if size < 1:
            raise InvalidArgumentError(f"group_by_window: the window size of key {key} is {size}")
        return size

    def _open(self, key: int) -> None:
        group = self.groups.pop(key)
        inner = InnerStage(self.node.reduced(key, group).stage(), self.opened)
        self.giving, self.opened = (key, group, inner), self.opened + 1

    def state(self) -> dict[str, Any]:
        groups = [{"key": k, "of": [list(e) for e in group]} for k, group in self.groups.items()]
        state = {**super().state(), "groups": groups, "ended": self.ended}
        state["opened"] = self.opened
        if self.giving is not None:
            key, group, inner = self.giving
            at = inner.source.state()
            state["giving"] = {"key": key, "of": [list(e) for e in group], "at": at}
        return state

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.groups = {int(g["key"]): [list(e) for e in g["of"]] for g in state["groups"]}
        self.ended, self.giving = bool(state["ended"]), None
        self.opened = int(state.get("opened", 0))  # absent in older files
        if "giving" in state:
            open_group = state["giving"]
            key, group = int(open_group["key"]), [list(e) for e in open_group["of"]]
            stage = self.node.reduced(key, group).stage()
            stage.load(open_group["at"])
            self.giving = (key, group, InnerStage(stage, max(self.opened - 1, 0)))

    def close(self) -> None:
        if self.giving is not None:
            self.giving[2].close()
        super().close()


class IgnoreErrorsNode(SameElements):
    """Elements whose making fails are left out."""

    title = "IgnoreErrors"

    def __init__(self, source: DatasetOp, tell: Callable[[Exception], None]) -> None:
        super().__init__(source)
        self.tell = tell

    def count(self) -> int:
        return UNKNOWN

    def stage(self) -> Stage:
        return IgnoreErrorsStage(self)


class IgnoreErrorsStage(Piped):
    """Goes on where an element can't be made."""

    def __init__(self, node: IgnoreErrorsNode) -> None:
        super().__init__(node.source.stage())
        self.node = node

    def next(self) -> Leaves:
        while True:
            try:
                return self.source.next()
            except StopIteration:
                raise
            except Exception as error:
                self.node.tell(error)
