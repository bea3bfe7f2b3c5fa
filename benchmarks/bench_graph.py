"""Traced functions: what a call costs, small programs, and variables that are updated."""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import Benchmark, Step

import trainkit as tk

N = 1000
X = np.linspace(-1, 1, N, dtype="float32")


def _warm(step: Step) -> Step:
    """`step` after calls enough for its compiled version to have taken over."""
    for _ in range(20):
        step()
    return step


def _traced(f: Any, *arrays: Any, traced: bool = True) -> Step:
    given = [tk.constant(a) for a in arrays]
    run = tk.function(f, jit_compile=True) if traced else f
    return _warm(lambda: run(*given))


def _jax(f: Any, *arrays: Any) -> Step:
    import jax

    run = jax.jit(f)
    given = [jax.numpy.asarray(a) for a in arrays]
    return _warm(lambda: jax.block_until_ready(run(*given)))


def nothing(x: Any) -> Any:
    """The argument itself."""
    return x


def chain(x: Any) -> Any:
    """Ten element-wise operations."""
    for i in range(5):
        x = x * 1.01 + i
    return x


def mean_square(x: Any) -> Any:
    """A chain and the sum of what it gives."""
    y = x * 1.5 - 0.25
    return (y * y).mean() if hasattr(y, "mean") else tk.reduce_mean(y * y)


def _update(traced: bool) -> Step:
    w = tk.Variable(X)

    def step(g: Any) -> None:
        w.assign(w - 0.001 * g)

    return _traced(step, X, traced=traced)


def seven_operations(x: Any) -> Any:
    """Seven element-wise operations that NumPy would do one by one."""
    return tk.nn.relu(x * 2.0 + 1.0) / 3.0 - tk.sqrt(tk.abs(x)) + x


def _sized(n: int, size: int | None) -> Step:
    """A function whose size is written down, or not known."""
    x = tk.constant(np.linspace(-1, 1, n, dtype="float32"))
    signature = [tk.TensorSpec([size], tk.float32)]
    run = tk.function(seven_operations, input_signature=signature, jit_compile=True)
    return _warm(lambda: run(x))


BENCHMARKS = [
    *(
        Benchmark(
            f"function: seven operations on {n:,} floats, size None or written down",
            "us",
            1e6,
            {
                "trainkit None": lambda n=n: _sized(n, None),
                "trainkit written": lambda n=n: _sized(n, n),
            },
        )
        for n in (1024, 100_000, 1_000_000)
    ),
    Benchmark(
        "function: a call that does nothing",
        "us",
        1e6,
        {"trainkit": lambda: _traced(nothing, X), "jax": lambda: _jax(nothing, X)},
    ),
    Benchmark(
        f"function: ten operations on {N} floats",
        "us",
        1e6,
        {
            "trainkit": lambda: _traced(chain, X),
            "eager": lambda: _traced(chain, X, traced=False),
            "jax": lambda: _jax(chain, X),
        },
    ),
    Benchmark(
        f"function: mean square of {N} floats",
        "us",
        1e6,
        {
            "trainkit": lambda: _traced(mean_square, X),
            "eager": lambda: _traced(mean_square, X, traced=False),
            "jax": lambda: _jax(mean_square, X),
        },
    ),
    Benchmark(
        f"function: a variable of {N} floats updated",
        "us",
        1e6,
        {"trainkit": lambda: _update(True), "eager": lambda: _update(False)},
    ),
]
