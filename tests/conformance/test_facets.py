"""The facets of every primitive: that what is declared holds, and that nothing is left open."""

import numpy as np
import pytest

from tests.conformance.table import all_cases
from tests.conformance.test_gradients import tensors_of
from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.facets import SHAPE
from trainkit.core.tensor import Tensor, wrap

CASES = all_cases()
TABLE = pytest.mark.parametrize("case", CASES, ids=str)


def calls_of(case):
    """The primitives that a call and its gradient run: (primitive, inputs, results, settings)."""
    inputs = tensors_of(case)
    watched = [x for x in inputs if isinstance(x, Tensor) and x.dtype.is_differentiable]
    with GradientTape(persistent=True) as outer:
        outer.watch(watched)
        with GradientTape() as tape:
            tape.watch(watched)
            results = nest.flatten(case.op(*inputs, **case.settings))
        floats = [y for y in results if y.dtype.is_differentiable]
        tape.gradient(floats, watched)
    for primitive, given, y, *settings in outer.entries:
        yield primitive, given, nest.flatten(y), (settings[0] if settings else None) or {}


def arrays_of(tensors):
    return [x._array if isinstance(x, Tensor) else x for x in tensors]


@TABLE
def test_results_that_are_said_to_be_fresh_share_no_memory_with_inputs(case):
    for primitive, inputs, results, _ in calls_of(case):
        if primitive.facets.memory != "fresh":
            continue
        for y in arrays_of(results):
            for x in arrays_of(inputs):
                shared = isinstance(x, np.ndarray) and np.may_share_memory(x, y)
                assert not shared, f'{primitive}: declare memory="view"'


@TABLE
def test_what_is_said_to_be_read_by_shape_is(case):
    for primitive, inputs, results, settings in calls_of(case):
        arrays = arrays_of(inputs)
        for place, what in primitive.facets.reads.items():
            if what != SHAPE:
                continue
            assert place < len(arrays), f"{primitive} has no input {place}"
            empty = np.broadcast_to(np.zeros((), arrays[place].dtype), arrays[place].shape)
            swapped = [*arrays[:place], empty, *arrays[place + 1 :]]
            found = nest.flatten(primitive.op(*map(wrap_array, swapped), **settings))
            for y, wanted in zip(found, results, strict=True):
                np.testing.assert_array_equal(y.numpy(), wanted.numpy())


def wrap_array(x):
    return wrap(x) if isinstance(x, np.ndarray) else x
