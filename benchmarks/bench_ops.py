"""Single operations on small tensors: eagerly, and forward and backward under a tape.

What is measured is the cost around the arithmetic, so NumPy by hand is the floor.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Benchmark, Step

LINKS = 1000
ONE = np.full(1, 0.7, "float32")
TWO = np.full(1, 0.9, "float32")
SQUARE = np.random.default_rng(0).random((10, 10), dtype="float32")


def repeated(call: Callable[[], Any]) -> Step:
    """A step that calls `call` often, so that the loop itself hardly counts."""

    def step() -> None:
        for _ in range(LINKS):
            call()

    return step


def trainkit_add() -> Step:
    """An addition of one-element tensors by trainkit."""
    import trainkit as tk

    x, y = tk.constant(ONE), tk.constant(TWO)
    add = tk.add
    return repeated(lambda: add(x, y))


def numpy_add() -> Step:
    """The same by NumPy."""
    add = np.add
    return repeated(lambda: add(ONE, TWO))


def torch_add() -> Step:
    """The same by PyTorch."""
    import torch

    x, y = torch.from_numpy(ONE), torch.from_numpy(TWO)
    add = torch.add
    return repeated(lambda: add(x, y))


def jax_add() -> Step:
    """The same by JAX, operation by operation."""
    import jax.numpy as jnp

    x, y = jnp.asarray(ONE), jnp.asarray(TWO)
    return repeated(lambda: jnp.add(x, y).block_until_ready())


def tensorflow_add() -> Step:
    """The same by TensorFlow."""
    import tensorflow as tf

    x, y = tf.constant(ONE), tf.constant(TWO)
    return repeated(lambda: tf.add(x, y))


def trainkit_chain() -> Step:
    """A chain of products and sums under a tape by trainkit."""
    import trainkit as tk

    x, y = tk.constant(ONE), tk.constant(TWO)

    def step() -> Any:
        with tk.GradientTape() as tape:
            tape.watch(x)
            z = x
            for _ in range(LINKS // 2):
                z = z * y + y
        return tape.gradient(z, x)

    return step


def torch_chain() -> Step:
    """The same by PyTorch."""
    import torch

    x, y = torch.from_numpy(ONE.copy()).requires_grad_(), torch.from_numpy(TWO)

    def step() -> Any:
        z = x
        for _ in range(LINKS // 2):
            z = z * y + y
        return torch.autograd.grad(z.sum(), x)

    return step


def tensorflow_chain() -> Step:
    """The same by TensorFlow."""
    import tensorflow as tf

    x, y = tf.constant(ONE), tf.constant(TWO)

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = x
            for _ in range(LINKS // 2):
                z = z * y + y
        return tape.gradient(z, x)

    return step


def numpy_chain() -> Step:
    """The same by NumPy, the derivative written by hand."""

    def step() -> Any:
        z, kept = ONE, []
        for _ in range(LINKS // 2):
            kept.append(z)
            z = z * TWO + TWO
        g = np.ones(1, "float32")
        for _ in kept:
            g = g * TWO
        return g

    return step


def _each(name: str, call: Callable[[Any, Any], Any], torch_call: Callable[[Any, Any], Any]) -> Any:
    """A benchmark of one operation on (10, 10) matrices."""

    def ours() -> Step:
        import trainkit as tk

        x = tk.constant(SQUARE)
        return repeated(lambda: call(tk, x))

    def by_torch() -> Step:
        import torch

        x = torch.from_numpy(SQUARE.copy())
        return repeated(lambda: torch_call(torch, x))

    contestants = {"trainkit": ours, "torch": by_torch}
    return Benchmark(f"{name} of (10, 10)", "ns/op", 1e9 / LINKS, contestants)


BENCHMARKS = [
    Benchmark(
        "add of one element",
        "ns/op",
        1e9 / LINKS,
        {
            "trainkit": trainkit_add,
            "numpy": numpy_add,
            "torch": torch_add,
            "jax": jax_add,
            "tensorflow": tensorflow_add,
        },
    ),
    Benchmark(
        "chain of scalar operations, forward and backward",
        "ns/op",
        1e9 / LINKS,
        {
            "trainkit": trainkit_chain,
            "numpy by hand": numpy_chain,
            "torch": torch_chain,
            "tensorflow": tensorflow_chain,
        },
    ),
    _each("exp", lambda tk, x: tk.exp(x), lambda torch, x: torch.exp(x)),
    _each("tanh", lambda tk, x: tk.tanh(x), lambda torch, x: torch.tanh(x)),
    _each("relu", lambda tk, x: tk.nn.relu(x), lambda torch, x: torch.relu(x)),
    _each("sum", lambda tk, x: tk.reduce_sum(x), lambda torch, x: torch.sum(x)),
    _each("mean of rows", lambda tk, x: tk.reduce_mean(x, 1), lambda torch, x: torch.mean(x, 1)),
    _each("softmax", lambda tk, x: tk.nn.softmax(x), lambda torch, x: torch.softmax(x, 1)),
    _each("matmul", lambda tk, x: tk.matmul(x, x), lambda torch, x: torch.matmul(x, x)),
    _each("transpose", lambda tk, x: tk.transpose(x), lambda torch, x: x.t()),
    _each("reshape", lambda tk, x: tk.reshape(x, (5, 20)), lambda torch, x: x.reshape(5, 20)),
    _each("x[1]", lambda tk, x: x[1], lambda torch, x: x[1]),
    _each("x * 2.0", lambda tk, x: x * 2.0, lambda torch, x: x * 2.0),
    _each("x > 0.5", lambda tk, x: x > 0.5, lambda torch, x: x > 0.5),
]
