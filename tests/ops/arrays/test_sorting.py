import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import trainkit as tk
from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError


@given(arrays(min_dims=1), st.data())
def test_sort_agrees_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert_same(ops.sort(x, axis), np.sort(x, axis))
    assert_same(ops.argsort(x, axis), np.argsort(x, axis, stable=True))
    assert_same(ops.sort(x, None), np.sort(x, None))
    assert_same(ops.argsort(x, None), np.argsort(x, None, stable=True))


@given(arrays(min_dims=1, min_side=1), st.data())
def test_argpartition_puts_one_element_in_its_place(x, data):
    n = x.shape[-1]
    kth = data.draw(st.integers(0, n - 1))
    parted = np.take_along_axis(x, ops.argpartition(x, kth).numpy(), -1)
    ordered = np.sort(x, -1)
    np.testing.assert_array_equal(parted[..., kth], ordered[..., kth])
    assert (parted[..., :kth] <= parted[..., kth : kth + 1]).all()


@pytest.mark.parametrize("n", [3, 300])  # all are sorted; only the greatest are
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_top_k_takes_the_first_of_equal_ones(n, dtype, rng):
    x = rng.integers(0, 5, (4, n)).astype(dtype)
    for k in (0, 1, 3):
        values, indices = ops.top_k(x, k)
        expected = np.argsort(-x.astype(int), -1, kind="stable")[:, :k]
        assert_same(indices, expected)
        assert_same(values, np.take_along_axis(x, expected, -1))
        assert (values.dtype, indices.dtype) == (dtype, "int32")


@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan, -0.0])
@pytest.mark.parametrize("k", [1, 2, 8])
def test_top_k_of_rows_with_special_numbers(special, k, rng):
    x = rng.integers(-3, 3, (6, 90)).astype("float32")
    x[0], x[1, 4:], x[2, 7], x[3, ::9] = special, special, special, special
    before = x.copy()
    values, indices = ops.top_k(x, k)
    rising = np.argsort(x[:, ::-1], -1, kind="stable")
    expected = 89 - rising[:, ::-1][:, :k]
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, -1))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(0, 90), (90,), (2, 3, 90)])
def test_top_k_has_the_shape_of_the_rows(shape, rng):
    x = rng.normal(size=shape)
    values, indices = ops.top_k(x, 3)
    assert values.shape == indices.shape == (*shape[:-1], 3)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, -1)[..., :3])


BFLOAT16 = {
    "sort": lambda x: ops.sort(x),
    "sort of columns": lambda x: ops.sort(x, 0),
    "argsort": lambda x: ops.argsort(x),
    "argpartition": lambda x: ops.take_along_axis(x, ops.argpartition(x, 5), -1)[..., 5],
    "top_k of few": lambda x: ops.top_k(x, 2),
    "top_k of many": lambda x: ops.top_k(x, 30),
    "tf.math.top_k": lambda x: tk.math.top_k(x, 9),
    "searchsorted": lambda x: ops.searchsorted(ops.arange(-2.0, 3.0, dtype=x.dtype), x),
    "searchsorted in rows": lambda x: ops.searchsorted(ops.sort(x), x),
    "digitize": lambda x: ops.digitize(x, [-1.0, 0.0, 1.0]),
    "unique": lambda x: ops.unique(ops.reshape(x, (-1,)), return_inverse=True, return_counts=True),
    "tf.unique": lambda x: tk.unique(ops.reshape(x, (-1,))),
    "nanmedian": lambda x: ops.nanmedian(x, axis=-1),
    "nanquantile": lambda x: ops.nanquantile(x, 0.25, axis=-1),
    "median": lambda x: ops.median(x, axis=-1),
}


@pytest.mark.parametrize("call", BFLOAT16.values(), ids=BFLOAT16)
def test_bfloat16_with_nan_is_ordered_as_float32(call, rng):
    x = rng.integers(-3, 3, (4, 40)).astype("float32")
    x[0, ::7], x[1, 3], x[2, 5], x[2, 0] = np.nan, np.nan, np.inf, -np.inf
    short = tk.cast(x, "bfloat16")
    for run in (call, tk.function(call)):
        pairs = zip(tk.nest.flatten(run(short)), tk.nest.flatten(call(x)), strict=True)
        for result, expected in pairs:
            assert result.dtype == ("bfloat16" if expected.dtype.is_floating else expected.dtype)
            np.testing.assert_array_equal(tk.cast(result, expected.dtype), expected)


def test_the_gradient_of_sorted_bfloat16_with_nan_goes_where_each_number_came_from():
    x = tk.constant([2.0, np.nan, 1.0, 3.0], "bfloat16")
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = ops.sort(x) * tk.constant([1, 2, 3, 4], "bfloat16")
    assert tape.gradient(y, x).numpy().astype("float32").tolist() == [2, 4, 1, 3]


