"""`tk.test.TestCase`, and the messages of TensorBoard's plugins."""

import unittest

import numpy as np
import pytest

import trainkit as tk

X = tk.constant([1.0, 2.0])
NAN = float("nan")

HOLDS = {
    "close": lambda c: c.assertAllClose({"a": [X, (X, 1.0)]}, {"a": [[1.0, 2.0 + 1e-7], (X, 1)]}),
    "not close": lambda c: c.assertNotAllClose(X, [1.0, 2.1]),
    "by type": lambda c: c.assertAllCloseAccordingToType(tk.cast(X, "float16"), [1.0, 2.001]),
    "equal": lambda c: c.assertAllEqual(tk.constant([NAN, 1.0]), [NAN, 1.0]),
    "texts": lambda c: c.assertAllEqual(tk.constant(["a", "b"]), ["a", "b"]),
    "not equal": lambda c: c.assertNotAllEqual(X, [1.0, 2.5]),
    "shape": lambda c: c.assertShapeEqual(np.ones((2,)), X),
    "dtype": lambda c: c.assertDTypeEqual(X, tk.float32),
    "device": lambda c: c.assertDeviceEqual(X.cpu().device, "/cpu:0"),
    "greater": lambda c: c.assertAllGreater(X, 0),
    "greater equal": lambda c: c.assertAllGreaterEqual(X, 1),
    "less": lambda c: c.assertAllLess(X, 3),
    "less equal": lambda c: c.assertAllLessEqual(X, 2),
    "range": lambda c: c.assertAllInRange(X, 0, 2, open_lower_bound=True),
    "set": lambda c: c.assertAllInSet(X, {1.0, 2.0, 3.0}),
    "near": lambda c: c.assertNear(X[0], 1.05, 0.1),
    "array near": lambda c: c.assertArrayNear(X, [1.0, 2.05], 0.1),
    "nd near": lambda c: c.assertNDArrayNear(X, np.array([1.0, 2.05]), 0.1),
    "len": lambda c: c.assertLen([1], 1),
    "empty": lambda c: c.assertEmpty([]),
    "not empty": lambda c: c.assertNotEmpty([1]),
    "between": lambda c: c.assertBetween(2, 1, 3),
    "subset": lambda c: c.assertContainsSubset([1], [1, 2]),
    "same": lambda c: c.assertSameElements([1, 1, 2], [2, 1]),
    "items": lambda c: c.assertItemsEqual([1, 2], [2, 1]),
    "starts": lambda c: c.assertStartsWith("abc", "ab"),
    "ends": lambda c: c.assertEndsWith("abc", "bc"),
}
FAILS = {
    "close": lambda c: c.assertAllClose({"a": [X]}, {"a": [[1.0, 2.1]]}),
    "close names": lambda c: c.assertAllClose({"a": X}, {"b": X}),
    "close shapes": lambda c: c.assertAllClose(X, 1.0 + 0 * X[0]),
    "not close": lambda c: c.assertNotAllClose(X, X),
    "by type": lambda c: c.assertAllCloseAccordingToType(X, [1.0, 2.001]),
    "equal": lambda c: c.assertAllEqual(X, [1.0, 3.0]),
    "equal shapes": lambda c: c.assertAllEqual(tk.ones(2), 1.0),
    "not equal": lambda c: c.assertNotAllEqual(X, [1.0, 2.0]),
    "shape": lambda c: c.assertShapeEqual(np.ones((3,)), X),
    "dtype": lambda c: c.assertDTypeEqual(X, tk.int32),
    "greater": lambda c: c.assertAllGreater(X, 1),
    "greater equal": lambda c: c.assertAllGreaterEqual(X, 1.5),
    "less": lambda c: c.assertAllLess(X, 2),
    "less equal": lambda c: c.assertAllLessEqual(X, 1.5),
    "range": lambda c: c.assertAllInRange(X, 1, 2, open_lower_bound=True),
    "set": lambda c: c.assertAllInSet(X, {1.0}),
    "near": lambda c: c.assertNear(X[0], 1.2, 0.1),
    "array near": lambda c: c.assertArrayNear(X, [1.0, 2.2], 0.1),
    "nd near": lambda c: c.assertNDArrayNear(X, np.array([1.0, 2.2]), 0.1),
    "len": lambda c: c.assertLen([1], 2),
    "empty": lambda c: c.assertEmpty([1]),
    "not empty": lambda c: c.assertNotEmpty([]),
    "between": lambda c: c.assertBetween(4, 1, 3),
    "subset": lambda c: c.assertContainsSubset([3], [1, 2]),
    "same": lambda c: c.assertSameElements([1, 3], [2, 1]),
    "items": lambda c: c.assertItemsEqual([1, 1, 2], [2, 1]),
    "starts": lambda c: c.assertStartsWith("abc", "b"),
    "ends": lambda c: c.assertEndsWith("abc", "b"),
}


