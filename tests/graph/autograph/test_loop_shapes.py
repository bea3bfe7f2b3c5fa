"""Shapes, dtypes and nests of loop variables: what changes from round to round is refused."""

import numpy as np
import pytest

import trainkit as tk

set_loop_options = tk.autograph.experimental.set_loop_options
ROWS = tk.data.Dataset.range(3)


def by_range(x, n):
    for _ in tk.range(n):
        x = tk.concat([x, x], 0)
    return x


def by_while(x, n):
    while n > 0:
        n -= 1
        x = tk.concat([x, x], 0)
    return x


def by_dataset(x, n):
    for _ in ROWS:
        x = tk.concat([x, x], 0)
    return x


def with_break(x, n):
    for i in tk.range(n):
        x = tk.concat([x, x], 0)
        if i > 1:
            break
    return x


def with_return(x, n):
    for i in tk.range(n):
        x = tk.concat([x, x], 0)
        if i > 1:
            return x
    return x


def with_continue(x, n):
    for i in tk.range(n):
        if i > 1:
            continue
        x = tk.concat([x, x], 0)
    return x


def inside(x, n):
    for _ in tk.range(n):
        for _ in tk.range(n):
            x = tk.concat([x, x], 0)
    return x


def of_fewer(x, n):
    for _ in tk.range(n):
        x = tk.boolean_mask(x, x > 5)
    return x


@pytest.mark.parametrize(
    "f",
    [by_range, by_while, by_dataset, with_break, with_return, with_continue, inside, of_fewer],
    ids=lambda f: f.__name__,
)
def test_a_shape_that_changes_is_refused(f):
    g = tk.function(f)
    later = r"\(None,\)" if f in (of_fewer, with_continue) else r"\(2,\)"
    text = rf"'x' has shape \(1,\) before the loop and {later} after one iteration"
    for _ in range(2):
        with pytest.raises(ValueError, match=text) as error:
            g(tk.ones((1,)), tk.constant(3))
    assert "set_loop_options(shape_invariants=[(x, tk.TensorShape([None]))])" in str(error.value)
    general = tk.function(f, input_signature=[tk.TensorSpec([None]), tk.TensorSpec([], tk.int32)])
    np.testing.assert_array_equal(
        general(tk.ones((1,)), tk.constant(3)), f(tk.ones((1,)), tk.constant(3))
    )


def test_a_loop_of_python_takes_any_shape():
    @tk.function
    def f(x):
        for _ in range(2):
            x = tk.concat([x, x], 0)
        n = 2
        while n:
            n -= 1
            x = x[None]
        return x

    assert f(tk.ones((1,))).shape == (1, 1, 4)


def test_invariants_hold_for_each_kind_of_loop():
    @tk.function
    def f(n):
        x, y, z, w = (tk.ones((1, 2)) for _ in range(4))
        general = tk.TensorShape([None, 2])
        for _ in tk.range(n):
            set_loop_options(shape_invariants=[(x, general)])
            x = tk.concat([x, x], 0)
            for _ in ROWS:
                set_loop_options(shape_invariants=[(y, tk.TensorShape([None, None]))])
                y = tk.concat([y, x[:1]], 0)
            y = y[:1]
            y.set_shape((1, 2))
        for i in tk.range(n):
            set_loop_options(shape_invariants=[(z, [None, 2])])
            z = tk.concat([z, z], 0)
            if i > 0:
                break
        while n > 0:
            set_loop_options(shape_invariants=[(w, tk.TensorShape(None))])
            w = tk.concat([w, w], 0)
            n -= 1
        return x, y, z, w

    for _ in range(2):
        assert [y.shape[0] for y in f(tk.constant(3))] == [8, 1, 4, 8]
    assert [y.shape[0] for y in f(tk.constant(0))] == [1, 1, 1, 1]


def test_a_body_is_traced_for_the_invariants_alone_where_it_needs_them():
    @tk.function
    def count_up(n):
        x = tk.zeros((0,), tk.int32)
        for _ in tk.range(n):
            set_loop_options(shape_invariants=[(x, tk.TensorShape([None]))])
            last = x[-1] if tk.size(x) > 0 else 5  # the shape before the loop has no last element
            x = tk.concat([x, [last + 1]], 0)
        return x

    assert count_up(tk.constant(3)).numpy().tolist() == [6, 7, 8]


