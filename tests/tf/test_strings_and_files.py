"""`tk.strings`, `tk.io` and the messages of `tk.train`; the expected values are TensorFlow's."""

import os
import struct

import numpy as np
import pytest

import trainkit as tk

S, IO = tk.strings, tk.io
X = ["Hello World", "ab", "ü,c"]


def plain(x):
    if isinstance(x, list | tuple):
        return [plain(item) for item in x]
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    value = x.numpy()
    return value.tolist() if hasattr(value, "tolist") else value


U = "ü".encode()
CASES = {
    "lower": (lambda x: S.lower(x), X, [b"hello world", b"ab", U + b",c"]),
    "upper": (lambda x: S.upper(x, encoding="utf-8"), X, [b"HELLO WORLD", b"AB", "Ü,C".encode()]),
    "strip": (lambda x: S.strip(x), [" a ", "\tb\n"], [b"a", b"b"]),
    "bytes": (lambda x: S.length(x), X, [11, 2, 4]),
    "characters": (lambda x: S.length(x, unit="UTF8_CHAR"), X, [11, 2, 3]),
    "substr": (lambda x: S.substr(x, 0, 2), X, [b"He", b"ab", U]),
    "substr from the end": (lambda x: S.substr(x, -3, 2), "hello", b"ll"),
    "substr each": (lambda x: S.substr(x, [1, 2], [1, 2]), ["abc", "defg"], [b"b", b"fg"]),
    "substr of characters": (lambda x: S.substr(x, 1, 1, unit="UTF8_CHAR"), "üab", b"a"),
    "regex": (lambda x: S.regex_replace(x, "[aeiou]", "_"), X, [b"H_ll_ W_rld", b"_b", U + b",c"]),
    "groups": (lambda x: S.regex_replace(x, "([a-z])([0-9])", r"\2\1"), "ab12", b"a1b2"),
    "classes": (lambda x: S.regex_replace(x, "[[:punct:]]", ""), "a.b!", b"ab"),
    "first match": (lambda x: S.regex_replace(x, "a", "b", replace_global=False), "aaa", b"baa"),
    "full match": (lambda x: S.regex_full_match(x, ".*l.*"), X, [True, False, False]),
    "split": (lambda x: S.split(x), "a b  c", [b"a", b"b", b"c"]),
    "split at": (lambda x: S.split(x, ","), "a,b,,c", [b"a", b"b", b"", b"c"]),
    "split once": (lambda x: S.split(x, sep=",", maxsplit=1), "a,b,c", [b"a", b"b,c"]),
    "join": (lambda x: S.join([x, "z"], "-"), ["a", "b"], [b"a-z", b"b-z"]),
    "reduce_join": (
        lambda x: S.reduce_join(x, axis=1, separator=" "),
        [["a", "b"], ["c", "d"]],
        [b"a b", b"c d"],
    ),
    "reduce all": (lambda x: S.reduce_join(x), [["a", "b"], ["c", "d"]], b"abcd"),
    "reduce keeping": (
        lambda x: S.reduce_join(x, axis=0, keepdims=True),
        [["a", "b"], ["c", "d"]],
        [[b"ac", b"bd"]],
    ),
    "to_number": (lambda x: S.to_number(x), ["1.5", "2"], [1.5, 2.0]),
    "to int": (lambda x: S.to_number(x, tk.int32), "7", 7),
    "decode": (lambda x: S.unicode_decode(x, "UTF-8"), "üa", [252, 97]),
    "characters of": (lambda x: S.unicode_split(x, "UTF-8"), "üa", [U, b"a"]),
    "transcode": (lambda x: S.unicode_transcode(x, "UTF-8", "UTF-16-BE"), "üa", b"\x00\xfc\x00a"),
    "bytes_split": (lambda x: S.bytes_split(x), "abc", [b"a", b"b", b"c"]),
    "base64": (lambda x: IO.encode_base64(x), ["hello?>", "a"], [b"aGVsbG8_Pg", b"YQ"]),
    "from base64": (lambda x: IO.decode_base64(x), "aGVsbG8_Pg", b"hello?>"),
    "raw": (lambda x: IO.decode_raw(x, tk.uint8), ["ab", "cd"], [[97, 98], [99, 100]]),
    "raw words": (lambda x: IO.decode_raw(x, tk.uint16), "abcd", [25185, 25699]),
    "raw cut": (
        lambda x: IO.decode_raw(x, tk.uint8, fixed_length=2),
        ["a", "bcd"],
        [[97, 0], [98, 99]],
    ),
    "raw big-endian": (
        lambda x: IO.decode_raw(x, tk.int32, little_endian=False),
        "abcd",
        [1633837924],
    ),
    "csv": (
        lambda x: IO.decode_csv(x, [[0], [1.0], [""]]),
        ["1,2.5,a", "3,,b"],
        [[1, 3], [2.5, 1.0], [b"a", b"b"]],
    ),
    "csv column": (lambda x: IO.decode_csv(x, [0], select_cols=[1]), "1,2,3", [2]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["eager", "function", "map"])
def test_functions_of_text(name, way):
    function, given, wanted = CASES[name]
    if way == "eager":
        found = function(tk.constant(given))
    elif way == "function":
        found = tk.function(function)(tk.constant(given))
    else:
        found = next(iter(tk.data.Dataset.from_tensors(tk.constant(given)).map(function)))
    assert plain(found) == wanted


NUMBERS = [
    (lambda: tk.as_string([1, -2]), [b"1", b"-2"]),
    (lambda: tk.as_string(1.5), b"1.500000"),
    (lambda: tk.as_string(3.14159, precision=2), b"3.14"),
    (lambda: tk.as_string([True, False]), [b"true", b"false"]),
    (lambda: tk.as_string([1.0, 1e10], scientific=True), [b"1.000000e+00", b"1.000000e+10"]),
    (lambda: tk.as_string(5, width=4, fill="0"), b"0005"),
    (lambda: tk.as_string([0.5, 1e20], shortest=True), [b"0.5", b"1e+20"]),
    (lambda: S.unicode_encode([[97, 98], [252, 100]], "UTF-8"), [b"ab", U + b"d"]),
    (lambda: S.format("a {} b {}", (tk.constant([1, 2]), tk.constant(1.5))), b"a [1 2] b 1.5"),
]


@pytest.mark.parametrize(("call", "wanted"), NUMBERS)
def test_texts_of_numbers(call, wanted):
    assert plain(call()) == wanted


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: S.length(3), "InvalidArgumentError", "takes text, got int32"),
        (lambda: S.substr("ab", 5, 1), "InvalidArgumentError", "outside of"),
        (lambda: S.to_number("x"), "InvalidArgumentError", "is no float32"),
        (lambda: S.to_number("99999999999", tk.int32), "InvalidArgumentError", "does not fit"),
        (lambda: S.regex_replace("a", "(", ""), "InvalidArgumentError", "no regular expression"),
        (lambda: S.split(["a b", "c"]), "UnimplementedError", "ragged"),
        (lambda: tk.as_string(1, precision=2), "InvalidArgumentError", "for floats"),
        (lambda: IO.decode_raw(["a", "bcd"], tk.uint8), "InvalidArgumentError", r"\[1, 3\] bytes"),
        (lambda: IO.decode_base64("?"), "InvalidArgumentError", "decode_base64"),
        (lambda: IO.decode_csv("1,x", [0, 0]), "InvalidArgumentError", "is no int32"),
        (lambda: IO.decode_csv("1", [0, 0]), "InvalidArgumentError", "1 fields, expected 2"),
        (lambda: IO.decode_jpeg(b"abc"), "InvalidArgumentError", "no PNG, JPEG"),
        (lambda: IO.decode_image(b""), "InvalidArgumentError", "no JPEG/BMP/WEBP"),
        (lambda: IO.read_file("/no/such/file"), "NotFoundError", "there is no file"),
        (lambda: IO.VarLenFeature(tk.int64), "UnimplementedError", "FixedLenSequenceFeature"),
        (lambda: IO.FixedLenFeature([], tk.int32), "InvalidArgumentError", "int64, float32"),
    ],
)
def test_what_does_not_fit_is_told(call, error, words):
    with pytest.raises(getattr(tk.errors, error), match=words):
        call()


