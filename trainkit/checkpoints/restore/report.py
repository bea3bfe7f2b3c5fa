"""`Report`: how a file and the objects differ, as a tree by path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trainkit.core.names import near_names

MEANINGS = {
    "missing": "not in the file",
    "unused": "in the file only",
    "other shape": "other shape",
    "other dtype": "other dtype",
    "other optimizer": "other optimizer",
    "other number": "other number",
}
_COMPARED = 300


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        kind: `"missing"` (an object has no value in the file), `"unused"` (a value has no object),
            `"other shape"`, `"other dtype"`, `"other optimizer"` or `"other number"` of parts.
        path: where, such as `"model/head/kernel"`.
        text: the two sides.
        nearest: a path on the other side that may be meant, or `""`.
    """

    kind: str
    path: str
    text: str
    nearest: str = ""

    def line(self) -> str:
        """The difference without its path."""
        hint = f"; nearest: '{self.nearest}'" if self.nearest else ""
        return f"{MEANINGS[self.kind]}: {self.text}{hint}"


class Report:
    """All differences between a file and the objects that are to take its values.

    `str(report)` shows them as a tree.

    Attributes:
        name: the file.
        differences: in the order of their paths.
    """

    def __init__(self, name: str, differences: Iterable[Difference]) -> None:
        self.name = name
        self.differences = sorted(_with_nearest(list(differences)), key=lambda d: d.path.split("/"))

    def of_kind(self, kind: str) -> list[Difference]:
        """The differences of one kind."""
        return [item for item in self.differences if item.kind == kind]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        if not self.differences:
            return f"{self.name} and the objects agree"
        counts = ", ".join(
            f"{len(self.of_kind(kind))} {text}"
            for kind, text in MEANINGS.items()
            if self.of_kind(kind)
        )
        return "\n".join([f"{self.name} and the objects differ ({counts}):", *self._tree()])

    __repr__ = __str__

    def _tree(self) -> list[str]:
        """One line for each group and each difference, further in the deeper they are."""
        lines = []
        above: list[str] = []
        for item in self.differences:
            names = item.path.split("/")
            shared = 0
            while shared < min(len(above), len(names) - 1) and above[shared] == names[shared]:
                shared += 1
            for depth in range(shared, len(names) - 1):
                lines.append("  " * (depth + 1) + names[depth])
            lines.append("  " * len(names) + f"{names[-1]:<12}  {item.line()}")
            above = names[:-1]
        return lines


def _with_nearest(differences: list[Difference]) -> list[Difference]:
    """Missing and unused values that look alike, each with the other's path as a hint."""
    missing = [item for item in differences if item.kind == "missing"][:_COMPARED]
    unused = [item for item in differences if item.kind == "unused"][:_COMPARED]
    hints = {id(item): _nearest(item, unused) for item in missing}
    hints |= {id(item): _nearest(item, missing) for item in unused}
    return [replace(item, nearest=hints.get(id(item), "")) for item in differences]


def _nearest(item: Difference, others: list[Difference]) -> str:
    """The likeliest path among `others`: with the same shape and dtype where there is one."""
    alike = [other.path for other in others if other.text == item.text]
    near = near_names(item.path, alike, 1, 0.4) or near_names(
        item.path, [other.path for other in others], 1, 0.7
    )
    return near[0] if near else ""
