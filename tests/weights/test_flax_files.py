"""Files of `flax.serialization.to_bytes` as arrays, and into models; none of these needs Flax."""

import struct

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from benchmarks.flax_files import flax_bytes, packed
from tests.weights.test_files import assert_same
from trainkit.core.errors import (
    CheckpointError,
    CheckpointMismatchError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from trainkit.weights import flax_reading

RNG = np.random.default_rng(5)


def written(folder, tree, base="m.msgpack", chunk_size=1 << 30):
    path = folder / base
    path.write_bytes(tree if isinstance(tree, bytes) else flax_bytes(tree, chunk_size))
    return path


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---------------------------------------------------------------------- arrays


def test_leaves_are_arrays_by_their_keys(tmp_path):
    arrays = {
        "a": random(2, 3),
        "half": np.ones(5, ml_dtypes.bfloat16),
        "eighth": np.ones((2, 2), ml_dtypes.float8_e4m3fn),
        "mask": np.array([True, False]),
        "none": np.zeros((0, 2)),
        "number": np.array(7, "int16"),
        "spectrum": np.ones(2, "complex64"),
    }
    path = written(tmp_path, {"net": arrays})
    assert_same(tk.weights.load(path), {f"net/{name}": array for name, array in arrays.items()})
    with tk.weights.open(path) as table:
        assert table.format == "flax"
        assert table.shapes()["net/half"] == ((5,), "bfloat16")
        assert not table.is_ordered
        table.verify()


def test_numbers_have_no_axes_and_texts_are_left_out(tmp_path):
    tree = {"rows": [random(2), random(3)], "i": 300, "f": 0.5, "b": True, "c": 1 + 2j}
    tree |= {"scalar": np.float32(3), "negative": -7, "text": "x" * 2000, "none": None}
    arrays = tk.weights.load(written(tmp_path, tree))
    assert list(arrays) == ["rows/0", "rows/1", "i", "f", "b", "c", "scalar", "negative"]
    assert [arrays[name].item() for name in ("i", "f", "b", "c", "scalar", "negative")] == [
        300, 0.5, True, 1 + 2j, 3.0, -7,
    ]  # fmt: skip
    assert arrays["scalar"].dtype == np.float32


@pytest.mark.parametrize("code", [b"\xde\x00\x01", b"\xdf\x00\x00\x00\x01", b"\x81"])
@pytest.mark.parametrize(
    "key", [b"\xa1a", b"\xd9\x01a", b"\xda\x00\x01a", b"\xdb\x00\x00\x00\x01a"]
)
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (b"\xca" + struct.pack(">f", 0.5), 0.5), (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536), (b"\xcf" + b"\x00" * 7 + b"\x05", 5), (b"\xff", -1),
        (b"\xd0\x80", -128), (b"\xd1\x80\x00", -32768), (b"\xd2" + b"\xff" * 4, -1),
    ],
)  # fmt: skip
def test_all_codes_of_numbers_texts_and_maps_are_read(tmp_path, code, key, number, expected):
    assert tk.weights.load(written(tmp_path, code + key + number))["a"].item() == expected


@pytest.mark.parametrize(
    "header", [b"\xc7\x14", b"\xc8\x00\x14", b"\xc9\x00\x00\x00\x14"], ids=["8", "16", "32"]
)
def test_extensions_have_lengths_of_several_widths(tmp_path, header):
    body = packed((2,)) + b"\xa7float32" + b"\xc4\x08" + np.ones(2, "float32").tobytes()
    data = b"\x81\xa1a" + header + b"\x01\x93" + body
    assert len(body) + 1 == 20 + 1  # and one is the code of the row
    data = data.replace(header, header[:-1] + bytes([len(body) + 1]))
    assert tk.weights.load(written(tmp_path, data))["a"].tolist() == [1, 1]


@pytest.mark.parametrize("chunk_size", [4, 8, 40, 64])
def test_large_arrays_come_in_chunks(tmp_path, chunk_size):
    arrays = {"a": random(4, 6), "b": {"c": np.arange(3)}}
    path = written(tmp_path, arrays, chunk_size=max(8, chunk_size))
    assert_same(tk.weights.load(path), {"a": arrays["a"], "b/c": arrays["b"]["c"]})


