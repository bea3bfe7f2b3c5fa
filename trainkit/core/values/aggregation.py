"""How replicas of a variable come together."""

from __future__ import annotations

import enum
from typing import Any

from trainkit.core.errors import InvalidArgumentError


class VariableAggregation(enum.Enum):
    """How replicas of a variable come together after a step of a `tk.distribute.Strategy`.

    Attributes:
        NONE: the first replica's value is taken.
        SUM: what each replica has added to the value is added up.
        MEAN: the mean of the replicas' values is taken.
        ONLY_FIRST_REPLICA: the first replica's value is taken.

    Example:
        >>> w = tk.Variable(1.0, aggregation=tk.VariableAggregation.MEAN)
        >>> float(w)
        1.0
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


AGGREGATIONS = tuple(member.name.lower() for member in VariableAggregation)
"""The names that Keras has for them."""


def aggregation_name(aggregation: Any) -> str:
    """The same as Keras calls it.

    Args:
        aggregation: `"none"`, `"sum"`, `"mean"`, `"only_first_replica"`, a `VariableAggregation`,
            or `None` for `"none"`.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    if isinstance(aggregation, VariableAggregation):
        return aggregation.name.lower()
    name = "none" if aggregation is None else aggregation
    if not isinstance(name, str) or name not in AGGREGATIONS:
        raise InvalidArgumentError(
            f"aggregation must be one of {', '.join(map(repr, AGGREGATIONS))} or a "
            f"VariableAggregation, got {aggregation!r}"
        )
    return name
