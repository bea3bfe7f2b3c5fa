"""Prefix beam search: the label sequences whose paths together are the most likely.

Source: Graves 2012, "Supervised sequence labelling with recurrent neural networks", section 7.5.
"""

from __future__ import annotations

import math
from typing import Any

Labels = tuple[int, ...]


def _log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def best_labels(chances: Any, blank: int, width: int) -> list[tuple[Labels, float]]:
    """The best label sequences of one row, each with the log of its chance, best first.

    Args:
        chances: log chances, (time, classes).
        blank: the class that stands for a blank.
        width: how many prefixes are kept after each step.
    """
    # prefix -> log chance of its paths that end in a blank, and of those that end in its last label
    beams: dict[Labels, tuple[float, float]] = {(): (0.0, -math.inf)}
    for step in chances.tolist():
        grown: dict[Labels, tuple[float, float]] = {}
        for prefix, (in_blank, in_label) in beams.items():
            either = _log_sum(in_blank, in_label)
            _put(grown, prefix, either + step[blank], -math.inf)
            for label, score in enumerate(step):
                if label == blank:
                    continue
                if prefix and label == prefix[-1]:
                    _put(grown, prefix, -math.inf, in_label + score)
                    _put(grown, (*prefix, label), -math.inf, in_blank + score)
                else:
                    _put(grown, (*prefix, label), -math.inf, either + score)
        beams = dict(sorted(grown.items(), key=lambda item: -_log_sum(*item[1]))[:width])
    return [(prefix, _log_sum(*both)) for prefix, both in beams.items()]


def _put(
    beams: dict[Labels, tuple[float, float]], prefix: Labels, in_blank: float, in_label: float
) -> None:
    before = beams.get(prefix, (-math.inf, -math.inf))
    beams[prefix] = _log_sum(before[0], in_blank), _log_sum(before[1], in_label)