def test_strings_has_advice_for_what_is_left_out():
    with pytest.raises(AttributeError, match="slices of the words"):
        _ = tk.strings.ngrams


# ------------------------------------------------------------------ tensors and examples

VALUES = [[[1, 2], [3, 4]], ["a", "b"], 1.5, True, [1 + 2j], "text"]


@pytest.mark.parametrize("value", VALUES)
def test_tensors_are_serialized(value):
    x = tk.constant(value)
    back = IO.parse_tensor(IO.serialize_tensor(x), x.dtype)
    assert (back.dtype, back.shape) == (x.dtype, x.shape)
    assert plain(back) == plain(x)


def test_serialized_tensors_are_tensorflows():
    wanted = b'\x08\x03\x12\x04\x12\x02\x08\x02"\x08\x01\x00\x00\x00\x02\x00\x00\x00'
    assert IO.serialize_tensor(tk.constant([1, 2])).numpy() == wanted
    with pytest.raises(tk.errors.InvalidArgumentError, match="int32, not float32"):
        IO.parse_tensor(wanted, tk.float32)
    huge = b"\x08\x03\x12\x0b\x12\x09\x08" + b"\xff" * 7 + b"\x7f"
    for damaged in (b"\xff\xff", wanted[:-2], wanted.replace(b"\x08\x02", b"\x08\x03"), huge):
        with pytest.raises(tk.errors.DataLossError):
            IO.parse_tensor(damaged, tk.int32)


