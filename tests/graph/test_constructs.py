"""Python's constructs over tensors: what they give as Python they give as a graph."""

import functools

import numpy as np
import pytest

import trainkit as tk


def walrus(x):
    if (y := x * 2.0) > 1.0:
        return y
    return x


def walrus_before_and(x):
    if (y := x * 2.0) > 1.0 and y < 50.0:
        return y
    return x


def walrus_in_while(x):
    n = tk.constant(0.0)
    while (y := tk.abs(x) * n) < 5.0:
        n += 1.0
    return y + n


def walrus_in_while_with_continue(x):
    n = tk.constant(0.0)
    while (y := tk.abs(x) * n) < 5.0:
        n += 1.0
        if n == 2.0:
            continue
        x = x + 1.0
    return y + x


def for_else(x):
    for _ in tk.range(5):
        x = x + 1.0
        if x > 3.0:
            break
    else:
        x = x * 100.0
    return x


def for_else_nested(x):
    for _ in tk.range(3):
        for _ in tk.range(3):
            x = x + 1.0
            if x > 4.0:
                break
        else:
            x = x * 2.0
            continue
        break
    else:
        x = x * 100.0
    return x


def for_else_with_return(x):
    for _ in tk.range(3):
        x = x + 1.0
        if x > 3.0:
            return x * 10.0
    else:
        x = x - 5.0
    return x


def for_else_in_python(x):
    for i in range(3):
        if i == 5:
            break
    else:
        x = x * 7.0
    return x


def while_else(x):
    while x < 3.0:
        x = x + 1.0
        if x > 2.5:
            break
    else:
        x = x * 100.0
    return x


def while_else_without_break(x):
    while x < 3.0:
        x = x + 1.0
    else:
        x = x * 10.0
    return x


def deleted(x):
    y = x * 2.0
    if x > 0:
        z = y + 1.0
        x = z * 2.0
        del z
    else:
        x = y
    del y
    return x


def deleted_in_loop(x):
    for _ in tk.range(3):
        t = x * 2.0
        x = t + 1.0
        del t
    return x


def try_finally(x):
    try:
        if x > 0:
            x = x * 2.0
    finally:
        x = x + 1.0
    return x


def try_in_loop(x):
    for _ in tk.range(3):
        try:
            x = x * 2.0
        except ValueError:
            x = x * 100.0
        finally:
            x = x + 1.0
    return x


def with_in_loop(x):
    for _ in tk.range(3):
        with tk.name_scope("scope"):
            x = x * 2.0
            if x > 3.0:
                x = x - 1.0
    return x


def tape_in_loop(x):
    for _ in tk.range(3):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        x = x - 0.1 * tape.gradient(y, x)
    return x


def comprehension(x):
    return tk.reduce_sum(tk.stack([x * i for i in range(4) if i != 2]))


def comprehension_over_a_tensor(x):
    return tk.stack([x * tk.cast(i, tk.float32) for i in tk.range(4)])


def lambda_with_condition(x):
    f = lambda v: v * 2.0 if v > 0 else v  # noqa: E731
    return f(x)


def nested_function(x):
    def inner(v):
        if v > 0:
            return v * 2.0
        return v - 1.0

    return inner(x) + inner(-x)


def decorated_nested_function(x):
    def plus_one(f):
        @functools.wraps(f)
        def called(v):
            return f(v) + 1.0

        return called

    @plus_one
    def magnitude(v):
        if v > 0:
            return v
        return -v

    return magnitude(x)


def generator_of_python_values(x):
    def values():
        for i in range(3):
            yield x * i

    return sum(values()) + sum(x * i for i in range(3))


def ternary(x):
    return x * 2.0 if x > 0 else x - 1.0


def nested_ternary(x):
    return x if x > 1.0 else (x * 3.0 if x > 0 else -x)


def chained_comparison(x):
    while 0.0 < x < 5.0:
        x = x + 1.0
    if -3.0 < x <= -1.0:
        x = x * 10.0
    return x


def membership(x):
    for i in tk.range(3):
        if i in (0, 2):
            x = x + 1.0
        if i not in [1]:
            x = x * 2.0
        if i in tk.constant([7, 2]):
            x = x - 0.5
    return x


def early_return(x):
    for _ in tk.range(4):
        for _ in tk.range(4):
            x = x + 1.0
            if x > 3.0:
                return x * 10.0
    return x


def while_true(x):
    while True:
        x = x + 1.0
        if x > 5.0:
            break
    return x


def loop_variable_afterwards(x):
    for i in tk.range(3):  # noqa: B007
        x = x * 2.0
    return x + tk.cast(i, tk.float32)


