"""Positions below 0: outside to TensorFlow's names, from the end to NumPy's and Keras's."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError

TABLE = np.arange(6.0, dtype="float32").reshape(2, 3)
ROW = [[7.0, 8.0, 9.0]]
READ = tk.Variable(TABLE)


def rows(indices):
    return tk.IndexedSlices(tk.constant(ROW), tk.constant(indices)[:, 0])


BY_ROWS = {
    "gather_nd": lambda i: tk.gather_nd(TABLE, i),
    "gather_nd in batches": lambda i: tk.gather_nd(TABLE[None], i[None], batch_dims=1),
    "scatter_nd": lambda i: tk.scatter_nd(i, ROW, (2, 3)),
    "tensor_scatter_nd_update": lambda i: tk.tensor_scatter_nd_update(TABLE, i, ROW),
    "tensor_scatter_nd_add": lambda i: tk.tensor_scatter_nd_add(TABLE, i, ROW),
    "tensor_scatter_nd_sub": lambda i: tk.tensor_scatter_nd_sub(TABLE, i, ROW),
    "tensor_scatter_nd_max": lambda i: tk.tensor_scatter_nd_max(TABLE, i, ROW),
    "tensor_scatter_nd_min": lambda i: tk.tensor_scatter_nd_min(TABLE, i, ROW),
    "Variable.gather_nd": lambda i: READ.gather_nd(i),
    "Variable.sparse_read": lambda i: READ.sparse_read(i),
    "Variable.scatter_update": lambda i: tk.Variable(TABLE).scatter_update(rows(i)),
    "Variable.scatter_add": lambda i: tk.Variable(TABLE).scatter_add(rows(i)),
    "Variable.scatter_nd_update": lambda i: tk.Variable(TABLE).scatter_nd_update(i, ROW),
    "Variable.scatter_nd_add": lambda i: tk.Variable(TABLE).scatter_nd_add(i, ROW),
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("name", [n for n in BY_ROWS if not n.startswith("Variable.scatter")])
@pytest.mark.parametrize("position", [-1, -2, 2])
def test_positions_of_tensorflow_are_refused_outside_of_the_axis(name, position, traced):
    call = tk.function(BY_ROWS[name]) if traced else BY_ROWS[name]
    call(tk.constant([[1]]))
    with pytest.raises(InvalidArgumentError, match=rf"indices\[0(,0)?\] = .*{position}"):
        call(tk.constant([[position]]))


@pytest.mark.parametrize("name", [n for n in BY_ROWS if n.startswith("Variable.scatter")])
def test_a_refused_scatter_leaves_the_variable(name):
    with pytest.raises(InvalidArgumentError, match=r"scatter_\w+: indices\[0\] = \[-1\] does not"):
        BY_ROWS[name](tk.constant([[-1]]))


@pytest.mark.parametrize("position", [-1, 3])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_gather_in_batches_takes_no_item_of_the_next_entry(position, traced):
    def pick(indices):
        return tk.gather(TABLE, indices, axis=1, batch_dims=1)

    call = tk.function(pick) if traced else pick
    assert call(tk.constant([[2], [0]])).numpy().tolist() == [[2.0], [3.0]]
    with pytest.raises(InvalidArgumentError, match=rf"indices\[0,0\] = {position} is not in"):
        call(tk.constant([[position], [0]]))


def test_items_of_a_map_have_their_own_axes():
    tables = tk.constant(np.stack([TABLE, TABLE + 10]))
    picked = tk.vectorized_map(lambda x: tk.gather_nd(x, [[1, 2]]), tables)
    assert picked.numpy().tolist() == [[5.0], [15.0]]
    with pytest.raises(InvalidArgumentError, match="does not index into shape"):
        tk.vectorized_map(lambda x: tk.gather_nd(x, [[1, -1]]), tables)


def test_positions_of_keras_count_from_the_end():
    assert ops.take(TABLE, [-1], axis=0).numpy().tolist() == TABLE[-1:].tolist()
    assert ops.gather_nd(TABLE, [[-1]]).numpy().tolist() == TABLE[-1:].tolist()
    updated = ops.scatter_update(TABLE, [[-1]], ROW).numpy()
    assert updated.tolist() == [TABLE[0].tolist(), *ROW]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("size", [1, 33, 5000])
def test_one_of_many_positions_is_outside(rng, dtype, size):
    x = tk.constant(rng.normal(size=(3, 7)).astype("float32"))
    indices = rng.integers(0, 7, (3, size)).astype(dtype)
    expected = np.take_along_axis(x.numpy(), indices, 1)
    np.testing.assert_array_equal(tk.gather(x, indices, batch_dims=1), expected)
    compiled = tk.function(lambda x, i: tk.gather(x, i, batch_dims=1))
    np.testing.assert_array_equal(compiled(x, indices), expected)
    for wrong in (-1, 7, np.iinfo(dtype).min, np.iinfo(dtype).max):
        outside = indices.copy()
        outside[-1, -1] = wrong
        with pytest.raises(InvalidArgumentError, match=f"= {wrong} is not in"):
            tk.gather(x, outside, batch_dims=1)