def example(**lists):
    feature = {}
    for key, values in lists.items():
        kind = {int: "int64", float: "float", bytes: "bytes"}[type(values[0])]
        message = {
            "int64": tk.train.Int64List,
            "float": tk.train.FloatList,
            "bytes": tk.train.BytesList,
        }
        feature[key] = tk.train.Feature(**{f"{kind}_list": message[kind](value=values)})
    return tk.train.Example(features=tk.train.Features(feature=feature))


SPEC = {
    "a": IO.FixedLenFeature([2], tk.int64),
    "b": IO.FixedLenFeature([], tk.string),
    "z": IO.FixedLenFeature([], tk.float32, default_value=7.0),
    "s": IO.FixedLenSequenceFeature([], tk.int64, allow_missing=True, default_value=-1),
}


def test_an_example_is_tensorflows_message():
    data = example(a=[1, 2]).SerializeToString()
    assert data == b"\n\r\n\x0b\n\x01a\x12\x06\x1a\x04\n\x02\x01\x02"
    assert tk.train.Example.FromString(data) == example(a=[1, 2])
    assert 'key: "a"' in str(example(a=[1, 2]))
    assert example(f=[1.5]).features.feature["f"].float_list.value[0] == 1.5


def test_examples_are_parsed():
    one, two = example(a=[1, 2], b=[b"x"], s=[5, 6]), example(a=[3, 4], b=[b"y"], z=[0.5])
    wanted = {"a": [1, 2], "b": b"x", "s": [5, 6], "z": 7.0}
    assert plain(IO.parse_single_example(one.SerializeToString(), SPEC)) == wanted
    batch = [one.SerializeToString(), two.SerializeToString()]
    wanted = {"a": [[1, 2], [3, 4]], "b": [b"x", b"y"], "s": [[5, 6], [-1, -1]], "z": [7.0, 0.5]}
    assert plain(IO.parse_example(batch, SPEC)) == wanted
    dataset = tk.data.Dataset.from_tensor_slices(batch).map(
        lambda e: IO.parse_single_example(e, SPEC)
    )
    assert dataset.element_spec["s"] == tk.TensorSpec((None,), tk.int64)
    assert [plain(e)["b"] for e in dataset] == [b"x", b"y"]
    batches = tk.data.Dataset.from_tensor_slices(batch).batch(2)
    assert plain(next(iter(batches.map(lambda e: IO.parse_example(e, SPEC))))) == wanted
    assert plain(tk.function(lambda e: IO.parse_example(e, SPEC))(tk.constant(batch))) == wanted


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"q": IO.FixedLenFeature([], tk.int64)}, "'q' is missing"),
        ({"a": IO.FixedLenFeature([], tk.int64)}, "has 2 values"),
        ({"a": IO.FixedLenFeature([2], tk.float32)}, "is a int64_list"),
        ({}, "not empty"),
    ],
)
def test_examples_that_do_not_fit(spec, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        IO.parse_single_example(example(a=[1, 2]).SerializeToString(), spec)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"no Example|not empty"):
        IO.parse_single_example(b"garbage", spec)


