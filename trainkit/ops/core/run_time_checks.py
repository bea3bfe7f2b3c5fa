"""What a graph checks each time it runs."""

from __future__ import annotations

from typing import Any

from trainkit.core import devices
from trainkit.core.dispatch.facets import MESSAGE, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError


@primitive(
    lambda *inputs, message: (),
    name="assert_true",
    effect=Effect("it raises", saved=True),
    semantics=MESSAGE,
    export=True,
)
def assert_true(xp: Any, condition: Any, *values: Any, message: str) -> tuple[Any, ...]:
    """Raise unless all elements of `condition` hold."""
    if not bool(condition.all()):
        texts = [f"\n  {devices.to_numpy(x)!r}" for x in values]
        raise InvalidArgumentError(message + "".join(texts))
    return ()


assert_true.declare(batch=one_by_one("the error shows the values of one item"))
