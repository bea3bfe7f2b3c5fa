"""Files made to harm whoever loads them: each is refused, and the error names the path inside."""

import functools
import io
import marshal
import os
import struct
import zipfile

import h5py
import numpy as np
import pytest

from tests.checkpoints.objects import Dense, Net
from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format import validation
from trainkit.checkpoints.format.checksum import SMALL
from trainkit.checkpoints.format.header import BLOCK, Extent, verify_header, write_header
from trainkit.checkpoints.weights import load_weights
from trainkit.core.errors import CheckpointError, CheckpointMismatchError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

SECRET = np.arange(6, dtype=np.float32).reshape(3, 2)


class Model(Trackable):
    """Has `first/kernel` in a checkpoint, `first/vars/0` in Keras's layout."""

    def __init__(self):
        self.first = Dense().build(3)


def soft_link(file, where, folder):
    file["elsewhere"] = SECRET
    file[where] = h5py.SoftLink("/elsewhere")


def dangling_soft_link(file, where, folder):
    file[where] = h5py.SoftLink("/nowhere")


def external_link(file, where, folder):
    with h5py.File(folder / "secret.h5", "w") as secret:
        secret["key"] = SECRET
    file[where] = h5py.ExternalLink(str(folder / "secret.h5"), "/key")


def external_group_link(file, where, folder):
    with h5py.File(folder / "secret.h5", "w") as secret:
        secret[where.rpartition("/")[2]] = SECRET
    file[where.rpartition("/")[0]] = h5py.ExternalLink(str(folder / "secret.h5"), "/")


def external_storage(file, where, folder):
    (folder / "passwd").write_bytes(b"root:x:0:0:root:/root:/b")
    file.create_dataset(where, (3, 2), "f4", external=[(str(folder / "passwd"), 0, 24)])


def virtual_dataset(file, where, folder):
    with h5py.File(folder / "secret.h5", "w") as secret:
        secret["key"] = SECRET
    plan = h5py.VirtualLayout((3, 2), "f4")
    plan[...] = h5py.VirtualSource(str(folder / "secret.h5"), "key", (3, 2))
    file.create_virtual_dataset(where, plan)


def never_written(file, where, folder):
    file.create_dataset(where, (3, 2), "f4")


def huge_and_never_written(file, where, folder):
    file.create_dataset(where, (1 << 20, 1 << 20), "f4")


def huge_and_chunked(file, where, folder):
    file.create_dataset(where, (1 << 14, 1 << 14), "f4", chunks=(1 << 10, 1 << 10))[0, 0] = 1


def a_chunk_larger_than_the_values(file, where, folder):
    bomb = file.create_dataset(
        where, (3, 2), "f4", maxshape=(None, None), chunks=(1 << 12, 1 << 12), compression="gzip"
    )
    bomb[...] = 0


def texts_of_any_length(file, where, folder):
    file.create_dataset(where, data=np.array([["a", "b"]] * 3, object), dtype=h5py.string_dtype())


def lists_of_any_length(file, where, folder):
    file.create_dataset(where, (3, 2), dtype=h5py.vlen_dtype(np.int32))[0, 0] = [1, 2, 3]


def object_references(file, where, folder):
    data = file.create_dataset(where, (3, 2), dtype=h5py.ref_dtype)
    data[0, 0] = file.ref


def region_references(file, where, folder):
    file.create_dataset(where, (3, 2), dtype=h5py.regionref_dtype)


def a_compound_with_a_reference(file, where, folder):
    kind = np.dtype([("r", "f4"), ("i", h5py.ref_dtype)])
    file.create_dataset(where, (3, 2), dtype=kind)


def arrays_as_elements(file, where, folder):
    file.create_dataset(where, (3,), dtype=np.dtype(("f4", (2,))))


def a_named_type(file, where, folder):
    file[where] = np.dtype("f4")


def an_unknown_filter(file, where, folder):
    file.create_dataset(where, data=SECRET, chunks=(3, 2), compression="lzf")


def a_group_in_itself(file, where, folder):
    group = file.require_group(where.rpartition("/")[0])
    group["again"] = group
    file[where] = SECRET


