import numpy as np
import pytest

import trainkit as tk

# Data and its fingerprints: TensorFlow's.
ROWS = [
    (
        np.array([[1, 2, 3], [4, 5, 6]], "int32"),
        [[197, 243, 108, 84, 102, 77, 162, 216], [168, 91, 168, 112, 25, 85, 121, 5]],
    ),
    (
        np.array([[1.0, 2.0], [4.0, 5.0]]),
        [[144, 92, 210, 104, 153, 29, 123, 16], [81, 160, 184, 27, 210, 204, 29, 56]],
    ),
    (
        ["a", "abc", ""],
        [
            [227, 117, 223, 182, 101, 66, 69, 179],
            [105, 243, 231, 116, 160, 179, 165, 36],
            [79, 64, 144, 47, 59, 106, 225, 154],
        ],
    ),
    (
        [["a", "b"], ["", ""]],
        [[122, 64, 59, 169, 136, 60, 55, 83], [45, 56, 253, 210, 142, 209, 207, 41]],
    ),
    ([["a"]], [[227, 117, 223, 182, 101, 66, 69, 179]]),
    ([True, False], [[62, 88, 126, 177, 19, 76, 162, 71], [84, 75, 233, 245, 237, 86, 96, 190]]),
    (np.array([1.5], "float16"), [[39, 2, 132, 245, 2, 250, 215, 2]]),
    (
        np.arange(400, dtype="int32").reshape(2, 200),
        [[17, 239, 200, 104, 105, 220, 163, 187], [0, 216, 165, 73, 172, 21, 244, 212]],
    ),
    (np.zeros((2, 0), "f"), [[79, 64, 144, 47, 59, 106, 225, 154]] * 2),
]


@pytest.mark.parametrize(("data", "expected"), ROWS)
def test_fingerprints_are_tensorflows(data, expected):
    result = tk.fingerprint(data)
    assert result.dtype == tk.uint8
    assert result.numpy().tolist() == expected
    graph = tk.function(tk.fingerprint)
    assert graph(tk.constant(data)).numpy().tolist() == expected


def test_shapes_within_a_row_do_not_count():
    x = tk.range(24)
    flat = tk.fingerprint(tk.reshape(x, (2, 12)))
    np.testing.assert_array_equal(tk.fingerprint(tk.reshape(x, (2, 3, 4))), flat)
    turned = tk.transpose(tk.reshape(x, (12, 2)))
    columns = np.ascontiguousarray(turned.numpy())
    np.testing.assert_array_equal(tk.fingerprint(turned), tk.fingerprint(columns))


def test_no_rows():
    assert tk.fingerprint(np.zeros((0, 3), "f")).shape == (0, 8)


def test_rows_of_unknown_number():
    graph = tk.function(tk.fingerprint).get_concrete_function(tk.TensorSpec((None, 3), "int32"))
    assert graph(tk.constant([[1, 2, 3]])).numpy().tolist() == [ROWS[0][1][0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tk.fingerprint(1), "got a scalar"),
        (lambda: tk.fingerprint("a"), "got a scalar"),
        (lambda: tk.fingerprint([1], "md5"), "method must be 'farmhash64', got 'md5'"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        call()
