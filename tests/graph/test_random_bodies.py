"""Random programs with branches and loops inside of each other: eager, interpreted and fused agree.

Values agree bit for bit, gradients of first and second order to rounding. Single operations are all
element-wise ones of the library and some that mix elements.
"""

import functools

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainkit as tk
from tests.graph.test_differential import (
    BINARY,
    QUIET,
    UNARY,
    WAYS,
    assert_same,
    derivatives,
    inputs,
)
from trainkit import ops
from trainkit.core.tensor import PRIMITIVES


def tame(x):
    """`x` between 0.4 and 0.7, where nearly all functions are defined and smooth."""
    return 0.4 + 0.3 * tk.sigmoid(x)


def smooth_of_one():
    """The differentiable element-wise primitives of one input, by name."""
    found = {}
    probe = tk.constant(np.linspace(0.4, 0.7, 4))
    for name, primitive in sorted(PRIMITIVES.items()):
        if not primitive.facets.fusible or primitive.rules is None:
            continue
        if len(primitive.rules) != 1:
            continue
        try:
            y = primitive.op(probe)
        except (TypeError, ValueError, tk.errors.OpError):  # it needs settings
            continue
        if y.dtype == tk.float64 and y.shape == probe.shape and np.isfinite(y.numpy()).all():
            found[f"{name} of tame"] = lambda x, op=primitive.op: op(tame(x))
    return found


TABLE = smooth_of_one()
SIMPLE = {
    **{k: (f, 1) for k, f in {**UNARY, **TABLE}.items()},
    **{k: (f, 2) for k, f in BINARY.items()},
}
DEEPEST = 2


def squashed(x):
    return tk.tanh(x * 0.5)


def run_cond(bodies, x, y):
    one, two = bodies
    return tk.cond(tk.reduce_sum(x) > tk.reduce_sum(y), lambda: one(x, y), lambda: two(x, y))


def run_while(bodies, x, y):
    rounds = tk.cast(tk.reduce_sum(x) > 0.0, tk.int32) + 2  # known only when it runs

    def step(i, a):
        return i + 1, squashed(bodies[0](a, y) + tk.cast(i, a.dtype))

    return tk.while_loop(lambda i, a: i < rounds, step, (tk.constant(0), x))[1]


def run_scan(bodies, x, y):
    def step(carry, row):
        after = squashed(bodies[0](carry, y * row))
        return after, tk.reduce_sum(after * carry, axis=0)

    carry, rows = ops.scan(step, y, x, reverse=True)
    return carry + rows


def run_map(bodies, x, y):
    return ops.map(lambda row: tk.reduce_mean(squashed(bodies[0](y * row, y)), axis=1), x)


def run_fori(bodies, x, y):
    return ops.fori_loop(1, 4, lambda i, a: squashed(bodies[0](a, y * tk.cast(i, y.dtype))), x)


NESTED = {
    "cond": (run_cond, 2),
    "while": (run_while, 1),
    "scan": (run_scan, 1),
    "map": (run_map, 1),
    "fori": (run_fori, 1),
}


@st.composite
def programs(draw, depth=0):
    """Steps, each a name, the programs of its bodies, and the numbers of the values it takes."""
    steps = []
    for number in range(2, 2 + draw(st.integers(1, 4 if depth else 5))):
        earlier = st.integers(0, number - 1)
        if depth < DEEPEST and draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(sorted(NESTED)))
            bodies = [draw(programs(depth=depth + 1)) for _ in range(NESTED[name][1])]
            steps.append((name, bodies, (draw(earlier), draw(earlier))))
        else:
            name = draw(st.sampled_from(sorted(SIMPLE)))
            steps.append((name, [], tuple(draw(earlier) for _ in range(SIMPLE[name][1]))))
    return steps


def run(steps, x, y):
    """The last value of the program."""
    values = [x, y]
    for name, bodies, places in steps:
        given = [values[i] for i in places]
        if bodies:
            values.append(NESTED[name][0]([functools.partial(run, b) for b in bodies], *given))
        else:
            values.append(SIMPLE[name][0](*given))
    return values[-1]


def has_bodies(steps):
    return any(bodies for _, bodies, _ in steps)


SLOW = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_the_table_gives_many_operations():
    assert len(TABLE) > 30


@QUIET
@SLOW
@given(programs().filter(has_bodies), st.integers(0, 100), st.sampled_from(["float32", "float64"]))
def test_values_agree_bit_for_bit(steps, seed, dtype):
    xs = inputs(seed, dtype)
    expected = run(steps, *xs)
    for options in WAYS.values():
        traced = tk.function(lambda x, y: run(steps, x, y), autograph=False, **options)
        assert_same(expected, traced(*xs))


@QUIET
@SLOW
@given(programs().filter(has_bodies), st.integers(0, 100))
def test_gradients_inside_a_function_agree(steps, seed):
    xs = inputs(seed, "float64")
    slopes = derivatives(functools.partial(run, steps), 2)
    expected = slopes(*xs)
    for options in WAYS.values():
        got = tk.function(slopes, autograph=False, **options)(*xs)
        compared(expected, got)


@QUIET
@SLOW
@given(programs().filter(has_bodies), st.integers(0, 100))
def test_gradients_around_a_function_agree(steps, seed):
    xs = inputs(seed, "float64")
    f = functools.partial(run, steps)
    expected = derivatives(f, 2)(*xs)
    compared(expected, derivatives(tk.function(lambda x, y: f(x, y), autograph=False), 2)(*xs))


def compared(expected, got):
    """The same to rounding; where eager code has no gradient, a graph may give zeros."""
    pairs = zip(tk.nest.flatten(expected), tk.nest.flatten(got), strict=True)
    for a, b in pairs:
        if a is None or b is None:
            assert not np.asarray(b if a is None else a if b is None else 0.0).any()
        else:
            scale = max(1.0, float(np.max(np.abs(a.numpy()))))
            np.testing.assert_allclose(b.numpy() / scale, a.numpy() / scale, rtol=1e-8, atol=1e-9)
