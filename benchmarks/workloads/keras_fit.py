"""Keras on its back ends: steps by `fit`, whose epoch is divided by its batches."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from timing import Step

from workloads.models import STEPS
from workloads.tf2 import fitting

BATCHES = {"mlp_step_b32": 100, "mlp_step_b128": 50, "cnn_step": 20}
"""Steps of an epoch; 5 for the others."""


def start(backend: str, workload: str) -> Any:
    """The step of a workload; the time of an epoch is divided by `batches_of`."""
    os.environ["KERAS_BACKEND"] = backend
    import keras

    if workload.startswith("fit_epoch"):
        return fitting(keras, workload)
    return _steps(keras, workload)


def batches_of(workload: str) -> int:
    """How many steps one call does."""
    return BATCHES.get(workload, 5) if workload in STEPS else 1


def _steps(keras: Any, workload: str) -> Iterator[Step]:
    make_model, make_loss, make_optimizer, make_batch = STEPS[workload]
    count = batches_of(workload)
    x, y = (np.concatenate([a] * count) for a in make_batch())
    size = len(x) // count
    model = make_model(keras)
    model.compile(make_optimizer(keras), make_loss(keras))

    def epoch() -> float:
        history = model.fit(x, y, batch_size=size, epochs=1, verbose=0, shuffle=False)
        return float(history.history["loss"][0])

    yield epoch
