"""What holds memory when there is not enough of it: weights, slots and outputs, layer by layer."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainkit.core import nest
from trainkit.core.errors import ResourceExhaustedError
from trainkit.layers.base import tracking
from trainkit.layers.base.error_context import shown_kind
from trainkit.models.summarizing import size_text

_MOST_ROWS = 8
_FLOAT32_BYTES = 4


class Holding(NamedTuple):
    """What a layer holds, in bytes.

    Attributes:
        name: of the layer, with its class.
        weights: its own weights.
        training: their gradients, and what the optimizer keeps for them.
        outputs: the outputs for a batch, which a tape keeps for the gradients.
    """

    name: str
    weights: int
    training: int
    outputs: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.training + self.outputs


def holdings(model: Any, batch_size: int, training: bool) -> list[Holding]:
    """What each layer holds, the largest first.

    Args:
        model: with layers that are built.
        batch_size: what an unknown size in an output's shape stands for.
        training: whether gradients and slots count.
    """
    slots: dict[int, int] = {}
    if training and model.optimizer is not None:
        for _, weight, slot in model.optimizer.slot_variables():
            slots[id(weight)] = slots.get(id(weight), 0) + _bytes_of(slot)
    rows = []
    for layer in _leaves(model):
        own = tracking.own_variables(layer)
        weights = sum(map(_bytes_of, own))
        trained = [v for v in own if v.trainable] if training else []
        training_bytes = sum(_bytes_of(v) + slots.get(id(v), 0) for v in trained)
        outputs = _output_bytes(layer, batch_size)
        rows.append(
            Holding(f"{layer.name} ({shown_kind(layer)})", weights, training_bytes, outputs)
        )
    return sorted(rows, key=lambda holding: -holding.total)


def _leaves(model: Any) -> list[Any]:
    leaves = []
    for layer in model.layers:
        leaves += _leaves(layer) if getattr(layer, "layers", None) else [layer]
    return leaves


def _bytes_of(variable: Any) -> int:
    return int(variable.size) * int(variable.dtype.size)


def _output_bytes(layer: Any, batch_size: int) -> int:
    call = layer.__dict__["_symbolic_call"]
    if call is not None:
        shapes = [(tuple(y.shape), y.dtype.size) for y in nest.flatten(call[1])]
    else:
        build_shapes = layer.__dict__.get("_build_shapes")
        try:
            shape = layer.compute_output_shape(**build_shapes) if build_shapes else ()
        except Exception:  # a layer that can't say before it is called
            shape = ()
        shapes = [(shape, _FLOAT32_BYTES)] if isinstance(shape, tuple) and shape else []
    total = 0
    for shape, size in shapes:
        count = 1
        for n in shape:
            count *= batch_size if n is None else int(n)
        total += count * size
    return total


def out_of_memory(model: Any, method: str, error: MemoryError) -> ResourceExhaustedError:
    """An error that says which layers hold the memory."""
    batch_size = _batch_size(error)
    rows = holdings(model, batch_size or 1, method == "fit")
    where = getattr(error, "_layer_text", "")
    head = f"{method} of model {model.name!r} ran out of memory{' in ' + where if where else ''}"
    sizes = f" for a batch of {batch_size}" if batch_size else ""
    lines = [f"{head}: {error}", f"About what the layers hold{sizes}, the largest first:"]
    width = max([len(row.name) for row in rows[:_MOST_ROWS]], default=0)
    for row in rows[:_MOST_ROWS]:
        lines.append(
            f"  {row.name:{width}}  weights {size_text(row.weights)}, gradients and optimizer "
            f"{size_text(row.training)}, outputs {size_text(row.outputs)}"
        )
    if len(rows) > _MOST_ROWS:
        remaining_bytes = sum(row.total for row in rows[_MOST_ROWS:])
        lines.append(f"  {len(rows) - _MOST_ROWS} more layers  {size_text(remaining_bytes)}")
    lines.append(f"In all {size_text(sum(row.total for row in rows))}. A smaller batch_size helps.")
    return ResourceExhaustedError("\n".join(lines))


def _batch_size(error: BaseException) -> int | None:
    """The size of the batch that a step was called with, from the frames of the error."""
    trace = error.__traceback__
    while trace is not None:
        data = trace.tb_frame.f_locals.get("data")
        if trace.tb_frame.f_code.co_name in ("__call__", "train_step", "test_step", "predict_step"):
            for leaf in nest.flatten(data):
                shape = getattr(leaf, "shape", None)
                if shape is not None and len(shape):
                    return int(shape[0])
        trace = trace.tb_next
    return None
