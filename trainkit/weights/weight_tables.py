"""`WeightTable`: the arrays of a file by name, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainkit.core.errors import FailedPreconditionError, NotFoundError
from trainkit.core.files.printable import printable_line
from trainkit.core.names import near_names


class WeightTable(Mapping[str, Any]):
    """The arrays of a file by name, each read when it is asked for.

    A table is a mapping: `table["fc.weight"]`, `len(table)`, `for name in table`. It is a context
    manager too, which closes the file at its end. Arrays may not be written to.

    Attributes:
        name: the file or folder, for errors.
        format: `"torch"`, `"safetensors"`, `"flax"`, `"npz"`, `"keras weights"` or `"checkpoint"`.
        metadata: texts that the file has about itself.
        is_ordered: whether the order of names is that in which the writer's modules stand.

    Example:
        >>> tk.weights.save({"fc.weight": np.ones((2, 3), "float32")}, "w.safetensors")
        >>> with tk.weights.open("w.safetensors") as table:
        ...     table.shapes(), table["fc.weight"].sum()
        ({'fc.weight': ((2, 3), 'float32')}, np.float32(6.0))
    """

    name: str
    format: str
    is_ordered = False
    _is_closed = False

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each array by name."""
        raise NotImplementedError

    def read(self, name: str) -> Any:
        """The array of a name that the table has."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Any]:
        """All arrays; those that share values in the file share memory where the format allows."""
        return {name: self.read(name) for name in self}

    def verify(self) -> None:
        """Check all that the format has to check: checksums and sizes.

        Raises:
            CheckpointError: the file is damaged.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give the file back; what was read stays valid."""
        if not self._is_closed:
            self._is_closed = True
            self._release()

    def _release(self) -> None:
        raise NotImplementedError

    def _require_open(self) -> None:
        # another file may have its number by now
        if self._is_closed:
            raise FailedPreconditionError(
                f"the table of {self.name} is closed; read in the `with` block, or open it again"
            )

    def __getitem__(self, name: str) -> Any:
        self._require_open()
        if name not in self.shapes():
            near = near_names(str(name), self.shapes(), likeness=0.3)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise NoSuchWeightError(f"{self.name} has no array {name!r}{hint}")
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes())

    def __len__(self) -> int:
        return len(self.shapes())

    def __contains__(self, name: object) -> bool:
        return name in self.shapes()

    def __enter__(self) -> WeightTable:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = printable_line(self.name)
        return f"<WeightTable of {name!r}: {len(self)} arrays, format {self.format!r}>"


class NoSuchWeightError(NotFoundError, KeyError):
    """A file has no array of a name."""

    __str__ = NotFoundError.__str__
