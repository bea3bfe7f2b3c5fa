"""`TensorArray` in eager code, in graphs, and under a tape."""

import numpy as np
import pytest

import trainkit as tk

WAYS = [lambda f: f, tk.function]


@pytest.fixture(params=WAYS, ids=["eager", "graph"])
def way(request):
    return request.param


def test_write_read_stack_gather_and_size(way):
    @way
    def f(x):
        a = tk.TensorArray(tk.float32, size=3)
        a = a.write(0, x).write(2, x * 2)
        return a.stack(), a.read(2), a.gather([2, 0]), a.size(), a.read(1)

    stack, two, picked, size, unwritten = f(tk.constant([1.0, 2.0]))
    assert stack.numpy().tolist() == [[1, 2], [0, 0], [2, 4]]
    assert two.numpy().tolist() == [2, 4]
    assert picked.numpy().tolist() == [[2, 4], [1, 2]]
    assert int(size) == 3
    assert unwritten.numpy().tolist() == [0, 0]


def test_an_array_never_changes():
    a = tk.TensorArray(tk.int32, size=2).unstack([1, 2])
    b = a.write(0, 9)
    assert a.stack().numpy().tolist() == [1, 2]
    assert b.stack().numpy().tolist() == [9, 2]
    assert a.identity() is a


def test_unstack_scatter_and_concat(way):
    @way
    def f(x):
        a = tk.TensorArray(tk.float32, size=0).unstack(x)
        b = tk.TensorArray(tk.float32, size=3, element_shape=[2]).scatter([2, 0], x)
        return a.concat(), b.stack()

    joined, scattered = f(tk.constant([[1.0, 2.0], [3.0, 4.0]]))
    assert joined.numpy().tolist() == [1, 2, 3, 4]
    assert scattered.numpy().tolist() == [[3, 4], [0, 0], [1, 2]]


def test_a_dynamic_array_grows_in_a_loop(way):
    @way
    def f(n):
        a = tk.TensorArray(tk.int32, size=0, dynamic_size=True)
        for i in tk.range(n):
            a = a.write(i, i * i)
        return a.stack()

    assert f(tk.constant(4)).numpy().tolist() == [0, 1, 4, 9]


def test_a_size_known_only_when_the_graph_runs():
    @tk.function(input_signature=[tk.TensorSpec([None, None])])
    def f(xs):
        n = tk.shape(xs)[0]
        a = tk.TensorArray(tk.float32, size=n)
        for i in tk.range(n):
            if i != 1:
                a = a.write(i, xs[i] * 2.0)
        return a.stack()

    assert f(tk.ones([3, 2])).numpy().tolist() == [[2, 2], [0, 0], [2, 2]]
    assert f(tk.ones([1, 4])).numpy().tolist() == [[2, 2, 2, 2]]


