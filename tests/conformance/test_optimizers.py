"""Every optimizer against its paper's formulas, worked out independently in float64."""

import importlib.util
import pathlib

import numpy as np
import pytest

import trainkit as tk
from tests.conformance import completeness
from trainkit import optimizers
from trainkit.graph.tracing.function import function
from trainkit.optimizers.base.optimizer import OPTIMIZERS, Optimizer

_PATH = pathlib.Path(__file__).with_name("optimizer_references.py")
_SPEC = importlib.util.spec_from_file_location("optimizer_references", _PATH)
ref = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(ref)

LR = 0.05
# id, optimizer, settings, reference, its settings
CASES = [
    ("SGD", {}, ref.sgd, {}),
    ("SGD", {"momentum": 0.9}, ref.sgd, {"momentum": 0.9}),
    ("SGD", {"momentum": 0.8, "nesterov": True}, ref.sgd, {"momentum": 0.8, "nesterov": True}),
    ("Adam", {}, ref.adam, {}),
    ("Adam", {"amsgrad": True, "beta_2": 0.5}, ref.adam, {"amsgrad": True, "b2": 0.5}),
    ("Adam", {"epsilon": 0.1, "weight_decay": 0.2}, ref.adam, {"epsilon": 0.1, "decay": 0.2}),
    ("AdamW", {}, ref.adam, {"decay": 0.004}),
    ("Adamax", {}, ref.adamax, {}),
    ("Nadam", {"beta_1": 0.8}, ref.nadam, {"b1": 0.8}),
    ("RMSprop", {}, ref.rmsprop, {}),
    (
        "RMSprop",
        {"centered": True, "epsilon": 0.01, "momentum": 0.5},
        ref.rmsprop,
        {"centered": True, "epsilon": 0.01, "momentum": 0.5},
    ),
    ("Adagrad", {"initial_accumulator_value": 0.3}, ref.adagrad, {"start": 0.3}),
    ("Adadelta", {"epsilon": 1e-3}, ref.adadelta, {"epsilon": 1e-3}),
    (
        "Ftrl",
        {
            "l1_regularization_strength": 0.1,
            "l2_regularization_strength": 0.2,
            "l2_shrinkage_regularization_strength": 0.3,
            "beta": 0.4,
        },
        ref.ftrl,
        {"l1": 0.1, "l2": 0.2, "shrinkage": 0.3, "beta": 0.4},
    ),
    ("Lion", {}, ref.lion, {}),
    ("Lion", {"beta_1": 0.5, "beta_2": 0.8}, ref.lion, {"b1": 0.5, "b2": 0.8}),
    ("Lamb", {"weight_decay": 0.1}, ref.lamb, {"decay": 0.1}),
    ("Adafactor", {}, ref.adafactor, {}),
    ("Muon", {}, ref.muon, {}),
    (
        "ScheduleFreeAdamW",
        {"warmup_steps": 3, "weight_decay": 0.1},
        ref.schedule_free,
        {"warmup": 3, "decay": 0.1},
    ),
]
IDS = [f"{name}-{','.join(settings) or 'default'}" for name, settings, _, _ in CASES]
SHAPES = [(4, 3), (3,), (2, 3, 2)]


def problem(rng, steps=6):
    starts = [rng.normal(size=shape) for shape in SHAPES]
    return starts, [[rng.normal(size=shape) for shape in SHAPES] for _ in range(steps)]


def train(optimizer, starts, grads, dtype="float32", traced=False):
    """The weights after each step."""
    weights = [tk.Variable(w.astype(dtype), name=f"w{i}") for i, w in enumerate(starts)]

    def step(*gs):
        optimizer.apply_gradients(zip(gs, weights, strict=True))

    run = function(step) if traced else step
    path = []
    for gs in grads:
        run(*[tk.convert_to_tensor(g.astype(dtype)) for g in gs])
        path.append([w.numpy().copy() for w in weights])
    return path


def wrapped(name, settings):
    return getattr(optimizers, name)(LR, **settings)


@pytest.mark.parametrize(("name", "settings", "reference", "its"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_follow_the_formula(name, settings, reference, its, dtype, rng):
    starts, grads = problem(rng)
    path = train(wrapped(name, settings), starts, grads, dtype)
    # The rate and its corrections are float32 in any case.
    for i, start in enumerate(starts):
        wanted = list(reference(start, [g[i] for g in grads], LR, **its))
        np.testing.assert_allclose([p[i] for p in path], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "settings", "reference", "its"), CASES, ids=IDS)
def test_a_traced_step_gives_the_same_bits(name, settings, reference, its, rng):
    starts, grads = problem(rng)
    eager = train(wrapped(name, settings), starts, grads)
    traced = train(wrapped(name, settings), starts, grads, traced=True)
    for a, b in zip(eager[-1], traced[-1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "settings", "reference", "its"), CASES, ids=IDS)
def test_half_precision_weights_are_updated_in_float32(name, settings, reference, its, rng):
    starts, grads = problem(rng, steps=1)
    halves = [w.astype("float16").astype("float64") for w in starts]
    grads = [[g.astype("float16").astype("float64") for g in gs] for gs in grads]
    optimizer = wrapped(name, settings)
    path = train(optimizer, halves, grads, "float16")
    for i, start in enumerate(halves):
        (wanted,) = reference(start, [gs[i] for gs in grads], LR, **its)
        np.testing.assert_allclose(path[0][i], wanted.astype("float16"), rtol=2e-3)
    assert {slot.dtype.name for _, _, slot in optimizer.slot_variables()} <= {"float32"}


@pytest.mark.parametrize(("name", "settings", "reference", "its"), CASES, ids=IDS)
def test_a_config_makes_an_equal_optimizer(name, settings, reference, its, rng):
    starts, grads = problem(rng, steps=3)
    first = wrapped(name, settings)
    again = optimizers.deserialize(optimizers.serialize(first))
    assert type(again) is type(first)
    assert again.get_config() == first.get_config()
    for a, b in zip(train(first, starts, grads)[-1], train(again, starts, grads)[-1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_optimizer_has_a_case():
    completeness.check_complete(
        optimizers,
        Optimizer,
        {name for name, *_ in CASES},
        "CASES in tests/conformance/test_optimizers.py, with its formula in "
        "optimizer_references.py,",
        inner={"GradientDescentOptimizer"},  # of TensorFlow 1: tests/compat
        apart={"Optimizer", "LossScaleOptimizer", "MultiOptimizer"},  # those around others
    )


def test_every_optimizer_is_found_by_its_name():
    names = completeness.exported(optimizers, Optimizer) - {"Optimizer"}
    assert {kind.__name__ for kind in OPTIMIZERS.named.values()} == names | {"OptimizerMap"}
