"""Files of `torch.save`: what they hold, and what is refused of them."""

import io
import os
import pickle
import tarfile
import zipfile

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.weights.torch_files import (
    called,
    integer,
    name,
    numbers,
    ordered,
    row,
    storage,
    table,
    tensor,
    text,
    typed_view,
    view,
    write_state,
    write_torch,
)
from trainkit.core.errors import (
    CheckpointError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from trainkit.weights import pickle_reading, torch_reading

RNG = np.random.default_rng(3)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.pt"


STATE = {
    "conv.weight": normal(2, 3, 3, 3),
    "norm.running_mean": normal(2, dtype="float64"),
    "norm.num_batches_tracked": np.array(7),
    "half": normal(4, dtype="float16"),
    "brain": normal(3, dtype=ml_dtypes.bfloat16),
    "mask": np.array([True, False]),
    "complex": normal(2).astype("complex64"),
    "empty": np.zeros((0, 3), "float32"),
}


@pytest.mark.parametrize("mapped", [False, True])
def test_a_state_dict_has_its_names_values_and_order(path, mapped):
    write_state(path, STATE)
    arrays = tk.weights.load(path, mapped=mapped)
    assert list(arrays) == list(STATE)
    for key, array in STATE.items():
        assert arrays[key].dtype == array.dtype
        np.testing.assert_array_equal(arrays[key], array)
        assert not arrays[key].flags.writeable


def test_a_table_reads_one_array_and_names_near_ones(path):
    write_state(path, STATE)
    with tk.weights.open(path) as weights:
        assert len(weights) == len(STATE)
        assert weights.is_ordered
        assert weights.format == "torch"
        assert weights.shapes()["brain"] == ((3,), "bfloat16")
        np.testing.assert_array_equal(weights["half"], STATE["half"])
        with pytest.raises(KeyError, match=r"no array 'hal'; near: half"):
            weights["hal"]
        assert "8 arrays" in repr(weights)


def checkpoint(**parts):
    def wrap(pairs):
        return table({key: ordered(pairs) if part is None else part for key, part in parts.items()})

    return wrap


def test_the_weights_of_a_checkpoint_stand_beside_the_optimizer(path):
    state = {"fc.weight": normal(2, 3)}
    moments = table({"exp_avg": view("0", 6, [2, 3], [3, 1])})
    write_state(path, state, checkpoint(model=None, optimizer=moments, epoch=integer(3)))
    assert list(tk.weights.load(path)) == ["fc.weight"]
    assert list(tk.weights.load(path, part="optimizer")) == ["exp_avg"]


def test_what_lightning_keeps_of_a_training_is_no_weight(path):
    best = table({"best_score": view("0", 6, [], [])})
    parts = {"callbacks": best, "optimizer_states": b"](" + best + b"e", "state_dict": None}
    write_state(path, {"fc.weight": normal(2, 3)}, checkpoint(**parts))
    assert list(tk.weights.load(path)) == ["fc.weight"]


def test_tensors_at_the_top_are_the_weights(path):
    write_torch(
        path,
        table(
            {
                "w": view("0", 2, [2], [1]),
                "more": table({"v": view("0", 2, [2], [1])}),
                "optimizer": table({"m": view("0", 2, [2], [1])}),
            }
        ),
        {"0": bytes(8)},
    )
    assert list(tk.weights.load(path)) == ["w", "more.v"]


def test_several_parts_are_asked_about(path):
    write_state(path, {"w": normal(2)}, checkpoint(net_g=None, net_d=None))
    with pytest.raises(InvalidArgumentError, match=r"part=, one of 'net_g', 'net_d'"):
        tk.weights.load(path)
    with pytest.raises(InvalidArgumentError, match=r"part='net'; there are 'net_g', 'net_d'"):
        tk.weights.load(path, part="net")


def test_tied_weights_share_memory(path):
    data = normal(11, 4)
    whole, part = view("0", 44, [11, 4], [4, 1]), view("0", 44, [4], [1], offset=8)
    write_torch(path, table({"emb": whole, "head": whole, "row": part}), {"0": data.tobytes()})
    arrays = tk.weights.load(path)
    assert np.shares_memory(arrays["emb"], arrays["head"])
    assert np.shares_memory(arrays["emb"], arrays["row"])
    np.testing.assert_array_equal(arrays["row"], data[2])
    with tk.weights.open(path) as weights:
        assert weights.tied() == [["emb", "head"]]


def test_views_have_their_strides_and_offsets(path):
    data = normal(6, 8)
    views = {
        "turned": view("0", 48, [8, 6], [1, 8]),
        "steps": view("0", 48, [3, 3], [16, 3], offset=1),
        "repeated": view("0", 48, [5, 2], [0, 1], offset=3),
        "number": view("0", 48, [], [], offset=47),
    }
    write_torch(path, table(views), {"0": data.tobytes()})
    arrays = tk.weights.load(path)
    np.testing.assert_array_equal(arrays["turned"], data.T)
    np.testing.assert_array_equal(arrays["steps"], data[::2, 1::3])
    np.testing.assert_array_equal(arrays["repeated"], np.tile(data[0, 3:5], (5, 1)))
    assert arrays["number"] == data[-1, -1]


def test_the_byte_order_of_the_writer_is_undone(path):
    array, numbers_16 = normal(3, 2), normal(2).astype("complex64")
    value = table({"a": tensor("0", array), "c": tensor("1", numbers_16)})
    big = {"0": array.astype(">f4").tobytes(), "1": numbers_16.astype(">c8").tobytes()}
    write_torch(path, value, big, order="big")
    np.testing.assert_array_equal(tk.weights.load(path)["a"], array)
    np.testing.assert_array_equal(tk.weights.load(path)["c"], numbers_16)
    write_torch(path, value, big, order="middle")
    with pytest.raises(CheckpointError, match="byte order is 'middle'"):
        tk.weights.load(path)


def test_a_file_without_a_byte_order_is_of_a_little_machine(path):
    write_state(path, {"a": np.ones(2, "float32")}, order=None)
    assert tk.weights.load(path)["a"].tolist() == [1, 1]


def test_one_tensor_is_read_without_the_rest_of_its_storage(path, monkeypatch):
    data = normal(1000)
    value = table({"a": view("0", 1000, [10], [1], offset=500), "b": view("0", 1000, [1000], [1])})
    write_torch(path, value, {"0": data.tobytes()})
    sizes = []
    plain = torch_reading.read_into
    monkeypatch.setattr(
        torch_reading, "read_into", lambda fd, b, at: sizes.append(b.size) or plain(fd, b, at)
    )
    with tk.weights.open(path, verify=False) as weights:
        np.testing.assert_array_equal(weights["a"], data[500:510])
    assert sizes == [40]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "uint16"])
