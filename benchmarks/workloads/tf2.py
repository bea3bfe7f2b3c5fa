"""trainkit and TensorFlow: the same lines, for whichever of them is handed in as `tk`."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from timing import Step

from workloads import inputs
from workloads.models import STEPS, classes, mlp

SCALARS, HISTOGRAMS = 5000, 100


class TensorFlow:
    """TensorFlow and its Keras under one name."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.tf = tf

    def __getattr__(self, name: str) -> Any:
        found = None if name == "data" else getattr(self.tf.keras, name, None)
        return getattr(self.tf, name) if found is None else found


def wrapped(tk: Any, mode: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as it is, or as a graph."""
    if mode == "eager":
        return step
    return tk.function(step, jit_compile=True) if mode == "xla" else tk.function(step)


def training_step(tk: Any, workload: str, mode: str) -> Step:
    """A model's step, written as a loop of one's own."""
    make_model, make_loss, make_optimizer, make_batch = STEPS[workload]
    model, loss_of, optimizer = make_model(tk), make_loss(tk), make_optimizer(tk)
    x, y = (tk.constant(a) for a in make_batch())
    variables = model.trainable_variables
    optimizer.build(variables)

    def step(x: Any, y: Any) -> Any:
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        grads = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(grads, variables, strict=True))
        return loss

    run = wrapped(tk, mode, step)
    return lambda: np.asarray(run(x, y))


def linreg(tk: Any, mode: str) -> Step:
    """The regression of the eager guide."""
    w, b = tk.Variable(5.0), tk.Variable(10.0)
    optimizer = tk.optimizers.SGD(0.01)
    optimizer.build([w, b])
    x, y = (tk.constant(a) for a in inputs.line())

    def step(x: Any, y: Any) -> Any:
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.square(x * w + b - y))
        grads = tape.gradient(loss, [w, b])
        optimizer.apply_gradients(zip(grads, [w, b], strict=True))
        return loss

    run = wrapped(tk, mode, step)
    return lambda: np.asarray(run(x, y))


def chain(tk: Any, shape: tuple[int, ...], grad: bool) -> Step:
    """10,000 small operations, forward, or forward and backward."""
    x, y, first = (tk.constant(a) for a in inputs.links(shape))

    def forward() -> Any:
        z = first
        for _ in range(5000):
            z = x * y + z
        return z

    def both() -> Any:
        with tk.GradientTape() as tape:
            tape.watch([x, y])
            z = forward()
        return tape.gradient(z, [x, y])[0]

    return both if grad else forward


def power(tk: Any, mode: str) -> Step:
    """A hundred products of integer matrices."""
    x = tk.constant(inputs.whole_matrix())

    def product(x: Any) -> Any:
        y = tk.eye(10, dtype=tk.int32)
        for _ in range(100):
            y = tk.matmul(x, y)
        return y

    run = wrapped(tk, mode, product)
    return lambda: np.asarray(run(x))


def dynamic(tk: Any) -> Step:
    """A chain whose links the data decides, and its gradient."""
    turns, matrices, row = inputs.decisions()
    w, x = [tk.Variable(m) for m in matrices], tk.constant(row)

    def step() -> Any:
        with tk.GradientTape() as tape:
            h = x
            for i, turn in enumerate(turns):
                h = tk.tanh(tk.matmul(h, w[turn]))
                if i % 8 == 7 and float(h[0, 0]) > 0:
                    h = h + x
            loss = tk.reduce_sum(h * h)
        return np.asarray(tape.gradient(loss, w)[0])

    return step


def optimizer_step(tk: Any, workload: str, mode: str) -> Step:
    """Adam alone."""
    pairs = inputs.weights_of_adam(workload)
    variables = [tk.Variable(w) for w, _ in pairs]
    grads = [tk.constant(g) for _, g in pairs]
    optimizer = tk.optimizers.Adam(1e-3)
    optimizer.build(variables)

    def step() -> Any:
        optimizer.apply_gradients(zip(grads, variables, strict=True))

    run = wrapped(tk, mode, step)

    def done() -> None:
        run()
        np.asarray(variables[0][:1])

    return done


PAIRS = 10
"""Epochs with and without a bar, in turns, whose median is a sample."""


class BarCost:
    """The time of an epoch with a bar, by that of a quiet one that follows or precedes it."""

    def __init__(self, epoch: Callable[[int], float]) -> None:
        self._epoch = epoch

    def __call__(self) -> float:
        """A quiet epoch and one with a bar; the loss."""
        self._epoch(0)
        return self._epoch(1)

    def measured(self) -> float:
        """The median over some pairs, every other one in the opposite order."""
        ratios = []
        for number in range(PAIRS):
            seconds = {}
            for verbose in (0, 1) if number % 2 else (1, 0):
                start = time.perf_counter()
                self._epoch(verbose)
                seconds[verbose] = time.perf_counter() - start
            ratios.append(seconds[1] / seconds[0])
        return statistics.median(ratios)


def fitting(K: Any, workload: str) -> Iterator[Step]:
    """`fit` over 10,000 images, for any Keras; a bar is drawn on a terminal that nobody reads."""
    from workloads.terminal import Terminal

    x, y = inputs.flat_batch(10_000)
    model = mlp(K)
    model.compile(K.optimizers.Adam(1e-5), classes(K), metrics=["accuracy"])

    def epoch(verbose: int) -> float:
        history = model.fit(x, y, batch_size=32, epochs=1, verbose=verbose)
        return float(history.history["loss"][0])

    if workload == "fit_epoch_quiet":
        yield lambda: epoch(0)
        return
    with Terminal():
        yield BarCost(epoch) if workload == "fit_epoch_bar" else lambda: epoch(1)


def pipeline(tk: Any, mode: str) -> Step:
    """60,000 images through map, shuffle, batch and, with `autotune`, prefetch."""
    auto = tk.data.AUTOTUNE if mode == "autotune" else None
    slices = tk.data.Dataset.from_tensor_slices(inputs.images(60_000))
    data = slices.map(lambda x, y: (tk.cast(x, tk.float32) / 255.0, y), num_parallel_calls=auto)
    data = data.shuffle(1000).batch(32)
    if auto is not None:
        data = data.prefetch(auto)

    def step() -> None:
        seen = sum(int(x.shape[0]) for x, _ in data)
        assert seen == 60_000

    return step


def summaries(tk: Any, histograms: bool) -> Iterator[Step]:
    """Scalars or histograms into an event file."""
    values, number = inputs.normal(24, 10_000), 0

    def step() -> None:
        nonlocal number
        with writer.as_default():
            for _ in range(HISTOGRAMS if histograms else SCALARS):
                number += 1
                if histograms:
                    tk.summary.histogram("w", values, step=number)
                else:
                    tk.summary.scalar("loss", 0.5, step=number)

    with tempfile.TemporaryDirectory() as folder:
        writer = tk.summary.create_file_writer(folder)
        yield step
        writer.close()


def product(tk: Any, workload: str) -> Step:
    """One product of matrices."""
    a, b = (tk.constant(m) for m in inputs.factors(workload))
    return lambda: np.asarray(tk.matmul(a, b))


def start(tk: Any, workload: str, mode: str) -> Any:
    """The step of a workload, or an iterator that yields it and cleans up."""
    if workload in STEPS:
        return training_step(tk, workload, mode)
    if workload.startswith("scalar_ops"):
        shape = (1,) if "_1_" in workload else (10, 10)
        return chain(tk, shape, workload.endswith("grad"))
    if workload.startswith("optimizer"):
        return optimizer_step(tk, workload, mode)
    if workload.startswith("sgemm"):
        return product(tk, workload)
    if workload.startswith("fit_epoch"):
        return fitting(tk, workload)
    if workload.startswith("summary"):
        return summaries(tk, workload.endswith("histograms"))
    by_mode = {"linreg_step": linreg, "power_graph": power, "input_pipeline": pipeline}
    return dynamic(tk) if workload == "dynamic_small_ops" else by_mode[workload](tk, mode)
