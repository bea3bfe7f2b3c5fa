"""Specs of what functions make of windows, which are data sets themselves."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.data.structure import example_leaf

SERIES = np.arange(24, dtype="float32").reshape(12, 2)


def windows(*parts):
    return tk.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0]).window(4, 1)


def test_batches_of_windows_tell_their_spec():
    batches = windows(SERIES).flat_map(lambda window: window.batch(4, drop_remainder=True))
    assert batches.element_spec == tk.TensorSpec((4, 2), tk.float32)
    assert "shape=(4, 2)" in repr(batches)
    assert windows(SERIES).flat_map(lambda window: window.batch(4)).element_spec.shape == (None, 2)


def test_the_steps_after_tell_theirs():
    pairs = (
        windows(SERIES)
        .shuffle(3)
        .flat_map(lambda window: window.batch(4, drop_remainder=True))
        .map(lambda window: (window[:-1], window[-1, :1]))
        .batch(5)
        .prefetch(1)
    )
    x, y = pairs.element_spec
    assert (x.shape, y.shape) == ((None, 3, 2), (None, 1))


def test_windows_of_several_components():
    both = windows(SERIES, np.arange(12)).flat_map(
        lambda x, y: tk.data.Dataset.zip((x.batch(4), y.batch(4)))
    )
    x, y = both.element_spec
    assert (x.shape, x.dtype) == ((None, 2), tk.float32)
    assert (y.shape, y.dtype) == ((None,), tk.int64)


def test_sizes_that_are_not_known_stay_so():
    ragged = tk.data.Dataset.from_generator(
        lambda: iter([[1], [1, 2]]), output_signature=tk.TensorSpec((None,), tk.int32)
    )
    flat = ragged.window(2).flat_map(lambda window: window)
    assert flat.element_spec == tk.TensorSpec((None,), tk.int32)


def test_a_map_that_makes_data_sets_tells_its_spec():
    inner = tk.data.Dataset.range(3).map(lambda n: tk.data.Dataset.range(n + 1))
    assert inner.flat_map(lambda part: part.batch(2)).element_spec.shape == (None,)


def test_a_function_may_read_the_window():
    read = windows(SERIES).map(lambda window: tk.stack(list(window)))
    assert read.element_spec == tk.TensorSpec((None, None), tk.float32)


def test_a_spec_without_a_data_set_has_no_example():
    with pytest.raises(TypeError, match="known after its first call"):
        example_leaf(tk.data.DatasetSpec(tk.TensorSpec((), tk.int32)))
