"""What the nodes of cuDNN's graphs compute, in float64 and written for themselves.

Arrays come in cuDNN's order, (batch, channels, space...) or (batch, heads, length, size).
"""

import itertools

import numpy as np


def _grouped(a, groups):
    """(batch, channels, ...) as (batch, groups, channels of one, ...)."""
    return a.reshape(a.shape[0], groups, -1, *a.shape[2:])


def _seen(offset, out, stride, dilation):
    spatial = [
        slice(o * d, o * d + (n - 1) * s + 1, s)
        for o, n, s, d in zip(offset, out, stride, dilation, strict=True)
    ]
    return (slice(None), slice(None), *spatial)


def windows(sizes, window, pre, post, stride, dilation):
    """How many windows fit along each axis."""
    axes = zip(sizes, window, pre, post, stride, dilation, strict=True)
    return tuple((n + a + b - ((k - 1) * d + 1)) // s + 1 for n, k, a, b, s, d in axes)


def conv_fprop(image, weight, *, pre_padding, post_padding, stride, dilation):
    window, groups = weight.shape[2:], image.shape[1] // weight.shape[1]
    out = windows(image.shape[2:], window, pre_padding, post_padding, stride, dilation)
    padded = np.pad(image, [(0, 0), (0, 0), *zip(pre_padding, post_padding, strict=True)])
    y = np.zeros((image.shape[0], groups, weight.shape[0] // groups, *out))
    for offset in itertools.product(*map(range, window)):
        seen = _grouped(padded[_seen(offset, out, stride, dilation)], groups)
        taps = weight[(..., *offset)].reshape(groups, -1, weight.shape[1])
        y += np.einsum("ngc...,gkc->ngk...", seen, taps)
    return y.reshape(image.shape[0], -1, *out)


def conv_dgrad(loss, filter, *, result, pre_padding, post_padding, stride, dilation):
    window, groups, out = filter.shape[2:], result[1] // filter.shape[1], loss.shape[2:]
    pads = list(zip(pre_padding, post_padding, strict=True))
    sizes = [n + a + b for n, (a, b) in zip(result[2:], pads, strict=True)]
    padded = np.zeros((result[0], result[1], *sizes))
    for offset in itertools.product(*map(range, window)):
        taps = filter[(..., *offset)].reshape(groups, -1, filter.shape[1])
        part = np.einsum("ngk...,gkc->ngc...", _grouped(loss, groups), taps)
        where = _seen(offset, out, stride, dilation)
        padded[where] += part.reshape(result[0], result[1], *out)
    inner = [slice(a, a + n) for n, (a, _) in zip(result[2:], pads, strict=True)]
    return padded[(slice(None), slice(None), *inner)]


def conv_wgrad(image, loss, *, result, pre_padding, post_padding, stride, dilation):
    groups, out = image.shape[1] // result[1], loss.shape[2:]
    pads = [(0, 0), (0, 0), *zip(pre_padding, post_padding, strict=True)]
    padded, weight = np.pad(image, pads), np.zeros(result)
    for offset in itertools.product(*map(range, result[2:])):
        seen = _grouped(padded[_seen(offset, out, stride, dilation)], groups)
        seen = seen.reshape(*seen.shape[:3], -1)
        back = _grouped(loss, groups)
        back = back.reshape(*back.shape[:3], -1)
        made = np.einsum("ngcp,ngkp->gkc", seen, back)
        weight[(..., *offset)] = made.reshape(result[0], result[1])
    return weight


def bias(input, bias):
    return input + bias


def relu(input):
    return np.maximum(input, 0)


# ---------------------------------------------------------------------- attention


def _scores(q, k, scale, bias, causal):
    group = q.shape[1] // k.shape[1]
    scores = scale * np.einsum("bhtd,bhsd->bhts", q, k.repeat(group, axis=1))
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[2:], bool)), scores, -np.inf)
    return scores


def sdpa(q, k, v, bias=None, *, attn_scale, causal):
    scores = _scores(q, k, attn_scale, bias, causal)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - top)
    total = powers.sum(axis=-1, keepdims=True)
    values = v.repeat(q.shape[1] // v.shape[1], axis=1)
    return powers / total @ values, top + np.log(total)


def sdpa_backward(q, k, v, o, dO, stats, bias=None, *, attn_scale, causal):
    group = q.shape[1] // k.shape[1]
    shares = np.exp(_scores(q, k, attn_scale, bias, causal) - stats)
    keys, values = k.repeat(group, axis=1), v.repeat(group, axis=1)
    by_shares = np.einsum("bhtd,bhsd->bhts", dO, values)
    by_scores = shares * (by_shares - (dO * o).sum(axis=-1, keepdims=True)) * attn_scale
    by_k = np.einsum("bhts,bhtd->bhsd", by_scores, q)
    by_v = np.einsum("bhts,bhtd->bhsd", shares, dO)
    return by_scores @ keys, _together(by_k, group), _together(by_v, group)


def _together(x, group):
    """Heads that share a key, summed."""
    return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(axis=2)


# ---------------------------------------------------------------------- normalization


def _moments(x, axes, epsilon, centred=True):
    """(x - mean, mean, 1 / deviation), or of what is not centred, as if the mean were 0."""
    mean = x.mean(axis=axes, keepdims=True) * centred
    rest = x - mean
    return rest, mean, (np.square(rest).mean(axis=axes, keepdims=True) + epsilon) ** -0.5


def _others(x):
    """All axes but the channels'."""
    return (0, *range(2, x.ndim))


def batchnorm(input, scale, bias, in_running_mean, in_running_var, epsilon, momentum):
    axes = _others(input)
    rest, mean, factor = _moments(input, axes, epsilon)
    count = input.size // input.shape[1]
    variance = np.square(rest).sum(axis=axes, keepdims=True) / max(count - 1, 1)
    moved = (
        (1 - momentum) * in_running_mean + momentum * mean,
        (1 - momentum) * in_running_var + momentum * variance,
    )
    return rest * factor * scale + bias, mean, factor, *moved


def layernorm(input, scale, bias, epsilon):
    rest, mean, factor = _moments(input, tuple(range(1, input.ndim)), epsilon)
    return rest * factor * scale + bias, mean, factor


def rmsnorm(input, scale, epsilon):
    rest, _, factor = _moments(input, tuple(range(1, input.ndim)), epsilon, False)
    return rest * factor * scale, factor


def _norm_backward(grad, normal, scale, factor, axes, centred=True):
    """By the input, through what it is normalized by, and by scale and bias."""
    along = grad * scale
    level = along.mean(axis=axes, keepdims=True) * centred
    share = (along * normal).mean(axis=axes, keepdims=True)
    others = _others(grad)
    by_scale = (grad * normal).sum(axis=others, keepdims=True)
    return (along - level - normal * share) * factor, by_scale, grad.sum(others, keepdims=True)


def batchnorm_backward(grad, input, scale, mean, inv_variance):
    normal = (input - mean) * inv_variance
    return _norm_backward(grad, normal, scale, inv_variance, _others(input))


def layernorm_backward(grad, input, scale, mean, inv_variance):
    normal = (input - mean) * inv_variance
    return _norm_backward(grad, normal, scale, inv_variance, tuple(range(1, input.ndim)))


def rmsnorm_backward(grad, input, scale, inv_variance):
    axes = tuple(range(1, input.ndim))
    return _norm_backward(grad, input * inv_variance, scale, inv_variance, axes, False)[:2]
