"""Bad input: each error says what is wrong, at which line of the user's, and what to do."""

import inspect
import traceback

import numpy as np
import pytest

import trainkit as tk

HERE = __file__


def line_of(function, text):
    """The number of the line of `function` that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, line in enumerate(lines) if text in line)


def raised(function, *args, kind=tk.errors.InvalidArgumentError):
    with pytest.raises(kind) as caught:
        tk.function(function)(*args)
    return caught.value


def test_branches_of_different_dtypes():
    def f(x):
        if x > 0:  # here
            y = tk.constant(1)
        else:
            y = tk.constant(1.0)
        return y

    text = str(raised(f, tk.constant(1.0)))
    assert "'y' has dtype int32 if the condition holds and float32 if not" in text
    assert "cast one of them" in text
    assert f'"{HERE}", line {line_of(f, "# here")}, in f' in text


def test_branches_of_different_ranks():
    def f(x):
        if x > 0:
            y = tk.ones([2])
        else:
            y = tk.ones([2, 2])
        return y

    assert "both branches must give one rank" in str(raised(f, tk.constant(1.0)))


def test_returns_of_different_dtypes():
    def f(x):
        if x > 0:
            return x
        return 1 == 2

    assert "dtype float32 in the true branch and bool in the false branch" in str(
        raised(f, tk.constant(1.0))
    )


def test_a_name_that_one_branch_leaves_undefined():
    def f(x):
        if x > 0:
            y = x * 2
        return y

    text = str(raised(f, tk.constant(1.0)))
    assert "'y' is" in text
    assert "undefined if not" in text
    assert "set it before the `if`" in text


def test_a_path_without_return():
    def f(x):
        if x > 0:
            return x * 2

    text = str(raised(f, tk.constant(1.0)))
    assert "ends without `return`" in text


def test_a_path_without_return_that_only_the_run_finds():
    def f(xs):
        for x in xs:
            if x > 2.0:
                return x

    traced = tk.function(f)
    assert float(traced(tk.constant([1.0, 3.0]))) == 3.0
    with pytest.raises(tk.errors.InvalidArgumentError, match="ends without `return`"):
        traced(tk.constant([1.0, 1.0]))


def test_a_condition_that_is_no_scalar():
    def f(x):
        if x > 0:  # here
            return x
        return -x

    text = str(raised(f, tk.ones([2])))
    assert "shape (2,); use tk.reduce_all or tk.reduce_any" in text
    assert f"line {line_of(f, '# here')}" in text


def test_a_rank_that_changes_inside_a_loop():
    def f(n):
        x = tk.zeros([1])
        for _ in tk.range(n):  # here
            x = x[None]
        return x

    text = str(raised(f, tk.constant(3)))
    assert "'x' has shape (1,) before the loop and (1, 1) after one iteration" in text
    assert "Start with a tensor of the final rank" in text
    assert f"line {line_of(f, '# here')}, in f" in text


def test_a_dtype_that_changes_inside_a_loop():
    def f(n):
        x = tk.zeros([1])
        for _ in tk.range(n):
            x = tk.cast(x, tk.float64)
        return x

    text = str(raised(f, tk.constant(3)))
    assert "'x' has dtype float32 before the loop and float64 after one iteration" in text


def test_a_python_object_that_changes_inside_a_loop():
    def f(n):
        name = "a"
        for _ in tk.range(n):
            name = name + "b"
        return tk.constant(1), name

    text = str(raised(f, tk.constant(3)))
    assert "'name' is 'a' before the loop and 'ab' after one iteration" in text


def test_a_loop_body_that_gives_another_structure():
    with pytest.raises(tk.errors.InvalidArgumentError, match="2 values for 1 loop variables"):
        tk.function(lambda n: tk.while_loop(lambda i: i < n, lambda i: (i, i), [tk.constant(0)]))(
            tk.constant(3)
        )


def test_branches_of_cond_that_return_different_structures():
    with pytest.raises(tk.errors.InvalidArgumentError, match="different structures"):
        tk.function(lambda x: tk.cond(x > 0, lambda: (x, x), lambda: x))(tk.constant(3))


def test_a_leaked_tensor_used_eagerly():
    kept = []

    def f(x):
        kept.append(x * 2)  # here
        return x

    tk.function(f)(tk.constant(1.0))
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        kept[0] + 1
    text = str(caught.value)
    assert f'made at "{HERE}", line {line_of(f, "# here")}, in f' in text
    assert "return it from the function" in text


def test_a_leaked_tensor_used_in_another_function():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x

    tk.function(f)(tk.constant(1.0))
    text = str(raised(lambda x: x + kept[0], tk.constant(1.0)))
    assert "belongs to the function 'f', whose tracing is over" in text


def test_a_tensor_that_leaks_from_a_branch():
    def f(x):
        kept = {}

        def branch():
            kept["y"] = x * 2
            return x

        tk.cond(x > 0, branch, lambda: x)
        return kept["y"]

    assert "belongs to the branch of an if" in str(raised(f, tk.constant(1.0)))


def test_a_new_variable_on_a_later_call():
    kept = {}

    def f(x):
        if x.shape not in kept:
            kept[x.shape] = tk.Variable(1.0, name="fresh")  # here
        return x + kept[x.shape]

    traced = tk.function(f)
    traced(tk.constant(1.0))
    with pytest.raises(ValueError, match="'fresh' was created on a later call of 'f'") as caught:
        traced(tk.constant([1.0]))
    assert f"line {line_of(f, '# here')}" in str(caught.value)
    assert "Create it outside" in str(caught.value)


def test_an_initial_value_that_depends_on_an_argument():
    def f(x):
        return tk.Variable(x * 2) + x

    error = raised(f, tk.constant(1.0), kind=ValueError)
    assert "depends on an argument of 'f'" in str(error)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x: np.sin(x), "a NumPy array needs a value"),
        (lambda x: float(x), "float\\(\\) needs a value"),
        (lambda x: [1, 2][x], "an index needs a value"),
        (lambda x: 1 in x, "in needs a value"),
    ],
)
def test_python_that_needs_a_value(use, text):
    @tk.autograph.experimental.do_not_convert
    def f(x):
        return use(x)

    with pytest.raises(TypeError, match=text + ".*use tensor operations"):
        tk.function(f)(tk.constant(1))


def test_numpy_of_a_symbolic_tensor():
    with pytest.raises(AttributeError, match="a symbolic tensor has no 'numpy'"):
        tk.function(lambda x: x.numpy())(tk.constant(1.0))


def test_an_error_of_the_run_names_the_line_that_made_the_node():
    def f(x, y):
        z = x + 1.0
        return tk.matmul(z, y)  # here

    spec = tk.TensorSpec([None, None], tk.float32)
    traced = tk.function(f, input_signature=[spec, spec])
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        traced(tk.ones([2, 3]), tk.ones([2, 3]))
    text = str(caught.value)
    assert "the inner sizes differ, 3 and 2" in text
    assert f"in node 'MatMul', made at \"{HERE}\", line {line_of(f, '# here')}, in f" in text


@pytest.mark.usefixtures("on_cpu")
def test_an_error_of_the_run_inside_a_loop_names_the_line():
    def f(xs, i):
        total = 0.0
        for x in xs:
            if x > 1.0:
                total += tk.gather(xs, i)  # here
        return total

    traced = tk.function(f)
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        traced(tk.constant([1.0, 2.0]), tk.constant(7))
    assert f"line {line_of(f, '# here')}" in str(caught.value)


def test_a_traceback_of_tracing_shows_the_users_source():
    def inner(z, y):
        if tk.reduce_sum(z) > 0:
            z = z * 2
        return tk.matmul(z, y)  # the product

    def f(x, y):
        for _ in tk.range(2):
            x = inner(x, y)  # the call
        return x

    error = raised(f, tk.ones([2, 3]), tk.ones([2, 3]))
    shown = "".join(traceback.format_exception(error))
    assert "__autograph_generated" not in shown
    assert "# the product" in shown
    assert "# the call" in shown
    assert shown.index("# the call") < shown.index("# the product")
    assert f"line {line_of(inner, '# the product')}, in inner" in str(error)


def test_errors_that_are_the_users_own_pass_through():
    class OwnError(Exception):
        pass

    def f(x):
        if x is not None:
            raise OwnError("mine")
        return x

    with pytest.raises(OwnError, match=r"^mine$"):
        tk.function(f)(tk.constant(1.0))


def test_a_failed_trace_can_be_tried_again():
    fail = [True]

    @tk.function
    def f(x):
        if fail[0]:
            raise ValueError("not yet")
        return x + 1

    with pytest.raises(ValueError, match="not yet"):
        f(tk.constant(1))
    fail[0] = False
    assert int(f(tk.constant(1))) == 2
    assert tk.executing_eagerly()
