"""Curves, histograms and plain tensors, as TensorBoard reads them."""

import ml_dtypes
import numpy as np
import pytest

from trainkit import summary
from trainkit.summary.plots import histogram_buckets


class Holder:
    """Stands for a tensor: something with `numpy()`."""

    def __init__(self, value):
        self.value = np.asarray(value)

    def numpy(self):
        return self.value


NUMBERS = [
    1.5,
    np.float64(1.5),
    np.float16(1.5),
    np.array(1.5, np.float32),
    np.array([[1.5]]),
    [1.5],
    Holder(1.5),
    np.array(1.5, ml_dtypes.bfloat16),
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}")
def test_a_scalar_may_be_any_kind_of_number(writer, events, number):
    assert summary.scalar("a/b", number, step=2**40) is True
    writer.flush()
    assert events().scalars("a/b") == [(2**40, 1.5)]


@pytest.mark.parametrize("number", [3, True, np.uint8(3), float("inf"), -1e300])
def test_extreme_and_whole_scalars(writer, events, number):
    summary.scalar("a", number, step=0)
    writer.flush()
    expected = -np.inf if number == -1e300 else float(number)
    assert events().scalars("a") == [(0, expected)]


def test_nan_is_recorded(writer, events):
    summary.scalar("a", float("nan"), step=0)
    writer.flush()
    assert np.isnan(events().scalars("a")[0][1])


@pytest.mark.parametrize("data", [[1.0, 2.0], [], 1j, "1.0", None])
def test_a_scalar_is_one_real_number(writer, data):
    with pytest.raises(ValueError, match="summary 'a': a scalar is one real number"):
        summary.scalar("a", data, step=0)


def test_descriptions_are_kept(writer, events):
    summary.scalar("a", 1.0, step=0, description="per *sample*")
    summary.histogram("h", [1.0], step=0, description="weights")
    writer.flush()
    assert events().metadata("a").summary_description == "per *sample*"
    assert events().metadata("h").summary_description == "weights"


def test_a_histogram_is_read_back(writer, events, rng):
    data = rng.normal(size=(100, 100)).astype(np.float32)
    assert summary.histogram("layer/kernel", data, step=5)
    writer.flush()
    found = events()
    assert found.plugin("layer/kernel") == "histograms"
    ((step, table),) = found.tensors("layer/kernel")
    assert step == 5
    counts, edges = np.histogram(data.astype(np.float64), 30)
    np.testing.assert_allclose(table[:, 0], edges[:-1])
    np.testing.assert_allclose(table[:, 1], edges[1:])
    np.testing.assert_array_equal(table[:, 2], counts)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_buckets_agree_with_numpy(dtype, count, rng):
    data = (rng.normal(size=5000) * 30 + 100).astype(dtype)
    table = histogram_buckets(data, count)
    counts, edges = np.histogram(data.astype(np.float64), count)
    np.testing.assert_allclose(table[:, 0], edges[:-1])
    # a number on an edge may fall to either side of it by rounding
    np.testing.assert_allclose(table[:, 2].cumsum(), counts.cumsum(), atol=0.02 * len(data))
    assert table[:, 2].sum() == len(data)


def test_more_numbers_than_a_block(monkeypatch, rng):
    data = rng.normal(size=1000)
    whole = histogram_buckets(data, 30)
    monkeypatch.setattr("trainkit.summary.plots.BLOCK", 64)
    np.testing.assert_array_equal(histogram_buckets(data, 30), whole)


def test_equal_numbers_are_in_the_last_bucket():
    table = histogram_buckets(np.full(7, 2.5, np.float32), 4)
    np.testing.assert_array_equal(table[:, :2], 2.5)
    np.testing.assert_array_equal(table[:, 2], [0, 0, 0, 7])


def test_no_numbers_give_zeros():
    np.testing.assert_array_equal(histogram_buckets(np.zeros(0), 4), np.zeros((4, 3)))


@pytest.mark.parametrize(
    "data",
    [
        np.array([-1.7e308, 0, 1.7e308]),
        np.array([0, 5e-324, 1e-323]),
        np.array([-(2**63), 0, 2**63 - 1]),
        np.array([False, False, True]),
    ],
)
def test_extreme_ranges_keep_every_number(data):
    table = histogram_buckets(data, 2)
    assert np.isfinite(table).all()
    assert table[:, 2].sum() == 3
    assert table[0, 2] >= 1
    assert table[1, 2] >= 1


def test_numbers_that_are_not_finite_are_left_out_with_a_warning(writer, events):
    data = np.array([1.0, np.nan, 2.0, np.inf, -np.inf, 3.0])
    with pytest.warns(UserWarning, match="'w': 3 of 6 numbers are NaN or infinite") as caught:
        summary.histogram("w", data, step=0, buckets=2)
    assert caught[0].filename == __file__
    writer.flush()
    ((_, table),) = events().tensors("w")
    np.testing.assert_array_equal(table, [[1, 2, 1], [2, 3, 2]])


def test_bfloat16_numbers_are_counted(writer, events):
    data = np.array([1.0, 2.0, np.nan], ml_dtypes.bfloat16)
    with pytest.warns(UserWarning, match="1 of 3"):
        summary.histogram("w", data, step=0, buckets=2)
    writer.flush()
    ((_, table),) = events().tensors("w")
    np.testing.assert_array_equal(table[:, 2], [1, 1])


@pytest.mark.parametrize("buckets", [0, -1])
def test_a_histogram_needs_a_bucket(writer, buckets):
    with pytest.raises(ValueError, match=f"'w': buckets is {buckets}, expected 1 or more"):
        summary.histogram("w", [1.0], step=0, buckets=buckets)


@pytest.mark.parametrize("data", [["a"], [1j], [None]])
def test_a_histogram_is_of_real_numbers(writer, data):
    with pytest.raises(ValueError, match=r"'w': data has dtype .*, expected real numbers"):
        summary.histogram("w", data, step=0)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
        np.array([1, 2], np.uint64),
    ],
)
def test_a_tensor_is_read_back_as_it_was(writer, events, array):
    from tensorboardX.proto.summary_pb2 import SummaryMetadata

    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "mine"
    metadata.plugin_data.content = b"settings"
    summary.write("x", array, step=1, metadata=metadata)
    summary.write("y", array, step=1, metadata=metadata.SerializeToString())
    writer.flush()
    for tag in ("x", "y"):
        ((_, found),) = events().tensors(tag)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        assert events().plugin(tag) == "mine"


def test_a_tensor_of_another_dtype_is_refused(writer):
    with pytest.raises(ValueError, match="'x': data has dtype object, expected one of float32"):
        summary.write("x", np.array([None]), step=0)
