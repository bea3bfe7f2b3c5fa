"""Calls by plans: what they check, what they fill in, in Python and in the compiled half."""

import gc
import weakref

import numpy as np
import pytest

from trainkit.core.dispatch import native
from trainkit.kernels.jit.kernel_family import Family
from trainkit.kernels.matmul.prepared_weights import PreparedWeights, let_go
from trainkit.kernels.repeated import planned_call as planned
from trainkit.kernels.repeated.planned_call import CalledArray, CallPlan, KeptWeights, NewArray

F32 = np.dtype(np.float32)


class FakeFamily(Family):
    """A family whose kernel is a function of Python."""

    def __init__(self, kernel):
        self._ready = {(): kernel}

    def find(self, key, seconds):
        return self._ready.get(key)


@pytest.fixture(params=["compiled", "Python"])
def make(request):
    """What makes calls and repeating functions, of the one half or of the other."""
    if request.param == "Python":
        return planned.PlannedCall, planned.Repeating
    if not native.is_on():
        pytest.skip("the compiled half is off")
    return planned.plan_call, planned.repeat_call


def add_rows(pool, x, row, scale, y):
    assert x.shape == (6, 2)
    assert row.shape == (2,)
    assert x.flags.carray
    y[...] = pool * (x + row) * scale


def plan(kernel=add_rows, row=True, **facts):
    return CallPlan(
        FakeFamily(kernel),
        (),
        (1, None, np.zeros(2, F32), 2.0, None),
        (
            CalledArray((1,), (6, 2), (2, 3, 2), is_copied=True),
            CalledArray((2,), (2,)) if row else None,
        ),
        NewArray(4, (6, 2), (2, 3, 2)),
        **facts,
    )


