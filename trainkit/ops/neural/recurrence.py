"""LSTM and GRU over whole sequences, each one operation with a hand-written gradient.

The products of the inputs with their kernel are made for all steps at once, before; an operation
here takes them as `projected`. Gates use sigmoid and tanh.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMMON, COMPOSITE, WHOLE_KERNEL, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.elementwise.half_casts_tuned import run_in_float32
from trainkit.kernels.recurrent import recurrent_gpu, recurrent_reference, recurrent_tuned
from trainkit.ops.arrays.concat_and_split import split, stack, unstack
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import add, multiply, subtract, tanh
from trainkit.ops.neural.activations import sigmoid


def _widen(function: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """What `function` gives of these, 16-bit floats being float32 to it; `None` stays `None`."""
    parts = function(*map(widen_halves, arrays), **settings)
    return parts and tuple(part.astype(arrays[0].dtype, copy=False) for part in parts)


def _on_floats(tuned: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """What a compiled kernel gives, of 16-bit floats as they are where it reads these."""
    if settings.get("reset_after", True) and recurrent_tuned.has_kernel(arrays[0].dtype):
        return tuned(*arrays, **settings)
    return run_in_float32(tuned, *arrays, **settings)


def _check(
    op: str, count: int, projected: Any, states: tuple[Any, ...], kernel: Any, bias: Any = None
) -> None:
    units = kernel.shape[0]
    fits = (
        len(projected.shape) == 3
        and len(kernel.shape) == 2
        and all(len(s.shape) == 2 and s.shape[1] in (None, units) for s in states)
        and kernel.shape[1] in (None, count * (units or 0))
        and projected.shape[2] in (None, kernel.shape[1])
        and len({n.shape[0] for n in (projected, *states)} - {None}) <= 1
        and (bias is None or (len(bias.shape) == 1 and bias.shape[0] in (None, kernel.shape[1])))
    )
    if not fits:
        shapes = [("projected", projected), *((f"state {i}", s) for i, s in enumerate(states))]
        shapes += [("kernel", kernel)] + [("bias", bias)] * (bias is not None)
        shape_lines = "\n".join(f"  {name:<9} {tuple(x.shape)}" for name, x in shapes)
        and_bias = "" if bias is None else f", and a bias ({count} units,)"
        raise ShapeError(
            f"{op}: projected must be (batch, steps, {count} units), each state (batch, units), "
            f"and the recurrent kernel (units, {count} units){and_bias}.\n{shape_lines}"
        )


# ------------------------------------------------------------------ LSTM


def _lstm_rule(projected: Spec, h: Spec, c: Spec, kernel: Spec) -> Any:
    _check("lstm", 4, projected, (h, c), kernel)
    dtype = dtypes.result_type(projected, h, c, kernel)
    states = Spec((*projected.shape[:2], kernel.shape[0]), dtype)
    return states, states, Spec(projected.shape, dtype)


def compiled_lstm(
    projected: Array, h: Array, c: Array, kernel: Array, *, hidden_alone: bool = False
) -> Any:
    """What the kernel gives, `None` where the body is to do it; see `recurrent_tuned.lstm`."""
    _check("lstm", 4, projected, (h, c), kernel)
    if hidden_alone:  # of float32, and nothing else to cast
        return recurrent_tuned.lstm(projected, h, c, kernel, hidden_alone=True)
    return _on_floats(recurrent_tuned.lstm, projected, h, c, kernel)


def _lstm_on_gpu(xp: ArrayModule, projected: Array, h: Array, c: Array, kernel: Array) -> Any:
    _check("lstm", 4, projected, (h, c), kernel)
    return recurrent_gpu.lstm(xp, projected, h, c, kernel)


@primitive(
    _lstm_rule,
    name="lstm",
    promotion=COMMON,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(compiled_lstm, on_gpu=(_lstm_on_gpu,)),
)
def _lstm(xp: ArrayModule, projected: Array, h: Array, c: Array, kernel: Array) -> Any:
    """Hidden states, memories and gates of all steps."""
    _check("lstm", 4, projected, (h, c), kernel)
    return _widen(partial(recurrent_reference.lstm, xp), projected, h, c, kernel)


def _compiled_lstm_gradient(
    by_hidden: Array, by_memory: Array | None, projected: Array, *saved: Array
) -> Any:
    return _on_floats(recurrent_tuned.lstm_gradient, by_hidden, by_memory, *saved)


def _lstm_gradient_on_gpu(
    xp: ArrayModule, by_hidden: Array, by_memory: Array | None, projected: Array, *saved: Array
) -> Any:
    return recurrent_gpu.lstm_gradient(xp, by_hidden, by_memory, *saved)


@primitive(
    lambda by_hidden, by_memory, projected, h, c, kernel, *saved: tuple(
        Spec(s.shape, by_hidden.dtype) for s in (projected, h, c, kernel)
    ),
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(_compiled_lstm_gradient, on_gpu=(_lstm_gradient_on_gpu,)),
)
def lstm_gradient(
    xp: ArrayModule,
    by_hidden: Array,
    by_memory: Array | None,
    projected: Array,
    h: Array,
    c: Array,
    kernel: Array,
    hidden: Array,
    memory: Array,
    gates: Array,
) -> Any:
    """What an LSTM sends back to the projected inputs, the first h and c, and the kernel."""
    function = partial(recurrent_reference.lstm_gradient, xp)
    return _widen(function, by_hidden, by_memory, h, c, kernel, hidden, memory, gates)


def _lstm_formula(projected: Tensor, h: Tensor, c: Tensor, kernel: Tensor) -> Any:
    """Hidden states and memories in plain operations."""
    hidden, memory = [], []
    for frame in unstack(projected, axis=1):
        i, f, g, o = split(add(frame, matmul(h, kernel)), 4, axis=-1)
        c = add(multiply(sigmoid(f), c), multiply(sigmoid(i), tanh(g)))
        h = multiply(sigmoid(o), tanh(c))
        hidden.append(h)
        memory.append(c)
    return stack(hidden, axis=1), stack(memory, axis=1)


def _lstm_joint(g: Any, y: Any, *inputs: Tensor) -> Any:
    """The gates are a result for the gradient alone, so nothing comes back through them."""
    by_hidden = zeros_like(y[0]) if g[0] is None else g[0]
    return lstm_gradient(by_hidden, g[1], *inputs, *y)


def _lstm_second(gg: Any, out: Any, by_hidden: Tensor, by_memory: Any, *inputs: Tensor) -> Any:
    gradients = by_hidden, zeros_like(by_hidden) if by_memory is None else by_memory
    by_given, by_inputs = replayed_second_gradient(_lstm_formula, gradients, inputs[:4], gg)
    return (*by_given, *by_inputs, None, None, None)


_lstm.joint_gradient(_lstm_joint)
_lstm.primitive.joint_sparse = True  # often c is not looked at
lstm_gradient.joint_gradient(_lstm_second)


def lstm(projected: Any, hidden: Any, memory: Any, recurrent_kernel: Any) -> tuple[Tensor, Tensor]:
    """A long short-term memory over all steps of a sequence.

    i, f, o = sigmoid(.), g = tanh(.), c' = f * c + i * g, h' = o * tanh(c'), each dot being a
    quarter of projected + h @ recurrent_kernel. Source: Hochreiter and Schmidhuber 1997.

    Args:
        projected: (batch, steps, 4 units): inputs times their kernel plus bias, quarters i, f, g,
            o.
        hidden: h before the first step, (batch, units).
        memory: c before the first step, (batch, units).
        recurrent_kernel: (units, 4 units).

    Returns:
        h and c after each step, (batch, steps, units).

    Raises:
        ShapeError: the shapes do not fit.
    """
    states, memories, _ = _lstm(as_tensor(projected), hidden, memory, recurrent_kernel)
    return states, memories


# ------------------------------------------------------------------ GRU


def _gru_rule(projected: Spec, h: Spec, kernel: Spec, bias: Any, reset_after: bool = True) -> Any:
    _check("gru", 3, projected, (h,), kernel, bias)
    units = kernel.shape[0]
    dtype = dtypes.result_type(projected, h, kernel)
    gates = (*projected.shape[:2], None if units is None else 4 * units)
    return Spec((*projected.shape[:2], units), dtype), Spec(gates, dtype)


def compiled_gru(
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    *,
    reset_after: bool = True,
    hidden_alone: bool = False,
) -> Any:
    """What the kernel gives, `None` where the body is to do it; see `recurrent_tuned.gru`."""
    _check("gru", 3, projected, (h,), kernel, bias)
    if hidden_alone:
        return recurrent_tuned.gru(projected, h, kernel, bias, reset_after, hidden_alone=True)
    return _on_floats(recurrent_tuned.gru, projected, h, kernel, bias, reset_after=reset_after)


def _gru_on_gpu(
    xp: ArrayModule,
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    *,
    reset_after: bool = True,
) -> Any:
    _check("gru", 3, projected, (h,), kernel, bias)
    return recurrent_gpu.gru(xp, projected, h, kernel, bias, reset_after)


@primitive(
    _gru_rule,
    name="gru",
    promotion=COMMON,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(compiled_gru, on_gpu=(_gru_on_gpu,)),
)
def _gru(
    xp: ArrayModule,
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    *,
    reset_after: bool = True,
) -> Any:
    """Hidden states and gates of all steps."""
    _check("gru", 3, projected, (h,), kernel, bias)
    function = partial(recurrent_reference.gru, xp)
    return _widen(function, projected, h, kernel, bias, reset_after=reset_after)


def _gru_gradient_rule(
    by_hidden: Spec, projected: Spec, h: Spec, kernel: Spec, *saved: Any, reset_after: bool = True
) -> Any:
    """Gradients by the projected inputs, the first state, the kernel and its bias, like these."""
    shapes = (projected.shape, h.shape, kernel.shape, kernel.shape[1:])
    return tuple(Spec(shape, by_hidden.dtype) for shape in shapes)


def _compiled_gru_gradient(
    by_hidden: Array,
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    *saved: Array,
    reset_after: bool = True,
) -> Any:
    function = recurrent_tuned.gru_gradient
    return _on_floats(function, by_hidden, h, kernel, *saved, reset_after=reset_after)


@primitive(
    _gru_gradient_rule,
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(
        _compiled_gru_gradient,
        on_gpu=(
            lambda xp, by_hidden, projected, h, kernel, bias, hidden, gates, *, reset_after=True: (
                recurrent_gpu.gru_gradient(xp, by_hidden, h, kernel, hidden, gates, reset_after)
            ),
        ),
    ),
)
def gru_gradient(
    xp: ArrayModule,
    by_hidden: Array,
    projected: Array,
    h: Array,
    kernel: Array,
    bias: Array | None,
    hidden: Array,
    gates: Array,
    *,
    reset_after: bool = True,
) -> Any:
    """What a GRU sends back to the projected inputs, the first h, the kernel and its bias."""
    function = partial(recurrent_reference.gru_gradient, xp)
    return _widen(function, by_hidden, h, kernel, hidden, gates, reset_after=reset_after)


def _gru_formula(projected: Tensor, h: Tensor, kernel: Tensor, bias: Any) -> Tensor:
    """Hidden states in plain operations, the reset gate after the product."""
    hidden = []
    for frame in unstack(projected, axis=1):
        x_z, x_r, x_new = split(frame, 3, axis=-1)
        h_z, h_r, h_new = split(add(matmul(h, kernel), bias), 3, axis=-1)
        update = sigmoid(add(x_z, h_z))
        new = tanh(add(x_new, multiply(sigmoid(add(x_r, h_r)), h_new)))
        h = add(new, multiply(update, subtract(h, new)))
        hidden.append(h)
    return stack(hidden, axis=1)


def _reset_before_formula(projected: Tensor, h: Tensor, kernel: Tensor, bias: Any) -> Tensor:
    """The same with the reset gate before the product; the bias takes no part."""
    hidden, units = [], kernel.shape[0]
    by_gates, by_new = split(kernel, [2 * units], axis=-1)
    for frame in unstack(projected, axis=1):
        x_gates, x_new = split(frame, [2 * units], axis=-1)
        update, reset = split(sigmoid(add(x_gates, matmul(h, by_gates))), 2, axis=-1)
        new = tanh(add(x_new, matmul(multiply(reset, h), by_new)))
        h = add(new, multiply(update, subtract(h, new)))
        hidden.append(h)
    return stack(hidden, axis=1)


def _gru_joint(
    g: Any,
    y: Any,
    projected: Tensor,
    h: Tensor,
    kernel: Tensor,
    bias: Any,
    *,
    reset_after: bool = True,
) -> Any:
    *parts, by_bias = gru_gradient(g[0], projected, h, kernel, bias, *y, reset_after=reset_after)
    return (*parts, None if bias is None else by_bias)


def _gru_second(
    gg: Any, out: Any, by_hidden: Tensor, *inputs: Any, reset_after: bool = True
) -> Any:
    projected, h, kernel, bias = inputs[:4]
    # Without a bias zeros stand in the formula for what its gradient sends back.
    bias_or_zeros = multiply(out[3], 0.0) if bias is None else bias
    formula = _gru_formula if reset_after else _reset_before_formula
    by_hidden, by_inputs = replayed_second_gradient(
        formula, by_hidden, (projected, h, kernel, bias_or_zeros), gg
    )
    by_bias = None if bias is None else by_inputs[3]
    return by_hidden, *by_inputs[:3], by_bias, None, None


_gru.joint_gradient(_gru_joint)
gru_gradient.joint_gradient(_gru_second)


def gru(
    projected: Any,
    hidden: Any,
    recurrent_kernel: Any,
    recurrent_bias: Any = None,
    reset_after: bool = True,
) -> Tensor:
    """A gated recurrent unit over all steps of a sequence.

    z, r = sigmoid(.), new = tanh(x_new + r * h_new), h' = z * h + (1 - z) * new, where x and h
    stand for thirds of projected and of h @ recurrent_kernel + recurrent_bias. With
    `reset_after=False` h_new is r * h times the last third of the kernel, which r does not
    multiply again, as in the paper. Source: Cho et al. 2014, arXiv:1406.1078.

    Args:
        projected: (batch, steps, 3 units): inputs times their kernel plus bias, thirds z, r, new.
        hidden: h before the first step, (batch, units).
        recurrent_kernel: (units, 3 units).
        recurrent_bias: (3 units,), or `None`.
        reset_after: whether r multiplies after the product.

    Returns:
        h after each step, (batch, steps, units).

    Raises:
        ShapeError: the shapes do not fit.
        InvalidArgumentError: there is a recurrent bias and `reset_after` is false.
    """
    if recurrent_bias is not None and not reset_after:
        raise InvalidArgumentError(
            "gru: with reset_after=False there is one bias, which belongs to `projected`; "
            "recurrent_bias must be None"
        )
    states, _ = _gru(
        as_tensor(projected), hidden, recurrent_kernel, recurrent_bias, reset_after=reset_after
    )
    result: Tensor = states
    return result