def test_dtypes_without_a_storage_of_their_own(path, dtype):
    array = np.arange(6).astype(np.dtype(dtype)).reshape(2, 3)
    value = table({"a": typed_view("0", array.nbytes, [2, 3], [3, 1], dtype)})
    write_torch(path, value, {"0": array.tobytes()})
    loaded = tk.weights.load(path)["a"]
    assert loaded.dtype.name == dtype
    assert loaded.tobytes() == array.tobytes()


def quantized(quantizer, kind="QInt8Storage"):
    return called(
        name("torch._utils", "_rebuild_qtensor"),
        storage("0", 6, name("torch", kind)),
        integer(0), numbers([2, 3]), numbers([3, 1]), quantizer, b"\x89", b"}",
    )  # fmt: skip


def per_channel(axis):
    scales = view("1", 3, [3], [1], kind="DoubleStorage")
    points = view("2", 3, [3], [1], kind="LongStorage")
    return row(name("torch", "per_channel_affine"), scales, points, integer(axis))


def test_quantized_tensors_are_the_numbers_that_they_stand_for(path):
    stored = np.array([[-3, 0, 5], [7, -8, 1]], "int8")
    scales, points = np.array([0.5, 0.25, 2.0]), np.array([0, 1, -2])
    storages = {"0": stored.tobytes(), "1": scales.tobytes(), "2": points.tobytes()}
    half = b"G" + b"\x3f\xe0" + bytes(6)
    one_scale = row(name("torch", "per_tensor_affine"), half, integer(2))
    value = table({"one": quantized(one_scale), "each": quantized(per_channel(1))})
    write_torch(path, value, storages)
    arrays = tk.weights.load(path)
    assert arrays["one"].dtype == np.float32
    np.testing.assert_array_equal(arrays["one"], (stored.astype(int) - 2) * 0.5)
    np.testing.assert_array_equal(arrays["each"], (stored.astype(int) - points) * scales)


