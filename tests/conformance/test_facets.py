"""The facets of every primitive: that what is declared holds, and that nothing is left open."""

import importlib
import pkgutil

import numpy as np
import pytest

import trainkit
from tests.conformance.table import all_cases
from tests.conformance.test_gradients import tensors_of
from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.dispatch.facets import (
    SHAPE,
    UNDECLARED,
    Absent,
    Batch,
    Direct,
    Effect,
    Facets,
    Unit,
)
from trainkit.core.tensor import PRIMITIVES, Tensor, wrap
from trainkit.saved_graph.standalone import OPERATIONS, UNREADABLE

for _module in pkgutil.walk_packages(trainkit.__path__, "trainkit."):
    if _module.name.split(".")[1] in ("ops", "graph", "metrics", "summary", "data"):
        importlib.import_module(_module.name)  # so that all primitives are declared

DECLARED = [
    p
    for p in PRIMITIVES.values()
    if p.is_ufunc or (p.body.__module__ or "").startswith("trainkit.")
]
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


# ------------------------------------------------------------------ nothing is left open

PRIMITIVE = pytest.mark.parametrize("primitive", DECLARED, ids=lambda p: p.name)


def is_reasoned(value):
    return isinstance(value, Absent) and value is not UNDECLARED and len(value.reason) > 5


FITS = {
    "shape": callable,
    "vjp": lambda value: callable(value) or type(value) is tuple or is_reasoned(value),
    "batch": lambda value: isinstance(value, Batch) or callable(value) or is_reasoned(value),
    "stackable": lambda value: value is True or callable(value) or is_reasoned(value),
    "memory": lambda value: value in ("fresh", "view"),
    "reads": lambda value: set(value.values()) <= {"shape", "number"},
    "residuals": lambda value: value is None or type(value) is frozenset,
    "recompute": lambda value: value in ("free", "cheap", "costly"),
    "simplify": lambda value: isinstance(value, str | Unit) or is_reasoned(value),
    "lowering": lambda value: value == "trace the body" or callable(value) or is_reasoned(value),
    "direct": lambda value: value is None or isinstance(value, Direct),
    "logits_of": lambda value: value in ("", "yes or no", "classes"),
    "graph_name": lambda value: value[:1].isupper() and value.isalnum(),
    "export": lambda value: value is True or is_reasoned(value),
    "onnx": lambda value: callable(value) or is_reasoned(value),
    "effect": lambda value: value is None or isinstance(value, Effect),
    "promotion": lambda value: value in ("none", "common", "floats"),
    "text": lambda value: value in ("alone", "beside numbers") or is_reasoned(value),
    "bodies": lambda value: type(value) is tuple,
    "parts": lambda value: callable(value) or is_reasoned(value),
    "rows": lambda value: callable(value) or is_reasoned(value),
    "sizes": lambda value: value in ("moved", "picked", "computed", "asked") or is_reasoned(value),
}

HOW = {
    "batch": "declare(batch=...) or @op.batch_by below its body: how a stack goes through at once",
    "stackable": "declare(stackable=...) or @op.stack_by: whether a stack of elements keeps bits",
    "lowering": "lowering=TRACE, or Absent(reason) in @primitive: whether its body may be fused",
    "vjp": ".gradients(...) below its body, or no_gradient=Absent(reason) in @primitive",
    "export": "export=Absent(reason) in @primitive, or python -m tests.saved_graph.write_reader",
    "onnx": "a function in saved_graph/onnx/rules",
}


@PRIMITIVE
def test_every_facet_is_declared_or_has_a_reason(primitive):
    for facet, fits in FITS.items():
        value = getattr(primitive.facets, facet)
        assert fits(value), (
            f"{primitive.name}: the facet {facet!r} is {value!r}. Give the operation semantics that"
            f" say it, or {HOW.get(facet, f'{facet}=... in @primitive')}"
            " (see core/dispatch/facets.py)."
        )


def test_every_facet_is_looked_at():
    looked_at = {*FITS, "tuned", "semantics", "primitive", "no_gradient"}
    assert {*Facets.__slots__, "shape", "vjp"} <= looked_at


def test_the_reader_of_saved_graphs_has_what_is_said_to_be_exported():
    exported = {p.name for p in DECLARED if p.facets.export}
    missing = sorted(exported - set(OPERATIONS))
    assert not missing, (
        "run `python -m tests.saved_graph.write_reader`, or say why the reader has none, "
        "export=Absent(reason): "
        f"{missing}"
    )
    unsaid = sorted(set(OPERATIONS) - exported)
    assert not unsaid, (
        f"run `python -m tests.saved_graph.write_reader`; it is not said any more of {unsaid}"
    )


def test_the_reader_of_saved_graphs_says_why_it_goes_without_an_operation():
    said = {name: reason for reason, names in UNREADABLE.items() for name in names.split()}
    reasons = {p.name: p.facets.export.reason for p in DECLARED if not p.facets.export}
    assert said == reasons, "run `python -m tests.saved_graph.write_reader`: reasons have changed"
