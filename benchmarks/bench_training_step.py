"""One training step of a network 784-128-10, batch 32, Adam: eagerly, compiled, and by peers.

The same weights and the same batch everywhere; the rate of Adam is tiny, so that thousands of timed
steps change little.
"""

from typing import Any

import numpy as np
from timing import Benchmark, Step

RATE = 1e-7


def batch() -> tuple[Any, Any]:
    """Images in [0, 1] as rows, and labels."""
    rng = np.random.default_rng(2)
    return rng.random((32, 784), dtype="float32"), rng.integers(0, 10, 32).astype("int32")


def weights() -> list[Any]:
    """Kernels and biases, by Glorot's uniform rule."""
    rng = np.random.default_rng(10)

    def kernel(rows: int, columns: int) -> Any:
        limit = np.sqrt(6 / (rows + columns))
        return rng.uniform(-limit, limit, (rows, columns)).astype("float32")

    zeros = [np.zeros(128, "float32"), np.zeros(10, "float32")]
    return [kernel(784, 128), zeros[0], kernel(128, 10), zeros[1]]


def _keras_style(tk: Any) -> Step:
    model = tk.Sequential(
        [tk.Input((784,)), tk.layers.Dense(128, activation="relu"), tk.layers.Dense(10)]
    )
    model.set_weights(weights())
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tk.optimizers.Adam(RATE)
    variables = model.trainable_variables
    optimizer.build(variables)
    images, labels = batch()
    x, y = tk.convert_to_tensor(images), tk.convert_to_tensor(labels)

    def step() -> Any:
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        grads = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(grads, variables, strict=True))
        return loss

    return step


def trainkit_eager() -> Step:
    """Operation by operation."""
    import trainkit as tk

    return _keras_style(tk)


def trainkit_function() -> Step:
    """As a graph."""
    import trainkit as tk

    return tk.function(_keras_style(tk))


class _TensorFlow:
    """TensorFlow and its Keras under one name."""

    def __init__(self, function: bool) -> None:
        import tensorflow as tf

        self.tf, self.function = tf, function

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tf.keras, name, None)
        return found if found is not None else getattr(self.tf, name)


def tensorflow_eager() -> Step:
    """TensorFlow, operation by operation."""
    return _keras_style(_TensorFlow(False))


def tensorflow_function() -> Step:
    """TensorFlow as a graph."""
    import tensorflow as tf

    return tf.function(_keras_style(_TensorFlow(True)))  # type: ignore[no-any-return]


def torch_eager() -> Step:
    """PyTorch as most people write it."""
    return _torch(fused=False)


def torch_fused() -> Step:
    """PyTorch with the fused Adam."""
    return _torch(fused=True)


def _torch(fused: bool) -> Step:
    import torch

    w1, b1, w2, b2 = weights()
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    with torch.no_grad():
        for p, value in zip(model.parameters(), (w1.T, b1, w2.T, b2), strict=True):
            p.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    optimizer = torch.optim.Adam(model.parameters(), RATE, eps=1e-7, fused=fused or None)
    images, labels = batch()
    x, y = torch.from_numpy(images), torch.from_numpy(labels.astype("int64"))

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def jax_jit() -> Step:
    """JAX, the whole step compiled."""
    import jax
    import jax.numpy as jnp

    images, labels = (jnp.asarray(a) for a in batch())

    def loss_of(params: Any) -> Any:
        w1, b1, w2, b2 = params
        logits = jax.nn.relu(images @ w1 + b1) @ w2 + b2
        rows = jax.nn.log_softmax(logits)
        return -rows[jnp.arange(32), labels].mean()

    @jax.jit
    def update(state: Any) -> Any:
        params, m, v, t = state
        loss, grads = jax.value_and_grad(loss_of)(params)
        t = t + 1
        rate = RATE * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads, strict=True)]
        triples = zip(params, m, v, strict=True)
        return loss, ([p - rate * a / (jnp.sqrt(b) + 1e-7) for p, a, b in triples], m, v, t)

    params = [jnp.asarray(w) for w in weights()]
    zeros = [jnp.zeros_like(p) for p in params]
    held = [(params, zeros, [jnp.zeros_like(p) for p in params], jnp.float32(0))]

    def step() -> Any:
        loss, held[0] = update(held[0])
        return loss.block_until_ready()

    return step


def numpy_by_hand() -> Step:
    """The same sums written out in NumPy."""
    w1, b1, w2, b2 = params = weights()
    m, v = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    x, y = batch()
    count = [0]
    rows = np.arange(32)

    def step() -> Any:
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        loss = (np.log(total[:, 0]) - logits[rows, y]).mean()
        p /= total
        p[rows, y] -= 1
        p /= np.float32(32)
        back = (p @ w2.T) * (hidden > 0)
        grads = [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)]
        count[0] += 1
        t = count[0]
        rate = np.float32(RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t))
        for w, g, a, b in zip(params, grads, m, v, strict=True):
            a += (g - a) * np.float32(0.1)
            b += (g * g - b) * np.float32(0.001)
            w -= rate * a / (np.sqrt(b) + np.float32(1e-7))
        return loss

    return step


BENCHMARKS = [
    Benchmark(
        "network 784-128-10, batch 32, Adam",
        "us/step",
        1e6,
        {
            "trainkit": trainkit_eager,
            "trainkit function": trainkit_function,
            "numpy by hand": numpy_by_hand,
            "torch": torch_eager,
            "torch, fused Adam": torch_fused,
            "jax jit": jax_jit,
            "tensorflow": tensorflow_eager,
            "tensorflow function": tensorflow_function,
        },
    )
]
