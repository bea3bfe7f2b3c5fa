"""How near training steps come to what this processor's own products and copies allow, one thread.

python benchmarks/limits.py [NETWORK ...] [--warm 20] [--seconds 10] [--nodes 12]

The compiled step of each network is gone through node by node, as it runs: what is fused is one
node. A node's floating point operations, counted from its shapes, take at least their time at the
rate of a product of two matrices of 1024 x 1024, and its inputs and outputs at least their time at
the rate at which memory is copied; the larger of the two is the node's limit (Williams, Waterman
and Patterson 2009, the roofline model). Tensors that fit into the second cache count as free.
Operations are those of direct sums: convolutions of 3 x 3 windows take fewer by Winograd's
filtering, so a step may come to more than 100 %.
Times are the processor's, of the whole process on one core, so that other processes matter less.
"""

import os

if __name__ == "__main__":  # before NumPy is there
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # images that set them halve its speed
        os.environ.pop(name, None)
    if hasattr(os, "sched_setaffinity"):  # where kernels have threads of their own, too
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import argparse
import collections
import math
import statistics
import time

import numpy as np
from workloads.models import unet_features

import trainkit as tk

CACHE = 1 << 20  # bytes of the second cache
layers = tk.layers


def _images(batch, size, classes=100):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(batch, size, size, 3)).astype("float32")
    return x, generator.integers(0, classes, batch).astype("int32")


def _application(make, batch=8, size=224):
    x, y = _images(batch, size)
    return make(weights=None, classes=100, input_shape=(size, size, 3)), x, y


def _unet():
    """Three levels of two convolutions down and up, 32 to 256 filters."""
    inputs, x = unet_features(tk.keras)
    x = layers.GlobalAveragePooling2D()(x)
    images, labels = _images(8, 128)
    return tk.Model(inputs, layers.Dense(100, activation="softmax")(x)), images, labels


def _gru():
    stack = [tk.Input((120, 14)), layers.GRU(64, return_sequences=True), layers.GRU(64)]
    generator = np.random.default_rng(0)
    x = generator.normal(size=(64, 120, 14)).astype("float32")
    y = generator.integers(0, 100, 64).astype("int32")
    return tk.Sequential([*stack, layers.Dense(100, activation="softmax")]), x, y


def _wide():
    stack = [layers.Dense(4096, "relu"), layers.Dense(4096, "relu"), layers.Dense(1000, "softmax")]
    generator = np.random.default_rng(0)
    x = generator.normal(size=(256, 2048)).astype("float32")
    return tk.Sequential(stack), x, generator.integers(0, 1000, 256).astype("int32")


APPLICATIONS = tk.keras.applications
NETWORKS = {
    "MobileNetV2": lambda: _application(APPLICATIONS.MobileNetV2),
    "ResNet50": lambda: _application(APPLICATIONS.ResNet50),
    "EfficientNetB0": lambda: _application(APPLICATIONS.EfficientNetB0),
    "DenseNet121": lambda: _application(APPLICATIONS.DenseNet121, 4, 160),
    "unet": _unet,
    "gru": _gru,
    "wide": _wide,
}


def rate_of_products():
    """Floating point operations a second of a product of large matrices."""
    a = np.random.default_rng(0).normal(size=(1024, 1024)).astype("float32")
    b, out = a.T.copy(), np.empty_like(a)
    times = []
    for _ in range(20):
        began = time.process_time()
        np.matmul(a, b, out)
        times.append(time.process_time() - began)
    return 2 * 1024**3 / min(times)


def rate_of_copies():
    """Bytes a second that are read and written by a copy of 64 MB."""
    source = np.ones(1 << 24, "float32")
    target = np.empty_like(source)
    target[:] = 0
    times = []
    for _ in range(12):
        began = time.process_time()
        np.copyto(target, source)
        times.append(time.process_time() - began)
    return 2 * source.nbytes / min(times)


def _size(shape):
    return math.prod(shape)


def _work_of_convolution(node, kernel, result):
    """Two operations for each weight that each number of the result meets."""
    return 2 * _size(result) * _size(kernel[:-1])


