"""Confusion matrices: which labels they take."""

import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError


def test_labels_may_be_floats():
    matrix = tk.math.confusion_matrix([0.0, 1.0, 1.7], [1.0, 1.0, 0.0])
    assert matrix.numpy().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("run", [lambda f: f, tk.function], ids=["eager", "graph"])
@pytest.mark.parametrize("classes", [None, 3])
def test_labels_below_zero_are_refused(run, classes):
    call = run(lambda x, y: tk.math.confusion_matrix(x, y, classes))
    with pytest.raises(InvalidArgumentError, match="negative labels"):
        call(tk.constant([-1, 0]), tk.constant([0, 0]))
    with pytest.raises(InvalidArgumentError, match="negative predictions"):
        call(tk.constant([1, 0]), tk.constant([0, -1]))
