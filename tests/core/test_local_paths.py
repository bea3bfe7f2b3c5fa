"""Paths are of this machine: an address of another system is no folder called by its scheme."""

import os
import pathlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.files.local_paths import local_path


@pytest.mark.parametrize(
    "address",
    ["s3://bucket/a", "gs://bucket/a", "hdfs://node/a", "hf://name", "https://x.org/a", "S3://b",
     "abfs+x://c/a", "ram:///a"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path, tk.constant, np.str_])
def test_an_address_is_refused_by_its_scheme(address, kind):
    scheme = address.partition(":")[0]
    with pytest.raises(tk.errors.UnimplementedError, match=f"scheme '{scheme.split('+')[0]}"):
        local_path(kind(address))


def test_windows_paths_of_addresses_are_refused():
    with pytest.raises(tk.errors.UnimplementedError, match="scheme 's3'"):
        local_path(pathlib.PureWindowsPath("s3://bucket/a"))


@pytest.mark.parametrize(
    "path",
    ["a", "/a/b", "C:/a", "c:\\a", "C:", "D://a", "a:b", "12:30/log", "./s3://a", "a/s3://b", "s3:",
     "\\\\server\\share\\a", "1s://a", "-s3://a", ""],
)  # fmt: skip
def test_a_path_stays_as_it_is(path):
    assert local_path(path) == path


def test_a_file_address_is_the_path_behind_it():
    assert local_path("file:///a/b%20c") == "/a/b%20c"  # TensorFlow takes the letters as they are
    assert local_path("FILE://localhost/a") == "/a"
    assert local_path(pathlib.Path("file:///a/b")) == "/a/b"


@pytest.mark.parametrize("address", ["file://host/a", "file:\\a"])
def test_a_file_of_another_machine_is_refused(address):
    with pytest.raises(tk.errors.UnimplementedError, match="another machine"):
        local_path(address)


def test_a_drive_behind_file_on_windows(monkeypatch):
    from trainkit.core.files import local_paths

    monkeypatch.setattr(local_paths.os, "name", "nt")
    assert local_path("file:///C:/a") == "C:/a"
    assert local_path("file:///tmp") == "/tmp"


def test_what_is_no_path():
    with pytest.raises(TypeError, match="a path is a text, got int"):
        local_path(3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="null character"):
        local_path("a\0b")
    assert os.fsencode(local_path(b"\xff")) == b"\xff"
