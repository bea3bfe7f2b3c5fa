"""Single operations on small tensors: eagerly, and forward and backward under a tape.

What is measured is the cost around the arithmetic, so NumPy by hand is the floor. Each framework
has one thread, and what counts is the processor's time, which other work on the machine hardly
changes. `one_thread.py` measures far more operations in this way, in larger sizes and with
gradients, beside PyTorch alone.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Benchmark, Step

SHARED_PROCESS = True

LINKS = 1000
ONE = np.full(1, 0.7, "float32")
TWO = np.full(1, 0.9, "float32")


class OneThread:
    """A step that is measured by the processor's time."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self) -> Any:
        return self._step()

    def measured(self) -> float:
        """Seconds of the processor that one step takes."""
        start = time.process_time()
        self._step()
        return time.process_time() - start


def use_one_thread(framework: str) -> None:
    """Tell a framework, before its first operation; NumPy has one here anyhow.

    Raises:
        ImportError: it is not installed.
    """
    module = importlib.import_module(framework)
    if framework == "torch":
        module.set_num_threads(1)
    elif framework in ("trainkit", "tensorflow"):
        module.config.threading.set_intra_op_parallelism_threads(1)
        module.config.threading.set_inter_op_parallelism_threads(1)


def on_one_thread(contestants: dict[str, Callable[[], Step]]) -> dict[str, Callable[[], Step]]:
    """The same contestants, on one thread and measured by the processor's time."""

    def measured(framework: str, prepare: Callable[[], Step]) -> Callable[[], Step]:
        def prepared() -> Step:
            use_one_thread(framework)
            return OneThread(prepare())

        return prepared

    return {
        name: measured(name.partition(" ")[0], prepare) for name, prepare in contestants.items()
    }


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


def _contestants(inputs: Any, ours: Any, theirs: Any, plain: Any, often: int) -> Any:
    """One call by each framework on arrays of its own kind; TensorFlow's names are trainkit's."""

    def step_of(call: Callable[..., Any], given: list[Any]) -> Step:
        def step() -> None:
            for _ in range(often):
                call(*given)

        return step

    def by_trainkit() -> Step:
        import trainkit as tk

        return step_of(lambda *xs: ours(tk, *xs), [tk.constant(a) for a in inputs])

    def by_numpy() -> Step:
        return step_of(lambda *xs: plain(np, *xs), list(inputs))

    def by_torch() -> Step:
        import torch

        return step_of(lambda *xs: theirs(torch, *xs), [torch.from_numpy(a.copy()) for a in inputs])

    def by_tensorflow() -> Step:
        import tensorflow as tf

        return step_of(lambda *xs: ours(tf, *xs), [tf.constant(a) for a in inputs])

    return on_one_thread(
        {"trainkit": by_trainkit, "numpy": by_numpy, "torch": by_torch, "tensorflow": by_tensorflow}
    )


