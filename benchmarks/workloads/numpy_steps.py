"""NumPy by hand, where the sums are short: the limit rather than a framework."""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Step

from workloads import inputs

COPIED_BYTES = 512_000_000


def adam_update(params: Any, grads: Any, moments: Any, count: int, rate: float) -> None:
    """Adam in place."""
    one, two = inputs.DECAYS
    scale = np.float32(rate * np.sqrt(1 - two**count) / (1 - one**count))
    for w, g, (m, v) in zip(params, grads, moments, strict=True):
        m += (g - m) * np.float32(1 - one)
        v += (g * g - v) * np.float32(1 - two)
        w -= scale * m / (np.sqrt(v) + np.float32(inputs.EPSILON))


def mlp(size: int) -> Step:
    """784-128-10, forward, backward and Adam."""
    w1, b1, w2, b2 = params = inputs.mlp()
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in params]
    x, y = inputs.flat_batch(size)
    rows, count = np.arange(size), 0

    def step() -> Any:
        nonlocal count
        count += 1
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        loss = (np.log(total[:, 0]) - logits[rows, y]).mean()
        p /= total
        p[rows, y] -= 1
        p /= np.float32(size)
        back = (p @ w2.T) * (hidden > 0)
        grads = [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)]
        adam_update(params, grads, moments, count, inputs.RATE)
        return loss

    return step


def linreg() -> Step:
    """The regression of the eager guide."""
    x, y = inputs.line()
    w, b = np.float32(5), np.float32(10)

    def step() -> Any:
        nonlocal w, b
        error = x * w + b - y
        slope = error * np.float32(2 / len(x))
        w, b = w - np.float32(0.01) * (slope @ x), b - np.float32(0.01) * slope.sum()
        return (error * error).mean()

    return step


def chain(shape: tuple[int, ...]) -> Step:
    """10,000 small operations."""
    x, y, first = inputs.links(shape)

    def step() -> Any:
        z = first
        for _ in range(5000):
            z = x * y + z
        return z

    return step


def power() -> Step:
    """A hundred products of integer matrices."""
    x = inputs.whole_matrix()

    def step() -> Any:
        y = np.eye(10, dtype=np.int32)
        for _ in range(100):
            y = x @ y
        return y

    return step


def adam(workload: str) -> Step:
    """The optimizer alone."""
    pairs = inputs.weights_of_adam(workload)
    params, grads = [w for w, _ in pairs], [g for _, g in pairs]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in params]
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        adam_update(params, grads, moments, count, 1e-3)

    return step


def pipeline() -> Step:
    """60,000 images in random order, a batch by one index."""
    x, y = inputs.images(60_000)
    rng = inputs.random(25)

    def step() -> None:
        order, seen = rng.permutation(len(x)), 0
        for start in range(0, len(x), 32):
            chosen = order[start : start + 32]
            images, _ = x[chosen].astype(np.float32) / np.float32(255), y[chosen]
            seen += len(images)
        assert seen == 60_000

    return step


def memory() -> Step:
    """A copy of 512 MB."""
    source = np.ones(COPIED_BYTES // 8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def start(workload: str) -> Any:
    """The step of a workload."""
    if workload.startswith("mlp"):
        return mlp(int(workload.rpartition("_b")[2]))
    if workload.startswith("scalar_ops"):
        return chain((1,) if "_1_" in workload else (10, 10))
    if workload.startswith("optimizer"):
        return adam(workload)
    if workload.startswith("sgemm"):
        a, b = inputs.factors(workload)
        return lambda: a @ b
    others: dict[str, Callable[[], Step]] = {
        "linreg_step": linreg,
        "power_graph": power,
        "input_pipeline": pipeline,
        "memcpy": memory,
    }
    return others[workload]()
