"""The record of an operation: what is declared, and what follows from its semantics."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import shapes
from trainkit.core.dispatch import facets, native
from trainkit.core.dispatch.eager import with_tuned
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
    [("batch_by", "batch"), ("stack_by", "stackable"), ("lower_by", "lowering")],
)
def test_a_rule_is_given_by_a_decorator_of_the_operation(declared, method, facet):
    op = declared()

    @getattr(op, method)
    def rule(*given):
        return given

    assert callable(rule)
    assert getattr(op.primitive.facets, facet) is rule


def test_a_tuned_kernel_is_one_of_this_operation_alone(declared):
    op = declared(tuned=facets.Tuned(np.negative, exact=True, fewest=9))
    kernel = op.primitive.facets.tuned
    assert kernel.run is np.negative
    assert kernel.exact
    assert PRIMITIVES["add"].facets.tuned is None
    with pytest.raises(TypeError, match="tried_here: direct, logits_of, tuned are given with"):
        op.declare(tuned=kernel)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_tuned_kernel_runs_from_its_size_on_unless_it_gives_nothing(declared, compiled):
    asked = []

    def run(x):
        asked.append(x.size)
        return None if x[0] < 0 else x * 10

    before = native.switch(compiled)
    op = declared(tuned=facets.Tuned(run, fewest=4))
    try:
        small, large, refused = (tk.constant(x).cpu() for x in ([1.0] * 3, [1.0] * 4, [-1.0] * 4))
        assert op(small).numpy().tolist() == [-1.0] * 3
        assert asked == []
        assert op(large).numpy().tolist() == [10.0] * 4
        assert op(refused).numpy().tolist() == [1.0] * 4
        assert asked == [4, 4]
        assert tk.function(op)(large).numpy().tolist() == [10.0] * 4
        assert tk.function(op)(small).numpy().tolist() == [-1.0] * 3
        assert op.primitive.run([np.ones(5)], {}).tolist() == [10.0] * 5
        assert op.primitive.body(np, np.ones(5)).tolist() == [-1.0] * 5
    finally:
        native.switch(before)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_tuned_kernel_runs_for_a_large_input_beside_a_small_one(compiled):
    def run(x, w):
        return x * 10 if w.size > 2 else None

    def body(xp, x, w):
        return -x

    before = native.switch(compiled)
    tuned = facets.Tuned(run, fewest=9, fewest_beside=4)
    try:
        kernel = with_tuned(body, tuned)
        few, many = np.ones(3), np.ones(4)
        assert kernel(np, few, many).tolist() == [10.0] * 3
        assert kernel(np, few, few).tolist() == [-1.0] * 3
        assert kernel(np, np.ones(9), few).tolist() == [10.0] * 9
        assert kernel(np, many, None).tolist() == [-1.0] * 4
    finally:
        native.switch(before)
    assert tuned.may_round_otherwise((few, many), {})
    assert not tuned.may_round_otherwise((many, few), {})
    assert [tuned.is_asked(sizes) for sizes in ([9], [8], [8, 4], [8, 3], [])] == [
        True, False, True, False, False
    ]  # fmt: skip


def test_kernels_of_a_gpu_are_asked_in_their_order_and_the_body_serves_last(declared, any_gpu):
    asked = []

    def first(xp, x, *, times=1):
        asked.append(("first", times))
        return x * 10 if times == 1 else None

    def second(xp, x, *, times=1):
        asked.append(("second", times))
        return x * 20 if times == 2 else None

    def on_cpu(x, *, times=1):
        return x * 5

    op = declared(tuned=facets.Tuned(on_cpu, on_gpu=(first, second)))
    x = tk.constant([1.0, 2.0])
    assert op(x).numpy().tolist() == [10.0, 20.0]
    assert asked == [("first", 1)]
    assert tk.function(op)(x).numpy().tolist() == [10.0, 20.0]
    assert op(x.cpu()).numpy().tolist() == [5.0, 10.0]
    assert [name for name, times in asked] == ["first"] * 2


def test_an_operation_may_be_tuned_for_a_gpu_alone(declared, any_gpu):
    op = declared(tuned=facets.Tuned(on_gpu=[lambda xp, x: None, lambda xp, x: x * 3]))
    assert op(tk.constant([1.0])).numpy().tolist() == [3.0]
    assert op(tk.constant([1.0]).cpu()).numpy().tolist() == [-1.0]
    tuned = op.primitive.facets.tuned
    assert not tuned.may_round_otherwise((np.ones(4),), {})
    assert repr(tuned) == "tuned, also on a GPU"


def test_what_a_tuned_kernel_may_round_otherwise():
    tuned = facets.Tuned(
        np.negative, fewest=9, of=1, unless=lambda arrays, settings: settings["no"]
    )
    small, large = np.ones(8), np.ones(9)
    assert tuned.may_round_otherwise((small, large), {"no": False})
    assert not tuned.may_round_otherwise((small, large), {"no": True})
    assert not tuned.may_round_otherwise((large, small), {"no": False})
    assert not facets.Tuned(np.negative, exact=True).may_round_otherwise((small,), {})


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
        op = ufunc(np.negative, shapes.unchanged, "-x", name="tried_here", graph_name="Turned")
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
