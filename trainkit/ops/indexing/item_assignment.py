"""`v[...].assign(x)`: TensorFlow's assignment to elements of a variable, eagerly and in graphs."""

from __future__ import annotations

from typing import Any

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import INDEXING
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.ops.indexing import index_keys
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.indexing.index_keys import Key
from trainkit.ops.math.elementwise import add, subtract
from trainkit.ops.math.reductions import broadcast_like


@primitive(lambda x, value, *parts, key: x, name="with_items", semantics=INDEXING)
def with_items(xp: ArrayModule, x: Array, value: Array, *parts: Array, key: Key) -> Array:
    """`x` with `value` at `[key]`, which names no element twice."""
    out = x.copy()
    live = index_keys.with_parts(xp, x, key, parts) if parts else index_keys.plain(key)
    if parts:
        index_keys.checked(xp, x, live)
    out[live] = value
    return out


def _gradient(g: Tensor, y: Any, x: Tensor, value: Tensor, *parts: Tensor, key: Key) -> Any:
    zeros = late_ops.zeros_like(value, dtype=None)
    pick = late_ops.get_item_at if parts else late_ops.get_item
    picked = pick(g, *parts, key=key)
    return (with_items(g, zeros, *parts, key=key), picked, *[None] * len(parts))


with_items.joint_gradient(_gradient)
with_items.declare(stackable=True)


class _Slice:
    """What `v[key]` remembers: where its elements came from."""

    __slots__ = ("key", "variable")

    def __init__(self, variable: Variable, key: Any) -> None:
        self.variable = variable
        self.key = key

    def _split_key(self) -> tuple[Key, tuple[Tensor, ...]]:
        items, parts = index_keys.compiled(self.key)
        if any(len(part.shape) and part.dtype.is_integer for part in parts):
            raise InvalidArgumentError(
                f"variable {self.variable.name!r}: elements picked by a list of positions can't be "
                "assigned, they may be the same; use scatter_nd_update"
            )
        return items, parts

    def store(self, like: Tensor, value: Any, operation: Any) -> Variable:
        """Assign `value`, or the elements now and `value` combined by `operation`."""
        variable = self.variable
        tensor = value if isinstance(value, Tensor) else convert_to_tensor(value, variable.dtype)
        if tensor.dtype != variable.dtype or not _broadcasts(tensor.shape, like.shape):
            raise InvalidArgumentError(
                f"variable {variable.name!r}: the elements to assign have shape "
                f"{tuple(like.shape)} and dtype {variable.dtype.name}, the value has shape "
                f"{tuple(tensor.shape)} and dtype {tensor.dtype.name}; give a value of "
                "that shape, or one that broadcasts to it"
            )
        if tuple(tensor.shape) != tuple(like.shape):
            tensor = broadcast_like(tensor, like)
        now = variable.value()
        items, parts = self._split_key()
        if operation is not None:
            tensor = operation(get_item(now, self.key), tensor)
        return variable.assign(with_items(now, tensor, *parts, key=items))


def _broadcasts(dims: Any, target: Any) -> bool:
    """Whether a value of the shape `dims` fills one of the shape `target`, as far as known."""
    pairs = zip(reversed(dims), reversed(target), strict=False)
    return len(dims) <= len(target) and all(None in p or p[0] in (1, p[1]) for p in pairs)


def _assigner(operation: Any, name: str) -> property:
    """The property of tensors that assigns to the elements a tensor was picked from."""

    def get_assigner(self: Tensor) -> Any:
        try:
            origin = self._origin
        except AttributeError:
            raise AttributeError(
                f"a tensor never changes, so it has no {name!r}; `v[key].{name}(x)` changes "
                "elements of a tk.Variable, tk.tensor_scatter_nd_update gives a new tensor"
            ) from None

        def assign(value: Any, use_locking: bool = False, name: Any = None) -> Variable:
            """Replace the elements of the variable that this tensor was picked from."""
            result: Variable = origin.store(self, value, operation)
            return result

        return assign

    return property(get_assigner, doc=f"`v[key].{name}(x)` changes the elements of a variable.")


def _variable_item(self: Variable, key: Any) -> Tensor:
    """Elements of the value now; `v[key].assign(x)` replaces them."""
    y = get_item(self.value(), key)
    y._origin = _Slice(self, key)
    return y


Variable.__getitem__ = _variable_item  # type: ignore[method-assign, assignment]
for _name, _how in (("assign", None), ("assign_add", add), ("assign_sub", subtract)):
    setattr(Tensor, _name, _assigner(_how, _name))
