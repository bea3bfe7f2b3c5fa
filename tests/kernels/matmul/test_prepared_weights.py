"""Weights laid out once, and what follows a product, against the operations one by one."""

import copy
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import devices
from trainkit.core.variable import writable_arrays
from trainkit.kernels.matmul import epilogue_tuned, prepared_weights, product_tuned
from trainkit.kernels.matmul.epilogue_tuned import Epilogue
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.normalization.norm_tuned import NONE, RELU, RELU6
from trainkit.optimizers.base import step_plan

pytestmark = pytest.mark.usefixtures("on_cpu")


def followed(y, epilogue):
    """The same by NumPy, one operation after the other."""
    y = y * epilogue.factor + epilogue.shift
    y = y if epilogue.residual is None else y + epilogue.residual
    if epilogue.rectifier is not NONE:
        y = np.minimum(np.maximum(y, np.float32(0)), np.float32(epilogue.rectifier.high))
    return y


def an_epilogue(rng, shape, rectifier, adds):
    factor, shift = rng.normal(size=(2, shape[-1])).astype("float32")
    residual = rng.normal(size=shape).astype("float32") if adds else None
    return Epilogue(factor, shift, residual, rectifier)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("rectifier", [NONE, RELU, RELU6], ids=["none", "relu", "relu6"])
@pytest.mark.parametrize("shape", [(5, 1), (3, 4, 15), (7, 16), (2, 3, 5, 24), (300, 100)])
def test_an_epilogue_is_rounded_step_by_step(eager, rng, shape, rectifier, adds):
    y = rng.normal(size=shape).astype("float32")
    epilogue = an_epilogue(rng, shape, rectifier, adds)
    expected = followed(y, epilogue)
    assert epilogue_tuned.finish(y, epilogue)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("rectifier", [NONE, RELU6], ids=["none", "relu6"])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    "size",
    [
        (300, 700, 130),
        (49, 1100, 64),
        (5, 2000, 64),
        (700, 30, 60),
        (16, 1100, 64),
        (31, 200, 75),
        (400, 60, 16),
    ],
)
def test_a_finished_product_has_the_bits_of_its_parts(eager, rng, size, biased, kept, rectifier):
    rows, depth, columns = size
    x, w = (rng.normal(size=s).astype("float32") for s in ((rows, depth), (depth, columns)))
    bias = rng.normal(size=columns).astype("float32") if biased else None
    weights = PreparedWeights() if kept else None
    plain = product_tuned.product(x, w, bias)
    for adds in (False, True, True):
        epilogue = an_epilogue(rng, (rows, columns), rectifier, adds)
        y = product_tuned.product(x, w, bias, weights=weights, epilogue=epilogue)
        np.testing.assert_array_equal(y, followed(plain, epilogue))
    if kept:
        np.testing.assert_array_equal(product_tuned.product(x, w, bias, weights=weights), plain)
        rectified = product_tuned.product(x, w, bias, True, weights=weights)
        np.testing.assert_array_equal(rectified, product_tuned.product(x, w, bias, True))
        turned = np.asfortranarray(w)  # another layout has strips of its own
        for _ in range(3):
            np.testing.assert_array_equal(
                product_tuned.product(x, turned, bias, weights=weights), plain
            )


def test_arrays_that_do_not_fit_are_left_alone(eager, rng):
    y = rng.normal(size=(4, 6)).astype("float32")
    before = y.copy()
    vector = np.ones(6, np.float32)
    for epilogue in (
        Epilogue(vector.astype("float64"), vector),
        Epilogue(vector, np.ones(12, np.float32)[::2]),
        Epilogue(np.ones(5, np.float32), np.ones(5, np.float32)),
        Epilogue(vector, vector, np.ones((1, 6), np.float32)),
        Epilogue(vector, vector, np.ones((6, 4), np.float32).T),
    ):
        assert not epilogue_tuned.finish(y, epilogue)
        np.testing.assert_array_equal(y, before)


def strips_of(weights, array):
    return weights.strips(array, np.copy)


def test_an_array_is_held_once_it_comes_again(rng):
    weights, array = PreparedWeights(), rng.normal(size=(4, 4))
    assert strips_of(weights, array) is None
    strips = strips_of(weights, array.reshape(2, 8).reshape(4, 4))  # a view of the same memory
    np.testing.assert_array_equal(strips, array)
    assert strips_of(weights, array) is strips
    assert strips_of(weights, array[:2]) is not strips  # another part of it


def test_what_changes_often_is_held_later_each_time(rng):
    weights, held_after = PreparedWeights(), []
    for _ in range(4):
        array, calls = rng.normal(size=(4, 4)), 1
        while strips_of(weights, array) is None:
            calls += 1
        held_after.append(calls)
    assert held_after == [2, 3, 5, 9]


def test_strips_of_a_view_or_another_layout_are_not_those_of_the_array(rng):
    array, weights = rng.normal(size=(4, 4)), PreparedWeights()
    for view, factor in ((array.T, 1), (array, 2), (array, 3), (array, 2), (array.T, 1)):
        for _ in range(40):
            strips = weights.strips(view, lambda x, factor=factor: x * factor, factor)
        np.testing.assert_array_equal(strips, view * factor)


def test_nothing_is_held_after_it_was_let_go(rng):
    class Value:
        _array = rng.normal(size=(4, 4))

    class Variable:
        _value = Value

    weights, other = PreparedWeights(), PreparedWeights()
    for _ in range(2):
        strips_of(weights, Value._array)
    assert strips_of(other, Value._array) is None
    assert strips_of(other, Value._array) is strips_of(weights, Value._array)
    prepared_weights.let_go([Variable])
    Value._array += 1  # in place, as nobody holds it
    for _ in range(2):
        last = strips_of(weights, Value._array)
    np.testing.assert_array_equal(last, Value._array)


