import numpy as np
import pytest

import trainkit as tk
from trainkit import optimizers
from trainkit.graph.tracing.function import function


class KerasMomentum(optimizers.Optimizer):
    """Momentum, written as for Keras 3."""

    def __init__(self, learning_rate=0.1, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.seen = self.add_variable((), name="seen")

    def build(self, var_list):
        super().build(var_list)
        self.velocities = [self.add_variable_from_reference(v, name="velocity") for v in var_list]

    def update_step(self, gradient, variable, learning_rate):
        velocity = self.velocities[self._get_variable_index(variable)]
        lr = tk.ops.cast(learning_rate, variable.dtype)
        self.assign(velocity, 0.9 * velocity - lr * gradient)
        self.assign_add(variable, velocity)
        self.assign_add(self.seen, 1.0)


def problem(rng):
    starts = [rng.normal(size=3).astype("float32"), rng.normal(size=(2, 2)).astype("float32")]
    return starts, [[rng.normal(size=x.shape).astype("float32") for x in starts] for _ in range(4)]


def train(optimizer, starts, steps, traced=False):
    weights = [tk.Variable(x, name=f"w{i}") for i, x in enumerate(starts)]
    run = function(lambda *gs: optimizer.apply(list(gs), weights)) if traced else None
    for gs in steps:
        gs = [tk.convert_to_tensor(g) for g in gs]
        run(*gs) if run else optimizer.apply_gradients(zip(gs, weights, strict=True))
    return [w.numpy() for w in weights]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("options", [{}, {"clipvalue": 0.3, "weight_decay": 0.1}])
def test_keras_step_does_what_update_does(traced, options, rng):
    starts, steps = problem(rng)
    mine = KerasMomentum(0.1, **options)
    wanted = train(optimizers.SGD(0.1, momentum=0.9, **options), starts, steps)
    for a, b in zip(train(mine, starts, steps, traced), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    assert float(mine.seen) == 8
    assert [name for name, _, _ in mine.slot_variables()] == ["velocity", "velocity"]


@pytest.mark.parametrize("traced", [False, True])
def test_accumulation_works_eagerly_and_in_a_graph(rng, traced):
    starts, steps = problem(rng)
    options = {"gradient_accumulation_steps": 2}
    wanted = train(optimizers.SGD(0.1, momentum=0.9, **options), starts, steps)
    found = train(KerasMomentum(0.1, **options), starts, steps, traced=traced)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_an_optimizer_with_neither_says_so():
    with pytest.raises(NotImplementedError, match="neither update nor update_step"):
        optimizers.Optimizer(0.1).apply_gradients([(np.float32(1.0), tk.Variable(1.0))])