def a_group_in_one_further_in(file, where, folder):
    group = file.require_group(where.rpartition("/")[0])
    group.create_group("a/b")["up"] = group
    file[where] = SECRET


def no_values(file, where, folder):
    file.create_dataset(where, data=h5py.Empty("f4"))


def thousands_of_attributes(file, where, folder):
    file[where] = SECRET
    for number in range(2000):
        file[where].attrs[f"a{number}"] = 1


def an_attribute_of_references(file, where, folder):
    file[where] = SECRET
    file[where].attrs["type"] = file.ref


def deep_nesting(file, where, folder):
    group = file
    for _ in range(400):
        group = group.create_group("g")
    file[where] = SECRET


HOSTILE = [
    (soft_link, "is a soft link"),
    (dangling_soft_link, "is a soft link"),
    (external_link, "is an external link"),
    (external_group_link, "is an external link"),
    (external_storage, "is stored in an external file"),
    (virtual_dataset, "is a virtual dataset"),
    (never_written, "declares 24 bytes"),
    (huge_and_never_written, "declares 4398046511104 bytes"),
    (huge_and_chunked, "declares 1073741824 bytes"),
    (a_chunk_larger_than_the_values, r"has chunks of shape \(4096, 4096\)"),
    (texts_of_any_length, "holds values of a type"),
    (lists_of_any_length, "holds values of a type"),
    (object_references, "holds values of a type"),
    (region_references, "holds values of a type"),
    (a_compound_with_a_reference, "holds values of a type"),
    (arrays_as_elements, "holds values of a type"),
    (a_named_type, "neither a group nor a dataset"),
    (an_unknown_filter, "needs the filter 32000"),
    (a_group_in_itself, "contains itself"),
    (a_group_in_one_further_in, "contains itself"),
    (no_values, "has no values"),
    (thousands_of_attributes, "has 2000 attributes"),
    (an_attribute_of_references, "attribute"),
    (deep_nesting, "nested more than 256 levels"),
]


def sealed(path, fill, where, folder, more=()):
    """A hostile file with a seal that fits, as an attacker would make it."""
    with h5py.File(path, "w", userblock_size=BLOCK) as file:
        file.attrs["format"] = np.bytes_(b"trainkit")
        file.attrs["version"] = np.bytes_(b"1")
        for name, text in dict(more).items():
            file.attrs[name] = np.bytes_(text)
        fill(file, where, folder)
    fd = os.open(path, os.O_RDWR)
    write_header(fd, [], 1)
    os.close(fd)


@pytest.fixture
def model():
    return Model()


def unchanged(model):
    return not model.first.kernel.numpy().any()


@pytest.mark.parametrize(("fill", "words"), HOSTILE, ids=lambda x: getattr(x, "__name__", None))
def test_a_hostile_checkpoint_is_refused(tmp_path, model, fill, words):
    path = tmp_path / "ckpt-1"
    sealed(path, fill, "first/kernel", tmp_path)
    with pytest.raises(CheckpointError, match=words) as caught:
        Checkpoint(model).restore(path)
    assert "ckpt-1 is refused: '/" in str(caught.value)
    assert unchanged(model)


@pytest.mark.parametrize(("fill", "words"), HOSTILE, ids=lambda x: getattr(x, "__name__", None))
def test_a_hostile_keras_file_is_refused(tmp_path, model, fill, words):
    path = tmp_path / "m.weights.h5"
    with h5py.File(path, "w") as file:
        fill(file, "first/vars/0", tmp_path)
    with pytest.raises(CheckpointError, match=words):
        load_weights(model, path)
    assert unchanged(model)


def test_values_larger_than_wanted_are_refused_without_being_read(tmp_path, model, monkeypatch):
    def large(file, where, folder):
        file[where] = np.zeros((300, 200), np.float32)

    sealed(tmp_path / "ckpt-1", large, "first/kernel", tmp_path)
    monkeypatch.setattr(
        "trainkit.checkpoints.format.reader.SavedFile.value", lambda *a: pytest.fail("read")
    )
    with pytest.raises(CheckpointMismatchError, match=r"file \(300, 200\)"):
        Checkpoint(model).restore(tmp_path / "ckpt-1")


