"""What a diagnosis says."""

from __future__ import annotations

import dataclasses
from typing import Any

from trainkit.core.files.printable import printable_line

KINDS = (
    "nan", "loss jump", "gradient", "high rate", "low rate", "small updates", "dead units",
    "batch statistics", "validation", "order", "duplicates", "waiting", "labels", "scale",
    "imbalance",
)  # fmt: skip
"""What a finding can be about."""


@dataclasses.dataclass
class Finding:
    """Something that went wrong in a run.

    Attributes:
        kind: one of `KINDS`.
        sentence: what happened, with numbers.
        step: where it begins, `None` where it is so throughout.
        command: to look closer.
        facts: the numbers by name.
    """

    kind: str
    sentence: str
    step: int | None = None
    command: str = ""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class RunDiagnosis:
    """What happened in a run.

    Attributes:
        folder: of the run.
        findings: what went wrong, the gravest first; empty for a run that is well.
        unknown: what could be said with more, and what it takes, a line each.
    """

    folder: str
    findings: list[Finding]
    unknown: list[str]

    def __str__(self) -> str:
        lines: list[str] = []
        for finding in self.findings:
            lines.append(f"- {printable_line(finding.sentence)}")
            if finding.command:
                lines.append(f"    look closer: {printable_line(finding.command)}")
        if not lines:
            lines.append(f"nothing unusual in {printable_line(self.folder)}")
        if self.unknown:
            lines.append("not looked at:")
            lines += [f"  {printable_line(line)}" for line in self.unknown]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return dataclasses.asdict(self)
