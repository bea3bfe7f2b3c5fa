import copy
import pickle

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit import ops

WORDS = [b"ab", b"", b"\xff\x00", "ü".encode()]


def test_texts_are_given_back_as_bytes():
    x = tk.constant(["ab", b"\xff\x00", "ü"])
    assert x.dtype == tk.string
    assert x.shape == (3,)
    assert x.numpy().tolist() == [b"ab", b"\xff\x00", "ü".encode()]
    assert tk.constant("ab").numpy() == b"ab"
    assert repr(tk.constant("ab")) == "<tf.Tensor: shape=(), dtype=string, numpy=b'ab'>"


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array(["a", b"bc"], object),
        ("a", "bc"),
        np.array(["a", "bc"], np.dtypes.StringDType()),
    ],
)
def test_every_array_of_text_can_be_a_tensor(value):
    assert tk.constant(value).numpy().tolist() == [b"a", b"bc"]
    assert tk.constant(value, dtype=tk.string).numpy().tolist() == [b"a", b"bc"]


@pytest.mark.parametrize("value", [["a", 1], np.array([1.0, 2.0], object), [["a"], ["b", "c"]]])
def test_what_is_not_text_alone_is_refused(value):
    with pytest.raises(tk.errors.InvalidArgumentError, match="can't make a tensor"):
        tk.constant(value)


def test_text_and_numbers_do_not_mix():
    x = tk.constant(["a", "b"])
    with pytest.raises(TypeError, match="to_number"):
        tk.constant("a", dtype=tk.float32)
    with pytest.raises(TypeError, match="as_string"):
        tk.constant(1, dtype=tk.string)
    with pytest.raises((TypeError, ValueError), match=r"text and numbers|takes numbers"):
        x * 2
    with pytest.raises(tk.errors.InvalidArgumentError, match="sum: takes numbers"):
        tk.reduce_sum(x)
    with pytest.raises(tk.errors.InvalidArgumentError, match="cast: takes numbers"):
        tk.cast(x, tk.float32)


MOVES = [
    lambda x: x[1],
    lambda x: x[::-1],
    lambda x: x[2:],
    lambda x: tk.reshape(x, [2, 2]),
    lambda x: tk.stack([x, x]),
    lambda x: tk.concat([x, x], axis=0),
    lambda x: tk.gather(x, [3, 0]),
    lambda x: tk.gather(x, 2),
    lambda x: tk.expand_dims(x, 0),
    lambda x: tk.squeeze(tk.expand_dims(x, 0)),
    lambda x: tk.transpose(tk.reshape(x, [2, 2])),
    lambda x: tk.tile(x, [2]),
    lambda x: tk.repeat(x, 2),
    lambda x: tk.reverse(x, [0]),
    lambda x: tk.identity(x),
    lambda x: tk.where([True, False, True, False], x, "z"),
    lambda x: tk.boolean_mask(x, [True, False, False, True]),
    lambda x: tk.pad(x, [[1, 0]]),
    lambda x: tk.zeros_like(x),
    lambda x: x + "!",
    lambda x: x == "ab",
    lambda x: x != x,
    lambda x: tk.equal(x[0], "ab"),
    lambda x: tk.shape(x),
    lambda x: tk.size(x),
    lambda x: tk.unstack(x)[3],
    lambda x: tk.split(x, 2)[1],
    lambda x: tk.unique(x)[0],
]
WANTED = [
    b"",
    WORDS[::-1],
    WORDS[2:],
    [WORDS[:2], WORDS[2:]],
    [WORDS, WORDS],
    WORDS + WORDS,
    [WORDS[3], WORDS[0]],
    WORDS[2],
    [WORDS],
    WORDS,
    [[WORDS[0], WORDS[2]], [WORDS[1], WORDS[3]]],
    WORDS + WORDS,
    [w for w in WORDS for _ in range(2)],
    WORDS[::-1],
    WORDS,
    [WORDS[0], b"z", WORDS[2], b"z"],
    [WORDS[0], WORDS[3]],
    [b"", *WORDS],
    [b""] * 4,
    [w + b"!" for w in WORDS],
    [True, False, False, False],
    [False] * 4,
    True,
    [4],
    4,
    WORDS[3],
    WORDS[2:],
    WORDS,
]


