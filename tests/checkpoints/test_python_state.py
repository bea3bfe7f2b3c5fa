import json

import numpy as np
import pytest

import trainkit as tk

PythonState = tk.train.experimental.PythonState


class Settings(PythonState):
    def __init__(self, value):
        self.value = value

    def serialize(self):
        return json.dumps(self.value, ensure_ascii=False)

    def deserialize(self, string_value):
        assert type(string_value) is bytes
        self.value = json.loads(string_value)


class Blob(PythonState):
    def __init__(self, data=b""):
        self.data = data

    def serialize(self):
        return self.data

    def deserialize(self, string_value):
        self.data = string_value


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None]}, "Grüße", [], 7])
def test_text_comes_back(tmp_path, value):
    settings, weight = Settings(value), tk.Variable([1.0])
    root = tk.train.Checkpoint(settings=settings, weight=weight)
    path = root.save(tmp_path / "state")
    settings.value = "changed"
    weight.assign([2.0])
    root.restore(path).assert_consumed()
    assert settings.value == value
    assert weight.numpy().tolist() == [1]


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x00", bytes(range(256)) * 50])
def test_bytes_come_back(tmp_path, data):
    path = tk.train.Checkpoint(blob=Blob(data)).write(tmp_path / "state")
    other = Blob(b"other")
    tk.train.Checkpoint(blob=other).read(path).assert_consumed()
    assert other.data == data


def test_state_of_a_part_of_a_model_is_restored_when_it_is_added(tmp_path):
    module = tk.Module()
    module.settings = Settings("here")
    path = tk.train.Checkpoint(module=module).write(tmp_path / "state")
    later = tk.Module()
    tk.train.Checkpoint(module=later).read(path)
    later.settings = Settings("")
    assert later.settings.value == "here"


def test_a_class_has_to_define_both():
    class Half(PythonState):
        def serialize(self):
            return ""

    with pytest.raises(TypeError, match=r"abstract method '?deserialize"):
        Half()


def test_serialize_gives_text(tmp_path):
    with pytest.raises(TypeError, match=r"Blob.serialize must give text or bytes, got int"):
        tk.train.Checkpoint(blob=Blob(3)).write(tmp_path / "state")


def test_other_arrays_are_refused():
    with pytest.raises(ValueError, match="Blob stores the bytes 'py_state', the file has x"):
        Blob().load_state_arrays({"x": np.zeros(3, np.uint8)})