def test_in_top_k_counts_better_scores():
    scores = [[0.1, 0.4, 0.6, 0.9, 0.5], [0.1, 0.7, 0.9, 0.8, 0.3], [0.9, 0.9, 0.1, np.nan, 0.2]]
    for targets, expected in (
        ([2, 5, 0], [True, False, True]),
        ([4, 0, 3], [True, False, False]),
        ([-1, 1, 1], [False, True, True]),
    ):
        assert ops.in_top_k(targets, scores, k=3).tolist() == expected


@given(st.lists(st.integers(-9, 9), max_size=8), arrays(("int32",), -9, 9))
def test_searching_agrees_with_numpy(line, x):
    rising = np.sort(np.array(line, "int32"))
    for side in ("left", "right"):
        assert_same(ops.searchsorted(rising, x, side), np.searchsorted(rising, x, side))
    assert_same(
        ops.digitize(x, rising), np.digitize(x, rising) if len(rising) else np.zeros(x.shape)
    )
    assert_same(ops.isin(x, rising), np.isin(x, rising))
    assert_same(ops.isin(x, rising, invert=True), np.isin(x, rising, invert=True))


def test_rows_are_searched_in_their_own_sequence():
    found = ops.searchsorted([[1.0, 3.0], [2.0, 2.5]], [[2.0], [2.0]], side="right")
    assert found.tolist() == [[1], [1]]


@given(
    hnp.arrays("int32", hnp.array_shapes(max_dims=3, max_side=4), elements=st.integers(0, 3)),
    st.data(),
)
def test_unique_agrees_with_numpy(x, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    ours = ops.unique(x, True, True, True, True, axis)
    numpys = np.unique(x, True, True, True, axis)
    for one, two in zip(ours, numpys, strict=True):
        assert_same(one, np.reshape(two, tuple(one.shape)))


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, -3, 5, 0, -3, 4]),
        np.array([127, -128, 0, 127] * 80, np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 2**64 - 5], np.uint64),
        np.array([-(2**63), -(2**63) + 2, -(2**63)]),
        np.array([2**62, -(2**62), 2**62]),
        np.array([], np.int32),
        np.array([7], np.int32),
    ],
    ids=str,
)
def test_unique_of_integers_near_and_far(values):
    different, numbers = tk.unique(values)
    first = np.sort(np.unique(values, return_index=True)[1])
    np.testing.assert_array_equal(different.numpy(), values[first])
    np.testing.assert_array_equal(different.numpy()[numbers.numpy()], values)
    assert (different.dtype.name, numbers.dtype.name) == (values.dtype.name, "int32")


def test_unique_in_order_of_appearance():
    values, inverse = ops.unique([3, 1, 1, 2], sorted=False, return_inverse=True)
    assert (values.tolist(), inverse.tolist()) == ([3, 1, 2], [0, 1, 1, 2])


def test_unique_of_a_fixed_size_is_filled_up_or_cut_off():
    values, first, counts = ops.unique(
        [3, 1, 2, 1], return_index=True, return_counts=True, size=5, fill_value=9
    )
    assert (values.tolist(), counts.tolist()) == ([1, 2, 3, 9, 9], [2, 1, 1, 0, 0])
    assert first.tolist() == [1, 2, 0, 1, 1]
    assert ops.unique([3, 1, 2, 1], size=2).tolist() == [1, 2]


ERRORS = [
    (lambda: ops.sort(3.0), "axis -1 is out of range"),
    (lambda: ops.sort([1.0], 1), "axis 1 is out of range"),
    (lambda: ops.argpartition([1, 2], 2), "kth=2 is outside of an axis of size 2"),
    (lambda: ops.top_k([1.0, 2.0], 3), r"Had 2, needed 3 \[Op:TopKV2\]"),
    (lambda: ops.top_k(1.0, 1), "got a scalar"),
    (lambda: ops.in_top_k([1, 2], [[1.0, 2.0]], 1), r"targets \(2,\) need predictions"),
    (lambda: ops.in_top_k([0.5], [[1.0, 2.0]], 1), "positions are integers"),
    (lambda: ops.searchsorted(1.0, [1.0]), r"a sequence of shape \(\)"),
    (lambda: ops.digitize([1.0], [[1.0]]), "bins are a vector"),
    (lambda: ops.unique([1], axis=1), "axis 1 is out of range"),
    (lambda: ops.unique([1], size=-1), "size must be 0 or more"),
    (lambda: ops.searchsorted([1.0], [1.0], side="middle"), "'left' or 'right', not 'middle'"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ranks_outside_are_invalid_arguments():
    with pytest.raises(InvalidArgumentError):
        ops.top_k([1.0], 5)


@pytest.mark.parametrize("shapes", [((0, 5), (0, 3)), ((2, 5), (2, 0)), ((3, 0), (3, 2))])
def test_searching_in_nothing_and_for_nothing(shapes):
    sequence, x = (np.zeros(shape, "float32") for shape in shapes)
    result = ops.searchsorted(sequence, x)
    assert result.shape == shapes[1]
    assert result.dtype == "int32"
    np.testing.assert_array_equal(result, 0)
