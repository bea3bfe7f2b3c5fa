"""Folders that can't be written into: the error says who writes, why not, and what to do."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.files.output_folders import make_folder

X, Y = np.ones((8, 3), "f"), np.ones((8, 1), "f")


def fit(callback):
    model = tk.Sequential([tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0, callbacks=[callback])


WRITERS = {
    "CSVLogger": lambda folder: fit(tk.callbacks.CSVLogger(folder / "log.csv")),
    "the summary writer": lambda folder: fit(tk.callbacks.TensorBoard(folder)),
    "ModelCheckpoint": lambda folder: fit(tk.callbacks.ModelCheckpoint(folder / "m.keras")),
    "saved_model.save": lambda folder: tk.saved_model.save(tk.Module(), folder),
    "Dataset.save": lambda folder: tk.data.Dataset.range(3).save(str(folder)),
    "snapshot": lambda folder: tk.data.Dataset.range(3).snapshot(str(folder)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_where_a_folder_has_to_be(writer, tmp_path):
    file = tmp_path / "notes"
    file.write_text("mine")
    with pytest.raises(OSError, match=f"{writer} can't write into the folder") as caught:
        WRITERS[writer](file / "run")
    advice = f"{str(file)!r} is a file; choose another one, such as './logs'"
    assert str(caught.value).endswith(advice)
    assert caught.value.errno
    assert file.read_text() == "mine"


def test_a_folder_that_does_not_let_this_user_in(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    words = f"Permission denied: the test can't write .*{tmp_path}' does not let this user make"
    with pytest.raises(PermissionError, match=words):
        make_folder(tmp_path / "deep" / "deeper", "the test")


def test_a_folder_is_made_with_those_above_it_and_stays(tmp_path):
    folder = tmp_path / "a" / "b"
    assert make_folder(folder, "the test") == folder
    (folder / "file").touch()
    assert make_folder(str(folder), "the test") == folder
    assert (folder / "file").exists()
