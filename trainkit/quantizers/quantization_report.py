"""`QuantizationReport`: what `model.quantize` did to each layer."""

from __future__ import annotations

from typing import Any

_WIDTH = 65


class QuantizationReport:
    """The layers that a call of `model.quantize` quantized, and those that it left alone.

    Args:
        mode: of the call.

    Attributes:
        quantized: tuples (path, mode, name of the dtype policy).
        skipped: tuples (path, reason); the reasons are the class's attributes `SKIP_...`.
        errors: tuples (path, text), for callers that go on after errors.
    """

    SKIP_NO_SUPPORT = "no quantize support"
    SKIP_FILTERED = "filtered out"
    SKIP_ALREADY_QUANTIZED = "already quantized"
    SKIP_OUTSIDE_STRUCTURE = "outside quantization structure"

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode
        self.quantized: list[tuple[str, str, str]] = []
        self.skipped: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str]] = []

    def add_quantized(self, path: str, mode: str, scheme: str) -> None:
        """Note a layer that was quantized."""
        self.quantized.append((path, mode, scheme))

    def add_skipped(self, path: str, reason: str) -> None:
        """Note a layer that was left alone."""
        self.skipped.append((path, reason))

    def add_error(self, path: str, error: Any) -> None:
        """Note an error."""
        self.errors.append((path, str(error)))

    @property
    def num_quantized(self) -> int:
        """How many layers were quantized."""
        return len(self.quantized)

    @property
    def num_skipped(self) -> int:
        """How many were left alone."""
        return len(self.skipped)

    @property
    def num_errors(self) -> int:
        """How many errors were noted."""
        return len(self.errors)

    def skipped_by_reason(self, reason: str) -> list[str]:
        """The paths of the layers that were left alone for this reason."""
        return [path for path, skip_reason in self.skipped if skip_reason == reason]

    def summary_warning(self, max_examples: int = 5) -> str | None:
        """One text about layers that can't be quantized, `None` if there are none.

        Args:
            max_examples: how many of them it names.
        """
        unsupported = self.skipped_by_reason(self.SKIP_NO_SUPPORT)
        failed = [path for path, _ in self.errors]
        parts = [
            f"{len(paths)} layer(s) {description} (e.g. {_list_names(paths, max_examples)})."
            for paths, description in (
                (unsupported, "were skipped because they do not support quantization"),
                (failed, "reported errors"),
            )
            if paths
        ]
        if not parts:
            return None
        parts.append(
            f"Quantized {self.num_quantized} layer(s) in mode '{self.mode}'. "
            "`model.quantization_summary()` and the returned QuantizationReport have the details."
        )
        return "`model.quantize()`: " + " ".join(parts)

    def render(self) -> str:
        """The report as text of many lines."""
        lines = [f"Quantization report (mode='{self.mode}')", "=" * _WIDTH]
        lines += [f"Quantized {self.num_quantized} layer(s):"]
        lines += [f"  - {path} ({mode}): {scheme}" for path, mode, scheme in self.quantized] or [
            "  (none)"
        ]
        lines += [f"Skipped {self.num_skipped} layer(s):"]
        lines += [f"  - {path}: {reason}" for path, reason in self.skipped] or ["  (none)"]
        if self.errors:
            lines += [f"Errors on {self.num_errors} layer(s):"]
            lines += [f"  - {path}: {text}" for path, text in self.errors]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"QuantizationReport(mode={self.mode!r}, quantized={self.num_quantized}, "
            f"skipped={self.num_skipped}, errors={self.num_errors})"
        )


def _list_names(paths: list[str], limit: int) -> str:
    return ", ".join([*map(repr, paths[:limit]), *(["..."] if len(paths) > limit else [])])
