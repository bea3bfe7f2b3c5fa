"""What a GPU makes of trainkit, beside PyTorch and JAX where they are: `python benchmarks/gpu.py`.

matmul    200 products of two float32 matrices
mlp, cnn  a compiled training step
resnet50  a compiled training step on images of 224 x 224
adam      the update of 100 million float32 weights, beside the bandwidth of a copy
update    the eager update of 160 weights with 25 million elements together, as in a ResNet-50

TRAINKIT_CUDA_GRAPHS=0 measures compiled steps launched operation by operation, and TRAINKIT_JIT=0
without kernels of their own.

Each time is the median of the rounds; a round waits for the GPU at its end. `--small` takes sizes
that any machine runs in seconds, to see that all of it works. `--json FILE` keeps the numbers.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent), str(pathlib.Path(__file__).parent)]
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others

import numpy as np  # noqa: E402  found through the lines before
from gpu_torch import TORCH  # noqa: E402

Work = tuple[Callable[[], Any], Callable[[], Any]]
"""What is timed, and what waits until the GPU has done it."""

SIZES = {
    "full": {
        "n": 4096,
        "batch": 256,
        "images": 32,
        "pixels": 224,
        "weights": 100_000_000,
        "updated": 25_000_000,
    },
    "small": {"n": 32, "batch": 8, "images": 2, "pixels": 32, "weights": 1000, "updated": 16_000},
}
PRODUCTS = 200


def random(*shape: int) -> Any:
    """Normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


# ---------------------------------------------------------------------- trainkit


def _wait() -> None:
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def trainkit_matmul(size: Any) -> Work:
    """Products one after the other, eagerly."""
    import trainkit as tk

    n = size["n"]
    a, b = tk.constant(random(n, n)), tk.constant(random(n, n) / np.float32(n) ** 0.5)

    def run() -> Any:
        x = a
        for _ in range(PRODUCTS):
            x = x @ b
        return x

    return run, _wait


def _step(model: Any, x: Any, y: Any) -> Work:
    """A compiled training step with Adam."""
    import trainkit as tk

    rule, loss_of = (
        tk.optimizers.Adam(1e-5),
        tk.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    x, y = tk.constant(x), tk.constant(y)

    @tk.function
    def step(x: Any, y: Any) -> Any:
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return lambda: step(x, y), _wait


def trainkit_mlp(size: Any) -> Work:
    """784-512-512-10."""
    import trainkit as tk

    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Dense(512, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.Dense(10),
        ]
    )
    return _step(model, random(size["batch"], 784), labels(size["batch"], 10))


def trainkit_cnn(size: Any) -> Work:
    """Two convolutions, pooling, a dense layer."""
    import trainkit as tk

    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    return _step(model, random(size["batch"], 28, 28, 1), labels(size["batch"], 10))


