"""Rules as steps over elements: what is taken in, what is refused, and the bits of the steps."""

import numpy as np
import pytest

from trainkit.compiler.flat import FlatProgram, array_function
from trainkit.compiler.ir import Unsupported


def adam(xp, w, g, scalars, m, v):
    lr, raw = scalars
    w = w - w * (0.01 * raw)
    m = m + 0.1 * (g - m)
    v = v + 0.001 * (g * g - v)
    return w - lr * m / (xp.sqrt(v) + 1e-7), m, v


def lion(xp, w, g, scalars, m):
    step = xp.sign(0.9 * m + 0.1 * g)  # reads m before it changes
    return w - scalars[0] * step, 0.99 * m + 0.01 * g


def keeps_a_slot(xp, w, g, scalars, m, unchanged):
    return w - scalars[0] * unchanged, m + g, unchanged


def shares_a_result(xp, w, g, scalars, m, n):
    step = xp.abs(g) * scalars[0]
    return w - step, step, step


def keeps_the_greatest(xp, w, g, scalars, m, v, v_max):
    w, m, v = adam(xp, w, g, scalars, m, v)
    return w - xp.maximum(v, v_max), m, v, xp.maximum(v, v_max)


def keeps_the_gradient(xp, w, g, scalars, last):
    return w - scalars[0] * (g + last), g


def chooses(xp, w, g, scalars, m):
    """With comparisons, casts, powers, and numbers of NumPy, some of them wider than the rest."""
    is_large = xp.logical_or(xp.abs(g) > 0.5, g == m)
    step = xp.where(is_large, g**2, m**0.5)
    count = is_large.astype("float32") * np.float32(0.25)
    return w - scalars[0] * step * np.float64(1 / 3), m + count


RULES = [
    (adam, 2),
    (lion, 1),
    (keeps_a_slot, 2),
    (shares_a_result, 2),
    (keeps_the_greatest, 3),
    (keeps_the_gradient, 1),
    (chooses, 1),
]
SCALARS = (np.float32(0.01), np.float32(0.02))


def results_of(rule, buffers, scalars):
    """What a rule gives on arrays, in the dtype that it is kept in."""
    results = rule(np, buffers[0], buffers[1], scalars, *buffers[2:])
    return [np.asarray(x).astype(buffers[0].dtype) for x in results]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
def test_steps_give_the_bits_of_the_rule(rule, n_slots, dtype, rng):
    buffers = [rng.random(50).astype(dtype) for _ in range(2 + n_slots)]
    scalars = tuple(map(dtype, SCALARS))
    program = FlatProgram(rule, n_slots, 2, dtype)
    results = array_function(program, np)(*buffers, *scalars)
    for result, expected in zip(results, results_of(rule, buffers, scalars), strict=True):
        assert (result.dtype, result.tobytes()) == (dtype, expected.tobytes())


def test_scalar_work_is_apart_and_numbers_are_told():
    program = FlatProgram(adam, 2, 2, np.float32)
    assert [step.name for step in program.scalar_steps] == ["multiply"]  # 0.01 * raw
    numbers = [float(x.value) for x in program.numbers]
    assert numbers == [float(np.float32(x)) for x in (0.01, 0.1, 0.001, 1e-7)]


def test_steps_that_no_result_needs_are_left_out():
    program = FlatProgram(lambda xp, w, g, s: (w - g, xp.exp(g))[:1], 0, 1, np.float32)
    assert [step.name for step in program.steps] == ["subtract"]


def test_what_is_written_is_what_changes():
    program = FlatProgram(keeps_a_slot, 2, 2, np.float32)
    assert [k for k, _ in program.assignments] == [0, 2]


@pytest.mark.parametrize(
    "rule",
    [
        lambda xp, w, g, s, m: (w - xp.sum(g), m),
        lambda xp, w, g, s, m: (w - g.sum(), m),
        lambda xp, w, g, s, m: (w - g.mean(), m),
        lambda xp, w, g, s, m: (m, w),
        lambda xp, w, g, s, m: (w if (g == 0) else g, m),
        lambda xp, w, g, s, m: (w - g if g else w, m),
        lambda xp, w, g, s, m: (w - g * np.ones(3), m),
        lambda xp, w, g, s, m: (w - g * xp.ones_like(g), m),
        lambda xp, w, g, s, m: (s[0], m),
        lambda xp, w, g, s, m: (w - g.T, m),
        lambda xp, w, g, s, m: (w - g[::-1], m),
        lambda xp, w, g, s, m: (w - xp.reshape(g, (-1,)), m),
        lambda xp, w, g, s, m: (w - g if w.ndim > 1 else w, m),
        lambda xp, w, g, s, m: (w - g / w.size, m),
        lambda xp, w, g, s, m: (w - g / len(w), m),
        lambda xp, w, g, s, m: (w - xp.linalg.norm(g), m),
        lambda xp, w, g, s, m: (w - float(g), m),
        lambda xp, w, g, s, m: (w - g**3, m),
        lambda xp, w, g, s, m: (w - xp.no_such_function(g), m),
    ],
    ids=[
        "sum",
        "method",
        "unknown method",
        "swap",
        "compare",
        "decide",
        "array",
        "array like",
        "scalar result",
        "transpose",
        "slice",
        "reshape",
        "rank",
        "size",
        "length",
        "norm",
        "number",
        "power",
        "unknown function",
    ],
)
def test_a_rule_that_is_more_than_arithmetic_on_elements_is_refused(rule):
    with pytest.raises(Unsupported):
        FlatProgram(rule, 1, 1, np.float32)


def test_a_rule_with_a_result_too_few_is_an_error():
    with pytest.raises(ValueError, match="gave 1 values for a weight and 1 slots"):
        FlatProgram(lambda xp, w, g, s, m: (w,), 1, 1, np.float32)
