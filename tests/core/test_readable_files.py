"""What is no regular file is refused before it is read: a pipe would never end."""

import os

import pytest

import trainkit as tk
from trainkit.core.files.readable_files import only_regular, open_regular, open_text, read_text


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_a_device_and_a_folder_are_refused(pipe, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link, "/dev/zero", tmp_path):
        with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
            open_regular(path)
        with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
            open(path, opener=only_regular)


def test_a_pipe_is_refused_while_somebody_writes(pipe):
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    try:
        os.write(writer, b"text")
        with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
            read_text(pipe)
        assert os.read(reader, 9) == b"text"  # nothing of it was taken
    finally:
        os.close(writer)
        os.close(reader)


def test_regular_files_are_read(tmp_path):
    (tmp_path / "a").write_bytes("é\n".encode())
    with open_regular(tmp_path / "a") as file:
        assert file.read() == "é\n".encode()
    with open_text(f"file://{tmp_path}/a") as file:
        assert list(file) == ["é\n"]


def test_what_is_not_there_or_no_text(tmp_path):
    with pytest.raises(tk.errors.NotFoundError, match="no vocabulary"):
        open_regular(tmp_path / "a", "vocabulary")
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(tk.errors.NotFoundError, match="no file"):
        open_regular(tmp_path / "a" / "b")
    with pytest.raises(tk.errors.InvalidArgumentError, match="UTF-8"):
        read_text(tmp_path / "a")
    with pytest.raises(tk.errors.UnimplementedError, match="scheme 'gs'"):
        open_regular("gs://a/b")