def test_a_state_of_training_gives_its_weights(tmp_path):
    params = {"Dense_0": {"kernel": random(2, 3)}}
    moments = {"mu": params, "count": 3}
    state = {"step": 3, "params": params, "opt_state": [moments, {}], "batch_stats": {}}
    path = written(tmp_path, state, "checkpoint_3")  # as Flax calls them: nothing says the format
    assert list(tk.weights.load(path)) == ["Dense_0/kernel"]
    assert list(tk.weights.load(path, part="opt_state")) == ["0/mu/Dense_0/kernel", "0/count"]
    nested = {"step": 3, "params": {"params": params, "batch_stats": {"N_0": {"mean": random(3)}}}}
    loaded = tk.weights.load(written(tmp_path, nested))
    assert list(loaded) == ["N_0/mean", "Dense_0/kernel"]
    with pytest.raises(InvalidArgumentError, match="no part 'weights'; it has 'step', 'params'"):
        tk.weights.load(path, part="weights")


def test_folders_and_shards(tmp_path):
    first, second = {"a": {"kernel": random(2)}}, {"b": {"kernel": random(3)}}
    written(tmp_path, first, "flax_model.msgpack")
    assert list(tk.weights.load(tmp_path)) == ["a/kernel"]
    (tmp_path / "flax_model.msgpack").unlink()
    for number, tree in enumerate((first, second)):
        written(tmp_path, tree, f"flax_model-{number}.msgpack")
    names = {"a/kernel": "flax_model-0.msgpack", "b/kernel": "flax_model-1.msgpack"}
    text = str({"weight_map": names}).replace("'", '"')
    (tmp_path / "flax_model.msgpack.index.json").write_text(text)
    with tk.weights.open(tmp_path) as table:
        assert sorted(table) == ["a/kernel", "b/kernel"]
        assert table.format == "flax"


def test_a_closed_table_is_not_read_and_none_is_mapped(tmp_path):
    path = written(tmp_path, {"a": random(2)})
    with pytest.raises(InvalidArgumentError, match="mapped=True is for files of torch"):
        tk.weights.open(path, mapped=True)
    table = tk.weights.open(path)
    table.close()
    for use in (lambda: table["a"], table.arrays, table.verify):
        with pytest.raises(FailedPreconditionError, match="is closed"):
            use()


# ---------------------------------------------------------------------- models


def test_modules_of_flax_find_their_layers(tmp_path):
    layers = tk.layers
    model = tk.Sequential(
        [
            tk.Input((6, 6, 2)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False),
            layers.Flatten(),
            layers.Dense(5),
            layers.LayerNormalization(),
            layers.Dense(5),
        ]
    )
    mean, var = random(4), abs(random(4)) + 1
    params = {
        "Conv_0": {"kernel": random(3, 3, 2, 4), "bias": random(4)},
        "BatchNorm_0": {"scale": random(4), "bias": random(4)},
        "Conv_1": {"kernel": random(3, 3, 1, 8)},
        "Dense_0": {"kernel": random(32, 5), "bias": random(5)},
        "LayerNorm_0": {"scale": random(5), "bias": random(5)},
        "Dense_1": {"kernel": random(5, 5), "bias": random(5)},
    }
    stats = {"BatchNorm_0": {"mean": mean, "var": var}}
    path = written(tmp_path, {"params": params, "batch_stats": stats})
    report = tk.weights.load_into(model, path)
    assert len(report.transfers) == 13
    values = [v.numpy() for v in model.variables]
    rows = params["Conv_1"]["kernel"].reshape(3, 3, 4, 2)
    expected = [*params["Conv_0"].values(), *params["BatchNorm_0"].values(), mean, var, rows]
    for name in ("Dense_0", "LayerNorm_0", "Dense_1"):
        expected += params[name].values()
    for value, array in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, array)
    with pytest.raises(InvalidArgumentError, match=r"flattened= is for weights of PyTorch.*Flax"):
        tk.weights.load_into(model, path, flattened={})


def test_a_transposed_convolution_moves_its_window_as_it_is(tmp_path):
    """y[s * i + k] += x[i] @ w[k]: what `jax.lax.conv_transpose` computes with a kernel turned."""
    kernel, bias, x = random(3, 2, 4), random(4), random(1, 5, 2)
    layer = tk.layers.Conv1DTranspose(4, 3, strides=2)
    layer.build((None, 5, 2))
    path = written(tmp_path, {"ConvTranspose_0": {"kernel": kernel, "bias": bias}})
    tk.weights.load_into(layer, path)
    y = np.zeros((11, 4), "float32") + bias
    for i in range(5):
        for k in range(3):
            y[2 * i + k] += x[0, i] @ kernel[2 - k]
    np.testing.assert_allclose(layer(x).numpy()[0], y, atol=1e-5)


