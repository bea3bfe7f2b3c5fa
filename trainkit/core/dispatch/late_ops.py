"""Operations that files below `ops` call: `late_ops.cast(x, dtype="float32")`.

A tensor that is made of tensors stacks them, a backward pass adds gradients, a loop casts its
counter; but operations are declared in `ops`, which stands on all of these. So this file, below
them, lists what they need, and each operation comes here as it is declared. Beside these, an
operation is imported from the file that declares it.
"""

from __future__ import annotations

from typing import Any

add: Any
any: Any
assert_true: Any
broadcast_to: Any
cast: Any
check_shape: Any
concatenate: Any
conj: Any
copy_to_device: Any
copy_to_device_of: Any
ensure_shape: Any
extract_sequences: Any
gather_nd: Any
get_item: Any
get_item_at: Any
identity: Any
logical_and: Any
logical_not: Any
maximum: Any
minimum: Any
multiply: Any
negative: Any
ones_like: Any
positions_from_start: Any
real: Any
reciprocal: Any
reshape: Any
reshape_like: Any
scatter_max: Any
scatter_min: Any
scatter_multiply: Any
scatter_nd_add: Any
scatter_update: Any
shape: Any
stack: Any
subtract: Any
sum: Any
sum_to_like: Any
take: Any
tensor_array_read: Any
transpose: Any
unstack: Any
zeros_like: Any

NAMES = frozenset(__annotations__)


def provide(name: str, op: Any) -> None:
    """Let files below call an operation that has been declared, if it is one of these."""
    if name in NAMES:
        globals()[name] = op
