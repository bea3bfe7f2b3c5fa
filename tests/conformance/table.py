"""One row of the table of primitives with gradient rules, and the inputs that rows are made of."""

import importlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_rng = np.random.default_rng(7)


@dataclass
class Case:
    """A call whose gradients are compared with central differences.

    Attributes:
        name: of the primitive in `PRIMITIVES` that the call runs.
        op: takes `inputs` by position and `settings` by keyword.
        inputs: arrays, float64 or complex128 where they are to be differentiated.
        settings: keyword arguments.
        order: how many derivatives are checked.
        tolerance: as for `check_gradient`.
    """

    name: str
    op: object
    inputs: tuple
    settings: dict = field(default_factory=dict)
    order: int = 2
    tolerance: float = 1e-7

    def __str__(self):
        shapes = "-".join("x".join(map(str, np.shape(x))) or "scalar" for x in self.inputs)
        settings = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}({shapes}){settings}"


def case(name, op, *inputs, order=2, tolerance=1e-7, **settings):
    return Case(name, op, inputs, settings, order, tolerance)


def normal(*shape):
    return _rng.normal(size=shape)


def between(low, high, *shape):
    """Numbers from an interval; a kink or pole at its ends is at least 0.02 away."""
    return _rng.uniform(low + 0.02, high - 0.02, shape)


def positive(*shape):
    return between(0.3, 2, *shape)


def away_from(points, *shape, low=-3.0, high=3.0):
    """Numbers at least 0.05 away from each of `points`, where an operation has a kink or a jump."""
    values = _rng.uniform(low, high, shape)
    for point in points:
        near = np.abs(values - point) < 0.05
        values = np.where(near, point + np.where(values < point, -0.1, 0.1), values)
    return values


def distinct(*shape):
    """Numbers any two of which are at least 0.1 apart, in random order."""
    size = int(np.prod(shape))
    return (_rng.permutation(size) * 0.1 - size * 0.05 + 0.03).reshape(shape)


def complex_normal(*shape):
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def all_cases():
    """The rows of every `cases_*.py` beside this file."""
    rows = []
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        rows += importlib.import_module(f"tests.conformance.{path.stem}").CASES
    return rows
