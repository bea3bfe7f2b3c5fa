"""`Finding`, what a check has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

LEVELS = ("ok", "note", "warning", "problem")
"""From what is as it should be to what does not work; a warning costs speed or comfort."""


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        level: one of `LEVELS`.
        text: what was found.
        mend: the command that changes it; empty where none is needed or known.
        facts: numbers and names behind the text, for programs.
        area: what was looked at; filled in from the check's name.
    """

    level: str
    text: str
    mend: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    area: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


Check = Callable[[], Iterable[Finding]]


def findings_of(area: str, check: Check) -> list[Finding]:
    """What a check finds; a check that fails is a finding too."""
    findings: list[Finding] = []
    try:
        findings.extend(check())
    except Exception as error:  # a doctor that falls ill helps nobody
        text = f"can't be looked at: {type(error).__name__}: {error}"
        findings.append(Finding("problem", text))
    return [Finding(f.level, f.text, f.mend, f.facts, area) for f in findings]