def test_records_of_examples_from_end_to_end(tmp_path):
    path = str(tmp_path / "examples.tfrecord")
    with IO.TFRecordWriter(path) as writer:
        for n in range(5):
            writer.write(example(n=[n], name=[b"n%d" % n]).SerializeToString())
    spec = {"n": IO.FixedLenFeature([], tk.int64), "name": IO.FixedLenFeature([], tk.string)}
    dataset = tk.data.TFRecordDataset(path).map(lambda e: IO.parse_single_example(e, spec))
    found = [plain(e) for e in dataset.shuffle(5, seed=1).batch(2)]
    assert sorted(n for batch in found for n in batch["n"]) == list(range(5))
    raw = next(iter(tk.data.TFRecordDataset([path])))
    assert tk.train.Example.FromString(raw.numpy()).features.feature["n"].int64_list.value[0] == 0


# ------------------------------------------------------------------ files and images


def test_files_are_written_and_read(tmp_path):
    path = str(tmp_path / "deep" / "f.bin")
    IO.write_file(path, b"\x00\xffab")
    assert IO.read_file(path).numpy() == b"\x00\xffab"
    assert plain(IO.matching_files(str(tmp_path / "deep" / "*"))) == [path.encode()]
    read = tk.data.Dataset.list_files(os.path.dirname(path) + "/*").map(
        lambda name: (S.split(name, os.sep)[-1], IO.read_file(name))
    )
    assert [plain(e) for e in read] == [[b"f.bin", b"\x00\xffab"]]


def test_gfile_has_tensorflows_names(tmp_path):
    gfile, path = IO.gfile, str(tmp_path / "a" / "b.txt")
    gfile.makedirs(str(tmp_path / "a"))
    with gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
    with gfile.GFile(path) as file:
        assert file.readline() == "one\n"
        assert list(file) == ["two\n"]
    assert gfile.GFile(path, "rb").read() == b"one\ntwo\n"
    assert gfile.GFile(path).size() == 8
    assert [line.strip() for line in gfile.GFile(path)] == ["one", "two"]
    assert gfile.exists(path)
    assert gfile.isdir(gfile.join(str(tmp_path), "a"))
    assert gfile.listdir(str(tmp_path / "a")) == ["b.txt"]
    assert gfile.glob(str(tmp_path / "*" / "*.txt")) == [path]
    assert gfile.glob(iter({str(tmp_path / "*" / "*.txt")})) == [path]
    assert gfile.glob(tk.constant(str(tmp_path / "*" / "*.txt"))) == [path]
    gfile.copy(path, path + "2")
    with pytest.raises(tk.errors.AlreadyExistsError, match="overwrite"):
        gfile.rename(path, path + "2")
    gfile.rename(path, path + "2", overwrite=True)
    gfile.remove(path + "2")
    for call in (gfile.remove, gfile.stat, gfile.rmtree, gfile.listdir):
        with pytest.raises(tk.errors.NotFoundError, match="there is no"):
            call(path)
    with pytest.raises(tk.errors.NotFoundError, match="there is no file"):
        gfile.GFile(path).read()
    gfile.rmtree(str(tmp_path / "a"))
    assert not gfile.exists(str(tmp_path / "a"))


def test_gfile_making_a_folder_that_is_there_does_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("kept")
    IO.gfile.mkdir(tmp_path / "a")
    assert IO.gfile.listdir(tmp_path / "a") == ["b"]
    with pytest.raises(tk.errors.AlreadyExistsError, match="is there, and a file"):
        IO.gfile.mkdir(tmp_path / "a" / "b")


def test_gfile_says_which_file_may_not_be_opened(tmp_path, monkeypatch):
    def refuses(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuses)
    with pytest.raises(tk.errors.PermissionDeniedError, match=r"b.txt may not be opened"):
        IO.gfile.GFile(str(tmp_path / "b.txt"), "w").write("x")


PIXELS = np.random.RandomState(0).randint(0, 255, (16, 8, 3)).astype("uint8")


