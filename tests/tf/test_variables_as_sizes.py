"""A variable as a size, an axis or a bound has the value of each run, not that of the trace."""

import numpy as np
import pytest

import trainkit as tk

ops = tk.keras.ops
N, REPEATS, STEP = tk.Variable(2), tk.Variable([2, 1, 1]), tk.Variable(0.5)
X, IMAGE = tk.reshape(tk.range(24), (2, 3, 4)), tk.ones((1, 6, 6, 3))

CALLS = {
    "arange": lambda: ops.arange(0, 9, N),
    "assigned": lambda: tk.range(N.assign_add(1)),
    "broadcast_to": lambda: tk.broadcast_to(1.0, (N, 2)),
    "concat": lambda: tk.concat([X, X], axis=N),
    "expand_dims": lambda: tk.expand_dims(X, N),
    "eye": lambda: tk.eye(N, num_columns=N),
    "fill": lambda: tk.fill([N], STEP),
    "full": lambda: ops.full((N,), 1),
    "gather": lambda: tk.gather(X, [0], axis=N),
    "keras reshape": lambda: ops.reshape(ops.arange(12), (N, -1)),
    "keras zeros": lambda: ops.zeros(N),
    "linspace": lambda: tk.linspace(0.0, 1.0, N),
    "meshgrid": lambda: tk.meshgrid(tk.range(N), tk.range(N)),
    "one_hot": lambda: tk.one_hot([1], depth=N),
    "ones": lambda: ops.ones((N, N)),
    "pad": lambda: tk.pad(tk.range(3), [[N, 0]]),
    "range": lambda: tk.range(N),
    "range of floats": lambda: tk.range(0.0, 3.0, STEP),
    "repeat": lambda: tk.repeat(X, N, axis=0),
    "reshape": lambda: tk.reshape(tk.range(12), [N, -1]),
    "resize": lambda: tk.image.resize(IMAGE, [N, N]),
    "sequence_mask": lambda: tk.sequence_mask([1, 2], maxlen=N),
    "slice": lambda: tk.slice(tk.range(9), [N], [N]),
    "split": lambda: tk.split(tk.range(12), [N, 12 - N]),
    "strided_slice": lambda: tk.strided_slice(tk.range(9), [N], [9], [N]),
    "sum": lambda: tk.reduce_sum(X, axis=N),
    "tile": lambda: tk.tile(X, REPEATS),
    "top_k": lambda: tk.math.top_k(tk.range(9), k=N).values,
    "uniform": lambda: tk.shape(tk.random.uniform((N, N))),
    "zeros": lambda: tk.zeros((N, 3)),
}

STATIC = {  # what a graph has to know while it is traced
    "expand_dims": lambda: ops.expand_dims(X, N),
    "softmax": lambda: tk.nn.softmax(tk.cast(X, "float32"), axis=N),
    "stack": lambda: tk.stack([X, X], axis=N),
}


def runs(call):
    """The results for two values of each variable."""
    found = []
    for n, repeats, step in ((2, [2, 1, 1], 0.5), (1, [1, 2, 1], 0.25)):
        for variable, value in ((N, n), (REPEATS, repeats), (STEP, step)):
            variable.assign(value)
        found.append([np.asarray(x).tolist() for x in tk.nest.flatten(call())])
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_graph_reads_a_variable_when_it_runs(name):
    eager = runs(CALLS[name])
    assert eager[0] != eager[1]
    assert runs(tk.function(CALLS[name])) == eager


@pytest.mark.parametrize("name", STATIC)
def test_an_axis_that_a_graph_must_know_is_no_variable(name):
    assert runs(STATIC[name])
    with pytest.raises((tk.errors.InvalidArgumentError, TypeError), match="needs a value"):
        runs(tk.function(STATIC[name]))