def plain(x):
    value = x.numpy()
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize(("move", "wanted"), list(zip(MOVES, WANTED, strict=True)))
@pytest.mark.parametrize("way", ["eager", "function"])
def test_operations_that_move_elements_take_text(move, wanted, way):
    x = tk.constant(WORDS)
    assert plain((move if way == "eager" else tk.function(move))(x)) == wanted


@pytest.mark.parametrize("way", ["eager", "function"])
def test_text_and_numbers_of_a_gpu_go_together(way):
    def picked(x, places):
        same = x == tk.constant([b"ab", *WORDS[1:]])
        return tk.gather(x, places), tk.where(places > 1, x, "z"), same, tk.where(same, places, 0)

    with stand_in.in_place():
        run = tk.function(picked) if way == "function" else picked
        texts, others, same, numbers = run(tk.constant(WORDS), tk.constant([3, 0, 1, 2]))
        assert texts.numpy().tolist() == [WORDS[i] for i in (3, 0, 1, 2)]
        assert others.numpy().tolist() == [WORDS[0], b"z", b"z", WORDS[3]]
        assert "GPU" in same.device
        assert numbers.numpy().tolist() == [3 * (WORDS[0] == b"ab"), 0, 1, 2]


def test_text_is_copied_and_pickled():
    x = tk.constant(WORDS)
    again = pickle.loads(pickle.dumps(x))
    assert again.numpy().tolist() == WORDS
    assert type(again) is type(x)
    assert again[:2].numpy().tolist() == WORDS[:2]
    assert copy.deepcopy(x).numpy().tolist() == WORDS


def test_a_variable_of_text_is_assigned():
    v = tk.Variable(["a", "b"])
    v.assign(["c", "dd"])
    assert v.dtype == tk.string
    assert v.numpy().tolist() == [b"c", b"dd"]


def test_filled_with_text():
    assert tk.zeros([2], tk.string).numpy().tolist() == [b"", b""]
    assert tk.fill([2], "a").numpy().tolist() == [b"a", b"a"]
    assert tk.constant("a", shape=[2]).numpy().tolist() == [b"a", b"a"]
    assert tk.constant([], dtype=tk.string).shape == (0,)


def test_print_shows_texts_as_tensorflow_does(tmp_path):
    path = tmp_path / "out"
    tk.print(tk.constant(["a", "b"]), tk.constant("c"), output_stream=f"file://{path}")
    assert path.read_text() == '["a" "b"] "c"\n'


def test_a_text_that_is_printed_alone_has_no_quotes(tmp_path):
    path = tmp_path / "out"
    for run in (lambda f: f, tk.function):
        run(lambda: tk.print(tk.constant("c"), output_stream=f"file://{path}"))()
    assert path.read_text() == "c\nc\n"


def test_dtypes_of_text():
    assert all(tk.as_dtype(t) is tk.string for t in (str, bytes, object, "string", "S3", "U"))
    with pytest.raises(TypeError, match="not an element type"):
        tk.as_dtype(list)


def test_a_table_keeps_its_dtype():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.5, 2.0], "b": [3.0, 4.0]})
    assert tk.constant(table).dtype == tk.float64
    assert tk.constant(table["a"]).dtype == tk.float64
    assert tk.convert_to_tensor(table.astype("int64")).dtype == tk.int64
    assert tk.constant(pandas.Series(["x", "y"])).numpy().tolist() == [b"x", b"y"]
    with pytest.raises(tk.errors.InvalidArgumentError, match="'b' holds texts"):
        tk.constant(pandas.DataFrame({"a": [1.5], "b": ["x"]}))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("op", [ops.equal, ops.add, lambda a, b: ops.stack([a, b])])
def test_text_beside_numbers_is_refused(op, compiled):
    call = tk.function(op) if compiled else op
    # As in TensorFlow, where tracing raises another error.
    with pytest.raises(TypeError if compiled else tk.errors.InvalidArgumentError, match="text"):
        call(tk.constant(["1"]), tk.constant([1.0]))
    assert (tk.constant([1.0]) == "text") is False
