"""Looking into files of weights, and changing them."""

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit.keras.saving import KerasFileEditor

L = tk.layers


def model(*names):
    return tk.Sequential([tk.Input((2,)), *(L.Dense(3, name=name) for name in names)], name="net")


@pytest.fixture(params=["m.keras", "m.weights.h5"])
def editor(tmp_path, request):
    path = tmp_path / request.param
    made = model("a", "b")
    (made.save if request.param.endswith(".keras") else made.save_weights)(path)
    return KerasFileEditor(path)


def test_a_file_is_shown_and_compared(editor, capsys):
    editor.summary()
    text = capsys.readouterr().out
    assert "dense_1 ('b')" in text
    assert "0: shape (2, 3), dtype float32" in text
    assert editor.compare(model("a", "b")) == {
        "status": "success",
        "error_count": 0,
        "match_count": 4,
    }
    wide = tk.Sequential([tk.Input((2,)), L.Dense(3), L.Dense(5), L.Dense(1)])
    found = editor.compare(wide)
    assert (found["status"], found["error_count"], found["match_count"]) == ("error", 3, 2)
    assert "layers/dense_2" in capsys.readouterr().out


def test_a_file_is_made_to_fit_another_model(editor, tmp_path):
    target = model("a", "b", "c")
    kernel, bias = np.ones((3, 3), "float32"), np.full(3, 2.0, "float32")
    editor.add_object("layers/dense_9", {"0": kernel})
    editor.rename_object("dense_9", "dense_2")
    assert editor.compare(target)["error_count"] == 1
    editor.add_weights("layers/dense_2", {"1": bias})
    assert editor.compare(target)["status"] == "success"
    editor.save(tmp_path / "new.weights.h5")
    target.load_weights(tmp_path / "new.weights.h5")
    np.testing.assert_array_equal(target.layers[2].get_weights()[1], bias)
    again = KerasFileEditor(tmp_path / "new.weights.h5")
    again.delete_weight("dense_2", "1")
    assert again.compare(target)["error_count"] == 1
    again.delete_object("dense_2")
    assert again.compare(model("a", "b"))["status"] == "success"


def test_the_optimizer_is_in_it(tmp_path):
    made = model("a")
    made.compile("adam", "mse")
    made.fit(np.ones((2, 2)), np.ones((2, 3)), verbose=0)
    made.save(tmp_path / "m.keras")
    editor = KerasFileEditor(tmp_path / "m.keras")
    assert len(editor.weights_dict["optimizer"]) == 6
    assert editor.config["class_name"] == "Sequential"
    assert "keras_version" in editor.metadata
    assert editor.compare(made)["status"] == "success"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: e.rename_object("dense_7", "x"), "no object 'dense_7'"),
        (lambda e: e.rename_object("dense", "a/b"), "is a path"),
        (lambda e: e.rename_object("dense", "dense_1"), "already"),
        (lambda e: e.delete_object("dense/0"), "no object"),
        (lambda e: e.add_object("nowhere/x", {}), "no object 'nowhere'"),
        (lambda e: e.add_object("layers/x", [1]), "must be a dict"),
        (lambda e: e.delete_weight("dense", "5"), "no weight '5'"),
        (lambda e: e.save("x.h5"), "must end in"),
        (lambda e: KerasFileEditor("x.h5"), "reads .keras"),
    ],
)
def test_mistakes(editor, call, words):
    with pytest.raises(ValueError, match=words):
        call(editor)


def test_two_objects_of_one_name_need_a_path(tmp_path):
    inner = tk.Sequential([L.Dense(2)], name="inner")
    made = tk.Sequential([tk.Input((2,)), L.Dense(2), inner])
    made.save_weights(tmp_path / "m.weights.h5")
    editor = KerasFileEditor(tmp_path / "m.weights.h5")
    with pytest.raises(ValueError, match="2 objects"):
        editor.delete_object("dense")
    editor.delete_object("layers/sequential/layers/dense")
    assert editor.compare(made)["error_count"] == 1


@pytest.mark.parametrize("link", [h5py.SoftLink("/real"), h5py.ExternalLink("o.h5", "/real")])
def test_links_are_not_followed(tmp_path, link):
    with h5py.File(tmp_path / "m.weights.h5", "w") as file:
        file.create_group("real").create_dataset("0", data=np.zeros(1))
        file["layers"] = link
    with pytest.raises(ValueError, match="link"):
        KerasFileEditor(tmp_path / "m.weights.h5")