@pytest.mark.parametrize(
    ("quantizer", "message"),
    [
        (per_channel(0), r"shape \(2, 3\) has scales of shape \(3,\) along axis 0"),
        (row(name("torch", "per_channel_affine_float_qparams")), r"save tensor\.dequantize\(\)"),
        (row(name("torch", "per_tensor_affine"), integer(1), integer(1 << 40)), "has a scheme"),
        (
            row(
                name("torch", "per_channel_affine"),
                view("1", 3, [3], [1], kind="DoubleStorage"),
                view("2", 3, [3], [1], kind="ComplexFloatStorage"),
                integer(1),
            ),
            "scales of a quantized tensor are no plain floats",
        ),
    ],
)
def test_a_scheme_that_is_not_known_is_refused(path, quantizer, message):
    storages = {"0": bytes(6), "1": bytes(24), "2": bytes(24)}
    write_torch(path, table({"q": quantized(quantizer)}), storages)
    with pytest.raises((CheckpointError, UnimplementedError), match=message):
        tk.weights.load(path)


def test_parameters_subclasses_lists_and_single_tensors(path):
    plain = view("0", 2, [2], [1])
    parameter = called(name("torch._utils", "_rebuild_parameter"), plain, b"\x88", b"}")
    subclass = called(
        name("torch._tensor", "_rebuild_from_type_v2"),
        name("torch._utils", "_rebuild_tensor_v2"),
        name("torch.nn.parameter", "Buffer"),
        row(storage("0", 2, name("torch", "FloatStorage")), integer(0), numbers([2]), numbers([1])),
        b"}",
    )
    data = {"0": np.array([1, 2], "float32").tobytes()}
    write_torch(path, b"](" + parameter + subclass + b"e", data)
    assert {k: v.tolist() for k, v in tk.weights.load(path).items()} == {"0": [1, 2], "1": [1, 2]}
    write_torch(path, parameter, data)
    assert list(tk.weights.load(path)) == ["tensor"]


def test_other_values_of_a_checkpoint_are_passed_over(path):
    number = called(name("numpy._core.multiarray", "scalar"), called(name("numpy", "dtype"),
                    text("f8"), b"\x89", b"\x88") + row(integer(3), text("<")) + b"b",
                    called(name("_codecs", "encode"), text("x"), text("latin1")))  # fmt: skip
    device = called(name("torch", "device"), text("cpu"))
    extra = {"best": number, "device": device, "size": called(name("torch", "Size"), numbers([2]))}
    write_state(path, {"w": np.ones(2, "float32")}, checkpoint(model=None, **extra))
    assert list(tk.weights.load(path)) == ["w"]


# ---------------------------------------------------------------------- what is refused


class Dangerous:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_nothing_in_a_file_is_run(path, tmp_path):
    mark = tmp_path / "it ran"
    value = pickle.dumps({"a": Dangerous(mark)}, 2)[2:-1]
    write_torch(path, value, {})
    with pytest.raises(CheckpointError, match=r"asks for \w+\.system, which is no tensor"):
        tk.weights.load(path)
    assert not mark.exists()


