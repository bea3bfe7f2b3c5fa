"""Quantized models go from Keras to here and back; skipped where Keras is not installed."""

import pathlib
import subprocess

import numpy as np

import trainkit as tk
from tests.keras_files.interpreter import PYTHON, needs_keras

SCRIPT = pathlib.Path(__file__).with_name("keras_exchange.py")
pytestmark = needs_keras
TOKENS = np.arange(12, dtype="int32").reshape(2, 6) % 11


def in_keras(what, folder):
    done = subprocess.run(
        [PYTHON, str(SCRIPT), what, str(folder)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


def test_quantized_models_give_the_same_there_and_here(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    in_keras("write", theirs)
    names = [path.stem for path in sorted(theirs.glob("*.keras"))]
    assert {"int8", "int4", "int4_plain", "float8"} <= set(names)
    for name in names:
        model = tk.keras.saving.load_model(theirs / f"{name}.keras")
        wanted = np.load(theirs / f"{name}.npy")
        np.testing.assert_allclose(model(TOKENS), wanted, rtol=1e-6, atol=1e-7, err_msg=name)
        weights = theirs / f"{name}.weights.h5"
        if weights.exists():
            fresh = tk.keras.Model.from_config(model.get_config())
            fresh.load_weights(weights)
            np.testing.assert_allclose(fresh(TOKENS), wanted, rtol=1e-6, atol=1e-7, err_msg=name)
        model.save(ours / f"{name}.keras")
        np.save(ours / f"{name}.npy", np.asarray(model(TOKENS)))
    rows = [line.split() for line in in_keras("read", ours).splitlines() if line[:1].isalpha()]
    off = {row[0]: float(row[1]) for row in rows if len(row) == 3}
    assert set(off) == set(names)
    assert max(off.values()) < 1e-6, off
