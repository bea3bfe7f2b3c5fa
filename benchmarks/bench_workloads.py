"""Whole pieces of work beside other frameworks: training steps, `fit`, data, summaries, products.

A contestant is named by its framework and how it was asked: `torch tuned`, `keras-jax fit`. A step
that learns uses the same weights and the same batch everywhere.
"""

import functools
import os
import pathlib
import subprocess
import sys
from typing import Any

from timing import Benchmark

ROOT = pathlib.Path(__file__).parent.parent

_TF2 = ("trainkit", "trainkit function", "tensorflow eager", "tensorflow function")
_XLA = ("tensorflow xla",)
_TORCH = ("torch eager", "torch tuned", "torch compiled")
_KERAS = ("keras-jax fit", "keras-torch fit", "keras-tensorflow fit")
_CONV = (*_TF2, *_TORCH, "jax jit", *_KERAS)
_STEP = (*_TF2, *_XLA, *_TORCH, "jax jit", *_KERAS)
_EAGER = ("trainkit", "tensorflow", "torch", "jax")
_FIT = ("trainkit fit", *_KERAS, "torch loop")
_SUMMARY = ("trainkit", "tensorflow", "torch")
_ADAM = (*_TF2, *_XLA, "torch forloop", "torch foreach", "torch fused", "jax jit", "numpy")
_PIPELINE = ("plain", "autotune")

# name: unit, scale, whether it is a rate, contestants
WORKLOADS: dict[str, tuple[str, float, bool, tuple[str, ...]]] = {
    "import": ("s", 1, False, (*_EAGER, "keras-jax", "numpy")),
    "scalar_ops_1_fwd": ("ns/op", 1e5, False, (*_EAGER, "numpy")),
    "scalar_ops_1_grad": ("ns/op", 1e5, False, _EAGER),
    "scalar_ops_10x10_fwd": ("ns/op", 1e5, False, (*_EAGER, "numpy")),
    "scalar_ops_10x10_grad": ("ns/op", 1e5, False, _EAGER),
    "dynamic_small_ops": ("ms/sample", 1e3, False, _EAGER),
    "linreg_step": ("us/step", 1e6, False, (*_TF2, *_XLA, *_TORCH, "jax jit", "numpy")),
    "power_graph": (
        "ms/call",
        1e3,
        False,
        (*_TF2, *_XLA, "torch", "torch compiled", "jax jit", "numpy"),
    ),
    "mlp_step_b32": ("us/step", 1e6, False, (*_STEP, "numpy")),
    "mlp_step_b128": ("us/step", 1e6, False, (*_STEP, "numpy")),
    "cnn_step": ("ms/step", 1e3, False, _CONV),
    "convnet_step": ("ms/step", 1e3, False, _CONV),
    "lstm_step": ("ms/step", 1e3, False, _STEP),
    "transformer_step": ("ms/step", 1e3, False, _STEP),
    "resnet_step": ("ms/step", 1e3, False, _CONV),
    "fit_epoch_quiet": ("s/epoch", 1, False, _FIT),
    "fit_epoch_progress": ("s/epoch", 1, False, _FIT),
    "fit_epoch_bar": ("x a quiet epoch", 1, False, ("trainkit fit", *_KERAS)),
    "optimizer_100x100k": ("GB/s", 0.28, True, _ADAM),
    "optimizer_1x10m": ("GB/s", 0.28, True, _ADAM),
    "input_pipeline": (
        "images/s",
        60_000,
        True,
        (
            *[f"{name} {mode}" for name in ("trainkit", "tensorflow") for mode in _PIPELINE],
            "torch alone",
            "torch 2 workers",
            "numpy",
        ),
    ),
    "summary_scalars": ("scalars/s", 5000, True, _SUMMARY),
    "summary_histograms": ("hist/s", 100, True, _SUMMARY),
    "sgemm_2048": ("GFLOP/s", 2 * 2048**3 / 1e9, True, (*_EAGER, "numpy")),
    "sgemm_mlp": ("GFLOP/s", 2 * 32 * 784 * 128 / 1e9, True, (*_EAGER, "numpy")),
    "memcpy": ("GB/s", 1.024, True, ("numpy",)),
}


CHANCE = {"convnet_step"}
"""Steps with dropout, whose losses differ."""


def started(workload: str, contestant: str) -> Any:
    """The step of a contestant, or an iterator that yields it; its framework is imported now."""
    framework, _, mode = contestant.partition(" ")
    mode = mode or "eager"
    if workload == "import":
        return functools.partial(imported, framework)
    if framework == "trainkit":
        from workloads import tf2

        import trainkit

        return tf2.start(trainkit, workload, mode)
    if framework == "tensorflow":
        from workloads import tf2

        return tf2.start(tf2.TensorFlow(), workload, mode)
    if framework == "torch":
        from workloads import torch_steps

        return torch_steps.start(workload, mode)
    if framework == "jax":
        from workloads import jax_steps

        return jax_steps.start(workload, mode)
    if framework == "numpy":
        from workloads import numpy_steps

        return numpy_steps.start(workload)
    from workloads import keras_fit

    return keras_fit.start(framework.removeprefix("keras-"), workload)


def imported(framework: str) -> None:
    """A fresh interpreter that imports a framework and ends."""
    name, _, backend = framework.partition("-")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": backend or "jax"}
    code = "import jax.numpy" if name == "jax" else f"import {name}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    if done.returncode:
        raise ImportError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])


def _calls(workload: str, contestant: str) -> int:
    """How many steps one call of the contestant does."""
    if not contestant.startswith("keras"):
        return 1
    from workloads.keras_fit import batches_of

    return batches_of(workload)


def _benchmark(name: str) -> Benchmark:
    unit, scale, rate, names = WORKLOADS[name]
    makers = {who: functools.partial(started, name, who) for who in names}
    return Benchmark(name, unit, scale, makers, rate, {w: _calls(name, w) for w in names})


SLOW = {
    "keras-tensorflow fit",
    "keras-torch fit",
    "tensorflow eager",
    "torch 2 workers",
    "torch compiled",
    "torch eager",
    "torch foreach",
    "torch forloop",
}
"""Modes that take long to start, or are not the best of their framework: only with `--all`."""

BENCHMARKS = [_benchmark(name) for name in WORKLOADS]
