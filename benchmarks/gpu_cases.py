"""trainkit's and JAX's side of `gpu.py`: what is timed in each case."""

from collections.abc import Callable
from typing import Any

import numpy as np

Work = tuple[Callable[[], Any], Callable[[], Any]]
"""What is timed, and what waits until the GPU has done it."""

SIZES: dict[str, dict[str, int]] = {
    "full": {
        "n": 4096,
        "batch": 256,
        "images": 32,
        "pixels": 224,
        "weights": 100_000_000,
        "updated": 25_000_000,
        "sequences": 32,
        "length": 512,
        "width": 768,
        "blocks": 4,
        "steps": 100,
        "units": 512,
        "deepest": 6,
        "filters": 64,
        "features": 256,
    },
    "small": {
        "n": 32,
        "batch": 8,
        "images": 2,
        "pixels": 32,
        "weights": 1000,
        "updated": 16_000,
        "sequences": 2,
        "length": 16,
        "width": 32,
        "blocks": 1,
        "steps": 4,
        "units": 8,
        "deepest": 1,
        "filters": 8,
        "features": 16,
    },
}
PRODUCTS = 200
HEAD = 64
"""Numbers of a head of the transformer, at most."""
WORDS = 1000


def random(*shape: int) -> Any:
    """Normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def labels(count: int, classes: int) -> Any:
    """Class numbers."""
    return (np.arange(count) % classes).astype(np.int32)


def words(size: Any) -> Any:
    """Sequences of numbers of words."""
    return labels(size["sequences"] * size["length"], WORDS).reshape(size["sequences"], -1)


def _wait() -> None:
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def _step(make: Callable[[], Any], x: Any, y: Any, policy: str, compiled: bool = True) -> Work:
    """A training step with Adam."""
    import trainkit as tk

    mixed = tk.keras.mixed_precision
    before = mixed.global_policy()
    mixed.set_global_policy(policy)
    try:
        model = make()
    finally:
        mixed.set_global_policy(before)
    rule: Any = tk.optimizers.Adam(1e-5)
    scales = policy == "mixed_float16"
    if scales:
        rule = tk.optimizers.LossScaleOptimizer(rule)
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = tk.constant(x), tk.constant(y)

    def step(x: Any, y: Any) -> Any:
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
            scaled = rule.scale_loss(loss) if scales else loss
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        return loss

    run = tk.function(step) if compiled else step
    return lambda: run(x, y), _wait


def _matmul(size: Any, policy: str) -> Work:
    """Products one after the other, eagerly."""
    import trainkit as tk

    n, dtype = size["n"], policy.removeprefix("mixed_")
    a, b = (tk.cast(random(n, n) / n**power, dtype) for power in (0, 0.5))

    def run() -> Any:
        x = a
        for _ in range(PRODUCTS):
            x = x @ b
        return x

    return run, _wait


def _dense_layers() -> Any:
    """784-512-512-10."""
    import trainkit as tk

    layers = tk.layers
    return tk.Sequential(
        [
            layers.Dense(512, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.Dense(10, dtype="float32"),
        ]
    )


def _mlp(size: Any, policy: str) -> Work:
    return _step(_dense_layers, random(size["batch"], 784), labels(size["batch"], 10), policy)


def _eager(size: Any, policy: str) -> Work:
    given = random(size["batch"], 784), labels(size["batch"], 10)
    return _step(_dense_layers, *given, policy, compiled=False)


def _cnn(size: Any, policy: str) -> Work:
    """Two convolutions, pooling, a dense layer."""
    import trainkit as tk

    layers = tk.layers

    def make() -> Any:
        return tk.Sequential(
            [
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(10, dtype="float32"),
            ]
        )

    return _step(make, random(size["batch"], 28, 28, 1), labels(size["batch"], 10), policy)


def _resnet50(size: Any, policy: str) -> Work:
    """He et al. 2015, arXiv:1512.03385, table 1, with the stride in the 3 x 3 convolution."""
    import trainkit as tk

    layers = tk.layers

    def conv(x: Any, filters: int, width: int, stride: int = 1, relu: bool = True) -> Any:
        x = layers.Conv2D(filters, width, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.ReLU()(x) if relu else x

    def make() -> Any:
        image = tk.Input((size["pixels"], size["pixels"], 3))
        x = layers.MaxPooling2D(3, 2, padding="same")(conv(image, size["filters"], 7, 2))
        for stage, blocks in enumerate(min(size["deepest"], n) for n in (3, 4, 6, 3)):
            filters = size["filters"] * 2**stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                short = x if block else conv(x, 4 * filters, 1, stride, relu=False)
                y = conv(conv(x, filters, 1), filters, 3, stride)
                x = layers.ReLU()(layers.Add()([short, conv(y, 4 * filters, 1, relu=False)]))
        x = layers.GlobalAveragePooling2D()(x)
        return tk.Model(image, layers.Dense(1000, dtype="float32")(x))

    images = random(size["images"], size["pixels"], size["pixels"], 3)
    return _step(make, images, labels(size["images"], 1000), policy)


def _lstm(size: Any, policy: str) -> Work:
    """Two layers over sequences of vectors."""
    import trainkit as tk

    layers, units = tk.layers, size["units"]

    def make() -> Any:
        return tk.Sequential(
            [
                layers.LSTM(units, return_sequences=True),
                layers.LSTM(units),
                layers.Dense(10, dtype="float32"),
            ]
        )

    sequences = random(size["batch"], size["steps"], units)
    return _step(make, sequences, labels(size["batch"], 10), policy)


def _transformer(size: Any, policy: str) -> Work:
    """An encoder: Vaswani et al. 2017, arXiv:1706.03762, normalized first."""
    import trainkit as tk

    layers, width = tk.layers, size["width"]
    head = min(HEAD, width)

    def make() -> Any:
        given = tk.Input((size["length"],), dtype="int32")
        x = layers.Embedding(WORDS, width)(given)
        for _ in range(size["blocks"]):
            y = layers.LayerNormalization()(x)
            x = layers.Add()([x, layers.MultiHeadAttention(width // head, head)(y, y)])
            y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
            x = layers.Add()([x, layers.Dense(width)(y)])
        x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
        return tk.Model(given, layers.Dense(10, dtype="float32")(x))

    return _step(make, words(size), labels(size["sequences"], 10), policy)


def _adam(size: Any, policy: str) -> Work:
    """One weight, compiled."""
    import trainkit as tk

    weight, grad = tk.Variable(random(size["weights"])), tk.constant(random(size["weights"]))
    rule = tk.optimizers.Adam(1e-5)
    step = tk.function(lambda g: rule.apply([g], [weight]))
    return lambda: step(grad), _wait


def _update(size: Any, policy: str) -> Work:
    """Adam, eagerly."""
    import trainkit as tk

    count = size["updated"] // 160
    weights = [tk.Variable(random(count)) for _ in range(160)]
    grads = [tk.constant(random(count)) for _ in range(160)]
    rule = tk.optimizers.Adam(1e-5)
    return lambda: rule.apply(grads, weights), _wait


def _normalized(shape: Callable[[Any], tuple[int, ...]], mode: str | None = None) -> Any:
    """Makes a normalization of the last axis, of batches for images, and its gradients.

    Args:
        shape: of the input, for sizes.
        mode: how cuDNN is used, `None` to leave it as it is.
    """

    def make(size: Any, policy: str) -> Work:
        import trainkit as tk
        from trainkit.kernels.cudnn import deferred

        if mode is not None:
            deferred.set_mode(mode)
        dtype, dims = policy.removeprefix("mixed_"), shape(size)
        x, g = (tk.cast(random(*dims), dtype) for _ in range(2))
        by_batch = len(dims) == 4
        vectors = [tk.cast(tk.ones(dims[-1:]), "float32" if by_batch else dtype) for _ in range(2)]

        def step(x: Any, g: Any) -> Any:
            with tk.GradientTape() as tape:
                tape.watch((x, *vectors))
                if by_batch:
                    y = tk.ops.fused_batch_normalization(x, *vectors)[0]
                else:
                    y = tk.ops.layer_normalization(x, *vectors)
            return y, tape.gradient(y, (x, *vectors), output_gradients=g)

        run = tk.function(step)
        return lambda: run(x, g), _wait

    return make


def norm_images(size: Any) -> tuple[int, ...]:
    """(images, height, width, channels) of what `batch_norm` normalizes."""
    side = size["pixels"] // 4
    return size["images"], side, side, size["features"]


def norm_sequences(size: Any) -> tuple[int, ...]:
    """(sequences, length, width) of what `layer_norm` normalizes."""
    return size["sequences"], size["length"], size["width"]


def copied(size: Any, policy: str) -> Work:
    """The memory of the weights, read and written."""
    import cupy

    source = cupy.asarray(random(size["weights"]))
    return source.copy, _wait


def by_jax(size: Any, policy: str) -> Work:
    """Products in one compiled loop of JAX."""
    import jax

    n = size["n"]
    a, b = jax.numpy.asarray(random(n, n)), jax.numpy.asarray(random(n, n) / np.float32(n) ** 0.5)
    run = jax.jit(lambda a, b: jax.lax.fori_loop(0, PRODUCTS, lambda i, x: x @ b, a))
    last: list[Any] = []
    return lambda: last.append(run(a, b)), lambda: last.pop().block_until_ready()


TRAINKIT: dict[str, Callable[[Any, str], Work]] = {
    "matmul": _matmul,
    "mlp": _mlp,
    "eager": _eager,
    "cnn": _cnn,
    "lstm": _lstm,
    "transformer": _transformer,
    "resnet50": _resnet50,
    "update": _update,
    "adam": _adam,
    "batch_norm": _normalized(norm_images),
    "layer_norm": _normalized(norm_sequences),
}
"""Makes the work of each case, for sizes and a dtype policy."""
CANDIDATES: dict[str, dict[str, Callable[[Any, str], Work]]] = {
    case: {"own": _normalized(shape, "off"), "cudnn": _normalized(shape, "force")}
    for case, shape in (("batch_norm", norm_images), ("layer_norm", norm_sequences))
}
"""The same by the kernels that trainkit chooses between."""
NO_POLICY = ("update", "adam")
"""Cases of float32 alone."""
NO_TF32 = (*NO_POLICY, *CANDIDATES)
"""Cases without products."""