def test_a_compressed_bomb_is_refused_by_its_shape(tmp_path, model):
    def bomb(file, where, folder):
        file.create_dataset(
            where, data=np.zeros((1 << 12, 1 << 12), np.float32), compression="gzip", shuffle=True
        )

    sealed(tmp_path / "ckpt-1", bomb, "first/kernel", tmp_path)
    with pytest.raises(CheckpointMismatchError, match=r"file \(4096, 4096\)"):
        Checkpoint(model).restore(tmp_path / "ckpt-1")


def test_too_many_objects_are_refused(tmp_path, model, monkeypatch):
    def many(file, where, folder):
        for number in range(300):
            file.create_group(f"g{number}")

    monkeypatch.setattr(validation, "MAX_OBJECTS", 200)
    sealed(tmp_path / "ckpt-1", many, "first/kernel", tmp_path)
    with pytest.raises(CheckpointError, match="more than 200 objects"):
        Checkpoint(model).restore(tmp_path / "ckpt-1")


def with_extent(path, place, digest="00" * 16):
    """A file with a big array, and a seal that lists `place` of it: (offset, size) -> the same."""
    with h5py.File(path, "w", userblock_size=BLOCK) as file:
        file.attrs["format"] = np.bytes_(b"trainkit")
        file.attrs["version"] = np.bytes_(b"1")
        file["first/bias"] = np.ones(2, np.float32)
        file["first/kernel"] = np.ones(SMALL, np.float32)
        kernel = file["first/kernel"].id
        listed = place(kernel.get_offset(), 4 * SMALL)
    fd = os.open(path, os.O_RDWR)
    write_header(fd, [Extent(*listed, digest)], 1)
    os.close(fd)
    return path


@pytest.mark.parametrize("change", [(4, -4), (0, -4), (-4, 4), (-4, 2), (8, -80)])
def test_values_that_are_in_an_extent_by_halves_are_refused(tmp_path, model, change):
    """Each byte counts for one checksum: none is left out, and no two arrays share one."""
    path = with_extent(tmp_path / "ckpt-1", lambda at, size: (at + change[0], size + change[1]))
    with pytest.raises(CheckpointError, match="'/first/kernel' shares its bytes with another"):
        Checkpoint(model).restore(path)
    assert unchanged(model)


def test_a_small_extent_is_refused(tmp_path, model):
    path = with_extent(tmp_path / "ckpt-1", lambda at, size: (at, 100))
    with pytest.raises(CheckpointError, match="lists 100 bytes as a big array"):
        Checkpoint(model).restore(path)


def test_damage_in_bytes_that_no_array_has_is_found(tmp_path):
    value = Variable(np.zeros(SMALL, np.float32))
    path = Checkpoint(value=value).write(tmp_path / "ckpt-1")
    fd = os.open(path, os.O_RDWR)
    header, extents = verify_header(fd, "")
    end = header.table
    os.ftruncate(fd, end)
    os.pwrite(fd, bytes(2 * SMALL), end)
    write_header(fd, [*extents, Extent(end, 2 * SMALL, "00" * 16)], 1)
    os.close(fd)
    value.assign_add(np.ones(SMALL, np.float32))
    with pytest.raises(CheckpointError, match=f"{2 * SMALL} bytes from {end} on do not fit"):
        Checkpoint(value=value).read(path)
    assert value.numpy().min() == 1


def test_plain_hdf5_is_no_checkpoint(tmp_path, model):
    with h5py.File(tmp_path / "ckpt-1", "w") as file:
        file["first/kernel"] = SECRET
    with pytest.raises(CheckpointError, match="is not a trainkit checkpoint"):
        Checkpoint(model).restore(tmp_path / "ckpt-1")


