"""`LSTM`, `GRU` and `RNN`, in one or both directions, with lengths of each sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import live_sizes, tensor
from trainkit.onnx.operator_rules import NodeCall, onnx_rule
from trainkit.onnx.rules.index_operators import reversed_rows
from trainkit.ops.neural import recurrence

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_TO_LSTM = (0, 2, 3, 1)  # ONNX has input, output, forget, cell; `lstm` has i, f, g, o

Function = Callable[[Tensor], Tensor]

_FUNCTIONS: tuple[Function, ...] = (ops.sigmoid, ops.tanh, ops.relu, ops.softsign, ops.softplus)
_PLAIN = dict(zip("Sigmoid,Tanh,Relu,Softsign,Softplus".split(","), _FUNCTIONS, strict=True))


def _functions(call: NodeCall, count: int) -> tuple[list[Function], bool]:
    """The activations of all directions, and whether they are those of the paper."""
    defaults = _DEFAULTS[call.op_type] * count
    names = call.list("activations", None) or defaults
    alphas = list(call.list("activation_alpha", None) or ())
    betas = list(call.list("activation_beta", None) or ())
    if len(names) != len(defaults):
        raise InvalidArgumentError(f"{len(names)} activations are given, {len(defaults)} needed")

    def drawn(values: list[float], default: float) -> float:
        return values.pop(0) if values else default

    def function(name: str) -> Function:
        usual: Function | None = _PLAIN.get(name.capitalize())
        if usual is not None:
            return usual
        if name == "leakyrelu":
            a = drawn(alphas, 0.01)
            return lambda x: ops.leaky_relu(x, a)
        if name == "elu":
            a = drawn(alphas, 1.0)
            return lambda x: ops.elu(x, a)
        if name == "thresholdedrelu":
            a = drawn(alphas, 1.0)
            return lambda x: ops.where(ops.greater(x, a), x, ops.zeros_like(x))
        scales = {"affine": (1.0, 0.0), "scaledtanh": (1.0, 1.0), "hardsigmoid": (0.2, 0.5)}
        if name not in scales:
            raise InvalidArgumentError(f"the activation {name!r} is not one of ONNX's")
        a, b = drawn(alphas, scales[name][0]), drawn(betas, scales[name][1])
        if name == "scaledtanh":
            return lambda x: a * ops.tanh(b * x)
        if name == "affine":
            return lambda x: a * x + b
        return lambda x: ops.clip(a * x + b, 0.0, 1.0)

    lower = tuple(name.lower() for name in names)
    is_usual = lower == tuple(name.lower() for name in defaults)
    return [function(name) for name in lower], is_usual


class _DirectionWeights:
    """The weights of one direction."""

    def __init__(self, call: NodeCall, w: Tensor, r: Tensor, b: Any, p: Any) -> None:
        self.kernel, self.recurrent = ops.transpose(w), ops.transpose(r)
        self.gates = _GATES[call.op_type]
        half = self.gates * int(r.shape[-1] or 0)
        self.bias = None if b is None else b[:half]
        self.recurrent_bias = None if b is None else b[half:]
        self.peepholes = None if p is None else ops.split(p, 3)

    def moved(self, x: Tensor | None, order: Sequence[int]) -> Any:
        """Columns gate by gate in another order."""
        if x is None:
            return None
        parts = ops.split(x, self.gates, axis=-1)
        return ops.concatenate([parts[i] for i in order], axis=-1)


@onnx_rule("LSTM", "GRU", "RNN")
def _recurrent(
    call: NodeCall, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, p: Any = None,
) -> Any:  # fmt: skip
    batch_first = call.flag("layout")
    direction = call.one_of("direction", "forward", _DIRECTIONS)
    count = 2 if direction == "bidirectional" else 1
    if (live_sizes(w)[0], live_sizes(r)[0]) != (count, count):
        raise InvalidArgumentError(f"{direction} weights need {count} directions")
    functions, is_usual = _functions(call, count)
    y = tensor(x) if batch_first else ops.moveaxis(tensor(x), 0, 1)
    units = r.shape[-1]
    ends = None if lengths is None else tensor(lengths)
    zero = ops.zeros((ops.shape(y)[0], units), y.dtype)
    parts = []
    for i in range(count):
        weights = _DirectionWeights(
            call, tensor(w)[i], tensor(r)[i], None if b is None else tensor(b)[i],
            None if p is None else tensor(p)[i],
        )  # fmt: skip
        start = [zero if s is None else (tensor(s)[:, i] if batch_first else tensor(s)[i])
                 for s in (h, c)]  # fmt: skip
        own = functions[i * len(functions) // count : (i + 1) * len(functions) // count]
        back = direction == "reverse" or i == 1
        parts.append(_one_direction(call, weights, y, start, ends, own, is_usual, back))
    along = 2 if batch_first else 1
    states = ops.stack([part[0] for part in parts], axis=2)  # (batch, steps, directions, units)
    states = states if batch_first else ops.transpose(states, (1, 2, 0, 3))
    lasts = [ops.stack([part[k] for part in parts], axis=along - 1) for k in (1, 2)]
    return states, *lasts[: 2 if call.op_type == "LSTM" else 1]


def _one_direction(
    call: NodeCall, weights: _DirectionWeights, y: Tensor, start: list[Tensor], ends: Tensor | None,
    functions: list[Function], is_usual: bool, back: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Hidden states (batch, steps, units) of all steps, and the last states and memories."""
    if back:
        y = ops.flip(y, 1) if ends is None else reversed_rows(y, ends)
    projected = ops.matmul(y, weights.kernel)
    if weights.bias is not None:
        projected = projected + weights.bias
    run = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[call.op_type]
    states, memories = run(call, weights, projected, start, functions, is_usual)
    last = [_last(part, first, ends) for part, first in zip((states, memories), start, strict=True)]
    if ends is not None:
        steps = ops.cast(ops.arange(ops.shape(states)[1]), "int64")[None, :, None]
        inside = ops.less(steps, ops.cast(ends, "int64")[:, None, None])
        states = ops.where(inside, states, ops.zeros_like(states))
    if back:
        states = ops.flip(states, 1) if ends is None else reversed_rows(states, ends)
    return states, last[0], last[1]