# Name, and the call by trainkit, PyTorch and NumPy on one or two square matrices.
CALLS: list[tuple[str, int, Any, Any, Any]] = [
    ("add", 2, lambda m, x, y: m.add(x, y), lambda m, x, y: m.add(x, y), lambda m, x, y: x + y),
    ("x - y", 2, lambda m, x, y: x - y, lambda m, x, y: x - y, lambda m, x, y: x - y),
    ("multiply", 2, lambda m, x, y: x * y, lambda m, x, y: x * y, lambda m, x, y: x * y),
    ("divide", 2, lambda m, x, y: x / y, lambda m, x, y: x / y, lambda m, x, y: x / y),
    ("x * 2.0", 1, lambda m, x: x * 2.0, lambda m, x: x * 2.0, lambda m, x: x * 2.0),
    ("negative", 1, lambda m, x: -x, lambda m, x: -x, lambda m, x: -x),
    ("abs", 1, lambda m, x: m.abs(x), lambda m, x: m.abs(x), lambda m, x: m.abs(x)),
    ("square", 1, lambda m, x: m.square(x), lambda m, x: m.square(x), lambda m, x: m.square(x)),
    ("sqrt", 1, lambda m, x: m.sqrt(x), lambda m, x: m.sqrt(x), lambda m, x: m.sqrt(x)),
    ("exp", 1, lambda m, x: m.exp(x), lambda m, x: m.exp(x), lambda m, x: m.exp(x)),
    ("log", 1, lambda m, x: m.math.log(x), lambda m, x: m.log(x), lambda m, x: m.log(x)),
    ("tanh", 1, lambda m, x: m.tanh(x), lambda m, x: m.tanh(x), lambda m, x: m.tanh(x)),
    ("sin", 1, lambda m, x: m.sin(x), lambda m, x: m.sin(x), lambda m, x: m.sin(x)),
    (
        "sigmoid",
        1,
        lambda m, x: m.sigmoid(x),
        lambda m, x: m.sigmoid(x),
        lambda m, x: 1 / (1 + m.exp(-x)),
    ),
    ("relu", 1, lambda m, x: m.nn.relu(x), lambda m, x: m.relu(x), lambda m, x: m.maximum(x, 0)),
    (
        "maximum",
        2,
        lambda m, x, y: m.maximum(x, y),
        lambda m, x, y: m.maximum(x, y),
        lambda m, x, y: m.maximum(x, y),
    ),
    (
        "minimum",
        2,
        lambda m, x, y: m.minimum(x, y),
        lambda m, x, y: m.minimum(x, y),
        lambda m, x, y: m.minimum(x, y),
    ),
    ("power", 1, lambda m, x: x**3.0, lambda m, x: x**3.0, lambda m, x: x**3.0),
    ("x > 0.5", 1, lambda m, x: x > 0.5, lambda m, x: x > 0.5, lambda m, x: x > 0.5),
    ("x == y", 2, lambda m, x, y: x == y, lambda m, x, y: x == y, lambda m, x, y: x == y),
    (
        "where",
        2,
        lambda m, x, y: m.where(x > y, x, y),
        lambda m, x, y: m.where(x > y, x, y),
        lambda m, x, y: m.where(x > y, x, y),
    ),
    (
        "clip",
        1,
        lambda m, x: m.clip_by_value(x, 0.2, 0.8),
        lambda m, x: m.clamp(x, 0.2, 0.8),
        lambda m, x: m.clip(x, 0.2, 0.8),
    ),
    (
        "cast",
        1,
        lambda m, x: m.cast(x, "int32"),
        lambda m, x: x.to(m.int32),
        lambda m, x: x.astype("int32"),
    ),
    ("sum", 1, lambda m, x: m.reduce_sum(x), lambda m, x: m.sum(x), lambda m, x: m.sum(x)),
    (
        "sum of columns",
        1,
        lambda m, x: m.reduce_sum(x, 0),
        lambda m, x: m.sum(x, 0),
        lambda m, x: m.sum(x, 0),
    ),
    ("mean", 1, lambda m, x: m.reduce_mean(x), lambda m, x: m.mean(x), lambda m, x: m.mean(x)),
    (
        "max of rows",
        1,
        lambda m, x: m.reduce_max(x, 1),
        lambda m, x: m.amax(x, 1),
        lambda m, x: m.max(x, 1),
    ),
    (
        "argmax of rows",
        1,
        lambda m, x: m.argmax(x, 1),
        lambda m, x: m.argmax(x, 1),
        lambda m, x: m.argmax(x, 1),
    ),
    (
        "variance",
        1,
        lambda m, x: m.math.reduce_variance(x),
        lambda m, x: m.var(x, correction=0),
        lambda m, x: m.var(x),
    ),
    (
        "softmax",
        1,
        lambda m, x: m.nn.softmax(x),
        lambda m, x: m.softmax(x, 1),
        lambda m, x: m.exp(x) / m.exp(x).sum(1, keepdims=True),
    ),
    (
        "cumsum",
        1,
        lambda m, x: m.cumsum(x, 1),
        lambda m, x: m.cumsum(x, 1),
        lambda m, x: m.cumsum(x, 1),
    ),
    ("sort", 1, lambda m, x: m.sort(x), lambda m, x: m.sort(x), lambda m, x: m.sort(x)),
    ("matmul", 2, lambda m, x, y: m.matmul(x, y), lambda m, x, y: x @ y, lambda m, x, y: x @ y),
    ("transpose", 1, lambda m, x: m.transpose(x), lambda m, x: x.t(), lambda m, x: x.T),
    (
        "reshape",
        1,
        lambda m, x: m.reshape(x, (-1,)),
        lambda m, x: x.reshape(-1),
        lambda m, x: x.reshape(-1),
    ),
    (
        "expand_dims",
        1,
        lambda m, x: m.expand_dims(x, 0),
        lambda m, x: x.unsqueeze(0),
        lambda m, x: m.expand_dims(x, 0),
    ),
    (
        "concat",
        2,
        lambda m, x, y: m.concat([x, y], 0),
        lambda m, x, y: m.cat([x, y], 0),
        lambda m, x, y: m.concatenate([x, y], 0),
    ),
    (
        "stack",
        2,
        lambda m, x, y: m.stack([x, y]),
        lambda m, x, y: m.stack([x, y]),
        lambda m, x, y: m.stack([x, y]),
    ),
    ("x[1]", 1, lambda m, x: x[1], lambda m, x: x[1], lambda m, x: x[1]),
    ("x[2:8]", 1, lambda m, x: x[2:8], lambda m, x: x[2:8], lambda m, x: x[2:8]),
    (
        "zeros_like",
        1,
        lambda m, x: m.zeros_like(x),
        lambda m, x: m.zeros_like(x),
        lambda m, x: m.zeros_like(x),
    ),
]


def _each(size: int, often: int) -> list[Benchmark]:
    """All calls on (size, size) matrices."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((size, size), dtype="float32") for _ in range(2))
    return [
        Benchmark(
            f"{name} of ({size}, {size})",
            "us/call",
            1e6 / often,
            _contestants((x, y)[:count], ours, theirs, plain, often),
        )
        for name, count, ours, theirs, plain in CALLS
    ]


BENCHMARKS = [
    Benchmark(
        "add of one element",
        "ns/op",
        1e9 / LINKS,
        on_one_thread(
            {
                "trainkit": trainkit_add,
                "numpy": numpy_add,
                "torch": torch_add,
                "jax": jax_add,
                "tensorflow": tensorflow_add,
            }
        ),
    ),
    Benchmark(
        "chain of scalar operations, forward and backward",
        "ns/op",
        1e9 / LINKS,
        on_one_thread(
            {
                "trainkit": trainkit_chain,
                "numpy by hand": numpy_chain,
                "torch": torch_chain,
                "tensorflow": tensorflow_chain,
            }
        ),
    ),
    *_each(10, 200),
    *_each(512, 5),
]