def test_a_weights_file_is_no_checkpoint(tmp_path, model):
    from trainkit.checkpoints.weights import save_weights

    save_weights(model, tmp_path / "m.weights.h5")
    with pytest.raises(CheckpointError, match="is not a checkpoint; weights files are for"):
        Checkpoint(model).restore(tmp_path / "m.weights.h5")


@pytest.mark.parametrize("manifest", [b"[1]", b"{", b'"x"', b"[" * 60_000])
def test_a_manifest_that_is_none_is_refused(tmp_path, model, manifest):
    def fill(file, where, folder):
        pass

    sealed(tmp_path / "ckpt-1", fill, "", tmp_path, {"manifest": manifest})
    with pytest.raises(CheckpointError, match="manifest"):
        Checkpoint(model).restore(tmp_path / "ckpt-1")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\x89TKC\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(600)]
)
@pytest.mark.parametrize("kind", ["ckpt-1", "m.weights.h5", "m.npz", "m.safetensors", "m.keras"])
def test_other_content_is_refused(tmp_path, model, content, kind):
    (tmp_path / kind).write_bytes(content)
    load = Checkpoint(model).restore if kind == "ckpt-1" else functools.partial(load_weights, model)
    with pytest.raises(CheckpointError, match=kind):
        load(tmp_path / kind)


def test_what_is_no_file_is_refused(tmp_path, model):
    (tmp_path / "ckpt-1").mkdir()
    os.mkfifo(tmp_path / "ckpt-2")
    for path in (tmp_path / "ckpt-1", tmp_path / "ckpt-2", "/dev/zero"):
        with pytest.raises(CheckpointError, match="is no regular file"):
            Checkpoint(model).restore(path)


# ------------------------------------------------------------------ nothing is executed


class Payload:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickled_arrays_are_not_loaded(tmp_path, model):
    bad = np.empty((3, 2), object)
    bad[0, 0] = Payload(tmp_path / "executed")
    np.savez(tmp_path / "m.npz", **{"first/kernel": bad, "first/bias": np.zeros(2, np.float32)})
    with pytest.raises(CheckpointError, match="is refused: first/kernel"):
        load_weights(model, tmp_path / "m.npz")
    assert not (tmp_path / "executed").exists()


def test_the_config_in_an_archive_is_not_interpreted(tmp_path, model):
    """CVE-2025-1550, -8747, -9905, -9906: modules, functions and bytecode named by config.json."""
    code = marshal.dumps(
        compile(f"__import__('os').mkdir({str(tmp_path / 'executed')!r})", "x", "exec")
    )
    config = {
        "module": "os",
        "class_name": "mkdir",
        "config": {"path": str(tmp_path / "executed"), "function": code.hex(), "safe_mode": False},
        "registered_name": "enable_unsafe_deserialization",
    }
    inner = io.BytesIO()
    with h5py.File(inner, "w") as file:
        file["first/vars/0"] = SECRET
        file["first/vars/1"] = np.zeros(2, np.float32)
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", repr(config))
        archive.writestr("../../escaped", "x")
        archive.writestr("model.weights.h5", inner.getvalue())
    load_weights(model, tmp_path / "m.keras")
    np.testing.assert_array_equal(model.first.kernel.numpy(), SECRET)
    assert sorted(os.listdir(tmp_path)) == ["m.keras"]


@pytest.mark.parametrize(
    "inside", ["external_link", "virtual_dataset", "external_storage", "huge_and_chunked"]
)
def test_hostile_weights_in_an_archive_are_refused(tmp_path, model, inside):
    fill = dict((f.__name__, f) for f, _ in HOSTILE)[inside]
    inner = io.BytesIO()
    with h5py.File(inner, "w") as file:
        fill(file, "first/vars/0", tmp_path)
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("model.weights.h5", inner.getvalue())
    with pytest.raises(CheckpointError, match=r"m\.keras is refused: '/first/vars/0'"):
        load_weights(model, tmp_path / "m.keras")


