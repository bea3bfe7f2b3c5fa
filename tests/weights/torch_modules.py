"""What PyTorch's modules compute, by the formulas of its documentation, in NumPy's float64.

Weights are those of a `state_dict`, in its layouts; images have their channels first.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def linear(state, base, x):
    y = x @ state[f"{base}.weight"].T
    return y + state[f"{base}.bias"] if f"{base}.bias" in state else y


def conv(state, base, x, groups=1):
    """A convolution of any rank, without padding: (batch, in, ...) to (batch, out, ...)."""
    weight = state[f"{base}.weight"]
    out, each, *window = weight.shape
    windows = np.lib.stride_tricks.sliding_window_view(x, window, tuple(range(2, x.ndim)))
    parts = []
    for group in range(groups):
        part = windows[:, group * each : (group + 1) * each]
        own = weight[group * (out // groups) : (group + 1) * (out // groups)]
        axes = [1, *range(x.ndim, 2 * x.ndim - 2)]
        y = np.tensordot(part, own, (axes, list(range(1, own.ndim))))
        parts.append(np.moveaxis(y, -1, 1))
    y = np.concatenate(parts, axis=1)
    bias = state.get(f"{base}.bias")
    return y if bias is None else y + bias.reshape(-1, *[1] * len(window))


def conv_transpose(state, base, x):
    """Stride 1, no padding: each input is spread over a window of the output."""
    weight = state[f"{base}.weight"]  # (in, out, window...)
    window = weight.shape[2:]
    sizes = [n + k - 1 for n, k in zip(x.shape[2:], window, strict=True)]
    y = np.zeros((x.shape[0], weight.shape[1], *sizes))
    for at in np.ndindex(*window):
        spread = np.einsum("bi...,io->bo...", x, weight[(slice(None), slice(None), *at)])
        part = tuple(slice(i, i + n) for i, n in zip(at, x.shape[2:], strict=True))
        y[(slice(None), slice(None), *part)] += spread
    return y + state[f"{base}.bias"].reshape(-1, *[1] * len(window))


def batch_norm(state, base, x, epsilon=1e-5):
    def shown(name):
        return state[f"{base}.{name}"].reshape(-1, *[1] * (x.ndim - 2))

    scaled = (x - shown("running_mean")) / np.sqrt(shown("running_var") + epsilon)
    return scaled * shown("weight") + shown("bias")


def layer_norm(state, base, x, epsilon=1e-5):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * state[f"{base}.weight"] + state[
        f"{base}.bias"
    ]


def _projected(state, base, suffix, kind, x):
    return x @ state[f"{base}.weight_{kind}_{suffix}"].T + state[f"{base}.bias_{kind}_{suffix}"]


def lstm(state, base, x, suffix="l0"):
    """(batch, steps, features) to (batch, steps, units); gates in the order i, f, g, o."""
    units = state[f"{base}.weight_hh_{suffix}"].shape[1]
    h = c = np.zeros((len(x), units))
    outputs = []
    for step in range(x.shape[1]):
        total = _projected(state, base, suffix, "ih", x[:, step])
        total = total + _projected(state, base, suffix, "hh", h)
        i, f, g, o = np.split(total, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


def gru(state, base, x, suffix="l0"):
    """The same; gates in the order r, z, n."""
    h = np.zeros((len(x), state[f"{base}.weight_hh_{suffix}"].shape[1]))
    outputs = []
    for step in range(x.shape[1]):
        own = np.split(_projected(state, base, suffix, "ih", x[:, step]), 3, axis=-1)
        held = np.split(_projected(state, base, suffix, "hh", h), 3, axis=-1)
        r, z = sigmoid(own[0] + held[0]), sigmoid(own[1] + held[1])
        n = np.tanh(own[2] + r * held[2])
        h = (1 - z) * n + z * h
        outputs.append(h)
    return np.stack(outputs, axis=1)


def simple_rnn(state, base, x, suffix="l0"):
    h = np.zeros((len(x), state[f"{base}.weight_hh_{suffix}"].shape[1]))
    outputs = []
    for step in range(x.shape[1]):
        own = _projected(state, base, suffix, "ih", x[:, step])
        h = np.tanh(own + _projected(state, base, suffix, "hh", h))
        outputs.append(h)
    return np.stack(outputs, axis=1)


def softmax_attention(q, k, v, heads):
    """Of (batch, steps, features) that are heads side by side."""

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    scores = split(q) @ split(k).swapaxes(-1, -2) / np.sqrt(q.shape[-1] // heads)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ split(v)).transpose(0, 2, 1, 3).reshape(q.shape)


def attention(state, base, x, heads):
    joined = x @ state[f"{base}.in_proj_weight"].T + state[f"{base}.in_proj_bias"]
    return linear(state, f"{base}.out_proj", softmax_attention(*np.split(joined, 3, -1), heads))
