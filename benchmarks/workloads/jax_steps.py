"""JAX: pure functions, the whole step compiled (`jit`), or operation by operation (`eager`)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from timing import Step

from workloads import inputs

Loss = Callable[..., Any]


def arrays(tree: Any) -> Any:
    """A nest of NumPy arrays on the device."""
    return jax.tree.map(jnp.asarray, tree)


def classes(logits: Any, labels: Any) -> Any:
    """The mean loss of a classifier."""
    rows = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(rows, labels[..., None], -1).mean()


def adam_step(params: Any, grads: Any, state: Any, rate: float) -> Any:
    """Adam, with its moments and count in `state`."""
    m, v, t = state
    t = t + 1
    one, two = inputs.DECAYS
    m = jax.tree.map(lambda a, g: one * a + (1 - one) * g, m, grads)
    v = jax.tree.map(lambda a, g: two * a + (1 - two) * g * g, v, grads)
    scale = rate * jnp.sqrt(1 - two**t) / (1 - one**t)
    new = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + inputs.EPSILON), params, m, v)
    return new, (m, v, t)


def momentum_step(params: Any, grads: Any, state: Any, rate: float) -> Any:
    """SGD with momentum."""
    state = jax.tree.map(lambda a, g: 0.9 * a - rate * g, state, grads)
    return jax.tree.map(jnp.add, params, state), state


def adam_state(params: Any) -> Any:
    """Moments of zero."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, jax.tree.map(jnp.zeros_like, params), jnp.float32(0)


def training_step(workload: str, mode: str) -> Step:
    """A model's step; `loss(params, kept, key, x, y)` gives the loss and what is kept."""
    loss, params, kept, batch = MODELS[workload]()
    x, y = arrays(batch)
    params, kept = arrays(params), arrays(kept)
    sgd = workload == "resnet_step"
    update = momentum_step if sgd else adam_step
    held = [(params, kept, jax.tree.map(jnp.zeros_like, params) if sgd else adam_state(params))]

    def train(held: Any, key: Any, x: Any, y: Any) -> Any:
        params, kept, state = held
        (value, kept), grads = jax.value_and_grad(loss, has_aux=True)(params, kept, key, x, y)
        params, state = update(params, grads, state, inputs.RATE)
        return value, (params, kept, state)

    run = jax.jit(train, donate_argnums=0) if mode == "jit" else train
    keys = [jax.random.key(0)]

    def step() -> Any:
        if workload == "convnet_step":
            keys[0] = jax.random.split(keys[0], 1)[0]
        value, held[0] = run(held[0], keys[0], x, y)
        jax.block_until_ready((value, held[0]))
        return value

    return step


def stateless(function: Callable[[Any, Any, Any], Any]) -> Loss:
    """A loss that keeps nothing and draws nothing."""
    return lambda params, kept, key, x, y: (function(params, x, y), kept)


def mlp(size: int) -> Any:
    """784-128-10."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        return classes(jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)

    return stateless(loss), inputs.mlp(), (), inputs.flat_batch(size)


def conv(x: Any, kernel: Any, stride: int = 1, padding: str = "VALID") -> Any:
    """A convolution of images with channels last."""
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=layout)


def cnn() -> Any:
    """Two convolutions and a mean."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = jax.nn.relu(conv(x, p[0]) + p[1])
        x = jax.nn.relu(conv(x, p[2]) + p[3])
        return classes(x.mean((1, 2)) @ p[4] + p[5], y)

    return stateless(loss), inputs.cnn(), (), inputs.image_batch(32)


def dropped(x: Any, rate: float, key: Any) -> Any:
    """Dropout."""
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def convnet() -> Any:
    """With dropout."""

    def loss(p: Any, kept: Any, key: Any, x: Any, y: Any) -> Any:
        one, two = jax.random.split(key)
        x = jax.nn.relu(conv(x, p[0]) + p[1])
        x = jax.nn.relu(conv(x, p[2]) + p[3])
        window = (1, 2, 2, 1)
        x = dropped(lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID"), 0.25, one)
        x = dropped(jax.nn.relu(x.reshape(len(x), -1) @ p[4] + p[5]), 0.5, two)
        return classes(x @ p[6] + p[7], y), kept

    return loss, inputs.convnet(), (), inputs.image_batch(64)


def lstm() -> Any:
    """Words to one number."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        table, kernel, recurrent, bias, w, b = p
        given = jnp.swapaxes(table[x] @ kernel + bias, 0, 1)

        def cell(carry: Any, now: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(now + h @ recurrent, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((len(x), inputs.UNITS))
        (h, _), _ = lax.scan(cell, (zeros, zeros), given)
        logits = h @ w + b
        return (jnp.maximum(logits, 0) - logits * y + jnp.log1p(jnp.exp(-abs(logits)))).mean()

    return stateless(loss), inputs.lstm(), (), inputs.sentences()


def norm(x: Any, scale: Any, offset: Any) -> Any:
    """A layer normalization."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


def attention(x: Any, values: Any) -> Any:
    """Causal attention with several heads."""
    q, qb, k, kb, v, vb, out, ob = values
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, w) + b for w, b in ((q, qb), (k, kb), (v, vb)))
    scores = jnp.einsum("bqhk,bthk->bhqt", q, k) / np.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1)
    return jnp.einsum("bthk,hkd->btd", jnp.einsum("bhqt,bthk->bqhk", weights, v), out) + ob


