"""What users get wrong in traced functions: each error names their line and says what to do."""

from pathlib import Path

import numpy as np
import pytest

import trainkit as tk

LEAKED = []
HELD = {}


def reads_a_value(x):
    return np.sin(x.numpy())  # here


def gives_a_tensor_to_numpy(x):
    return np.sin(x)  # here


def formats_a_value(x):
    return x if f"{x:.2f}" == "1.00" else -x  # here


def indexes_a_list(x):
    return [1.0, 2.0][tk.cast(x, tk.int32)]  # here


def leaks(x):
    LEAKED.append(x * 2.0)  # here
    return x


def uses_what_leaked(x):
    leaked = tk.function(leaks)
    leaked(tk.constant(1.0))
    with_it = tk.function(lambda x: x + LEAKED[-1])
    return with_it(x)


def leaks_out_of_a_loop(x):
    found = []
    for _ in tk.range(3):
        found.append(x * 2.0)  # here
    return found[-1]


def rank_grows_in_a_loop(x):
    for _ in tk.range(3):  # here
        x = tk.expand_dims(x, 0)
    return x


def rank_grows_in_a_while(x):
    while tk.reduce_sum(x) < 3.0:  # here
        x = tk.stack([x, x])
    return x


def dtype_changes_in_a_loop(x):
    n = tk.constant(0)
    for _ in tk.range(3):  # here
        n = n + x
    return n


def branches_of_two_dtypes(x):
    if x > 0:  # here
        y = x
    else:
        y = tk.cast(x, tk.int32)
    return y


def returns_of_two_dtypes(x):
    if x > 0:  # here
        return x
    return tk.constant(1)


def cond_of_two_dtypes(x):
    return tk.cond(x > 0, lambda: x, lambda: tk.constant(1))  # here


def ternary_of_two_dtypes(x):
    return x if x > 0 else tk.constant(1)  # here


def cond_of_two_structures(x):
    return tk.cond(x > 0, lambda: (x, x), lambda: x)  # here


def branches_of_two_ranks(x):
    if x > 0:  # here
        y = tk.zeros([2])
    else:
        y = tk.zeros([2, 2])
    return y


def undefined_in_a_branch(x):
    if x > 0:  # here
        y = x
    return y


def no_return_on_one_path(x):
    if x > 0:  # here
        return x


def condition_that_is_no_scalar(x):
    if tk.stack([x, x]) > 0:  # here
        return x
    return -x


def text_that_grows_in_a_loop(x):
    text = "a"
    for _ in tk.range(3):  # here
        text = text + "b"
    return x


def scalar_that_is_iterated(x):
    for row in x:  # here
        x = x + row
    return x


def value_of_another_shape(x):
    HELD.setdefault("v", tk.Variable([1.0, 2.0])).assign(tk.stack([x, x, x]))  # here
    return x


CASES = {
    reads_a_value: "tk.numpy_function",
    gives_a_tensor_to_numpy: "use tensor operations",
    formats_a_value: r"the format '\.2f'.*use tensor operations",
    indexes_a_list: "an index needs a value",
    uses_what_leaked: r"leaked out of a trace: return it .*, or store it in a tk\.Variable",
    leaks_out_of_a_loop: r"tk\.TensorArray",
    rank_grows_in_a_loop: r"'x' has shape \(\).* and \(1,\).*Start with",
    rank_grows_in_a_while: r"'x' has shape \(\).* and \(2,\).*Start with",
    dtype_changes_in_a_loop: "'n' has dtype int32 .* float32 .*; start with .* or cast it",
    branches_of_two_dtypes: "'y' has dtype float32 .* int32 if not; .* cast one of them",
    returns_of_two_dtypes: "the returned value has dtype float32 .* cast one of them",
    cond_of_two_dtypes: "float32 in the true branch .* cast one of them",
    ternary_of_two_dtypes: "float32 in the true branch .* cast one of them",
    cond_of_two_structures: r"\(a tensor, a tensor\) and a tensor; return the same",
    branches_of_two_ranks: r"'y' has shape \(2,\) .* \(2, 2\) if not; both",
    undefined_in_a_branch: "'y' is .* undefined if not.*set it before the `if`",
    no_return_on_one_path: "'no_return_on_one_path' returns .* return a tensor of the same dtype",
    condition_that_is_no_scalar: r"shape \(2,\); use tk\.reduce_all or tk\.reduce_any",
    text_that_grows_in_a_loop: "'text' is 'a' before .* start with a tensor",
    scalar_that_is_iterated: r"use tk\.range\(n\)",
    value_of_another_shape: r"shape \(2,\), .* \(3,\)",
}


def line_marked(f):
    """The number of the line of `f` (of `leaks`, for what leaked) that ends in `# here`."""
    code = (leaks if f is uses_what_leaked else f).__code__
    lines = Path(code.co_filename).read_text().splitlines()
    first = code.co_firstlineno
    return next(n for n in range(first, first + 9) if lines[n - 1].endswith("# here"))


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_the_error_names_the_line_and_says_what_to_do(f):
    run = f if f is uses_what_leaked else tk.function(f)
    with pytest.raises((tk.errors.OpError, TypeError, ValueError, AttributeError)) as caught:
        run(tk.constant(1.0))
    text = str(caught.value)
    caught.match(f"(?s){CASES[f]}")
    assert f'test_bad_input.py", line {line_marked(f)}, in' in text


def test_a_variable_made_on_a_later_call():
    kept = {}

    @tk.function
    def f(x):
        if x.shape not in kept:
            kept[x.shape] = tk.Variable(tk.zeros(x.shape))
        return kept[x.shape] + x

    f(tk.constant(1.0))
    with pytest.raises(ValueError, match=r"later call of 'f', at .*test_bad_input.py.*Create it"):
        f(tk.constant([1.0]))


def test_what_the_user_raises_while_tracing_keeps_its_text():
    @tk.function
    def f(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        f(tk.constant(1.0))

    def helper():
        return int("no number")

    g = tk.function(lambda x: x + helper())
    with pytest.raises(ValueError, match=r"^invalid literal.*'no number'$"):
        g(tk.constant(1.0))


def test_a_while_over_a_constant_is_a_loop_of_the_graph():
    bodies = []

    @tk.function
    def f(x):
        i = tk.constant(0)
        while i < 1000:
            bodies.append(i)
            x, i = x + 1.0, i + 1
        return x

    assert float(f(tk.constant(0.0))) == 1000.0
    assert len(bodies) == 1