def test_jpeg_files():
    pytest.importorskip("PIL")
    smooth = np.broadcast_to(np.arange(16, dtype="uint8")[:, None, None] * 9, (16, 8, 3))
    data = IO.encode_jpeg(smooth, quality=100)
    read = IO.decode_jpeg(data)
    assert (read.dtype, read.shape) == (tk.uint8, (16, 8, 3))
    assert np.abs(read.numpy().astype(int) - smooth).max() <= 3
    assert IO.decode_jpeg(data, channels=1).shape == (16, 8, 1)
    assert IO.decode_jpeg(data, ratio=2).shape == (8, 4, 3)
    assert plain(IO.extract_jpeg_shape(data)) == [16, 8, 3]
    assert plain(IO.is_jpeg(data)) is True
    np.testing.assert_array_equal(IO.decode_and_crop_jpeg(data, [1, 2, 3, 4]), read[1:4, 2:6])
    with pytest.raises(tk.errors.InvalidArgumentError, match="rows 1 to 99"):
        IO.decode_and_crop_jpeg(data, [1, 2, 98, 4])
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"damaged|no JPEG"):
        IO.decode_jpeg(data.numpy()[:200])
    assert tk.image.adjust_jpeg_quality(smooth / np.float32(255), 50).dtype == tk.float32


@pytest.mark.parametrize("kind", ["BMP", "GIF", "PNG"])
def test_any_image(kind):
    image = pytest.importorskip("PIL.Image")
    import io

    out = io.BytesIO()
    few = (PIXELS // 64 * 64).astype("uint8")
    image.fromarray(few).save(out, kind)
    found = tk.image.decode_image(out.getvalue(), channels=3, expand_animations=False)
    assert found.shape == (16, 8, 3)
    if kind != "GIF":
        np.testing.assert_array_equal(found, few)
    else:
        assert tk.image.decode_image(out.getvalue()).shape == (1, 16, 8, 3)
    floats = IO.decode_image(out.getvalue(), dtype=tk.float32, expand_animations=False)
    assert float(tk.reduce_max(floats)) <= 1.0


def test_an_image_of_too_many_pixels_is_refused():
    image = pytest.importorskip("PIL.Image")
    import io

    out = io.BytesIO()
    image.fromarray(PIXELS).save(out, "BMP")
    data = bytearray(out.getvalue())
    data[18:26] = struct.pack("<ii", 1 << 15, 1 << 15)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"too many|no BMP"):
        IO.decode_bmp(bytes(data))


def test_without_pillow_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install 'pillow>=10\.1'"):
        tk.io.decode_jpeg(b"\xff\xd8\xff")


def test_images_are_decoded_in_data_sets():
    files = [IO.encode_png(PIXELS).numpy(), IO.encode_png(PIXELS[:4]).numpy()]
    dataset = tk.data.Dataset.from_tensor_slices(files).map(lambda b: IO.decode_png(b, channels=3))
    assert dataset.element_spec == tk.TensorSpec((None, None, 3), tk.uint8)
    assert [tuple(x.shape) for x in dataset] == [(16, 8, 3), (4, 8, 3)]


def test_complex_numbers_become_texts_of_both_parts():
    x = tk.constant([1.5 - 2j], "complex64")
    assert tk.strings.as_string(x).numpy().tolist() == [b"(1.500000,-2.000000)"]
    assert tk.strings.as_string(x, precision=1).numpy().tolist() == [b"(1.5,-2.0)"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-7, "1e-07"),
        (1e10, "1e+10"),
        (1 / 3, "0.333333343"),
        (123456789.0, "123456792"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        (100000.0, "100000"),
        (np.float64(1 / 3), "0.33333333333333331"),
        (np.float64(1e10), "10000000000"),
        ("x", '"x"'),
        (["x", "y"], '["x" "y"]'),
    ],
)
def test_values_are_printed_as_tensorflow_prints_them(value, text):
    assert tk.strings.format("{}", tk.constant(value)).numpy().decode() == text


def test_the_axis_named_first_is_joined_first():
    texts = [["a", "b"], ["c", "d"]]
    joined = {axes: tk.strings.reduce_join(texts, list(axes)).numpy() for axes in [(0, 1), (1, 0)]}
    assert joined == {(0, 1): b"acbd", (1, 0): b"abcd"}  # as in TensorFlow
    assert tk.strings.reduce_join(texts).numpy() == b"abcd"
    nested = tk.strings.reduce_join([[["a", "b"], ["c", "d"]]], axis=[-1, -2], separator=",")
    assert nested.numpy().tolist() == [b"a,b,c,d"]
