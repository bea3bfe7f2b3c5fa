"""What `_native.pyx` gives to `trainkit.core.dispatch.native`, which says what it is for."""

from collections.abc import Callable
from typing import Any

VERSION: int

def bind(
    tensor: type,
    variable: type,
    trace_state: Any,
    wide: list[Any],
    large: int,
    errors: tuple[type[BaseException], ...],
    call: Callable[..., Any],
    wrapped: Callable[..., Any],
) -> None: ...
def bind_tape(tape: type) -> None: ...
def trust_counts(trusted: bool) -> None: ...
def cubes(x: Any) -> Any: ...
def squared_distances(x: Any, centre: float) -> Any: ...
def row_sums(x: Any) -> Any: ...
def row_products(x: Any) -> Any: ...
def has_nan(x: Any) -> bool | None: ...
def sole_array(variable: Any) -> Any: ...
def switch(on: bool) -> bool: ...
def is_on() -> bool: ...
def unary_ufunc(primitive: Any, reference: Callable[..., Any]) -> Callable[..., Any]: ...
def binary_ufunc(primitive: Any, reference: Callable[..., Any]) -> Callable[..., Any]: ...
def unary(
    primitive: Any, reference: Callable[..., Any], floats_only: bool
) -> Callable[..., Any]: ...
def binary(
    primitive: Any, reference: Callable[..., Any], one_dtype: bool
) -> Callable[..., Any]: ...
def general(
    primitive: Any, reference: Callable[..., Any], one_dtype: bool, floats_only: bool
) -> Callable[..., Any]: ...
def matmul(primitive: Any, reference: Callable[..., Any], most: int) -> Callable[..., Any]: ...

class CompiledVjp:
    reference: Callable[..., Any]
    def __init__(self, reference: Callable[..., Any], rules: Any, summed: Any) -> None: ...

def backward_pass(
    tracked: dict[Any, Any],
    grads: dict[Any, Any],
    needed: Any,
    kept: set[Any],
    vjps_of: Callable[..., Any],
    of_many: Callable[..., Any],
    other: Callable[..., Any],
    on_tensors: Callable[..., Any],
) -> Any: ...
def usual_lines(
    waiting: list[Any],
    index: int,
    reader: Any,
    names: list[str],
    head: bytes,
    ready: list[bytes],
    sha256: Callable[..., Any],
    room: int,
) -> tuple[int, bytes]: ...
def usual_facts(
    now: float,
    steps: int,
    epoch: int,
    waited: float,
    batches: list[Any],
    logs: Any,
    optimizer: Any,
) -> tuple[Any, ...] | None: ...