def test_recurrent_cells_have_their_gates_joined(tmp_path):
    def gate(prefix, rows, units, has_bias):
        own = {"bias": random(units)} if has_bias else {}
        return {prefix: {**own, "kernel": random(rows, units)}}

    lstm, gru, plain = {}, {}, {}
    for name in "ifgo":
        lstm |= gate(f"h{name}", 3, 3, True) | gate(f"i{name}", 2, 3, False)
    for name in "rzn":
        gru |= gate(f"i{name}", 3, 2, True) | gate(f"h{name}", 2, 2, name == "n")
    plain = gate("i", 2, 4, True) | gate("h", 4, 4, False)
    tree = {"OptimizedLSTMCell_0": lstm, "GRUCell_0": gru, "SimpleCell_0": plain}
    layers = tk.layers
    model = tk.Sequential(
        [
            tk.Input((None, 2)),
            layers.LSTM(3, return_sequences=True),
            layers.GRU(2, return_sequences=True),
            layers.SimpleRNN(4),
        ]
    )
    report = tk.weights.load_into(model, written(tmp_path, tree))
    assert not report.missing

    def product(cell, name, x):
        return x @ cell[name]["kernel"] + cell[name].get("bias", 0)

    x = random(1, 4, 2)
    c = h = np.zeros(3)
    s, r = np.zeros(2), np.zeros(4)
    for step in x[0]:
        i, f, g, o = (product(lstm, f"i{n}", step) + product(lstm, f"h{n}", h) for n in "ifgo")
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        reset, update = (sigmoid(product(gru, f"i{n}", h) + product(gru, f"h{n}", s)) for n in "rz")
        new = np.tanh(product(gru, "in", h) + reset * product(gru, "hn", s))
        s = (1 - update) * new + update * s
        r = np.tanh(product(plain, "i", s) + product(plain, "h", r))
    np.testing.assert_allclose(model(x).numpy()[0], r, atol=1e-5)


def test_projections_of_an_attention_are_found_by_their_names(tmp_path):
    layer = tk.layers.MultiHeadAttention(3, 2)
    x = random(2, 5, 6)
    layer(x, x)
    sides = {
        n: {"kernel": random(6, 3, 2), "bias": random(3, 2)} for n in ("value", "key", "query")
    }
    sides["out"] = {"kernel": random(3, 2, 6), "bias": random(6)}
    tree = {"MultiHeadDotProductAttention_0": sides}
    tk.weights.load_into(layer, written(tmp_path, tree))
    pairs = (("query", "query"), ("key", "key"), ("value", "value"), ("output", "out"))
    for role, name in pairs:
        dense = getattr(layer, f"{role}_dense")
        np.testing.assert_array_equal(dense.kernel.numpy(), sides[name]["kernel"])
        np.testing.assert_array_equal(dense.bias.numpy(), sides[name]["bias"])


def test_what_is_left_over_is_listed_and_the_model_unchanged(tmp_path):
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(3)])
    before = model.get_weights()
    tree = {"Dense_0": {"kernel": random(2, 3), "bias": random(3)}, "Head": {"kernel": random(7)}}
    with pytest.raises(CheckpointMismatchError, match=r"unused: Head/kernel \(7,\)"):
        tk.weights.load_into(model, written(tmp_path, tree))
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


# ---------------------------------------------------------------------- files of strangers


def array(shape, dtype, data):
    body = packed((tuple(shape), dtype, data))
    return b"\xc9" + struct.pack(">Ib", len(body), 1) + body


