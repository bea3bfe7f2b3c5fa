"""Declaring operations: calls, promotion, errors, rules."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import shapes
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.dispatch.primitive import Primitive, describe, primitive, ufunc
from trainkit.core.shapes import ShapeError, Spec
from trainkit.core.tensor import PRIMITIVES


@pytest.fixture
def declared():
    """Declares an operation for one test."""
    before = set(PRIMITIVES)

    def declare(kernel, rule=shapes.unchanged, **options):
        return primitive(rule, **options)(kernel)

    yield declare
    for name in set(PRIMITIVES) - before:
        del PRIMITIVES[name]


def test_a_declaration_gives_a_callable_with_name_and_text(declared):
    def doubled_here(xp, x):
        """Twice x."""
        return x * 2

    op = declared(doubled_here)
    assert (op.__name__, op.__doc__) == ("doubled_here", "Twice x.")
    assert repr(op.primitive) == "<primitive doubled_here>"
    assert PRIMITIVES["doubled_here"] is op.primitive
    assert not op.primitive.recorded
    assert op(3).numpy() == 6
    with pytest.raises(ValueError, match="there is a primitive 'doubled_here' already"):
        declared(doubled_here)


@pytest.mark.usefixtures("on_cpu")
def test_kernels_get_arrays_and_settings(declared):
    seen = []

    def looks(xp, a, b, *, power):
        seen.append((xp, type(a), type(b), power))
        return a**power + b

    op = declared(looks, shapes.broadcast)
    y = op(tk.Variable([1.0, 2.0]), [1.0, 1.0], power=2)
    assert seen == [(np, np.ndarray, np.ndarray, 2)]
    assert y.tolist() == [2.0, 5.0]


def test_inputs_promote_where_asked_for(declared):
    def joined_here(xp, a, b):
        return xp.stack([a, b])

    op = declared(joined_here, lambda a, b: Spec((2, *a.shape), a.dtype), promotion="common")
    assert op(tk.constant([1]), tk.constant([1.5])).dtype == tk.float32
    assert op(tk.constant([1], tk.int8), tk.constant([True])).dtype == tk.int8


def test_float_rules_turn_integers_into_floats(declared):
    def halved_here(xp, x):
        return x / 2

    op = declared(halved_here, shapes.floating)
    assert op(tk.constant([3])).dtype == tk.float32
    y = op(tk.constant([3.0], tk.bfloat16))
    assert (y.dtype, y.tolist()) == (tk.bfloat16, [1.5])


def test_rules_per_input_and_sums_over_broadcast_axes(declared):
    def product_here(xp, a, b):
        return a * b

    op = declared(product_here, shapes.broadcast)
    op.gradients(lambda g, y, a, b: g * b, None)
    a, b = tk.constant([[1.0], [2.0]]), tk.constant([3.0, 4.0])
    with tk.GradientTape() as tape:
        tape.watch([a, b])
        y = op(a, b)
    by_a, by_b = tape.gradient(y, [a, b])
    assert by_a.tolist() == [[7.0], [7.0]]
    assert by_b is None


def test_a_joint_rule_is_told_which_gradients_are_needed(declared):
    asked = []

    def sum_here(xp, *xs):
        return sum(xs)

    op = declared(sum_here)

    @op.joint_gradient
    def _(g, y, *xs, needed):
        asked.append(needed)
        return tuple(g for _ in xs)

    a, b = tk.constant(1.0), tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(b)
        y = op(a, b)
    assert float(tape.gradient(y, b)) == 1.0
    assert asked == [(False, True)] or asked == [[False, True]]


def test_several_outputs(declared):
    def both_here(xp, x):
        return x + 1, x * 3

    op = declared(both_here, lambda x: (x, x))
    op.gradients(lambda g, y, x: g[0] + g[1] * 3)
    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        _, tripled = op(x)
    assert float(tape.gradient(tripled, x)) == 3.0


def test_shapes_come_from_the_rule_alone(declared):
    def never(xp, x):
        raise AssertionError("the kernel ran")

    op = declared(never, lambda x: Spec((*x.shape, 2), "int8"))
    assert result_specs(op, Spec((None,), "float32")) == Spec((None, 2), "int8")
    assert result_specs(lambda x: {"a": [op(x)]}, Spec((), "bool")) == {"a": [Spec((2,), "int8")]}


def test_kernel_errors_name_the_operation_and_show_the_inputs(declared):
    def breaks_here(xp, x, *, how):
        raise ValueError("no luck")

    op = declared(breaks_here)
    with pytest.raises(tk.errors.InvalidArgumentError) as info:
        op(tk.ones([2, 3]), how="badly")
    assert str(info.value) == "breaks_here: no luck\n  input 0  (2, 3) float32\n  how='badly'"
    assert isinstance(info.value.__cause__, ValueError)


def test_the_rules_words_go_before_the_kernels(declared):
    def rule(x):
        raise ShapeError("strict_here: better words")

    def strict_here(xp, x):
        raise ValueError("no luck")

    with pytest.raises(ShapeError, match="better words"):
        declared(strict_here, rule)(tk.ones([2]))


def test_what_does_not_convert_names_the_argument():
    with pytest.raises(ValueError, match=r"^exp: argument 0: can't make a tensor of \['a', 1\]"):
        tk.exp(["a", 1])
    with pytest.raises(ValueError, match=r"^exp: takes numbers"):
        tk.exp("a")


def test_wrong_arguments_are_pythons_errors():
    with pytest.raises(TypeError):
        tk.ops.exp(1.0, 2.0)
    with pytest.raises(TypeError):
        tk.ops.add(1.0)


def test_ufuncs_take_python_numbers_as_they_are():
    name = "plus_for_this_test"
    op = ufunc(np.add, shapes.broadcast, "a + b", name=name)
    try:
        assert op.__doc__.startswith("a + b\n\n    Args:")
        assert op(tk.constant([1], tk.int8), 1).dtype == tk.int8
        assert op(1, 2).numpy() == 3
        assert (op(True, tk.constant([1])).dtype, op(tk.constant([1]), 1.5).dtype) == (
            tk.int32,
            tk.float32,
        )
        assert op(np.ones(2), tk.constant([1, 1])).dtype == tk.float64
    finally:
        del PRIMITIVES[name]


@pytest.mark.parametrize("a", ["bool", "uint8", "int32", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("b", ["int8", "int64", "bfloat16", "float64"])
def test_mixed_sums_have_the_promoted_dtype(a, b):
    y = tk.ops.add(tk.ones([2], a), tk.ones([2], b))
    assert y.dtype == tk.dtypes.result_type(a, b)
    assert y.tolist() == [2, 2]


def test_no_warning_of_numpy_gets_out():
    assert tk.ops.exp(tk.constant(1000.0)).numpy() == np.inf
    assert np.isnan(tk.ops.log(tk.constant(-1.0)).numpy())


def test_describe_shows_one_input_a_line():
    text = describe((tk.ones([2]), 3, None), {"axis": 1})
    assert text == "  input 0  (2,) float32\n  input 1  3\n  input 2  None\n  axis=1"


def test_operations_of_two_inputs_read_variables_in_order(declared):
    def both_here(xp, a, b):
        return a * b, a + b

    op = declared(both_here, lambda a, b: (a, b))
    op.joint_gradient(lambda g, y, a, b: (g[0] * b + g[1], g[0] * a + g[1]))
    a, b = tk.Variable([2.0], name="a"), tk.Variable([3.0], name="b")
    with tk.GradientTape() as tape:
        product, total = op(a, b)
    assert [v.name for v in tape.watched_variables()] == ["a:0", "b:0"]
    found = tape.gradient([product, total], [a, b])
    assert [g.tolist() for g in found] == [[4.0], [3.0]]
    assert [y.tolist() for y in op(tk.constant([2]), 3)] == [[6], [5]]


def test_every_primitive_has_a_text_and_a_rule():
    for name, prim in PRIMITIVES.items():
        assert isinstance(prim, Primitive)
        assert prim.op.__doc__, name
        assert callable(prim.shape_rule), name


def test_numbers_between_float32_tensors_are_float32(declared):
    seen = []

    def promoted_here(xp, a, b, c):
        seen.append((a.dtype, b.dtype, c.dtype))
        return a + b + c

    def plain_here(xp, a, b, c):
        seen.append((a.dtype, b.dtype, c.dtype))
        return a + b + c

    a, c = tk.constant([1.0]), tk.Variable([2.0])
    for kernel, promotion in ((promoted_here, "common"), (plain_here, "none")):
        op = declared(kernel, lambda a, b, c: a, promotion=promotion)
        assert op(a, 3, c).numpy().tolist() == [6.0]
    assert seen == [(np.float32, np.float32, np.float32)] * 2
