"""MNIST and Fashion-MNIST come from the user's folder, the cache or a download, in this order."""

import gzip
import hashlib
import importlib
import struct

import numpy as np
import pooch
import pytest

from trainkit.datasets import fashion_mnist, mnist

NAMES = tuple(mnist.SOURCE.files)


def write_set(folder, count, packed=True, size=28):
    """Four IDX files; pixels of image i are all i, its label is i % 10."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        number = np.arange(count if name.startswith("train") else count // 2, dtype=np.uint8)
        array = number % 10
        if "images" in name:
            array = np.broadcast_to(number[:, None, None], (len(number), size, size))
        content = struct.pack(f">I{array.ndim}I", 0x800 | array.ndim, *array.shape)
        content += array.tobytes()
        path = folder / (name if packed else name.removesuffix(".gz"))
        path.write_bytes(gzip.compress(content) if packed else content)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine without network and with an empty cache; collects the addresses asked for."""
    monkeypatch.delenv("TRAINKIT_DATA", raising=False)
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))
    asked = []

    def no_network(self, url, output_file, pooch):
        asked.append(url)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", no_network)
    return asked


def check(parts, count):
    (x_train, y_train), (x_test, y_test) = parts
    assert x_train.shape == (count, 28, 28)
    assert x_test.shape == (count // 2, 28, 28)
    assert {a.dtype for a in (x_train, y_train, x_test, y_test)} == {np.dtype(np.uint8)}
    np.testing.assert_array_equal(x_train[:, 3, 4], np.arange(count))
    np.testing.assert_array_equal(y_train, np.arange(count) % 10)
    np.testing.assert_array_equal(y_test, np.arange(count // 2) % 10)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("module", "folder"),
    [
        (mnist, "."),
        (mnist, "mnist"),
        (fashion_mnist, "fashion_mnist"),
        (fashion_mnist, "fashion-mnist"),
    ],
)
def test_the_users_folder_comes_first(monkeypatch, tmp_path, machine, module, folder, packed):
    write_set(tmp_path / "data" / folder, 12, packed)
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path / "data"))
    assert module.available()
    check(module.load_data(), 12)
    assert machine == []


def test_fashion_is_not_taken_for_digits(monkeypatch, tmp_path):
    write_set(tmp_path / "data/fashion_mnist", 12)
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path / "data"))
    assert fashion_mnist.available()
    assert not mnist.available()


def test_a_folder_with_some_of_the_files_is_an_error(monkeypatch, tmp_path):
    write_set(tmp_path / "data", 12)
    (tmp_path / "data" / NAMES[2]).unlink()
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError, match=f"mnist: {NAMES[2]} not found in .*data"):
        mnist.load_data()


def test_a_path_given_outright_wins(tmp_path):
    write_set(tmp_path / "mine", 6)
    check(mnist.load_data(tmp_path / "mine"), 6)


def test_a_keras_file_is_read(tmp_path):
    images, labels = np.zeros((2, 28, 28), np.uint8), np.zeros(2, np.uint8)
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(tmp_path / "mnist.npz", **arrays)
    assert len(mnist.load_data(tmp_path / "mnist.npz")) == 2
    del arrays["y_test"]
    np.savez(tmp_path / "cut.npz", **arrays)
    with pytest.raises(ValueError, match=r"cut\.npz.*no y_test"):
        mnist.load_data(tmp_path / "cut.npz")


def test_a_keras_file_with_pickles_is_refused(tmp_path):
    objects = np.array([{}], dtype=object)
    np.savez(
        tmp_path / "evil.npz", x_train=objects, y_train=objects, x_test=objects, y_test=objects
    )
    with pytest.raises(ValueError, match=r"evil\.npz"):
        mnist.load_data(tmp_path / "evil.npz")


def test_a_path_that_is_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither a folder nor an \.npz file"):
        mnist.load_data(tmp_path / "absent")


def hash_cache(monkeypatch, module, folder):
    """State the hashes of these small files in place of the published ones."""
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in NAMES}
    monkeypatch.setattr(module.SOURCE, "files", found, raising=True)


@pytest.fixture
def unfrozen(monkeypatch):
    """Sources whose fields a test may replace."""
    for module in (mnist, fashion_mnist):
        thawed = type("Thawed", (type(module.SOURCE),), {"__setattr__": object.__setattr__})
        monkeypatch.setattr(module, "SOURCE", thawed(**vars(module.SOURCE)))


@pytest.mark.usefixtures("unfrozen")
def test_the_cache_serves_without_network(monkeypatch, tmp_path, machine):
    write_set(tmp_path / "cache/mnist", 8)
    hash_cache(monkeypatch, mnist, tmp_path / "cache/mnist")
    assert mnist.available()
    check(mnist.load_data(), 8)
    assert machine == []


@pytest.mark.usefixtures("unfrozen")
def test_files_are_downloaded_once_and_checked(monkeypatch, tmp_path):
    write_set(tmp_path / "served", 8)
    hash_cache(monkeypatch, mnist, tmp_path / "served")
    asked = []

    def serve(self, url, output_file, pooch):
        asked.append(url)
        name = url.rpartition("/")[2]
        if url.startswith(mnist.SOURCE.mirrors[0]):
            raise ConnectionError("this mirror is down")
        with open(output_file, "wb") as file:
            file.write((tmp_path / "served" / name).read_bytes())

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", serve)
    assert not mnist.available()
    check(mnist.load_data(), 8)
    assert len(asked) == 8  # the second mirror gave each file
    assert mnist.available()
    check(mnist.load_data(), 8)
    assert len(asked) == 8


def test_a_download_with_another_hash_is_refused(monkeypatch, tmp_path):
    def serve(self, url, output_file, pooch):
        with open(output_file, "wb") as file:
            file.write(b"something else")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", serve)
    with pytest.raises(FileNotFoundError, match=r"(?i)hash"):
        mnist.load_data()
    assert not mnist.available()


@pytest.mark.parametrize("module", [mnist, fashion_mnist])
def test_without_network_the_error_names_both_ways(machine, module):
    assert not module.available()
    with pytest.raises(FileNotFoundError) as caught:
        module.load_data()
    message = str(caught.value)
    for part in (module.SOURCE.name, "TRAINKIT_DATA", "TRAINKIT_CACHE", "no route to host"):
        assert part in message
    for mirror in module.SOURCE.mirrors:
        assert mirror in message
    assert [url.rpartition("/")[0] + "/" for url in machine] == list(module.SOURCE.mirrors)


def test_hashes_are_whole_and_differ():
    hashes = [h for m in (mnist, fashion_mnist) for h in m.SOURCE.files.values()]
    assert len(set(hashes)) == 8
    assert all(len(bytes.fromhex(h)) == 32 for h in hashes)


def test_images_of_another_size_are_refused(tmp_path):
    write_set(tmp_path, 4, size=27)
    with pytest.raises(ValueError, match=r"\(27, 27\) pixels, expected \(28, 28\)"):
        mnist.load_data(tmp_path)


def test_importing_the_datasets_imports_no_downloader():
    module = importlib.import_module("trainkit.datasets.store")
    assert "pooch" not in vars(module)
