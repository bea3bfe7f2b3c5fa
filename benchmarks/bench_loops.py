"""A training step through a loop over time, written as `for t in tf.range(steps)`.

A simple recurrent cell, 50 steps of batch 32 with 16 inputs and 64 units: the gradients by its
three weights, and SGD.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Benchmark, Step

STEPS, BATCH, INPUTS, UNITS = 50, 32, 16, 64


def arrays() -> list[Any]:
    """Inputs (steps, batch, inputs), kernel, recurrent kernel, bias."""
    rng = np.random.default_rng(4)

    def normal(*shape: int, scale: float) -> Any:
        return (rng.normal(size=shape) * scale).astype("float32")

    return [
        normal(STEPS, BATCH, INPUTS, scale=1.0),
        normal(INPUTS, UNITS, scale=0.2),
        normal(UNITS, UNITS, scale=0.1),
        np.zeros(UNITS, "float32"),
    ]


def _collecting(tf: Any, decorate: Callable[[Any], Any]) -> Step:
    """As `_step`, but the states are collected in an array, and the loss is that of all of them."""
    x, *start = arrays()
    xs = tf.constant(x)
    weights = [tf.Variable(w) for w in start]

    @decorate
    def train(xs: Any) -> Any:
        kernel, recurrent, bias = weights
        with tf.GradientTape() as tape:
            h = tf.zeros([BATCH, UNITS])
            states = tf.TensorArray(tf.float32, size=STEPS)
            for t in tf.range(STEPS):
                h = tf.tanh(tf.matmul(xs[t], kernel) + tf.matmul(h, recurrent) + bias)
                states = states.write(t, h)
            loss = tf.reduce_mean(tf.square(states.stack()))
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(1e-6 * g)
        return loss

    return lambda: train(xs).numpy()


def _step(tf: Any, decorate: Callable[[Any], Any]) -> Step:
    """The training step, on TensorFlow or on what has its names."""
    x, *start = arrays()
    xs = tf.constant(x)
    weights = [tf.Variable(w) for w in start]

    @decorate
    def train(xs: Any) -> Any:
        kernel, recurrent, bias = weights
        with tf.GradientTape() as tape:
            h = tf.zeros([BATCH, UNITS])
            loss = tf.constant(0.0)
            for t in tf.range(STEPS):
                h = tf.tanh(tf.matmul(xs[t], kernel) + tf.matmul(h, recurrent) + bias)
                loss += tf.reduce_mean(h * h)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(1e-6 * g)
        return loss

    return lambda: train(xs).numpy()


def trainkit_function() -> Step:
    """As a graph, with the loop as one node of it."""
    import trainkit as tk

    return _step(tk, tk.function)


def trainkit_eager() -> Step:
    """Operation by operation."""
    import trainkit as tk

    return _step(tk, lambda f: f)


def tensorflow_function() -> Step:
    """TensorFlow's graph."""
    import tensorflow as tf

    return _step(tf, tf.function)


def trainkit_collecting() -> Step:
    """As a graph, with the states in an array."""
    import trainkit as tk

    return _collecting(tk, tk.function)


def tensorflow_collecting() -> Step:
    """TensorFlow's graph, with the states in an array."""
    import tensorflow as tf

    return _collecting(tf, tf.function)


BENCHMARKS = [
    Benchmark(
        "a training step that collects the states of 50 steps",
        "us/step",
        1e6,
        {"trainkit, function": trainkit_collecting, "TensorFlow, function": tensorflow_collecting},
    ),
    Benchmark(
        "a training step through a loop over 50 steps",
        "us/step",
        1e6,
        {
            "trainkit, function": trainkit_function,
            "trainkit, eager": trainkit_eager,
            "TensorFlow, function": tensorflow_function,
        },
    ),
]