def transformer() -> Any:
    """A decoder of two blocks."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = p["letters"][x] + p["places"]
        for part in p["blocks"]:
            h = h + attention(norm(h, *part["norm1"]), part["attention"])
            up = norm(h, *part["norm2"]) @ part["up"][0] + part["up"][1]
            h = h + jax.nn.gelu(up, approximate=False) @ part["down"][0] + part["down"][1]
        return classes(norm(h, *p["norm"]) @ p["out"][0] + p["out"][1], y)

    return stateless(loss), inputs.transformer(), (), inputs.texts()


def resnet() -> Any:
    """ResNet-18 for images of 32 x 32; what is kept are the running moments."""
    kernels, last = inputs.resnet()
    parts = {part[0]: part for part in inputs.resnet_parts()}
    sizes = {name: kernel.shape[3] for name, kernel in kernels.items()}
    params = {
        "units": {
            name: (kernels[name], np.ones(n, np.float32), inputs.zeros(n))
            for name, n in sizes.items()
        },
        "last": last,
    }
    kept = {name: (inputs.zeros(n), np.ones(n, np.float32)) for name, n in sizes.items()}

    def loss(p: Any, kept: Any, key: Any, x: Any, y: Any) -> Any:
        new = {}

        def unit(x: Any, name: str) -> Any:
            kernel, scale, offset = p["units"][name]
            x = conv(x, kernel, parts[name][3], "SAME")
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            before = kept[name]
            new[name] = (0.9 * before[0] + 0.1 * mean, 0.9 * before[1] + 0.1 * variance)
            return (x - mean) * (lax.rsqrt(variance + 1e-5) * scale) + offset

        x = jax.nn.relu(unit(x, "first"))
        for name in [f"{stage}{half}" for stage in range(4) for half in range(2)]:
            h = unit(jax.nn.relu(unit(x, f"{name}a")), f"{name}b")
            x = jax.nn.relu(h + (unit(x, f"{name}c") if f"{name}c" in parts else x))
        return classes(x.mean((1, 2)) @ p["last"][0] + p["last"][1], y), new

    return loss, params, kept, inputs.color_batch()


MODELS: dict[str, Callable[[], Any]] = {
    "mlp_step_b32": lambda: mlp(32),
    "mlp_step_b128": lambda: mlp(128),
    "cnn_step": cnn,
    "convnet_step": convnet,
    "lstm_step": lstm,
    "transformer_step": transformer,
    "resnet_step": resnet,
}


def linreg(mode: str) -> Step:
    """The regression of the eager guide."""
    x, y = arrays(inputs.line())

    def train(params: Any, x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            return jnp.mean((x * p[0] + p[1] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return value, [p - 0.01 * g for p, g in zip(params, grads, strict=True)]

    run = jax.jit(train) if mode == "jit" else train
    held = [[jnp.float32(5), jnp.float32(10)]]

    def step() -> Any:
        value, held[0] = run(held[0], x, y)
        return jax.block_until_ready(value)

    return step


def chain(shape: tuple[int, ...], grad: bool) -> Step:
    """10,000 small operations."""
    x, y, first = arrays(inputs.links(shape))

    def forward(x: Any, y: Any) -> Any:
        z = first
        for _ in range(5000):
            z = x * y + z
        return z

    slope = jax.grad(lambda x, y: forward(x, y).sum(), (0, 1))
    return lambda: jax.block_until_ready(slope(x, y)[0] if grad else forward(x, y))


def power(mode: str) -> Step:
    """A hundred products of integer matrices."""
    x = jnp.asarray(inputs.whole_matrix())

    def product(x: Any) -> Any:
        y = jnp.eye(10, dtype=jnp.int32)
        for _ in range(100):
            y = jnp.matmul(x, y)
        return y

    run = jax.jit(product) if mode == "jit" else product
    return lambda: jax.block_until_ready(run(x))


def dynamic() -> Step:
    """A chain whose links the data decides, and its gradient."""
    turns, matrices, row = inputs.decisions()
    w, x = arrays(matrices), jnp.asarray(row)

    def loss(w: Any) -> Any:
        h = x
        for i, turn in enumerate(turns):
            h = jnp.tanh(h @ w[turn])
            if i % 8 == 7 and h[0, 0] > 0:
                h = h + x
        return (h * h).sum()

    slope = jax.grad(loss)
    return lambda: jax.block_until_ready(slope(w)[0])


def adam(workload: str) -> Step:
    """The optimizer alone."""
    pairs = inputs.weights_of_adam(workload)
    grads = [jnp.asarray(g) for _, g in pairs]
    params = [jnp.asarray(w) for w, _ in pairs]
    run = jax.jit(lambda p, s, g: adam_step(p, g, s, 1e-3), donate_argnums=(0, 1))
    held = [(params, adam_state(params))]

    def step() -> None:
        held[0] = run(*held[0], grads)
        jax.block_until_ready(held[0])

    return step


def start(workload: str, mode: str) -> Any:
    """The step of a workload."""
    if workload in MODELS:
        return training_step(workload, mode)
    if workload.startswith("scalar_ops"):
        return chain((1,) if "_1_" in workload else (10, 10), workload.endswith("grad"))
    if workload.startswith("optimizer"):
        return adam(workload)
    if workload.startswith("sgemm"):
        a, b = arrays(inputs.factors(workload))
        return lambda: jax.block_until_ready(jnp.matmul(a, b))
    by_mode = {"linreg_step": linreg, "power_graph": power}
    return dynamic() if workload == "dynamic_small_ops" else by_mode[workload](mode)