def tuples_in_loops(x):
    a, b = x, x + 1.0
    for _ in tk.range(3):
        a, b = b, a + b
    for i, (p, q) in enumerate(zip(tk.stack([a, b]), tk.stack([b, a]), strict=True)):
        a = a + p * q * float(i)
    return a + b


def list_in_python_loop(x):
    found = []
    for i in range(3):
        if x > 0:
            x = x + 1.0
        found.append(x * i)
    return tk.stack(found)


def argument_anew_in_a_branch(x):
    y = x * 2.0
    if y > 0.0:
        if y > 1.0:
            x = y
        else:
            x = -y
        x = x * 2.0
        y = x
    return y


def argument_anew_in_a_loop_in_a_branch(x):
    y = x * 2.0
    if y > 0.0:
        for _ in tk.range(2):
            x = y * 3.0
            y = y + x
    return y


def argument_anew_in_while_in_a_branch(x):
    y = x * 2.0
    if y > 0.0:
        while y < 20.0:
            x = y * 3.0
            y = y + x
        y = -y
    return y


CONSTRUCTS = [f for name, f in list(globals().items()) if getattr(f, "__module__", "") == __name__]


@pytest.mark.parametrize("value", [1.0, 0.25, -2.0, 30.0])
@pytest.mark.parametrize("f", CONSTRUCTS, ids=lambda f: f.__name__)
def test_a_construct_gives_what_it_gives_as_python(f, value):
    if f is walrus_in_while_with_continue and value == 0.0:
        return
    x = tk.constant(value)
    np.testing.assert_array_equal(tk.function(f)(x).numpy(), f(x).numpy())


# ---------------------------------------------------------------------- what is raised


def test_a_raise_under_a_condition_is_raised_when_the_graph_meets_it():
    @tk.function
    def root(x):
        if x >= 0:
            return tk.sqrt(x)
        raise ArithmeticError(f"no root for {x.dtype.name}")

    assert float(root(tk.constant(4.0))) == 2.0
    with pytest.raises(
        ArithmeticError, match=r"no root for float32\n.*test_constructs.py.*in root"
    ):
        root(tk.constant(-1.0))
    assert float(root(tk.constant(9.0))) == 3.0


def test_a_raise_in_a_loop_leaves_variables_alone():
    v = tk.Variable(0.0)

    class Much(Exception):
        pass

    @tk.function
    def count(n):
        for i in tk.range(n):
            v.assign_add(1.0)
            if i > 2:
                raise Much
        return v + 0.0

    assert float(count(tk.constant(3))) == 3.0
    with pytest.raises(Much):
        count(tk.constant(9))
    assert float(v) == 3.0


def test_a_raise_without_a_condition_is_raised_while_tracing():
    @tk.function
    def f(x):
        if x.shape == ():
            raise ValueError("give a vector")
        return x

    with pytest.raises(ValueError, match="give a vector"):
        f(tk.constant(1.0))


# ---------------------------------------------------------------------- what stays Python


def generator_with_a_condition(x):
    def gen(v):
        if v > 0:
            yield v
        yield v * 2.0

    return sum(gen(x))


def test_errors_say_why_a_function_runs_as_python():
    with pytest.raises(TypeError, match=r"in gen\n.*'gen' runs as Python.*generators") as caught:
        tk.function(generator_with_a_condition)(tk.constant(1.0))
    assert 'test_constructs.py", line' in str(caught.value)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_walrus_that_can_not_be_moved_is_named():
    def second(x):
        if x > 0 and (y := x * 2.0) > 1.0:
            return y
        return x

    with pytest.raises(TypeError, match=r"`y :=` in line \d+ is run under a condition only"):
        tk.function(second)(tk.constant(1.0))

    def behind_a_call(x):
        while tk.abs(x) < (y := x + 1.0):
            x = x * y
        return x

    with pytest.raises(TypeError, match=r"`y :=` in line \d+ stands behind a call"):
        tk.function(behind_a_call)(tk.constant(1.0))


def test_a_list_that_grows_in_a_loop_is_refused_with_the_line():
    @tk.function
    def f(x):
        found = []
        for _ in tk.range(3):
            found.append(x * 2.0)
        return tk.stack(found)

    with pytest.raises(tk.errors.InvalidArgumentError, match=r"in f.*body of a loop.*TensorArray"):
        f(tk.constant(1.0))


def test_membership_in_what_has_no_order_is_refused():
    @tk.function
    def f(i):
        return 1 if i in {1, 2} else 0

    with pytest.raises(TypeError, match="looked for in a set; use a list"):
        f(tk.constant(1))
