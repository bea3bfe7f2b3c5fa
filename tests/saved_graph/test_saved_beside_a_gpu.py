"""Graphs that are saved where a GPU is run anywhere."""

import numpy as np

import trainkit as tk
from tests import stand_in
from trainkit.saved_graph import standalone


def test_assignments_in_branches_and_loops_can_be_read_without_trainkit(tmp_path):
    with stand_in.in_place():
        v = tk.Variable([1.0, 2.0])

        @tk.function
        def f(x):
            if tk.reduce_sum(x) > 0:
                v.assign(x * 2.0)
            else:
                v.assign(x)
            for i in tk.range(3):
                v.assign(tk.stop_gradient(x) + tk.cast(i, "float32"))
            return v + 0.0

        tk.saved_graph.save(f, tmp_path / "f.h5", tk.TensorSpec([2]))
    assert b"copy_to_device" not in (tmp_path / "f.h5").read_bytes()
    x = np.array([1.0, -3.0], "float32")
    for read in (tk.saved_graph.load, standalone.load):
        np.testing.assert_array_equal(np.asarray(read(tmp_path / "f.h5")(x)), x + 2)