def trainkit_resnet50(size: Any) -> Work:
    """He et al. 2015, arXiv:1512.03385, table 1, with the stride in the 3 x 3 convolution."""
    import trainkit as tk

    layers = tk.layers
    image = tk.Input((size["pixels"], size["pixels"], 3))

    def conv(x: Any, filters: int, width: int, stride: int = 1, relu: bool = True) -> Any:
        x = layers.Conv2D(filters, width, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.ReLU()(x) if relu else x

    x = layers.MaxPooling2D(3, 2, padding="same")(conv(image, 64, 7, 2))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        filters = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            short = x if block else conv(x, 4 * filters, 1, stride, relu=False)
            y = conv(conv(x, filters, 1), filters, 3, stride)
            x = layers.ReLU()(layers.Add()([short, conv(y, 4 * filters, 1, relu=False)]))
    model = tk.Model(image, layers.Dense(1000)(layers.GlobalAveragePooling2D()(x)))
    images = random(size["images"], size["pixels"], size["pixels"], 3)
    return _step(model, images, labels(size["images"], 1000))


def trainkit_adam(size: Any) -> Work:
    """One weight, compiled."""
    import trainkit as tk

    weight, grad = tk.Variable(random(size["weights"])), tk.constant(random(size["weights"]))
    rule = tk.optimizers.Adam(1e-5)
    step = tk.function(lambda g: rule.apply([g], [weight]))
    return lambda: step(grad), _wait


def trainkit_update(size: Any) -> Work:
    """Adam, eagerly."""
    import trainkit as tk

    count = size["updated"] // 160
    weights = [tk.Variable(random(count)) for _ in range(160)]
    grads = [tk.constant(random(count)) for _ in range(160)]
    rule = tk.optimizers.Adam(1e-5)
    return lambda: rule.apply(grads, weights), _wait


def trainkit_copy(size: Any) -> Work:
    """The memory of the weights, read and written."""
    import cupy

    source = cupy.asarray(random(size["weights"]))
    return source.copy, _wait


# ---------------------------------------------------------------------- JAX


def jax_matmul(size: Any) -> Work:
    """Products in one compiled loop."""
    import jax

    n = size["n"]
    a, b = jax.numpy.asarray(random(n, n)), jax.numpy.asarray(random(n, n) / np.float32(n) ** 0.5)
    run = jax.jit(lambda a, b: jax.lax.fori_loop(0, PRODUCTS, lambda i, x: x @ b, a))
    last: list[Any] = []
    return lambda: last.append(run(a, b)), lambda: last.pop().block_until_ready()


def labels(count: int, classes: int) -> Any:
    """Class numbers."""
    return (np.arange(count) % classes).astype(np.int32)


CASES: dict[str, dict[str, Callable[[Any], Work]]] = {
    "matmul": {"trainkit": trainkit_matmul, "jax": jax_matmul},
    "mlp": {"trainkit": trainkit_mlp},
    "cnn": {"trainkit": trainkit_cnn},
    "resnet50": {"trainkit": trainkit_resnet50},
    "update": {"trainkit": trainkit_update},
    "adam": {"trainkit": trainkit_adam, "copy": trainkit_copy},
}
for _case, _made in TORCH.items():
    CASES[_case]["torch"] = _made


# ---------------------------------------------------------------------- measuring


def seconds(work: Work, rounds: int, least: float) -> float:
    """The median time of one call, in rounds that take `least` seconds or more each."""
    run, wait = work
    for _ in range(2):
        run()
        wait()
    calls, taken = 1, _round(run, wait, 1)
    calls = max(1, int(least / max(taken, 1e-6)))
    return statistics.median(_round(run, wait, calls) / calls for _ in range(rounds))


def _round(run: Any, wait: Any, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return time.perf_counter() - start


def rate(case: str, name: str, size: Any, taken: float) -> str:
    """What the time means: arithmetic, or bytes read and written."""
    if case == "matmul":
        return f"{PRODUCTS * 2 * size['n'] ** 3 / taken / 1e12:9.2f} TFLOP/s"
    if case == "update":
        return f"{7 * 4 * size['updated'] / taken / 1e9:9.1f} GB/s"
    if case == "adam":  # four arrays are read and three written; a copy reads one and writes one
        moved = (2 if name == "copy" else 7) * 4 * size["weights"]
        return f"{moved / taken / 1e9:9.1f} GB/s"
    count = size["images"] if case == "resnet50" else size["batch"]
    return f"{count / taken:9.0f} examples/s"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round, at least")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"there is no case {sorted(unknown)}; there are {', '.join(CASES)}")
    from trainkit.core import devices

    if not devices.gpu_count():
        raise SystemExit(devices.missing_message("/gpu:0"))
    size, found = SIZES["small" if options.small else "full"], {}
    for case in options.cases or CASES:
        for name, make in CASES[case].items():
            try:
                taken = seconds(make(size), options.rounds, options.seconds)
            except ImportError:
                continue
            found[f"{case} {name}"] = taken
            print(
                f"{case:9} {name:9} {1e3 * taken:11.3f} ms {rate(case, name, size, taken)}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps({"size": size, "seconds": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
