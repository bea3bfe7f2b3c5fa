"""`get_next_as_optional` and `tk.experimental.Optional`, as TensorFlow 2.21 has them."""

import numpy as np
import pytest

import trainkit as tk

Optional = tk.experimental.Optional


def test_a_pass_ends_without_an_error():
    iterator = iter(tk.data.Dataset.range(2))
    found = [iterator.get_next_as_optional() for _ in range(3)]
    assert [bool(one.has_value()) for one in found] == [True, True, False]
    assert [int(one.get_value()) for one in found[:2]] == [0, 1]
    assert all(one.element_spec == tk.TensorSpec((), "int64") for one in found)
    with pytest.raises(tk.errors.InvalidArgumentError, match="has no value"):
        found[2].get_value()


def test_optionals_of_nests():
    found = Optional.from_value({"a": 1.0, "b": (2, "x")})
    assert float(found.get_value()["a"]) == 1.0
    assert found.get_value()["b"][1].numpy() == b"x"
    assert found.element_spec["b"][0] == tk.TensorSpec((), "int32")
    nothing = Optional.empty(found.element_spec)
    assert not bool(nothing.has_value())
    assert nothing.element_spec == found.element_spec


def test_a_loop_of_a_function_goes_on_until_the_end():
    @tk.function
    def total(iterator):
        found = iterator.get_next_as_optional()
        result = tk.constant(0, tk.int64)
        while found.has_value():
            result += found.get_value()
            found = iterator.get_next_as_optional()
        return result

    assert int(total(iter(tk.data.Dataset.range(5)))) == 10
    iterator = iter(tk.data.Dataset.range(3))
    assert [int(total(iterator)), int(total(iterator))] == [3, 0]


def test_a_function_that_asks_for_nothing_says_so_when_it_runs():
    iterator = iter(tk.data.Dataset.from_tensor_slices(np.ones((1, 2), "float32")).batch(2))
    take = tk.function(lambda: iterator.get_next_as_optional().get_value())
    np.testing.assert_array_equal(take(), [[1, 1]])
    with pytest.raises(tk.errors.InvalidArgumentError, match="has no value"):
        take()
    empty = tk.data.experimental.get_next_as_optional(iterator)
    assert not bool(empty.has_value())


def test_a_compiled_loop_trains_on_all_batches():
    seen = tk.Variable(0.0)
    iterator = iter(tk.data.Dataset.from_tensor_slices(tk.range(5.0)).batch(2))

    @tk.function
    def epoch():
        found = iterator.get_next_as_optional()
        while found.has_value():
            seen.assign_add(tk.reduce_sum(found.get_value()))
            found = iterator.get_next_as_optional()

    epoch()
    assert float(seen) == 10.0
