"""In which order a session of version 1 does what it is asked for: as TensorFlow's do."""

import numpy as np
import pytest

import trainkit as tk

v1 = tk.compat.v1


@pytest.mark.parametrize("trainable", [True, False])
def test_a_variable_moves_when_the_operation_is_run_and_only_then(trainable):
    with v1.Graph().as_default():
        v = v1.Variable(3.0, trainable=trainable)
        more, double = v.assign_add(1.0), v1.assign(v, v * 2.0)
        with v1.Session() as session:
            session.run(v.initializer)
            values = [session.run(x) for x in (v, v, more, v, double, v + 1.0, more + 1.0, v)]
    assert values == [3, 3, 4, 4, 8, 9, 10, 9]


def test_what_is_made_under_control_dependencies_comes_after():
    with v1.Graph().as_default():
        v = v1.Variable(1.0)
        before = tk.identity(v) * 10.0
        more = v1.assign_add(v, 1.0)
        with tk.control_dependencies([more]):
            after = v * 100.0
            double = v1.assign(v, v * 2.0)
        with tk.control_dependencies([double]):
            last = tk.identity(v)
            done = tk.no_op(name="done")
        with tk.control_dependencies([last]):
            end = v.read_value()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run([before, after]) == [10.0, 200.0]
            assert session.run(double) == 6.0
            assert session.run([last, before]) == [14.0, 60.0]
            assert session.run(done) is None
            assert session.run(v) == 30.0
            assert session.run(end) == 62.0
    assert done.name == "done"


def test_each_operation_of_a_run_is_run_once_and_none_is_lost():
    with v1.Graph().as_default():
        v = v1.Variable(1.0, trainable=False)
        one, two = v1.assign_add(v, 1.0), v.assign_add(2.0)
        both = tk.group(one, two, one, name="both")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run([both, one])
            assert session.run(v) == 4.0
    assert both.name == "both"


def test_averages_that_a_result_waits_for():
    with v1.Graph().as_default():
        v = v1.Variable(0.0, trainable=False)
        x = v1.placeholder(tk.float32, [])
        update = v.assign(0.9 * v + 0.1 * x)
        with tk.control_dependencies([update]):
            y = x - v
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            values = [session.run(y, {x: 1.0}) for _ in range(3)]
            assert values == pytest.approx([0.9, 0.81, 0.729])
            assert session.run(v) == session.run(v) == pytest.approx(0.271)


def test_any_placeholder_and_any_tensor_is_fed():
    with v1.Graph().as_default():
        a, b = v1.placeholder(tk.float32, []), v1.placeholder(tk.float32, [])
        c, d = a * 2.0, b * 3.0
        total = c + d
        with v1.Session() as session:
            assert session.run(d, {b: 2.0}) == 6.0
            assert session.run(total, {c: 10.0, b: 1.0}) == 13.0
            assert session.run([total, c], {a: 1.0, b: 1.0}) == [5.0, 2.0]
            assert total.eval({a: 0.0, b: 1.0}) == 3.0
            with pytest.raises(TypeError, match="can't feed 'a'"):
                session.run(total, {"a": 1.0})


def test_random_numbers_go_on_from_run_to_run_and_initial_ones_stay():
    with v1.Graph().as_default():
        w = v1.Variable(tk.random.normal([3, 2]))
        r = tk.random.uniform([4])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            first, again = session.run(w), session.run(w)
            one, two = session.run(r), session.run(r)
            both = session.run([r, r])
            session.run(w.initializer)
            anew = session.run(w)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(*both)
    assert (one != two).any()
    assert (first != anew).any()


def test_sessions_that_are_entered():
    with v1.Graph().as_default():
        v = v1.Variable([1.0, 2.0])
        total = tk.reduce_sum(v)
        with pytest.raises(ValueError, match="no session is entered"):
            total.eval()
        session = v1.InteractiveSession()
        v1.global_variables_initializer().run()
        assert total.eval() == 3.0
        assert v.eval().tolist() == [1.0, 2.0]
        assert v1.get_default_session() is session
        session.close()
        assert v1.get_default_session() is None
        other = v1.Session()
        with other.as_default():
            v.load([5.0, 6.0], other)
            assert total.eval() == 11.0
        assert other.run(total) == 11.0


