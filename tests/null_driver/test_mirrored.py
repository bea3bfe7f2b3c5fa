"""Replicas in threads over real CuPy: what a step of `fit` launches, copies and waits for."""

import numpy as np

import trainkit as tk
from tests.null_driver.counting import counted

STEPS = 10


def counts_of(replicas):
    strategy = tk.distribute.MirroredStrategy(["/gpu:0"] * replicas)
    with strategy.scope():
        layers = [tk.keras.layers.Dense(32, "relu"), tk.keras.layers.Dense(1)]
        model = tk.keras.Sequential([tk.keras.Input((16,)), *layers])
        model.compile("adam", "mse")
    x, y = np.ones((32 * STEPS, 16), "float32"), np.ones((32 * STEPS, 1), "float32")
    model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    with counted() as counts:
        model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    return counts


def test_a_step_of_two_replicas_copies_batches_once_and_hardly_waits(cupy):
    counts = counts_of(2)
    assert counts.to_device == 2 * STEPS  # x and y of a batch; its parts are views
    assert counts.waits <= 7 * STEPS  # metrics, of which each replica reads its own
    assert counts.launches <= 65 * STEPS
    assert counts.graphs == 0  # sums over replicas can't be captured


def test_three_replicas_do_what_two_do_half_as_much_again(cupy):
    two, three = counts_of(2), counts_of(3)
    assert three.to_device == two.to_device
    assert two.library < three.library <= 1.5 * two.library
