"""Straight lines of formulas whose dtypes are known; those without are in `test_direct.py`."""

import numpy as np
import pytest

from trainkit.core.dispatch.formulas import ElementTrace, Untraceable, ends_in

F32, BOOLS = np.dtype(np.float32), np.dtype(np.bool_)


def line_of(body, *dtypes, **settings):
    """The trace of `body`, whose result is that of the last call."""
    trace = ElementTrace()
    arrays = [trace.input(np.dtype(dtype)) for dtype in dtypes]
    result = body(np, *arrays, **{name: trace.add_setting(name) for name in settings})
    assert ends_in(trace, result)
    return trace


FUNCTIONS = {"copy": lambda x: x.copy(), "where": np.where, "clip": np.clip}


def run(trace, arrays, settings):
    """What the calls of a trace give on arrays, each in the dtype that the trace names."""
    values = list(arrays)
    for call in trace.calls:
        operands = [
            values[source] if source >= 0 else settings.get(number, number)
            if isinstance(number, str) else number
            for source, number in zip(call.sources, call.numbers, strict=True)
        ]  # fmt: skip
        dtype = trace.dtypes[len(values)]
        if call.name == "cast":
            values.append(operands[0].astype(dtype))
        else:
            values.append(FUNCTIONS.get(call.name, call.function)(*operands))
        assert values[-1].dtype == dtype
    return values[-1]


def in_place(xp, x):
    y = x * 2
    z = y
    y += x
    y /= 3
    return xp.exp(z)


def by_dtype(xp, x):
    wide = x.astype(xp.float64) if x.dtype.itemsize < 8 else x
    return (wide / 3).astype(x.dtype, copy=False)


BODIES = {
    "in place": in_place,
    "by dtype": by_dtype,
    "mask": lambda xp, x: x * (x > 0),
    "square and root": lambda xp, x: (x**2 + 1) ** 0.5,
    "where": lambda xp, x: xp.where(x > 0, x, 0.1),
    "clip": lambda xp, x: xp.clip(x, -0.1, 1) + 0,
    "number of NumPy": lambda xp, x: (x + np.float64(1 / 3)).astype(np.float32),
    "copied": lambda xp, x: -x.astype(np.float32),
    "integers": lambda xp, x: x * np.int8(3) + 1,
}


@pytest.mark.parametrize("name", BODIES)
def test_calls_give_the_bits_of_the_body(name, rng):
    x = rng.normal(size=50).astype(np.float32)
    trace = line_of(BODIES[name], F32)
    expected = BODIES[name](np, x.copy())
    result = run(trace, [x], {})
    assert result.dtype == expected.dtype
    assert result.tobytes() == expected.tobytes()


def test_settings_stay_names_and_are_weak():
    trace = line_of(lambda xp, x, *, low: xp.maximum(x, low), F32, low=0.1)
    assert trace.calls[0].numbers == (None, "low")
    assert trace.dtypes == [F32, F32]


def test_numbers_have_the_dtype_in_which_they_are_taken():
    trace = line_of(lambda xp, x: x * 0.1, F32)
    number = trace.calls[0].numbers[1]
    assert type(number) is np.float32
    assert number == np.float32(0.1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda xp, x: xp.where(x, x, 0), "a condition that is no bool"),
        (lambda xp, x: x**3, "a power with the exponent 3"),
        (lambda xp, x: x + np.ones(3), "an array beside those of the formula"),
        (lambda xp, x: xp.add(x, 1, out=x), "writing into an array of others"),
        (lambda xp, x: xp.greater(x, 1, out=x + 1), "writing bool into an array of float32"),
        (lambda xp, x: x.shape, "the attribute 'shape' of an array"),
        (lambda xp, x: -x if x > 0 else x, "a decision on a value"),
        (lambda xp, x: x / len(x), "the length of an array"),
        (lambda xp, x: np.asarray(x), "the attribute '__array_struct__' of an array"),
        (lambda xp, x: xp.sum(x), "np.sum"),
        (lambda xp, x: xp.add.reduce(x), "add.reduce with"),
        (lambda xp, x: xp.modf(x), "modf"),
        (lambda xp, x: xp.matmul(x, x), "matmul"),
    ],
)
def test_what_is_more_than_arithmetic_on_elements_is_refused(body, message):
    with pytest.raises(Untraceable, match=message):
        line_of(body, F32)


def test_numbers_made_of_settings_alone_are_pythons():
    with pytest.raises(Untraceable, match="a number made of numbers"):
        line_of(lambda xp, x, *, a: x * (a + 1), F32, a=1)
