"""A `TensorArray` as a loop variable, by itself and in nests, eager and traced."""

import pytest

import trainkit as tk

ZERO = tk.constant(0)


def row(i):
    return tk.cast(i, tk.float32)


def array(**settings):
    return tk.TensorArray(tk.float32, 3, **settings)


def growing():
    return tk.TensorArray(tk.float32, 0, dynamic_size=True)


def staged_for():
    ta = array()
    for i in tk.range(3):
        ta = ta.write(i, row(i))
    return ta.stack()


def staged_for_with_a_dict():
    d = {"t": array(), "n": ZERO}
    for i in tk.range(3):
        d = {"t": d["t"].write(i, row(i)), "n": d["n"] + 1}
    return d["t"].stack() + row(d["n"])


def staged_while_with_a_dict():
    d = {"t": array(), "n": ZERO}
    while d["n"] < 3:
        d = {"t": d["t"].write(d["n"], row(d["n"])), "n": d["n"] + 1}
    return d["t"].stack() + row(d["n"])


LOOPS = {
    "tuple": lambda: tk.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t.write(i, row(i))), (ZERO, array())
    )[1].stack(),
    "list with a known element": lambda: tk.while_loop(
        lambda i, t: i < 3,
        lambda i, t: [i + 1, t.write(i, row(i))],
        [ZERO, array(element_shape=[])],
    )[1].stack(),
    "rows, growing": lambda: tk.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t.write(i, [row(i), 1.0])), (ZERO, growing())
    )[1].stack(),
    "dict": lambda: tk.while_loop(
        lambda i, d: i < 3,
        lambda i, d: (i + 1, {"t": d["t"].write(i, row(i)), "n": d["n"] + 1}),
        (ZERO, {"t": array(), "n": ZERO}),
    )[1]["t"].stack(),
    "no round": lambda: tk.while_loop(
        lambda i, t: i < 0, lambda i, t: (i + 1, t.write(i, row(i))), (ZERO, array())
    )[1].size(),
    "for": staged_for,
    "for with a dict": staged_for_with_a_dict,
    "while with a dict": staged_while_with_a_dict,
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_arrays_fill_in_loops(loop):
    expected = loop().numpy().tolist()
    traced = tk.function(loop)
    assert traced().numpy().tolist() == expected
    assert traced().numpy().tolist() == expected


def test_gradients_go_through_an_array_that_a_loop_fills():
    def squares(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            _, rows = tk.while_loop(
                lambda i, t: i < 3,
                lambda i, t: (i + 1, t.write(i, x * x * row(i))),
                (ZERO, array()),
            )
            y = tk.reduce_sum(rows.stack())
        return tape.gradient(y, x)

    x = tk.constant(2.0)
    assert float(squares(x)) == float(tk.function(squares)(x)) == 12.0