def test_assertions_hold_and_fail():
    case = tk.test.TestCase()
    for check in HOLDS.values():
        check(case)
    for check in FAILS.values():
        with pytest.raises(AssertionError):
            check(case)


def test_cases_run_with_seeds_and_folders(tmp_path):
    drawn, folders = [], []

    class Case(tk.test.TestCase):
        def test_one(self):
            drawn.append([float(tk.random.uniform([])), float(np.random.rand())])
            folders.append(self.get_temp_dir())
            with self.assertRaisesWithPredicateMatch(ValueError, "a b"):
                raise ValueError("a b c")
            with self.assertRaisesOpError(lambda error: "inner sizes" in str(error)):
                tk.matmul(tk.ones([2, 3]), tk.ones([2, 3]))

        test_two = test_one

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert drawn[0] == drawn[1]
    assert folders[0] != folders[1]
    with pytest.raises(ValueError, match="must be None"), Case().session(graph=object()):
        pass
    with pytest.raises(AssertionError, match="was not raised"):
        with Case().assertRaisesWithPredicateMatch(ValueError, "a"):
            pass


@pytest.mark.parametrize(
    "values",
    [
        1.5, [1, 2], "a", [b"a", "b"], np.ones((2, 2), "float16"), True, [[True]],
        np.array([1 + 2j]), np.int8(3), np.zeros((0, 3)), np.arange(3, dtype="uint16"),
    ],
)  # fmt: skip
def test_messages_give_back_their_arrays(values):
    expected = tk.constant(values).numpy()
    proto = tk.make_tensor_proto(values)
    found = tk.make_ndarray(proto)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == np.shape(expected)
    assert found.dtype == tk.constant(values).dtype.dtype
    tensorboard = pytest.importorskip("tensorboard.util.tensor_util")
    others = tensorboard.make_tensor_proto(expected)
    np.testing.assert_array_equal(tk.make_ndarray(others), expected)
    same = type(others).FromString(proto.SerializeToString())
    np.testing.assert_array_equal(tensorboard.make_ndarray(same), expected)


def test_messages_of_shapes():
    proto = tk.make_tensor_proto(1, dtype=tk.float32, shape=[2, 3])
    np.testing.assert_array_equal(tk.make_ndarray(proto), np.ones((2, 3), "float32"))
    with pytest.raises(ValueError, match=r"\(2,\) do not fit \(3,\)"):
        tk.make_tensor_proto([1, 2], shape=[3])
    proto.tensor_content = b"1234"
    assert tk.make_ndarray(proto).shape == (2, 3)
    proto.tensor_content = b"12341234"
    with pytest.raises(ValueError, match="2 values"):
        tk.make_ndarray(proto)


def test_raw_summaries_are_written(tmp_path):
    from tensorboardX.proto.summary_pb2 import Summary

    summary = Summary(value=[Summary.Value(tag="a", simple_value=1.5), Summary.Value(tag="b")])
    with tk.summary.create_file_writer(tmp_path).as_default():
        write = tk.summary.experimental.write_raw_pb
        assert write(summary.SerializeToString(), step=3)
        assert write(tk.constant(summary.SerializeToString()), step=4)
        with tk.summary.record_if(False):
            assert not write(b"", step=0)
        with pytest.raises(tk.errors.InvalidArgumentError, match="no serialized Summary"):
            write(b"\xff\xff", step=0)
    from tensorboardX.proto.event_pb2 import Event

    (path,) = tmp_path.iterdir()
    events = [Event.FromString(r.numpy()) for r in tk.data.TFRecordDataset(str(path))]
    found = [(e.step, [v.tag for v in e.summary.value]) for e in events if e.summary.value]
    assert found == [(3, ["a", "b"]), (4, ["a", "b"])]