def test_gradients_go_through_sizes_that_change():
    @tk.function
    def f(x, n):
        y = x
        for _ in tk.range(n):
            set_loop_options(shape_invariants=[(y, tk.TensorShape([None]))])
            y = tk.concat([y * 2.0, x], 0)
        return tk.reduce_sum(y)

    x = tk.constant([3.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x, tk.constant(2))
    np.testing.assert_allclose([float(y), float(tape.gradient(y, x))], [21.0, 7.0])


def test_invariants_that_do_not_hold():
    def run(shape):
        def f(n):
            x = tk.ones((1, 2))
            for _ in tk.range(n):
                set_loop_options(shape_invariants=[(x, shape)])
                x = tk.concat([x, x], 1)
            return x

        return tk.function(f)(tk.constant(2))

    assert run(tk.TensorShape([1, None])).shape == (1, 8)
    with pytest.raises(ValueError, match=r"'x' has shape \(1, 2\), its invariant says \(2, 2\)"):
        run(tk.TensorShape([2, 2]))
    with pytest.raises(ValueError, match=r"\(1, 4\) after one iteration; its invariant is \(None"):
        run(tk.TensorShape([None, 2]))
    with pytest.raises(ValueError, match="2 shapes for a loop variable of 1 tensors"):
        tk.function(lambda x: _nested(x, [[None], [None]]))([tk.ones((1,))])


def _nested(x, shapes):
    for _ in tk.range(tk.constant(2)):
        set_loop_options(shape_invariants=[(x, shapes)])
        x = [tk.concat([x[0], x[0]], 0), *x[1:]]
    return x


class Holder:
    def __init__(self):
        self.total = tk.ones((1,))

    def grow(self, n):
        for _ in tk.range(n):
            self.total = tk.concat([self.total, self.total], 0)
        return self.total

    def add(self, n):
        for _ in tk.range(n):
            self.total = self.total + 1.0
        return self.total


def test_variables_in_nests_and_attributes():
    one = tk.ones((1,))
    shapes = [tk.TensorShape([None]), tk.TensorShape([])]
    assert tk.function(lambda x: _nested(x, shapes))([one, tk.constant(1)])[0].shape == (4,)

    @tk.function
    def in_dict(n):
        x = {"b": (tk.ones((1,)), None), "a": tk.constant(1)}
        for _ in tk.range(n):
            x = {"a": x["a"] + 1, "b": (x["b"][0] * 2.0, None)}
        return x

    x = in_dict(tk.constant(3))
    assert [int(x["a"]), float(x["b"][0][0]), x["b"][1]] == [4, 8.0, None]

    @tk.function
    def growing(n):
        x = {"b": (tk.ones((1,)), None), "a": 1}
        for _ in tk.range(n):
            x = {"a": 2, "b": (tk.concat([x["b"][0], one], 0), None)}
        return x

    with pytest.raises(ValueError, match=r"\"x\['b'\]\[0\]\" has shape \(1,\) before"):
        growing(tk.constant(2))

    @tk.function
    def to_list(n):
        x = (tk.ones((1,)), 1)
        while n > 0:
            x = [x[0], x[1]]
            n -= 1
        return x

    with pytest.raises(ValueError, match=r"'x' is .* the same nest of tensors in all rounds"):
        to_list(tk.constant(2))

    holder = Holder()
    with pytest.raises(ValueError, match=r"'self.total' has shape \(1,\) before the loop and"):
        tk.function(holder.grow)(tk.constant(2))
    assert holder.total.shape == (1,)
    assert float(tk.function(Holder().add)(tk.constant(2))[0]) == 3.0


def test_numbers_and_arrays_before_the_loop():
    @tk.function
    def summed(start, n):
        for _ in tk.range(n):
            start = start + 1.5
        return start

    assert float(summed(1, tk.constant(2))) == 4.0  # as in Python: an int is a float there
    assert summed(np.zeros(2), tk.constant(2)).dtype == tk.float64

    def becomes(value, dtype):
        def f(n):
            x = value
            for _ in tk.range(n):
                x = tk.cast(n, dtype)
            return x

        return tk.function(f)(tk.constant(0))

    assert becomes(7, tk.float64).numpy() == 7.0
    assert becomes(200, tk.uint8).numpy() == 200
    for value, dtype in [(0.5, tk.int32), (300, tk.uint8), (1, tk.bool), (True, tk.int32)]:
        with pytest.raises(TypeError, match=r"'x' has dtype .* before the loop and"):
            becomes(value, dtype)

    @tk.function
    def back_and_forth(n):
        x = 1
        for _ in tk.range(n):
            x = tk.cast(n, tk.float32 if x.dtype == tk.int32 else tk.int32)
        return x

    with pytest.raises(TypeError, match="'x' has dtype"):
        back_and_forth(tk.constant(2))


def test_names_of_the_body_alone_and_arrays_may_take_other_sizes():
    @tk.function
    def f(x, n):
        rows = tk.TensorArray(tk.float32, size=0, dynamic_size=True)
        for i in tk.range(n):
            part = x[:i]
            rows = rows.write(i, tk.reduce_sum(part))
        return rows.stack(), part

    rows, part = f(tk.ones((4,)), tk.constant(3))
    assert [rows.numpy().tolist(), part.shape] == [[0.0, 1.0, 2.0], (2,)]