# ------------------------------------------------------------------ flat tables


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"first/kernel": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 1000]}}',
        b'{"first/kernel": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 24]}}',
        b'{"first/kernel": {"dtype": "F32", "shape": [-3, -2], "data_offsets": [0, 24]}}',
        b'{"first/kernel": {"dtype": "O", "shape": [3, 2], "data_offsets": [0, 24]}}',
        b'{"a": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]},'
        b' "b": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}',
        b"[" * 100_000,
    ],
)
def test_a_safetensors_header_that_does_not_fit_is_refused(tmp_path, model, header):
    data = len(header).to_bytes(8, "little") + header + bytes(24)
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match="safetensors"):
        load_weights(model, tmp_path / "m.safetensors")


def test_an_npz_that_declares_more_than_it_has_is_refused(tmp_path, model):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("first/kernel.npy", stream.getvalue() + bytes(24))
    with pytest.raises(CheckpointError, match="declares"):
        load_weights(model, tmp_path / "m.npz")


def test_booleans_that_are_none_are_refused(tmp_path):
    flag = Variable([True, False])
    path = Checkpoint(flag=flag).write(tmp_path / "ckpt-1")
    saved = np.array([7, 0], np.uint8)

    def fill(file, where, folder):
        with h5py.File(path, "r") as good:
            data = file.create_dataset("flag", (2,), good["flag"].dtype)
        data.id.write(h5py.h5s.ALL, h5py.h5s.ALL, saved.view(bool), data.id.get_type())

    sealed(tmp_path / "ckpt-2", fill, "", tmp_path)
    with pytest.raises(CheckpointError, match="'flag' has booleans that are none"):
        Checkpoint(flag=flag).restore(tmp_path / "ckpt-2")


def test_a_net_of_another_file_does_not_matter(tmp_path):
    """A refused file leaves objects that wait for values alone."""
    sealed(tmp_path / "ckpt-1", soft_link, "layers/0/kernel", tmp_path)
    net = Net(Dense())
    with pytest.raises(CheckpointError, match="soft link"):
        Checkpoint(net).restore(tmp_path / "ckpt-1")
    net.layers[0].build(3)
    assert not net.layers[0].kernel.numpy().any()


def test_chunks_that_stand_beyond_the_end_of_all_files_are_refused(tmp_path):
    path = tmp_path / "far.weights.h5"
    with h5py.File(path, "w") as file:
        values = file.create_dataset("first/vars/0", data=SECRET, chunks=SECRET.shape)
        file["first/vars/1"] = np.zeros(2, np.float32)
        place = values.id.get_chunk_info(0).byte_offset
    load_weights(Model(), path)
    data, known = path.read_bytes(), place.to_bytes(8, "little")
    assert data.count(known) == 1
    # the end of such a chunk is a small number again, so that HDF5 takes it for one in the file
    path.write_bytes(data.replace(known, (2**64 - SECRET.nbytes // 2).to_bytes(8, "little")))
    model = Model()
    before = model.first.kernel.numpy()
    with pytest.raises(CheckpointError, match="24 bytes at 18446744073709551604"):
        load_weights(model, path)
    np.testing.assert_array_equal(model.first.kernel.numpy(), before)


def test_parts_of_an_object_that_overlap_are_refused(tmp_path):
    """Each of 600 parts of a group's header is the same 20 kB, which took 192 MiB."""
    path, count, size = tmp_path / "parts.weights.h5", 600, 20_000
    with h5py.File(path, "w") as file:
        file["first/vars/0"] = SECRET
        place = h5py.h5o.get_info(file.id, b"first/vars").addr
    data = path.read_bytes()
    first, start = data[place + 16 : place + 40], len(data) + 16 + 24 * (count + 1)
    parts = [struct.pack("<HHIQQ", 16, 16, 0, start + 8 * n, size - 8 * n) for n in range(count)]
    header = struct.pack("<BxHIIxxxx", 1, 3 * count + 1, 1, 24 * (count + 1))
    data = data.replace(place.to_bytes(8, "little"), len(data).to_bytes(8, "little"))
    data += header + first + b"".join(parts) + bytes(size)
    path.write_bytes(data[:40] + len(data).to_bytes(8, "little") + data[48:])
    with pytest.raises(CheckpointError, match="too many for one object"):
        load_weights(Model(), path)
