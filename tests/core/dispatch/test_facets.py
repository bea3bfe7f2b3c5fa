"""The record of an operation: what is declared, and what follows from its semantics."""

import numpy as np
import pytest

from trainkit.core import shapes
from trainkit.core.dispatch import facets
from trainkit.core.dispatch.primitive import primitive, ufunc
from trainkit.core.tensor import PRIMITIVES


@pytest.fixture
def declared():
    """Gives a function that declares an operation; all are forgotten after the test."""
    before = set(PRIMITIVES)

    def declare(**given):
        @primitive(shapes.unchanged, **given)
        def tried_here(xp, x):
            return xp.negative(x)

        return tried_here

    yield declare
    for name in set(PRIMITIVES) - before:
        del PRIMITIVES[name]


def test_what_nobody_declared_follows_from_the_semantics(declared):
    record = declared(semantics=facets.ELEMENTWISE).primitive.facets
    assert record.batch is facets.BY_ELEMENT
    assert record.lowering is facets.TRACE
    assert record.stackable is True
    assert record.memory == "fresh"
    assert record.effect is None


def test_what_is_declared_comes_before_the_semantics(declared):
    op = declared(semantics=facets.ELEMENTWISE, recompute="cheap", reads={0: facets.SHAPE})
    op.declare(memory="view", lowering=facets.Absent("it calls a library"))
    record = op.primitive.facets
    assert (record.recompute, record.memory, record.reads) == ("cheap", "view", {0: "shape"})
    assert not record.lowering
    assert "it calls a library" in repr(record.lowering)


@pytest.mark.parametrize(
    ("method", "facet"),
    [
        ("batch_by", "batch"),
        ("stack_by", "stackable"),
        ("lower_by", "lowering"),
    ],
)
def test_a_rule_is_given_by_a_decorator_of_the_operation(declared, method, facet):
    op = declared()

    @getattr(op, method)
    def rule(*given):
        return given

    assert callable(rule)
    assert getattr(op.primitive.facets, facet) is rule


def test_a_tuned_kernel_is_one_of_this_operation_alone(declared):
    op = declared()
    op.tune(np.negative, exact=True, may_run=lambda arrays, settings: arrays[0].size > 9)
    kernel = op.primitive.facets.tuned["cpu"]
    assert kernel.run is np.negative
    assert kernel.exact
    assert kernel.may_run([np.ones(10)], {})
    assert PRIMITIVES["add"].facets.tuned == {}


def test_shape_and_gradient_rules_are_seen_in_the_record(declared):
    op = declared()
    op.gradients(lambda g, y, x: -g)
    record = op.primitive.facets
    assert record.shape is shapes.unchanged
    assert record.vjp == op.primitive.rules
    assert not PRIMITIVES["floor"].facets.vjp
    assert "derivative is 0" in PRIMITIVES["floor"].facets.vjp.reason


def test_a_ufunc_is_element_wise_and_takes_facets():
    try:
        op = ufunc("tried_here", np.negative, shapes.unchanged, "-x", graph_name="Turned")
        record = op.primitive.facets
        assert record.semantics is facets.ELEMENTWISE
        assert record.graph_name == "Turned"
    finally:
        del PRIMITIVES["tried_here"]


def test_a_facet_that_does_not_exist_is_named_with_those_that_do(declared):
    with pytest.raises(TypeError, match=r"tried_here: there is no facet 'vmap'; there are batch,"):
        declared(vmap=True)
    with pytest.raises(AttributeError, match="no facet 'vmap'"):
        _ = declared().primitive.facets.vmap


def test_an_operation_without_a_declaration_says_so(declared):
    record = declared().primitive.facets
    assert record.batch is facets.UNDECLARED
    assert record.graph_name == "TriedHere"