def test_collections_are_those_of_a_graph():
    with v1.Graph().as_default():
        w = v1.get_variable("w", [2], initializer=tk.ones_initializer())
        u = v1.Variable(1.0, trainable=False, name="u")
        v1.add_to_collection("losses", tk.reduce_sum(w))
        v1.add_to_collection("losses", tk.reduce_sum(w * 2.0))
        total = tk.add_n(v1.get_collection("losses"))
        assert v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES) == [w]
        assert v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, scope="u") == [u]
        assert v1.get_collection("none") == []
        assert v1.Session().run(total) == 6.0


def test_an_eager_variable_has_no_initializer():
    assert tk.Variable(1.0).initializer is None
    with v1.Graph().as_default():
        with pytest.raises(tk.errors.InvalidArgumentError, match="leave it out"):
            v1.variables_initializer([EAGER])
        with pytest.raises(tk.errors.InvalidArgumentError, match="has no value"):
            tk.add(tk.group(), 1.0)


EAGER = tk.Variable(1.0)


def test_assertions_and_prints_are_operations(capfd):
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [])
        positive = v1.assert_positive(x, message="the rate")
        shown = tk.print("rate", x)
        with tk.control_dependencies([positive, shown]):
            y = x + 1.0
        finite = tk.debugging.check_numerics(x, "the rate")
        with v1.Session() as session:
            assert session.run(x, {x: -1.0}) == -1.0  # nothing depends on the assertion
            assert session.run(y, {x: 1.0}) == 2.0
            assert capfd.readouterr().err == "rate 1\n"
            with pytest.raises(tk.errors.InvalidArgumentError, match="the rate"):
                session.run(y, {x: -1.0})
            assert session.run(finite, {x: 2.0}) == 2.0
            with pytest.raises(tk.errors.InvalidArgumentError, match="has inf or nan"):
                session.run(finite, {x: np.nan})


def test_assignments_in_branches_and_loops_belong_to_these():
    with v1.Graph().as_default():
        flag = v1.placeholder(tk.bool, [])
        v = v1.Variable(1.0)
        y = tk.cond(flag, lambda: v.assign(5.0) + 0.0, lambda: v + 1.0)

        def body(i):
            v.assign_add(10.0)
            return i + 1

        count = tk.while_loop(lambda i: i < 3, body, [tk.constant(0) * tk.cast(flag, "int32")])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(v) == 1.0
            assert session.run(y, {flag: False}) == 2.0
            assert session.run(v) == 1.0
            assert session.run(y, {flag: True}) == 5.0
            assert session.run(v) == 5.0
            session.run(count, {flag: True})
            assert session.run(v) == 35.0


def test_tensors_with_values_are_fetched():
    with v1.Graph().as_default():
        assert v1.Session().run([tk.constant([1, 2]) + 1, tk.constant(3)])[0].tolist() == [2, 3]


def test_what_a_function_assigns_belongs_to_its_results():
    with v1.Graph().as_default():
        v, x = v1.Variable(2.0), v1.placeholder(tk.float32, [])

        @tk.function
        def add(x):
            v.assign_add(x)
            return v * 10.0, x * 2.0

        total, double = add(x)
        with v1.Session() as session:
            assert session.run(v) == 2.0
            assert session.run([total, double], {x: 3.0}) == [50.0, 6.0]
            assert session.run(v) == 5.0
            assert session.run(double, {x: 1.0}) == 2.0
            assert session.run(v) == 6.0


def test_a_placeholder_with_a_default_may_be_fed():
    with v1.Graph().as_default():
        x = v1.placeholder_with_default(tk.constant([2.0]), [None], name="x")
        y = x * 3.0
        with v1.Session() as session:
            assert session.run(y).tolist() == [6.0]
            assert session.run(y, {x: [5.0, 1.0]}).tolist() == [15.0, 3.0]
        assert x.name == "x:0"
        assert tuple(y.shape) == (None,)


def test_a_placeholder_with_a_default_may_leave_its_sizes_open():
    with v1.Graph().as_default():
        x = v1.placeholder_with_default([1.0, 2.0], None)
        with v1.Session() as session:
            assert session.run(x * 2.0).tolist() == [2.0, 4.0]
            assert session.run(x * 2.0, {x: [3.0] * 3}).tolist() == [6.0] * 3
