"""Values of unknown sizes that a function assigns to variables are compared when it runs."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.saved_graph import standalone

ANY = [tk.TensorSpec([None])]
WAYS = {
    "assign": lambda v, x: v.assign(x),
    "assign_add": lambda v, x: v.assign_add(x),
    "assign_sub": lambda v, x: v.assign_sub(x * 1.0),
    "in a branch": lambda v, x: tk.cond(tk.reduce_sum(x) > 0.0, lambda: v.assign(x), lambda: v),
    "in a loop": lambda v, x: tk.while_loop(
        lambda i: i < 2, lambda i: (v.assign(x), i + 1)[1], [tk.constant(0)]
    ),
}


@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_variable_keeps_its_shape(way, jit_compile):
    variable, other = tk.Variable([1.0], name="v"), tk.Variable(0.0)

    @tk.function(input_signature=ANY, jit_compile=jit_compile)
    def step(x):
        other.assign_add(1.0)
        WAYS[way](variable, x)

    words = r"variable 'v:0' has shape \(1,\), the value to assign has shape \(7,\)"
    for _ in range(3):
        with pytest.raises(tk.errors.InvalidArgumentError, match=words):
            step(np.ones(7, "float32"))
        assert variable.shape == (1,)
        np.testing.assert_array_equal(variable, [1.0])
        assert other.numpy() == 0.0
    step(np.ones(1, "float32"))
    assert variable.shape == (1,)
    assert other.numpy() == 1.0


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_gradient_of_another_size_leaves_the_weight(name):
    weight, optimizer = tk.Variable([1.0], name="w"), tk.optimizers.get(name)
    optimizer.build([weight])

    @tk.function(input_signature=ANY)
    def step(gradient):
        optimizer.apply([gradient], [weight])

    with pytest.raises(tk.errors.InvalidArgumentError, match=r"variable 'w:0' has shape \(1,\)"):
        step(np.ones(7, "float32"))
    np.testing.assert_array_equal(weight, [1.0])
    assert optimizer.iterations.numpy() == 0
    step(np.ones(1, "float32"))
    assert weight.numpy()[0] < 1.0


def test_sizes_that_the_variable_leaves_open_may_differ():
    variable = tk.Variable(np.zeros((1, 2), "f"), shape=tk.TensorShape([None, 2]))

    @tk.function(input_signature=[tk.TensorSpec([None, None])])
    def put(x):
        variable.assign(x)

    put(np.ones((3, 2), "float32"))
    assert variable.numpy().shape == (3, 2)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"\(None, 2\), the value to assign"):
        put(np.ones((2, 3), "float32"))
    assert variable.numpy().shape == (3, 2)


def test_saved_functions_compare_too(tmp_path):
    class Memory(tk.Module):
        def __init__(self):
            super().__init__()
            self.last = tk.Variable([0.0, 0.0], name="last")

        @tk.function(input_signature=ANY)
        def put(self, x):
            self.last.assign(x)
            return self.last + 1.0

    memory = Memory()
    tk.saved_model.save(memory, tmp_path)
    loaded = tk.saved_model.load(tmp_path)
    np.testing.assert_array_equal(loaded.put(np.ones(2, "float32")), [2.0, 2.0])
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"has shape \(2,\)"):
        loaded.put(np.ones(3, "float32"))
    with pytest.raises(standalone.GraphError, match=r"has shape \(2,\), the value has \(3,\)"):
        standalone._ensure_shape(np.ones(3), (2,), "last")