CHUNKED = "__msgpack_chunked_array__"
HOSTILE = {
    "no map": (b"\x05", "no map of names"),
    "bytes after": (packed({"a": 1}) + b"\x00", "1 bytes follow its value"),
    "a code of none": (b"\x81\xa1a\xc1", "0xc1, which begins no value"),
    "a number as key": (b"\x81\x01\x01", "is no text"),
    "a key twice": (b"\x82\xa1a\x01\xa1a\x01", "'a' stands twice"),
    "no text": (b"\x81\xa2\xff\xfe\x01", "is not UTF-8"),
    "cut short": (packed({"a": random(3)})[:-1], "bytes should follow byte"),
    "a map of billions": (b"\x81\xa1a\xdf\xff\xff\xff\xff", "bytes should follow byte"),
    "a list of billions": (b"\x81\xa1a\xdd\xff\xff\xff\xff", "bytes should follow byte"),
    "text of billions": (b"\x81\xa1a\xdb\xff\xff\xff\xff", "bytes should follow byte"),
    "deep": (b"\x81\xa1a" + b"\x91" * 200 + b"\x01", "nested more than 64 deep"),
    "many": (b"\x81\xa1a\xdd" + struct.pack(">I", 600_000) + bytes(600_000), "500,000 values"),
    "nothing": (packed({"a": {}}), "has no arrays"),
    "a dtype of objects": (b"\x81\xa1a" + array((2,), "object", bytes(16)), "dtype 'object'"),
    "a dtype by code": (b"\x81\xa1a" + array((2,), "V8", bytes(16)), "dtype 'V8'"),
    "other bytes": (b"\x81\xa1a" + array((2,), "float32", bytes(12)), "has 12 bytes, not 8"),
    "below zero": (b"\x81\xa1a" + array((-1, -2), "float32", bytes(8)), r"shape \[-1, -2\]"),
    "huge": (b"\x81\xa1a" + array((1 << 40,), "float32", bytes(8)), "not 4398046511104"),
    "no size": (b"\x81\xa1a" + array((True,), "float32", bytes(4)), r"shape \[True\]"),
    "another extension": (b"\x81\xa1a\xd4\x05\x01", "extension of type 5"),
    "two parts": (b"\x81\xa1a\xc7\x03\x01\x92\x01\x02", "extension of type 1"),
    "bytes left over": (b"\x81\xa1a\xc7\x03\x01\x90\x01\x02", "has bytes left over"),
    "wrong bool": (b"\x81\xa1a" + array((1,), "bool", b"\x07"), "refused: 'a'"),
    "no chunks": (packed({"a": {CHUNKED: True, "shape": {"0": 1}}}), "in chunks has none"),
    "chunks that don't fit": (
        packed({"a": {CHUNKED: True, "shape": {"0": 3}, "chunks": {"0": np.ones(2)}}}),
        "has 16 bytes, not 24",
    ),
    "chunks of several dtypes": (
        packed(
            {"a": {CHUNKED: True, "shape": {"0": 2},
                   "chunks": {"0": np.ones(1), "1": np.ones(1, "int64")}}}
        ),
        "in chunks has none, or such as do not fit",
    ),
    "one name twice": (
        packed({"params": {"a": np.ones(1)}, "batch_stats": {"a": np.ones(1)}}),
        "'a' is in params and in batch_stats",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_damaged_and_hostile_files_say_where(tmp_path, case):
    data, message = HOSTILE[case]
    path = written(tmp_path, data)
    with pytest.raises(CheckpointError, match=message):
        tk.weights.load(path)


def test_a_file_that_is_made_shorter_meanwhile_is_refused(tmp_path):
    path = written(tmp_path, {"a": random(1000)})
    with tk.weights.open(path) as table:
        with path.open("r+b") as file:
            file.truncate(2000)
        with pytest.raises(CheckpointError, match="cut short in 'a'"):
            table.read("a")


def test_names_are_bounded_where_many_repeat_long_keys(tmp_path, monkeypatch):
    """They would take the square of what the file has."""
    monkeypatch.setattr(flax_reading, "_MOST_CHARACTERS", 1 << 18)
    value = packed(1)
    for _ in range(60):
        value = b"\x81" + packed("k" * 900) + value
    path = written(tmp_path, b"\x81\xa1a\x98" + value * 8)
    with pytest.raises(CheckpointError, match="names have more than 262144 characters"):
        tk.weights.load(path)


# ---------------------------------------------------------------------- Flax itself


def test_what_flax_writes_is_what_it_reads(tmp_path):
    serialization = pytest.importorskip("flax.serialization")
    import jax

    tree = {
        "a": {"kernel": jax.numpy.ones((2, 3), "bfloat16"), "bias": np.arange(3)},
        "count": 7, "z": 1 + 2j, "s": np.float32(2), "list": [np.ones(2), np.zeros((0, 1))],
    }  # fmt: skip

    def plain(leaf):
        return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf

    data = serialization.to_bytes(tree)
    loaded = tk.weights.load(written(tmp_path, data))
    restored = serialization.msgpack_restore(data)
    assert loaded["a/kernel"].dtype == restored["a"]["kernel"].dtype
    assert loaded["list/1"].shape == (0, 1)
    assert [loaded[n].item() for n in ("count", "z", "s")] == [7, 1 + 2j, 2.0]
    ours = serialization.msgpack_restore(flax_bytes(jax.tree_util.tree_map(plain, tree)))
    assert jax.tree_util.tree_all(jax.tree_util.tree_map(np.array_equal, ours, restored))
