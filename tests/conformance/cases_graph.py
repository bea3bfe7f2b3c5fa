"""Branches, loops, tensor arrays and user rules: primitives over graphs."""

import numpy as np

import trainkit as tk
from tests.conformance.table import case, normal, positive
from trainkit import ops
from trainkit.core.dtypes import int64
from trainkit.core.shapes import Spec
from trainkit.graph.control_flow import tensor_array_elements, while_loop
from trainkit.graph.ir.graph import replay
from trainkit.graph.tracing.function import function
from trainkit.ops.core.dynamic_shapes import Call, with_values
from trainkit.ops.core.optimization_barrier import optimization_barrier

INDEX = np.array(1, np.int32)
SIZES = np.array([2, 1], np.int32)
NUMBERS = np.array([0.3, -1.2, 0.8])


def as_nodes(python_function):
    """`python_function` traced, its nodes run one by one, so that a tape sees each primitive."""
    traced = function(python_function)

    def op(*tensors):
        concrete = traced.get_concrete_function(*tensors)
        results = replay(concrete.graph, list(tensors))
        return results[0] if len(results) == 1 else tuple(results)

    return op


def branch(x, y):
    return ops.cond(ops.sum(x) > -100.0, lambda: x * x * y, lambda: x + y)


def other_branch(x):
    return ops.cond(ops.sum(x) > 100.0, lambda: x, lambda: ops.sin(x) * x)


def loop(x, y):
    start = ops.cast(ops.sum(x) * 0.0, "int32")  # known only when the graph runs
    return ops.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * x + y), (start, x))[1]


@tk.custom_gradient
def cubed(x):
    return x * x * x, lambda g: 3.0 * g * x * x


def scanned(x, y):
    def step(carry, row):
        carry = carry * row + ops.sin(carry)
        return carry, carry * y[0]

    return ops.scan(step, y, x, reverse=True)


def growing(x):
    """Sizes differ from round to round, so what is kept of them is padded."""
    start = ops.cast(ops.sum(x) * 0.0, "int32")

    def grow(i, z):
        return i + 1, ops.concatenate([z * z, x], axis=0)

    return ops.while_loop(lambda i, z: i < 3, grow, (start, x))[1]


def cubes(x):
    """Two of the cubes, by a call of which only the rank is known before."""
    x = tk.convert_to_tensor(x)
    specs = [Spec((None,), x.dtype), Spec((3,), int64)]
    call = Call("cubes", lambda x, i: ((x * x * x)[:2], i + 1), specs)
    return with_values(x, np.arange(3), call=call)[0]


def called_back(x, y):
    return tk.py_function(lambda a, b: a * a * b, [x, y], tk.TensorSpec(x.shape, x.dtype))


def slope_of_call(x, y):
    x = tk.convert_to_tensor(x)
    if not x.dtype.is_differentiable:
        return called_back(x, y)
    with tk.GradientTape() as tape:
        tape.watch(x)
        z = called_back(x, y)
    return tape.gradient(z, x)


CASES = [
    case("with_values", cubes, NUMBERS, order=3),
    case("py_call", as_nodes(called_back), NUMBERS, NUMBERS[::-1], order=3),
    case("py_call_gradient", as_nodes(slope_of_call), NUMBERS, NUMBERS[::-1], order=2),
    case("cond", as_nodes(branch), positive(3), positive(3)),
    case("cond", as_nodes(other_branch), positive(3)),
    case("while_loop", as_nodes(loop), positive(3), positive(3)),
    case("while_loop", as_nodes(growing), positive(2)),
    case("scan", as_nodes(scanned), positive(3, 2), positive(2)),
    case("cut_to_sizes", lambda x: while_loop.cut_to_sizes(x, SIZES, dims=(2, 1)), normal(3, 2)),
    case("padded_like", lambda x: while_loop.padded_like(x, normal(3, 2)), normal(2, 1)),
    case("with_gradient", as_nodes(lambda x: cubed(x) * 2.0), normal(3)),
    case("optimization_barrier", lambda x: optimization_barrier(x, tk.zeros(2)) * x, normal(3)),
    case(
        "tensor_array_write",
        lambda b, v: tensor_array_elements.written(b, INDEX, v, grows=False),
        normal(3, 2),
        normal(2),
    ),
    case("tensor_array_read", lambda b: tensor_array_elements.element_at(b, INDEX), normal(3, 2)),
    case(
        "tensor_array_without",
        lambda g: tensor_array_elements.without(g, INDEX, normal(2, 2)),
        normal(3, 2),
    ),
    case(
        "tensor_array_padded",
        lambda g: tensor_array_elements.padded(g, INDEX, normal(3, 2)),
        normal(2, 2),
    ),
    case(
        "tensor_array_placed",
        lambda g: tensor_array_elements.placed(g, INDEX, normal(3, 2)),
        normal(2),
    ),
]
