"""Which of the processes that train a model this is, for callbacks that write."""

from __future__ import annotations

from typing import Any


def rank_of(model: Any) -> int:
    """The number of this process among those that train a model; 0 for the first, or alone."""
    strategy = getattr(model, "distribute_strategy", None)
    return int(getattr(strategy, "rank", 0))


def wait_for_rank_0(model: Any, action: str) -> None:
    """Go on once all ranks are here, so that what rank 0 has written is there for all of them.

    Args:
        model: the model that is trained.
        action: what is done then, in words.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        strategy.group.barrier(action)