def _last(states: Tensor, first: Tensor, ends: Tensor | None) -> Tensor:
    """The state after the last step of each sequence."""
    if ends is None:
        return states[:, -1]
    rows = ops.concatenate([first[:, None], states], axis=1)
    last_steps = ops.broadcast_to(ops.cast(ends, "int64")[:, None, None], ops.shape(rows[:, :1]))
    return ops.take_along_axis(rows, last_steps, axis=1)[:, 0]


def _steps(
    projected: Tensor, start: list[Tensor], step: Callable[..., tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Hidden states and memories of all steps of a cell."""

    def one(carry: list[Tensor], x: Tensor) -> Any:
        after = list(step(x, *carry))
        return after, after

    _, (states, memories) = ops.scan(one, start, ops.moveaxis(projected, 1, 0))
    return ops.moveaxis(states, 0, 1), ops.moveaxis(memories, 0, 1)


def _bounded(call: NodeCall, x: Tensor) -> Tensor:
    bound = call.float("clip", 0.0)
    return ops.clip(x, -bound, bound) if bound else x


def _lstm(
    call: NodeCall, weights: _DirectionWeights, projected: Tensor, start: list[Tensor],
    functions: list[Function], is_usual: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if weights.recurrent_bias is not None:
        projected = projected + weights.recurrent_bias
    joined = call.flag("input_forget")
    if is_usual and weights.peepholes is None and not joined and not call.float("clip", 0.0):
        return recurrence.lstm(
            weights.moved(projected, _TO_LSTM),
            start[0],
            start[1],
            weights.moved(weights.recurrent, _TO_LSTM),
        )
    f, g, h = functions
    peep_i, peep_o, peep_f = weights.peepholes or (0.0, 0.0, 0.0)

    def step(x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        i, o, forget, cell = ops.split(x + ops.matmul(state, weights.recurrent), 4, axis=-1)
        i = f(_bounded(call, i + peep_i * memory))
        forget = 1.0 - i if joined else f(_bounded(call, forget + peep_f * memory))
        memory = forget * memory + i * g(_bounded(call, cell))
        o = f(_bounded(call, o + peep_o * memory))
        return o * h(memory), memory

    return _steps(projected, start, step)


def _gru(
    call: NodeCall, weights: _DirectionWeights, projected: Tensor, start: list[Tensor],
    functions: list[Function], is_usual: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    after = call.flag("linear_before_reset")
    bias = weights.recurrent_bias
    if not after and bias is not None:
        projected, bias = projected + bias, None
    if is_usual and not call.float("clip", 0.0):
        states = recurrence.gru(projected, start[0], weights.recurrent, bias, reset_after=after)
        return states, states
    f, g = functions
    units = weights.recurrent.shape[0]
    gates, last = weights.recurrent[:, : 2 * units], weights.recurrent[:, 2 * units :]
    zero = ops.zeros((3 * units,), projected.dtype) if bias is None else bias

    def step(x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        both = x[:, : 2 * units] + ops.matmul(state, gates) + zero[: 2 * units]
        z, r = ops.split(f(_bounded(call, both)), 2, axis=-1)
        if after:
            new = r * (ops.matmul(state, last) + zero[2 * units :])
        else:
            new = ops.matmul(r * state, last)
        new = g(_bounded(call, x[:, 2 * units :] + new))
        state = (1.0 - z) * new + z * state
        return state, state

    return _steps(projected, [start[0], start[0]], step)


def _rnn(
    call: NodeCall, weights: _DirectionWeights, projected: Tensor, start: list[Tensor],
    functions: list[Function], is_usual: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del is_usual
    if weights.recurrent_bias is not None:
        projected = projected + weights.recurrent_bias
    (f,) = functions

    def step(x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        state = f(_bounded(call, x + ops.matmul(state, weights.recurrent)))
        return state, state

    return _steps(projected, [start[0], start[0]], step)