def operations(node):
    """Floating point operations of the products in a node; others take less than their memory."""
    kind = node.primitive.name
    inputs = [tuple(x.shape) for x in node.inputs if hasattr(x, "shape")]
    outputs = [tuple(y.shape) for y in node.outputs]
    if kind in ("conv", "conv_transpose"):
        return _work_of_convolution(node, inputs[1], outputs[0])
    if kind == "conv_input_gradient":  # as many as forward: the gradient has the result's shape
        return _work_of_convolution(node, inputs[1], inputs[0])
    if kind == "conv_kernel_gradient":
        return _work_of_convolution(node, outputs[0], inputs[1])
    if kind in ("dense", "matmul"):
        return 2 * _size(outputs[0]) * inputs[0][-1]
    if kind == "dense_gradient":  # inputs: gradient, result, input, kernel
        products = sum(node.settings["wanted"][:2])
        return 2 * products * _size(inputs[0][:-1]) * _size(inputs[3])
    if kind.startswith(("gru", "lstm", "simple_rnn")):
        matrices = [s for s in inputs if len(s) == 2 and s[1] % s[0] == 0 and s[0] > 1]
        steps = max((s[0] * s[1] for s in inputs if len(s) == 3), default=0)
        return (4 if "gradient" in kind else 2) * steps * sum(map(_size, matrices))
    if kind == "fused":
        return sum(operations(inner) for inner in node.primitive.part.nodes if inner.kind == "op")
    return 0


def moved_bytes(node):
    """Bytes of inputs and outputs that no cache holds."""
    tensors = [x for x in (*node.inputs, *node.outputs) if hasattr(x, "shape")]
    sizes = [_size(tuple(x.shape)) * x.dtype.size for x in tensors]
    return sum(size for size in sizes if size > CACHE)


def step_of(model, x, y):
    """The compiled training step and the graph that it runs, once it is fused."""
    model.compile("adam", "sparse_categorical_crossentropy")
    model.build(x.shape)
    weights = model.trainable_variables
    model.optimizer.build(weights)

    @tk.function
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True))
        model.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    x, y = tk.constant(x), tk.constant(y)
    graph = step.get_concrete_function(x, y).graph
    return lambda: step(x, y), graph


def measure(name, warm, seconds):
    """Median seconds of a step and the nodes of the graph that runs."""
    run, graph = step_of(*NETWORKS[name]())
    until = time.monotonic() + warm
    while time.monotonic() < until or graph._program is None or graph._program.fused is None:
        run()
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until or len(times) < 3:
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return statistics.median(times), [n for n in graph._program.fused.graph.nodes if n.kind == "op"]


def main():
    """Print a line for each network, and its kinds of nodes with the largest limits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--warm", type=float, default=20, help="seconds of steps before any counts")
    parser.add_argument("--seconds", type=float, default=10, help="that steps are timed")
    parser.add_argument("--nodes", type=int, default=8, help="kinds of nodes to list")
    args = parser.parse_args()
    unknown = set(args.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"there is no network {sorted(unknown)}; choose of {', '.join(NETWORKS)}")
    for name in args.networks or NETWORKS:
        seconds, nodes = measure(name, args.warm, args.seconds)
        products, copies = rate_of_products(), rate_of_copies()
        print(f"{name}: products {products / 1e9:.0f} GFLOP/s, copies {copies / 1e9:.1f} GB/s")
        totals = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0])
        for node in nodes:
            work, moved = operations(node), moved_bytes(node)
            row = totals[node.primitive.name]
            for i, value in enumerate((1, work, moved, max(work / products, moved / copies))):
                row[i] += value
        limit = sum(row[3] for row in totals.values())
        print(f"  {1e3 * seconds:.1f} ms a step, limit {1e3 * limit:.1f} ms: {limit / seconds:.0%}")
        for kind, (count, work, moved, least) in sorted(totals.items(), key=lambda t: -t[1][3])[
            : args.nodes
        ]:
            print(
                f"    {kind:34} {count:5} nodes {work / 1e9:8.2f} GFLOP {moved / 1e6:8.0f} MB "
                f"{1e3 * least:8.1f} ms"
            )


if __name__ == "__main__":
    main()