def floats(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def test_operands_take_their_places(rng, make):
    call = make[0](plan())
    for _ in range(2):
        x, row = floats(rng, 2, 3, 2), floats(rng, 1, 2)
        y = call(x, row)
        assert y.dtype == F32
        assert y.base is None  # nobody else holds its memory
        np.testing.assert_array_equal(y, 2 * (x + row))
    np.testing.assert_array_equal(make[0](plan(row=False))(x, None), 2 * x)


def test_an_input_in_another_order_is_copied(rng, make):
    x, row = floats(rng, 2, 2, 3).transpose(0, 2, 1), floats(rng, 2)
    read_only = floats(rng, 2, 3, 2)
    read_only.flags.writeable = False
    for array in (x, read_only, x[::-1], np.broadcast_to(row, (2, 3, 2))):
        np.testing.assert_array_equal(make[0](plan())(array, row), 2 * (array + row))


@pytest.mark.parametrize(
    "operands",
    [
        lambda x, row: (x,),
        lambda x, row: (x, row, row),
        lambda x, row: (x, None),
        lambda x, row: (None, row),
        lambda x, row: (x[:1], row),
        lambda x, row: (x[0], row),
        lambda x, row: (x.astype("float64"), row),
        lambda x, row: (x, row.astype("float16")),
        lambda x, row: (x, row[:1]),
        lambda x, row: (x, np.repeat(row, 2)[::2]),
        lambda x, row: (x.reshape(2, 3, 2, 1), row),
    ],
)
def test_other_operands_are_no_call_of_the_plan(rng, make, operands):
    call = make[0](plan(lambda *_: pytest.fail("called")))
    assert call(*operands(floats(rng, 2, 3, 2), floats(rng, 2))) is None


def test_without_the_kernel_there_is_no_call(rng, make):
    x, row = floats(rng, 2, 3, 2), floats(rng, 2)
    first = plan()
    call = make[0](first)
    assert call(x, row) is not None
    first.family._ready.clear()  # as when the mode of kernels is changed
    assert call(x, row) is None


def test_arguments_that_depend_on_threads_are_asked_for(rng, make):
    answers = [(1,), (3,), None]
    call = make[0](plan(fresh=((0,), lambda: answers.pop(0))))
    x, row = floats(rng, 2, 3, 2), floats(rng, 2)
    np.testing.assert_array_equal(call(x, row), 2 * (x + row))
    np.testing.assert_array_equal(call(x, row), 3 * (x + row) * 2)
    assert call(x, row) is None


def test_scratch_is_new_in_each_call(rng, make):
    seen = []

    def kernel(pool, x, row, scratch, y):
        assert scratch.shape == (4, 5)
        seen.append(scratch.ctypes.data != y.ctypes.data)
        scratch[...] = 7
        y[...] = x

    call = make[0](plan(kernel, scratch=(NewArray(3, (4, 5), (20,)),)))
    x = floats(rng, 2, 3, 2)
    np.testing.assert_array_equal(call(x, floats(rng, 2)), x)
    assert seen == [True]


def test_an_error_of_the_kernel_is_raised(rng, make):
    def kernel(*_):
        raise TypeError("unfit")

    with pytest.raises(TypeError, match="unfit"):
        make[0](plan(kernel))(floats(rng, 2, 3, 2), floats(rng, 2))


def test_weights_are_what_was_made_of_them(rng, make):
    w, x = floats(rng, 4, 2), floats(rng, 3, 4)
    weights = PreparedWeights()
    for _ in range(3):
        weights.strips(w, lambda array: 2 * array, "twice")
    strips = weights.current(w, "twice")

    def kernel(x, w, y):
        assert w.shape == (2, 4)
        y[...] = x @ w.reshape(4, 2)

    call = make[0](
        CallPlan(
            FakeFamily(kernel), (), (None,) * 3,
            (CalledArray((0,), (3, 4), (3, 4)), KeptWeights((1,), (2, 4), strips)),
            NewArray(2, (3, 2), (3, 2)),
        )
    )  # fmt: skip
    np.testing.assert_allclose(call(x, w), 2 * x @ w, rtol=1e-6)
    np.testing.assert_allclose(call(x, w.reshape(2, 4)), 2 * x @ w, rtol=1e-6)  # all of it
    assert call(x, w.copy()) is None
    assert call(x, w[:2]) is None
    strips.let_go()  # as when the variable is written to
    assert call(x, w) is None
    let_go([])


def test_what_does_not_serve_is_left_to_the_other(make):
    repeating = make[1](lambda *operands: ("other", *operands))
    assert repeating(1, 2) == ("other", 1, 2)
    repeating.remember(lambda x: None if x < 0 else x)
    assert [repeating(-1), repeating(0), repeating(3)] == [("other", -1), 0, 3]
    with pytest.raises(TypeError):
        repeating(1, 2, 3)


def test_calls_that_take_turns_are_remembered_and_the_oldest_of_many_forgotten(make):
    asked = []

    def first(size):
        asked.append(size)
        repeating.remember(lambda x: -x if x == size else None)
        return -size

    repeating = make[1](first)
    for _ in range(3):
        assert [repeating(size) for size in range(1, 9)] == list(range(-1, -9, -1))
    assert asked == list(range(1, 9))
    assert [repeating(9), repeating(2), repeating(1)] == [-9, -2, -1]
    assert asked == [*range(1, 10), 1]


def test_calls_that_hold_other_weights_are_forgotten(rng, make):
    weights, repeating = PreparedWeights(), make[1](lambda *_: None)
    x = floats(rng, 6, 2)

    def remember(w):
        while weights.strips(w, np.copy, "copy") is None:
            pass
        strips = weights.current(w, "copy")
        operands = CalledArray((0,), (6, 2)), KeptWeights((1,), (6, 2), strips)
        family = FakeFamily(lambda x, w, y: np.multiply(x, w, out=y))
        new = NewArray(2, (6, 2), (6, 2))
        repeating.remember(make[0](CallPlan(family, (), (None,) * 3, operands, new)))
        return weakref.ref(strips)

    repeating.remember(make[0](plan(row=False)))
    first = remember(floats(rng, 6, 2))
    assert first() is not None
    w = floats(rng, 6, 2)
    last = remember(w)
    gc.collect()
    assert first() is None
    assert last() is not None
    np.testing.assert_array_equal(repeating(x, w), x * w)
    np.testing.assert_array_equal(repeating(x.reshape(2, 3, 2), None), 2 * x.reshape(2, 3, 2))


def test_more_axes_than_plans_have_are_refused():
    if not native.is_on():
        pytest.skip("the compiled half is off")
    arrays = (CalledArray((0,), (1,) * 9),)
    plan_of_nine = CallPlan(FakeFamily(None), (), (None, None), arrays, NewArray(1, (1,), (1,)))
    with pytest.raises(ValueError, match="up to 8 axes, not 9"):
        planned.plan_call(plan_of_nine)