@pytest.mark.parametrize("ends", ["behind", "meanwhile"])
@pytest.mark.parametrize("how", ["optimizer", "assign"])
def test_strips_of_weights_that_are_half_written_are_not_kept(rng, monkeypatch, how, ends):
    """Another thread has begun to write, as nobody held the array then, and ends later."""
    variable = tk.Variable(rng.normal(size=(4, 4)).astype("float32"))
    value, optimizer = tk.zeros((4, 4)), tk.optimizers.SGD(1.0)
    is_half, may_end = threading.Event(), threading.Event()

    def write_slowly(array):
        array[:2] = 0
        is_half.set()
        assert may_end.wait(60)
        array[2:] = 0

    class Slow:
        """What is assigned, and takes its time to be copied."""

        shape, dtype = value.shape, value.dtype

        def __array__(self, dtype=None, copy=None):
            # the array that is written to is asked for by then
            write_slowly(sys._getframe(1).f_locals["mine"])
            return np.zeros((4, 4), "float32")

    def write():
        if how == "assign":
            monkeypatch.setattr(devices, "device_of", lambda array: devices.CPU)
            variable._store(Slow())
        else:
            group = step_plan._Group
            monkeypatch.setattr(
                group, "update", lambda self, *_: write_slowly(writable_arrays(self._variables)[0])
            )
            optimizer.apply([value], [variable])

    writer = threading.Thread(target=write)
    writer.start()
    assert is_half.wait(60)

    def end():
        may_end.set()
        writer.join()

    def prepare(array):
        strips = array.copy()
        if ends == "meanwhile":
            end()
        return strips

    weights, array = PreparedWeights(), variable._value._array
    for _ in range(2):
        strips = weights.strips(array, prepare)
    assert (strips is None) == (ends == "meanwhile")
    end()
    np.testing.assert_array_equal(array, 0)
    for _ in range(5):
        strips = weights.strips(array, np.copy)
        assert strips is None or not strips.any()
    assert strips is not None


def test_there_is_a_limit_for_all_together(rng, monkeypatch):
    monkeypatch.setattr(prepared_weights, "MOST_BYTES", 0)
    weights, array = PreparedWeights(), rng.normal(size=(4, 4))
    assert [strips_of(weights, array) for _ in range(3)] == [None] * 3


def test_a_copy_begins_anew(rng):
    weights, array = PreparedWeights(), rng.normal(size=(4, 4))
    for _ in range(2):
        strips_of(weights, array)
    assert strips_of(copy.deepcopy(weights), array) is None
    del weights
    gc.collect()
    assert not any(strips.owner is array for strips in prepared_weights._all())


def test_what_is_kept_begins_at_a_line_of_the_cache(rng):
    w = rng.normal(size=(37, 50)).astype("float32")
    for address in range(4):
        room = np.empty(w.size + 4, np.float32)
        view = room[address : address + w.size].reshape(w.shape)
        view[...] = w
        weights = PreparedWeights()
        while (strips := weights.strips(view, np.asarray)) is None:
            pass
        assert strips.ctypes.data % 64 == 0
        np.testing.assert_array_equal(strips, w)


def test_what_is_kept_lies_side_by_side_and_apart(rng):
    sizes = [1, 15, 16, 1000, 70_000, 900_000, 2_000_000, 33]
    arrays = [rng.normal(size=size).astype("float32") for size in sizes]
    stores = [PreparedWeights() for _ in arrays]
    strips = []
    for store, array in zip(stores, arrays, strict=True):
        while (of_array := store.strips(array, np.copy)) is None:
            pass
        strips.append(of_array)
    for array, of_array in zip(arrays, strips, strict=True):
        np.testing.assert_array_equal(of_array, array)
    for i, one in enumerate(strips):
        assert not any(np.shares_memory(one, other) for other in strips[:i])
    # a vector of 64 bytes from one to the next, in a piece of several
    assert strips[2].ctypes.data - strips[1].ctypes.data == 64


def test_memory_of_what_is_kept_is_given_back():
    stores = []
    for _ in range(50):
        array, store = np.ones(300_000, np.float32), PreparedWeights()
        while store.strips(array, np.copy) is None:
            pass
        stores.append(store)
    pieces = {id(prepared_weights._owner_of(s._strips.array)) for s in stores}
    assert 15 <= len(pieces) <= 20  # three in each of 4 MB
    last = weakref.ref(prepared_weights._owner_of(stores[0]._strips.array))
    del stores, store
    gc.collect()
    assert last() is None


@pytest.mark.parametrize("rectifier", [NONE, RELU6])
@pytest.mark.parametrize("columns", [8, 15, 16, 17, 24, 31, 33, 40, 48, 70])
@pytest.mark.parametrize("rows", [29, 41, 300])
def test_what_follows_narrow_products_has_the_bits_of_the_operations(
    eager, rng, rows, columns, rectifier
):
    x = rng.normal(size=(rows, 1300)).astype("float32")
    w = rng.normal(size=(1300, columns)).astype("float32")
    factor, shift = rng.normal(size=(2, columns)).astype("float32")
    residual = rng.normal(size=(rows, columns)).astype("float32")
    y = product_tuned.product(x, w, None, False, PreparedWeights())
    np.testing.assert_allclose(y, x.astype(float) @ w, rtol=1e-4, atol=1e-3)
    for beside in (None, residual):
        epilogue = Epilogue(factor, shift, beside, rectifier)
        followed_product = product_tuned.product(x, w, None, False, PreparedWeights(), epilogue)
        np.testing.assert_array_equal(followed_product, followed(y, epilogue))
