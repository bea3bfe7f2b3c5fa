"""Steps and inference in bfloat16 and float16 beside float32, on one thread.

python benchmarks/mixed_precision.py [NETWORK ...] [--policies mixed_bfloat16 mixed_float16]
    [--inference] [--seconds 6] [--warm 10]

The same network is made under each policy, and their steps take turns in one process; what counts
is the processor's time of the whole process on one core, and a number is the median of the ratios
of neighbours. Images are small, so that a turn takes little.
"""

import os

if __name__ == "__main__":  # before NumPy is there
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # images that set them halve its speed
        os.environ.pop(name, None)

import argparse
import statistics
import sys
import time

import numpy as np
from contestant import LONGEST_COMPILE_SECONDS, compiling
from workloads.models import convnet_features, unet_features

import trainkit as tk

L = tk.layers
CLASSES, WORDS = 10, 1000
TURN_SECONDS = 0.05


def _images(batch, size, channels=3):
    return np.random.default_rng(0).normal(size=(batch, size, size, channels)).astype("float32")


def _rows(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def _words(batch, length):
    return np.random.default_rng(0).integers(0, WORDS, (batch, length)).astype("int32")


def _stack(*stack):
    return tk.Sequential([*stack, L.Dense(CLASSES), L.Activation("softmax", dtype="float32")])


def _application(name, batch, size):
    make = getattr(tk.keras.applications, name)
    x = _images(batch, size)
    features = make(weights=None, include_top=False, input_shape=x.shape[1:], pooling="avg")
    return _stack(features), x


def _small_resnet():
    images = tk.Input((32, 32, 3))
    x = L.Conv2D(16, 3, padding="same", use_bias=False)(images)
    for filters, strides in ((16, 1), (32, 2), (64, 2)):
        y = L.BatchNormalization()(x)
        y = L.ReLU()(y)
        short = L.Conv2D(filters, 1, strides=strides, use_bias=False)(y)
        y = L.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(y)
        y = L.ReLU()(L.BatchNormalization()(y))
        x = L.Add()([short, L.Conv2D(filters, 3, padding="same", use_bias=False)(y)])
    x = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    return _stack(tk.Model(images, x)), _images(16, 32)


def _unet():
    images, x = unet_features(tk.keras, size=64, most_filters=128, convolutions_up=1)
    return _stack(tk.Model(images, L.GlobalAveragePooling2D()(x))), _images(8, 64)


def _separable():
    convolutions = []
    for filters, strides in ((32, 1), (64, 2), (128, 2)):
        convolutions += [
            L.SeparableConv2D(filters, 3, strides=strides, padding="same", use_bias=False),
            L.BatchNormalization(),
            L.Activation("silu"),
        ]
    return _stack(*convolutions, L.GlobalAveragePooling2D()), _images(16, 32)


def _digits():
    return _stack(*convnet_features(tk.keras)), _images(32, 28, 1)


def _gpt():
    width, length = 256, 128
    words = tk.Input((length,), dtype="int32")
    x = L.Embedding(WORDS, width)(words)
    for _ in range(2):
        y = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(8, width // 8)(y, y, use_causal_mask=True)
        y = L.Dense(4 * width, activation="gelu")(L.LayerNormalization()(x))
        x = x + L.Dense(width)(y)
    x = L.GlobalAveragePooling1D()(L.LayerNormalization()(x))
    return _stack(tk.Model(words, x)), _words(8, length)


def _grouped_attention():
    width, length = 256, 128
    words = tk.Input((length,), dtype="int32")
    x = L.Embedding(WORDS, width)(words)
    for _ in range(2):
        y = L.RMSNormalization()(x)
        x = x + L.GroupedQueryAttention(width // 8, 8, 2)(y, y, use_causal_mask=True)
        y = L.RMSNormalization()(x)
        gated = L.Multiply()([L.Dense(2 * width, activation="silu")(y), L.Dense(2 * width)(y)])
        x = x + L.Dense(width)(gated)
    x = L.GlobalAveragePooling1D()(L.RMSNormalization()(x))
    return _stack(tk.Model(words, x)), _words(8, length)


def _causal():
    stack = [L.Conv1D(64, 3, padding="causal", activation="relu") for _ in range(4)]
    return _stack(*stack, L.GlobalAveragePooling1D()), _rows(16, 500, 8)


def _normalized():
    stack = []
    for _ in range(3):
        stack += [L.Dense(256), L.BatchNormalization(), L.ReLU(), L.Dropout(0.2)]
    return _stack(*stack), _rows(256, 64)


NETWORKS = {
    "MobileNetV2": lambda: _application("MobileNetV2", 4, 96),
    "EfficientNetB0": lambda: _application("EfficientNetB0", 4, 96),
    "ResNet50": lambda: _application("ResNet50", 2, 96),
    "small_resnet": _small_resnet,
    "unet": _unet,
    "digits": _digits,
    "separable": _separable,
    "conv1d": _causal,
    "gpt": _gpt,
    "grouped_attention": _grouped_attention,
    "lstm": lambda: (_stack(L.Embedding(WORDS, 64), L.Bidirectional(L.LSTM(64))), _words(32, 100)),
    "gru": lambda: (_stack(L.GRU(64, return_sequences=True), L.GRU(64)), _rows(64, 120, 14)),
    "wide": lambda: (
        _stack(L.Dense(1024, activation="relu"), L.Dense(1024, activation="relu")),
        _rows(256, 256),
    ),
    "dense": lambda: (_stack(L.Dense(128, activation="relu")), _rows(32, 784)),
    "normalized": _normalized,
    "tanh": lambda: (
        _stack(L.Dense(64, activation="tanh"), L.Dense(64, activation="tanh")),
        _rows(32, 32),
    ),
    "embedding": lambda: (
        _stack(L.Embedding(20 * WORDS, 32), L.Flatten(), L.Dense(64, activation="relu")),
        _words(512, 4),
    ),
}
"""By name what makes a network and a batch for it."""


def prepare(name, policy, inference):
    """A step of a network under a policy, or what works out its predictions."""
    tk.mixed_precision.set_global_policy(policy)
    try:
        tk.utils.set_random_seed(0)
        model, x = NETWORKS[name]()
        if inference:
            return _inference(model, x)
        y = np.random.default_rng(1).integers(0, CLASSES, len(x)).astype("int32")
        model.compile("adam", "sparse_categorical_crossentropy", jit_compile=True)
        return lambda: model.train_on_batch(x, y)
    finally:
        tk.mixed_precision.set_global_policy("float32")


def _inference(model, x):
    x = tk.constant(x)
    run = tk.function(lambda x: model(x, training=False), jit_compile=True)
    return lambda: run(x)


def warm_up(step, seconds):
    """Take steps until so many seconds have passed and nothing is compiled any more."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds or (
        compiling() and passed < LONGEST_COMPILE_SECONDS
    ):
        step()


def seconds_of(step, count):
    """The processor's seconds of a step, in the mean of `count`."""
    began = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - began) / count


def ratios(steps, seconds):
    """The first step's seconds, and those of each other one by them, in the median."""
    counts = [max(1, round(TURN_SECONDS / max(seconds_of(step, 3), 1e-6))) for step in steps]
    turns, until = [], time.monotonic() + seconds
    while time.monotonic() < until or len(turns) < 5:
        turns.append([seconds_of(*pair) for pair in zip(steps, counts, strict=True)])
    others = [statistics.median(t[i] / t[0] for t in turns) for i in range(1, len(steps))]
    return statistics.median(t[0] for t in turns), others


def main():
    """Print a line of Markdown for each network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--policies", nargs="+", default=["mixed_bfloat16", "mixed_float16"])
    parser.add_argument("--inference", action="store_true", help="instead of training steps")
    parser.add_argument("--seconds", type=float, default=6, help="that turns last for a network")
    parser.add_argument("--warm", type=float, default=6, help="seconds of each step before that")
    args = parser.parse_args()
    unknown = set(args.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"there is no network {sorted(unknown)}; choose of {', '.join(NETWORKS)}")
    tk.config.threading.set_intra_op_parallelism_threads(1)
    print("| network | float32, ms |", *(f"{policy} |" for policy in args.policies))
    for name in args.networks or NETWORKS:
        steps = [prepare(name, policy, args.inference) for policy in ("float32", *args.policies)]
        for step in steps:
            warm_up(step, args.warm)
        base, others = ratios(steps, args.seconds)
        print(f"| {name} | {1e3 * base:.2f} |", *(f"{ratio:.2f} |" for ratio in others), flush=True)


if __name__ == "__main__":
    sys.exit(main())
