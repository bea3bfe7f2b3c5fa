"""Functions of unknown sizes beside the same with sizes written: `unknown_sizes.py [WORD ...]`.

Each function is made with `None` for a size in its `input_signature`, and with the size; both take
turns in one process on one thread, and what counts is the processor's time. Printed is a line of
Markdown for each: the time with the size in microseconds, and that without it by that, median over
the rounds. Words choose functions by parts of their names. `--jit` passes `jit_compile=True`;
`--models` measures what models do with batches of many sizes by that with batches of one.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything starts threads

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

import numpy as np  # noqa: E402

import trainkit as tk  # noqa: E402  found through the line before
from trainkit.core.process import side_work  # noqa: E402

Step = Callable[[], Any]
Maker = Callable[[bool, "bool | None"], Step]
"""Makes a step: of unknown sizes or not, and what `jit_compile` is."""

SAMPLE_SECONDS = 0.05
WARM_SECONDS, WARM_TURNS = 0.5, 2
"""Code that pays is made in the background; after so many turns without any there is no more."""
BATCH, LENGTH = 32, 20


def _floats(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return tk.constant(rng.normal(size=shape).astype("float32"))


def _function(f: Any, xs: Sequence[Any], axes: int = 1, *, constant: Sequence[int] = ()) -> Maker:
    """A step of a function of tensors whose first `axes` sizes are unknown, but for `constant`."""

    def make(unknown: bool, jit: bool | None) -> Step:
        body = f() if getattr(f, "makes_body", False) else f
        specs = []
        for i, x in enumerate(xs):
            shape = list(x.shape)
            if unknown and i not in constant:
                for axis in range(min(axes, len(shape))):
                    shape[axis] = None
            specs.append(tk.TensorSpec(shape, x.dtype))
        run = tk.function(body, input_signature=specs, jit_compile=jit)
        return lambda: run(*xs)

    return make


def _chain(x: Any) -> Any:
    return tk.nn.relu(x * 2.0 + 1.0) / 3.0 - tk.sqrt(tk.abs(x)) + x


def _reduced(axis: int) -> Any:
    return lambda x: tk.reduce_sum(x * 2.0 + 1.0, axis) * 0.5


def _normalized(x: Any) -> Any:
    mean = tk.reduce_mean(x, -1, keepdims=True)
    square = tk.reduce_mean(tk.square(x - mean), -1, keepdims=True)
    return (x - mean) * tk.math.rsqrt(square + 1e-5)


def _loss(logits: Any, labels: Any) -> Any:
    with tk.GradientTape() as tape:
        tape.watch(logits)
        losses = tk.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tk.reduce_mean(losses)
    return loss, tape.gradient(loss, logits)


def _squared_loss(x: Any, y: Any) -> Any:
    with tk.GradientTape() as tape:
        tape.watch(x)
        loss = tk.reduce_mean(tk.square(tk.sigmoid(x) - y))
    return loss, tape.gradient(loss, x)


def _dense(x: Any) -> Any:
    return tk.nn.relu(tk.matmul(x, _KERNEL) + _BIAS)


_KERNEL, _BIAS = _floats(64, 64) * 0.1, _floats(64)


def _training(make_model: Callable[[], Any]) -> Any:
    """A body: a step of Adam on a model, with labels of ten classes."""

    def make_body() -> Any:
        tk.random.set_seed(1)
        model, optimizer = make_model(), tk.optimizers.Adam()

        def step(x: Any, labels: Any) -> Any:
            with tk.GradientTape() as tape:
                logits = model(x, training=True)
                losses = tk.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tk.reduce_mean(losses)
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        return step

    make_body.makes_body = True  # type: ignore[attr-defined]
    return make_body


def _mlp() -> Any:
    dense = tk.layers.Dense
    return tk.Sequential(
        [tk.Input((64,)), dense(128, activation="relu"), dense(128, activation="relu"), dense(10)]
    )


def _resnet() -> Any:
    layers = tk.layers
    x = image = tk.Input((16, 16, 3))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
    for _ in range(2):
        y = layers.ReLU()(layers.BatchNormalization()(x))
        y = layers.Conv2D(16, 3, padding="same", use_bias=False)(y)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        x = layers.Add()([x, layers.Conv2D(16, 3, padding="same", use_bias=False)(y)])
    return tk.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def _lstm(masked: bool) -> Any:
    first = [tk.layers.Masking()] if masked else []
    return tk.Sequential([tk.Input((None, 16)), *first, tk.layers.LSTM(32), tk.layers.Dense(10)])


def _transformer() -> Any:
    layers = tk.layers
    x = tokens = tk.Input((None, 32))
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 8)(y, y)])
    y = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
    x = layers.Add()([x, layers.Dense(32)(y)])
    return tk.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def _embedding() -> Any:
    layers = tk.layers
    tokens = tk.Input((None,), dtype="int32")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(1000, 32)(tokens))
    return tk.Model(tokens, layers.Dense(10)(x))


_LABELS = tk.constant(np.arange(BATCH) % 10, "int32")
_SEQUENCE = _floats(BATCH, LENGTH, 16)
_TOKENS = tk.constant(np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) * 7 % 1000, "int32")
_VECTORS = _floats(BATCH, LENGTH, 32)


def _step(model: Callable[[], Any], x: Any, axes: int = 1) -> Maker:
    return _function(_training(model), [x, _LABELS], axes)


FUNCTIONS: dict[str, Maker] = {
    **{
        f"seven operations, {n:,} floats": _function(_chain, [_floats(n)])
        for n in (1000, 100_000, 1_000_000)
    },
    "sum of rows, 100 x 1000": _function(_reduced(1), [_floats(100, 1000)]),
    "sum of columns, 100 x 1000": _function(_reduced(0), [_floats(100, 1000)]),
    "softmax, 64 x 100": _function(lambda x: tk.nn.softmax(x * 0.5), [_floats(64, 100)]),
    "softmax, 1000 x 1000": _function(lambda x: tk.nn.softmax(x * 0.5), [_floats(1000, 1000)]),
    "layer normalization, 64 x 128": _function(_normalized, [_floats(64, 128)]),
    "cross-entropy and gradient, 32 x 10": _function(_loss, [_floats(BATCH, 10), _LABELS]),
    "squared error and gradient, 256 x 10": _function(
        _squared_loss, [_floats(256, 10), _floats(256, 10)]
    ),
    "matmul, bias, relu, 32 x 64": _function(_dense, [_floats(BATCH, 64)]),
    "MLP, step of Adam": _step(_mlp, _floats(BATCH, 64)),
    "small ResNet, step of Adam": _step(_resnet, _floats(BATCH, 16, 16, 3)),
    "LSTM, step of Adam": _step(lambda: _lstm(False), _SEQUENCE),
    "LSTM with a mask, step of Adam": _step(lambda: _lstm(True), _SEQUENCE),
    "transformer block, step of Adam": _step(_transformer, _VECTORS),
    "embedding, step of Adam": _step(_embedding, _TOKENS),
    "two sizes: softmax, 64 x 100": _function(
        lambda x: tk.nn.softmax(x * 0.5), [_floats(64, 100)], 2
    ),
    "two sizes: LSTM, step of Adam": _step(lambda: _lstm(False), _SEQUENCE, 2),
    "two sizes: transformer block, step of Adam": _step(_transformer, _VECTORS, 2),
    "two sizes: embedding, step of Adam": _step(_embedding, _TOKENS, 2),
}


# ------------------------------------------------------------------ models


def _compiled(make_model: Callable[[], Any]) -> Any:
    tk.random.set_seed(1)
    model = make_model()
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def _batches(sizes: Sequence[int]) -> list[Any]:
    return [(_floats(n, 64).numpy(), np.arange(n, dtype="int32") % 10) for n in sizes]


def _on_batches(sizes: Sequence[int]) -> Step:
    """`train_on_batch` with these in turns."""
    model, batches = _compiled(_mlp), _batches(sizes)

    def step() -> None:
        for x, y in batches:
            model.train_on_batch(x, y)

    return step


def _fitting(rows: int) -> Step:
    model, [(x, y)] = _compiled(_mlp), _batches([rows])
    return lambda: model.fit(x, y, batch_size=32, verbose=0, shuffle=False)


def _predicting(sizes: Sequence[int]) -> Step:
    model, batches = _compiled(_mlp), _batches(sizes)

    def step() -> None:
        for x, _ in batches:
            model.predict(x, batch_size=64, verbose=0)

    return step


def _evenly(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes) // len(sizes)] * len(sizes)


SEVEN = (26, 28, 30, 32, 34, 36, 38)
MODELS: dict[str, tuple[Callable[[], Step], Callable[[], Step]]] = {
    "train_on_batch, seven sizes in turns": (
        lambda: _on_batches(_evenly(SEVEN)),
        lambda: _on_batches(SEVEN),
    ),
    "fit, 20 batches, the last one of 16": (lambda: _fitting(640), lambda: _fitting(624)),
    "predict, seven sizes": (lambda: _predicting(_evenly(SEVEN)), lambda: _predicting(SEVEN)),
}


# ------------------------------------------------------------------ timing


def _warm(step: Step) -> None:
    """Call `step` until nothing more is compiled behind it."""
    quiet = 0
    while quiet < WARM_TURNS:
        start = time.process_time()
        while time.process_time() - start < WARM_SECONDS:
            step()
        threads = list(side_work._THREADS)
        for thread in threads:
            thread.join()
        quiet = 0 if threads else quiet + 1


def _seconds(step: Step, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - start) / calls


def compare(steps: Sequence[Step], rounds: int) -> tuple[float, float]:
    """Seconds of the first step, and the other's by these, medians over rounds in turns."""
    for step in steps:
        _warm(step)
    counts = [max(1, int(SAMPLE_SECONDS / _seconds(step, 3))) for step in steps]
    pairs = []
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        times = {i: _seconds(steps[i], counts[i]) for i in order}
        pairs.append((times[0], times[1]))
    first = statistics.median(a for a, _ in pairs)
    return first, statistics.median(b / a for a, b in pairs)


def main() -> None:
    """Measure what the words of the command line choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jit", action="store_true", help="with jit_compile=True")
    parser.add_argument("--models", action="store_true", help="methods of models instead")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    jit = True if args.jit else None
    cases: dict[str, Any] = dict(MODELS)
    if not args.models:
        cases = {
            name: (lambda make=make: make(False, jit), lambda make=make: make(True, jit))
            for name, make in FUNCTIONS.items()
        }
    print("| what | size written, us | None by written |\n|---|---|---|")
    for name, makers in cases.items():
        if args.words and not any(word in name for word in args.words):
            continue
        seconds, ratio = compare([make() for make in makers], args.rounds)
        print(f"| {name} | {seconds * 1e6:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
