"""Programs written for TensorFlow and Keras import trainkit under those names."""

import importlib
import importlib.util
import json
import subprocess
import sys
from types import ModuleType

import pytest

import trainkit as tk
from trainkit.aliases import missing


@pytest.fixture
def served(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] in ("tensorflow", "keras")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(missing, "COUNTS", type(missing.COUNTS)())
    with tk.install_as():
        yield


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("tensorflow", "reduce_mean", tk.reduce_mean),
        ("tensorflow.keras", "Model", tk.Model),
        ("tensorflow.keras.layers", "Dense", tk.layers.Dense),
        ("tensorflow.keras.preprocessing.sequence", "pad_sequences", None),
        ("tensorflow.compat.v1.keras.layers", "Dense", tk.layers.Dense),
        ("tensorflow.io.gfile", "exists", tk.io.gfile.exists),
        ("tensorflow.python.framework.ops", "convert_to_tensor", tk.convert_to_tensor),
        ("tensorflow.python.keras.layers", "Dense", tk.layers.Dense),
        ("keras.ops", "softmax", tk.ops.softmax),
        ("keras_core.layers", "Dense", tk.layers.Dense),
        ("tf_keras.optimizers", "Adam", tk.optimizers.Adam),
        ("keras.src.layers.core.dense", "Dense", tk.layers.Dense),
        ("keras.src.engine.base_layer", "Layer", tk.layers.Layer),
        ("keras.src.saving.serialization_lib", "serialize_keras_object", None),
        ("keras.layers.convolutional", "Conv2D", tk.layers.Conv2D),
        ("tensorflow.keras.utils.np_utils", "to_categorical", tk.keras.utils.to_categorical),
        ("tensorflow.python.keras.layers.recurrent", "LSTM", tk.layers.LSTM),
        ("keras.src.models.model", "Model", tk.Model),
        ("keras._tf_keras.keras.losses", "Huber", tk.losses.Huber),
    ],
)
def test_names_are_those_of_trainkit(served, module, name, value):
    found = getattr(importlib.import_module(module), name)
    assert found is value or (value is None and callable(found))


def test_versions_are_those_of_the_libraries_served(served):
    import keras
    import tensorflow as tf

    assert (tf.__version__, tf.version.VERSION) == ("2.21.0", "2.21.0")
    assert tf.compat.v1.__version__ == "2.21.0"
    assert keras.__version__ == tf.keras.__version__ == tk.keras.__version__
    assert tk.__version__ != tf.__version__
    assert {"constant", "keras", "nn"} <= set(dir(tf))


def test_what_is_not_there_is_counted_once_for_each_time(served):
    import tensorflow as tf

    for _ in range(2):
        with pytest.raises(AttributeError, match="'tensorflow' has no attribute 'lite': see"):
            tf.lite  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'Dense'"):
        tf.keras.layers.Dens  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'nix' from 'keras\.src\.utils'"):
        from keras.src.utils import nix  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"tensorflow\.contrib"):
        import tensorflow.contrib
    for private in ("core", "importlib", "kernels"):
        assert not hasattr(tf, private)
    assert missing.COUNTS["tensorflow.lite"] == 2
    assert missing.COUNTS["tensorflow.keras.layers.Dens"] == 1
    assert missing.COUNTS["keras.src.utils.nix"] == missing.COUNTS["tensorflow.contrib"] == 1
    assert missing.sentence().startswith("asked for, and not there: tensorflow.lite (2 times), ")


def test_a_module_that_is_left_out_says_what_to_use(served):
    with pytest.raises(ModuleNotFoundError, match=r"No module named .*numpy': use NumPy's names"):
        importlib.import_module("tensorflow.experimental.numpy")
    with pytest.raises(ModuleNotFoundError, match=r"use layers of tk\.keras"):
        importlib.import_module("tensorflow.feature_column")
    assert missing.COUNTS == {"tensorflow.experimental.numpy": 1, "tensorflow.feature_column": 1}
    assert importlib.util.find_spec("tensorflow.lite") is None
    with pytest.raises(ImportError, match="cannot import name 'lite'"):
        exec("from tensorflow import lite", {})
    version_1 = importlib.import_module("tensorflow.compat.v1")
    with pytest.raises(AttributeError, match=r"built inside `with tk\.compat\.v1\.Graph"):
        version_1.disable_v2_behavior()


def test_an_original_that_is_in_use_is_not_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    with pytest.raises(RuntimeError, match="tensorflow was imported before"):
        tk.install_as()
    with pytest.raises(ValueError, match="tensorflow=True, keras=True or both"):
        tk.install_as(tensorflow=False, keras=False)


def test_the_names_go_with_the_context():
    with tk.install_as(tensorflow=False):
        import tf_keras

        with tk.install_as():  # which serves one more, and takes that away alone
            import tensorflow  # noqa: F401
        assert "tensorflow" not in sys.modules
        assert sys.modules["tf_keras"] is tf_keras
    assert "tf_keras" not in sys.modules


@pytest.mark.slow
def test_a_script_runs_as_python_alone_would_run_it(tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 3")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, keras, beside\n"
        "import tensorflow as tf\n"
        "from keras import layers\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].layers is layers\n"
        "assert keras.Sequential([layers.Dense(1)])(tf.ones((4, 2))).shape == (4, 1)\n"
        "print(sys.argv[1:], beside.VALUE)\n"
        "hasattr(tf, 'contrib')\n"
        "raise FileNotFoundError('no data')\n"
    )
    command = [sys.executable, "-m", "trainkit", "run", "--report", str(tmp_path / "report.json")]
    done = subprocess.run(
        [*command, str(script), "--epochs", "3", "-m", "--report"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "['--epochs', '3', '-m', '--report'] 3\n"
    assert done.returncode == 1
    first, *_, error, line = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "trainkit" not in done.stderr.partition("FileNotFoundError")[0].replace(
        str(tmp_path), ""
    )
    assert error == "FileNotFoundError: no data"
    assert line == "trainkit run: asked for, and not there: tensorflow.contrib"
    report = json.loads((tmp_path / "report.json").read_text())
    assert report == {"script": str(script), "missing": {"tensorflow.contrib": 1}}