BAD_PICKLES = {
    "a module": (name("torch.nn.modules.linear", "Linear") + b")\x81", "model.state_dict"),
    "getattr": (name("builtins", "getattr"), "asks for builtins.getattr"),
    "past the end": (table({"a": view("0", 2, [3], [1])}), "ends at byte 12 of its storage"),
    "far away": (table({"a": view("0", 2, [1], [1], offset=2)}), "ends at byte 12"),
    "a huge shape": (table({"a": view("0", 2, [1 << 40, 1 << 40], [1, 1])}), "ends at byte"),
    "a negative offset": (table({"a": view("0", 2, [1], [1], offset=-4)}), "whole numbers"),
    "a negative stride": (table({"a": view("0", 2, [2], [-1])}), "whole numbers"),
    "strides missing": (table({"a": view("0", 2, [2, 1], [1])}), "2 axes and 1 strides"),
    "too many axes": (table({"a": view("0", 2, [1] * 40, [1] * 40)}), "has 40 numbers"),
    "a long size": (called(name("torch", "Size"), numbers([1] * 40)), "has 40 numbers"),
    "a dict of a list": (called(name("collections", "OrderedDict"), b"]"), "built of a list"),
    "no such storage": (table({"a": view("7", 2, [2], [1])}), "storage '7' is missing"),
    "another size": (table({"a": view("0", 3, [2], [1])}), "has 8 bytes, and the tensors say 12"),
    "an old storage": (row(text("module")) + b"Q", "no storage of this version"),
    "cut short": (table({"a": view("0", 2, [2], [1])})[:-20], "takes more than|cut short|no mark"),
    "a list as a key": (b"}(]K\x01u", "a list as a key"),
    "a long key": (b"}(" + text("k" * 2000) + b"K\x01u", "more than 1000 characters"),
    "a key alone": (b"}(K\x01u", "key without a value"),
    "nothing on the stack": (b"0", "takes more than it has"),
    "no such memory": (b"h\x05", "nothing at number 5"),
    "a call of a number": (b"K\x01)R", "calls what is no function"),
    "a state": (b"K\x01K\x02b", "sets the state of a int"),
    "an instruction": (b"I1\n", "instruction INT"),
    "no instruction": (b"\xff", "instruction number 255"),
    "a long number": (b"\x8a\x20" + bytes(32), "number of 32 bytes"),
    "a later protocol": (b"\x80\x09", "later protocol"),
    "no text": (b"X\x02\x00\x00\x00\xff\xff", "is no text"),
    "a name of a number": (b"K\x01K\x02\x93", "a name that is no text"),
    "no mark": (b"]e", "has no mark"),
    "a dict as a list": (b"}K\x01a", "fills a dict as a list"),
    "a name cut short": (b"ctorch", "cut short in a name"),
    "no parameter": (called(name("torch._utils", "_rebuild_parameter")), "has no tensor"),
    "three parts": (called(name("torch._utils", "_rebuild_tensor_v2"), b"NNN"), "has 3 parts"),
    "no storage": (called(name("torch._utils", "_rebuild_tensor_v2"), b"NNNN"), "has no storage"),
    "no dtype": (called(name("torch._utils", "_rebuild_tensor_v3"), b"NNNN"), "not say its dtype"),
    "bytes alone": (
        called(name("torch._utils", "_rebuild_tensor_v2"),
               storage("0", 8, name("torch.storage", "UntypedStorage")), integer(0), numbers([8]),
               numbers([1])),
        "a tensor of bytes does not say its dtype",
    ),
    "no function": (called(name("torch._tensor", "_rebuild_from_type_v2"), b"NNN"), "how it is bu"),
    "no size": (called(name("torch", "Size")), "has no sizes"),
    "no tensors": (table({"a": integer(1)}), "has no tensors"),
    "two of one name": (table({"a": view("0", 2, [2], [1]), "b.c": view("0", 2, [2], [1]),
                        "b": table({"c": view("0", 2, [2], [1])})}), "two values 'b.c'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PICKLES)
def test_a_forged_pickle_is_refused(path, case):
    value, message = BAD_PICKLES[case]
    write_torch(path, value, {"0": bytes(8)})
    with pytest.raises(CheckpointError, match=message):
        tk.weights.load(path)


UNSUPPORTED = {
    "sparse": (called(name("torch._utils", "_rebuild_sparse_tensor")), r"save tensor\.to_dense"),
    "meta": (called(name("torch._utils", "_rebuild_meta_tensor_no_storage")), "'meta'"),
    "conjugated": (
        called(name("torch._utils", "_rebuild_tensor_v2"),
               storage("0", 1, name("torch", "ComplexFloatStorage")), integer(0), numbers([1]),
               numbers([1]), b"\x89", b"}", table({"conj": b"\x88"})),
        r"resolve_conj\(\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_tensors_of_other_kinds_say_how_to_save_them(path, case):
    value, message = UNSUPPORTED[case]
    write_torch(path, table({"a": value}), {"0": bytes(8)})
    with pytest.raises(UnimplementedError, match=message):
        tk.weights.load(path)


def test_a_view_that_repeats_its_elements_is_not_blown_up(path):
    value = table({"a": view("0", 2, [1 << 20, 1 << 20], [0, 0])})
    write_torch(path, value, {"0": bytes(8)})
    with pytest.raises(CheckpointError, match=r"repeats 1 elements; .* save tensor\.clone\(\)"):
        tk.weights.load(path)


def test_names_of_one_tensor_do_not_multiply_what_is_computed(path):
    """Each is a view that costs nothing to make, but booleans are all looked at."""
    one = view("0", 1 << 20, [1 << 20], [1], kind="BoolStorage") + b"q\x01"
    again = b"".join(text(f"b{i}") + b"h\x01" for i in range(40))
    write_torch(path, b"}(" + text("a") + one + again + b"u", {"0": bytes(1 << 20)})
    with pytest.raises(CheckpointError, match=r"share storages, and take 42991616 bytes"):
        tk.weights.load(path)


def test_shared_lists_do_not_multiply(path):
    doubled = b"]q\x00" + b"".join(b"](h" + bytes([i, ord("h"), i]) + b"eq" + bytes([i + 1])
                                   for i in range(60))  # fmt: skip
    write_torch(path, doubled, {})
    with pytest.raises(CheckpointError, match="too many entries"):
        tk.weights.load(path)


def test_lists_that_hold_themselves_end(path):
    write_torch(path, b"]q\x00h\x00a", {})
    with pytest.raises(CheckpointError, match="more than 64 deep"):
        tk.weights.load(path)


def test_the_number_of_instructions_is_bounded(path, monkeypatch):
    monkeypatch.setattr(pickle_reading, "MOST_INSTRUCTIONS", 10)
    write_state(path, {"a": np.ones(2, "float32")})
    with pytest.raises(CheckpointError, match="more than 10 instructions"):
        tk.weights.load(path)


def test_a_pickle_is_read_up_to_a_size(path, monkeypatch):
    monkeypatch.setattr(torch_reading, "LARGEST_PICKLE", 100)
    write_state(path, {"a": np.ones(2, "float32")})
    with pytest.raises(CheckpointError, match=r"bytes, more than 100"):
        tk.weights.load(path)


@pytest.mark.parametrize(
    ("mark", "at", "value", "message"),
    [
        (b"PK\x01\x02", 42, b"\x07\x00", "is not where the archive says"),
        (b"PK\x03\x04", 28, b"\xff\xff", "ends after the end of the file"),
        (b"PK\x01\x02", 20, b"\xff\xff\xff\x0f" * 2, "has more bytes than the file"),
        (b"PK\x01\x02", 16, b"\x01", r"checksum of 'weights/data\.pkl' is another"),
    ],
)
def test_a_forged_place_in_the_archive_is_refused(path, mark, at, value, message):
    write_state(path, {"a": np.ones(2, "float32")})
    data = bytearray(path.read_bytes())
    start = data.index(mark) + at
    data[start : start + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        tk.weights.load(path)


def test_compressed_members_are_refused(path):
    write_state(path, {"a": np.zeros(9999, "float32")}, packing=zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match=r"is compressed, which torch\.save"):
        tk.weights.load(path)


@pytest.mark.parametrize(
    ("member", "error", "message"),
    [
        ("weights/code/__torch__.py", UnimplementedError, r"TorchScript .*torch\.jit\.load"),
        ("weights/constants.pkl", UnimplementedError, "TorchScript"),
        ("archive_format", UnimplementedError, r"exported program .*torch\.export\.load"),
        ("other/data.pkl", CheckpointError, "2 members data.pkl"),
    ],
)
def test_other_archives_are_named(path, member, error, message):
    write_state(path, {"a": np.ones(2, "float32")}, more=[(member, b"")])
    with pytest.raises(error, match=message):
        tk.weights.load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(path):
    write_state(path, {"a": np.ones(2, "float32")}, more=[("weights/data/0", bytes(8))])
    with pytest.raises(CheckpointError, match="two members 'weights/data/0'"):
        tk.weights.load(path)


def test_a_changed_value_is_noticed_unless_asked_not_to(path):
    write_state(path, {"a": np.full(64, 2.5, "float32")})
    data = bytearray(path.read_bytes())
    data[data.index(np.full(64, 2.5, "float32").tobytes()) + 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"checksum of 'weights/data/0' .* verify=False"):
        tk.weights.load(path)
    assert tk.weights.load(path, verify=False)["a"].shape == (64,)


def test_a_file_that_was_written_without_checksums_is_read(path):
    write_state(path, {"a": np.ones(2, "float32")})
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        start = data.find(mark)
        while start >= 0:
            data[start + at : start + at + 4] = bytes(4)
            start = data.find(mark, start + 4)
    path.write_bytes(data)
    assert tk.weights.load(path)["a"].tolist() == [1, 1]


def test_booleans_are_0_or_1(path):
    write_torch(path, table({"a": view("0", 2, [2], [1], kind="BoolStorage")}), {"0": b"\1\2"})
    with pytest.raises(CheckpointError, match="booleans that are none"):
        tk.weights.load(path)


def test_files_of_earlier_versions_say_how_to_save_them_again(path):
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    path.write_bytes(magic + pickle.dumps(1001, 2))
    with pytest.raises(UnimplementedError, match=r"before PyTorch 1\.6 \(pickles\).*torch\.save\("):
        tk.weights.load(path)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("sys_info"), io.BytesIO())
    with pytest.raises(UnimplementedError, match="tar archives"):
        tk.weights.load(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UnimplementedError, match="a pickle, which runs code"):
        tk.weights.load(path)


def test_what_is_no_file_of_weights(tmp_path):
    with pytest.raises(NotFoundError, match="no file of weights"):
        tk.weights.load(tmp_path / "none.pt")
    (tmp_path / "a.pt").write_bytes(b"hello, world")
    with pytest.raises(CheckpointError, match=r"no format that is known.*\.pth"):
        tk.weights.load(tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(b"PK\x03\x04 and nothing")
    with pytest.raises(CheckpointError, match=r"no file of torch\.save"):
        tk.weights.load(tmp_path / "a.pt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes on Windows")
def test_a_pipe_is_no_file_of_weights(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(CheckpointError, match="no regular file"):
        tk.weights.load(tmp_path / "pipe.pt")