def test_gradients_of_first_and_second_order(way):
    @way
    def f(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                a = tk.TensorArray(tk.float32, size=0, dynamic_size=True)
                for i in tk.range(3):
                    a = a.write(i, x[i] * x[0])
                a = a.write(1, x[1] * x[1])
                y = tk.reduce_sum(a.stack() ** 2) + a.read(2)
            g = inner.gradient(y, x)
        return g, outer.gradient(g, x)

    def direct(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                rows = [x[0] * x[0], x[1] * x[1], x[2] * x[0]]
                y = tk.reduce_sum(tk.stack(rows) ** 2) + rows[2]
            g = inner.gradient(y, x)
        return g, outer.gradient(g, x)

    x = tk.constant([1.5, 2.0, -1.0])
    for a, b in zip(f(x), direct(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_an_array_is_an_argument_and_a_result():
    @tk.function
    def doubled(a):
        return a.write(0, a.read(1) * 2)

    a = tk.TensorArray(tk.float32, size=2).unstack([1.0, 2.0])
    result = doubled(a)
    assert isinstance(result, tk.TensorArray)
    assert result.dtype == tk.float32
    assert result.stack().numpy().tolist() == [4.0, 2.0]
    doubled(a)
    assert doubled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda a: a.write(2, 1.0), IndexError, r"index 2 is not in \[0, 2\); .*dynamic_size=True"),
        (lambda a: a.write(0, 1.0).read(5), IndexError, r"index 5 is not in \[0, 2\)"),
        (lambda a: a.write(-1, 1.0), IndexError, "index -1"),
        (lambda a: a.write(0, tk.constant(1)), ValueError, "holds float32, the value is int32"),
        (lambda a: a.write(0, [1.0]).write(1, [1.0, 2.0]), ValueError, "elements have shape"),
        (lambda a: a.stack(), RuntimeError, "nothing has been written"),
        (lambda a: a.element_shape, RuntimeError, "not known yet"),
        (lambda a: a.write(0, 1.0).concat(), ValueError, "scalars can't be joined"),
    ],
)
def test_misuse_is_refused(use, kind, text):
    with pytest.raises(kind, match=text):
        use(tk.TensorArray(tk.float32, size=2))


def test_the_element_shape_is_checked():
    a = tk.TensorArray(tk.float32, size=2, element_shape=[None, 3])
    assert a.element_shape == (None, 3)
    with pytest.raises(ValueError, match=r"elements have shape \(None, 3\), the value has \(2,\)"):
        a.write(0, tk.ones([2]))
    zeros = tk.TensorArray(tk.float32, size=2, element_shape=[3])
    assert zeros.stack().shape == (2, 3)


def test_unsupported_settings_are_refused():
    with pytest.raises(ValueError, match="handle and flow"):
        tk.TensorArray(tk.float32, size=2, flow=1.0)


def test_elements_of_one_shape_need_no_inference(way):
    @way
    def f(x):
        a = tk.TensorArray(tk.float32, size=2, infer_shape=False)
        a = a.write(0, x).write(1, x + 1)
        return a.stack(), a.concat(), a.read(1)

    stack, joined, one = f(tk.constant([1.0, 2.0]))
    assert stack.numpy().tolist() == [[1, 2], [2, 3]]
    assert joined.numpy().tolist() == [1, 2, 2, 3]
    assert one.numpy().tolist() == [2, 3]


@pytest.mark.parametrize("infer", [True, False])
def test_elements_of_other_shapes_are_refused(way, infer):
    @way
    def f(x):
        a = tk.TensorArray(tk.float32, size=2, infer_shape=infer)
        return a.write(0, x).write(1, tk.concat([x, x], 0)).read(1)

    with pytest.raises(ValueError, match=r"all have one shape, with infer_shape=False as well"):
        f(tk.constant([1.0]))


USES = {
    "read": lambda a: a.read(1),
    "gather": lambda a: a.gather([0, 1]),
    "stack": lambda a: a.stack(),
    "concat": lambda a: a.concat(),
}


@pytest.mark.parametrize("use", list(USES))
def test_elements_that_are_cleared_are_read_once(use):
    rows = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    a = tk.TensorArray(tk.float32, size=2, clear_after_read=True).unstack(rows)
    assert a.read(1).numpy().tolist() == [3, 4]
    with pytest.raises(ValueError, match=f"{use}: the element at 1 has been read before"):
        USES[use](a)
    with pytest.raises(ValueError, match="the element at 1 has been read before"):
        USES[use](a.write(0, [5.0, 6.0]))  # what comes of it has no more
    assert a.read(0).numpy().tolist() == [1, 2]


@pytest.mark.parametrize("use", list(USES))
def test_elements_written_again_are_there_again(use):
    a = tk.TensorArray(tk.float32, size=2, clear_after_read=True, element_shape=[1])
    a = a.write(0, [1.0]).write(1, [2.0])
    a.read(1)
    assert float(tk.reduce_sum(USES[use](a.write(1, [7.0])))) in (7.0, 8.0)
    a.gather([0])
    a.gather([0])  # only reading clears


@pytest.mark.parametrize("clear", [None, False])
def test_elements_stay_when_they_are_not_cleared(way, clear):
    @way
    def f(x):
        a = tk.TensorArray(tk.float32, size=2, clear_after_read=clear).unstack(x)
        return a.read(0) + a.read(0) + a.stack()[0]

    assert float(f(tk.constant([1.0, 2.0]))) == 3.0


def test_graphs_keep_elements_and_know_arrays_that_clear_by_their_kind():
    @tk.function
    def f(a):
        return a.read(0) + a.read(0), a

    for _ in range(3):
        a = tk.TensorArray(tk.float32, size=2, clear_after_read=True).unstack([1.0, 2.0])
        total, result = f(a)
        assert float(total) == 2.0
        result.read(0)
        with pytest.raises(ValueError, match="read before"):
            result.read(0)
        assert float(a.read(0)) == 1.0
    assert f.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("lengths", [[2, 2], np.array([1, 1, 1, 1]), tk.constant([4])])
def test_split(way, lengths):
    @way
    def f(x):
        return tk.TensorArray(tk.float32, size=len(lengths)).split(x, lengths).stack()

    x = tk.reshape(tk.range(8.0), (4, 2))
    expected = x.numpy().reshape(len(lengths), -1, 2)
    np.testing.assert_array_equal(f(x).numpy(), expected)
    signed = tk.function(f, input_signature=[tk.TensorSpec([None, None])])
    np.testing.assert_array_equal(signed(x).numpy(), expected)


@pytest.mark.parametrize("rows", [2, 6])
def test_a_split_looks_at_sizes_that_come_with_the_call(rows):
    f = tk.function(
        lambda x: tk.TensorArray(tk.float32, 2).split(x, [2, 2]).stack(),
        input_signature=[tk.TensorSpec([None, 3])],
    )
    assert f(tk.ones([4, 3])).shape == (2, 2, 3)
    with pytest.raises(ValueError, match=rf"\(4, 3\) is needed, it is \({rows}, 3\)"):
        f(tk.ones([rows, 3]))


def test_split_has_a_gradient(way):
    @way
    def f(x):
        return tk.TensorArray(tk.float32, 0, dynamic_size=True).split(x, [2, 2]).read(1)

    x = tk.constant([1.0, 2.0, 3.0, 4.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy().tolist() == [3, 4]
    assert tape.gradient(y, x).numpy().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("value", "lengths", "text"),
    [
        ([1.0, 2.0, 3.0], [1, 2], r"\[1, 2\], and all elements .*tk.split"),
        ([1.0, 2.0, 3.0, 4.0], [1, 1], r"add up to 2, the value has 4 rows"),
        ([1.0, 2.0, 3.0], [1, 1, 1], r"3 lengths are given for 2 positions"),
        ([1, 2], [1, 1], None),
        (tk.constant([1, 2]), [1, 1], "needs rows of float32"),
        (1.0, [1, 1], "needs rows of float32"),
        ([1.0, 2.0], 2, "list of known numbers"),
    ],
)
def test_splits_that_are_refused(way, value, lengths, text):
    @way
    def f():
        return tk.TensorArray(tk.float32, size=2).split(value, lengths).stack()

    if text is None:
        assert f().numpy().tolist() == [[1], [2]]
        return
    with pytest.raises(ValueError, match=text):
        f()


def test_a_split_by_lengths_of_a_trace_is_refused():
    f = tk.function(lambda n: tk.TensorArray(tk.float32, 2).split([1.0, 2.0], n).stack())
    with pytest.raises(ValueError, match="known numbers"):
        f(tk.constant([1, 1]))
