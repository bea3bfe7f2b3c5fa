"""`python -m trainkit run` of a saved graph: arrays from files into files."""

import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.cli.main import main

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    f = tk.function(lambda x: x * 2.0, input_signature=[tk.TensorSpec([None, 3], name="x")])
    tk.saved_graph.save(f, "double.h5")

    @tk.function(input_signature=[tk.TensorSpec([None], name="a"), tk.TensorSpec([], name="b")])
    def two(a, b):
        return {"sum": a + b, "product": a * b}

    tk.saved_graph.save(two, "two.h5")
    np.save("x.npy", X)
    np.savez("x.npz", x=X)
    np.save("a.npy", X[0])
    np.save("b.npy", np.float32(3))
    return tmp_path


def test_an_array_goes_in_and_one_comes_out(files, capsys):
    assert main(["run", "double.h5", "--input", "x.npy", "--output", "y.npy"]) == 0
    np.testing.assert_array_equal(np.load("y.npy"), X * 2)
    assert main(["run", "double.h5", "--input", "x=x.npy", "--output", "y.npz"]) == 0
    assert np.load("y.npz")["output_0"].tolist() == (X * 2).tolist()
    assert main(["run", "double.h5", "--input", "x.npz"]) == 0
    assert "output_0  float32[2, 3]\n[[ 0.  2.  4.]" in capsys.readouterr().out


def test_several_go_by_name(files, capsys):
    words = ["run", "two.h5", "--input", "a=a.npy", "--input", "b=b.npy"]
    assert main([*words, "--output", "y.npz"]) == 0
    assert np.load("y.npz")["sum"].tolist() == [3, 4, 5]
    assert main([*words, "--output", "y.npy"]) == 1
    assert "there are 2 results, sum, product: name an npz" in capsys.readouterr().err
    assert main(["run", "two.h5", "--input", "a.npy"]) == 1
    assert "--input a=a.npy" in capsys.readouterr().err


def test_without_inputs_it_says_what_the_model_takes(files, capsys):
    assert main(["run", "two.h5"]) == 0
    shown = capsys.readouterr().out
    assert "takes a: float32[any]" in shown
    assert "gives sum: float32[any]" in shown


def test_folders_have_signatures_by_name(files, capsys):
    model = tk.Sequential([tk.keras.Input((3,)), tk.layers.Dense(2)])
    model.export("served", verbose=False)
    model.save("small.keras")
    assert main(["run", "served", "--input", "x.npy", "--output", "y.npy"]) == 0
    np.testing.assert_array_equal(np.load("y.npy"), model(X).numpy())
    assert main(["run", "small.keras", "--input", "x.npy", "--output", "z.npy"]) == 0
    np.testing.assert_array_equal(np.load("z.npy"), model(X).numpy())
    assert main(["run", "served", "--input", "x.npy", "--signature", "no"]) == 1
    assert "no signature 'no'; it has serve, serving_default" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["double.h5", "--input", "a.npy"], "needs float32[any, 3], given is float32[3]"),
        (["double.h5", "--input", "y=x.npy"], "takes 'x' (float32[any, 3]); given: 'y'"),
        (["double.h5", "--input", "x.npy", "--input", "x.npz"], "'x' is given twice"),
        (["double.h5", "--input", "x=x.npz"], "is no npy; an npz has its names in it"),
        (["double.h5", "--input", "missing.npy"], "missing.npy"),
        (["double.h5", "--input", "x.npy", "--output", "y.txt"], "ends in .npy or .npz"),
        (["--report", "r.json", "double.h5"], "--report is for scripts"),
    ],
    ids=lambda x: str(x)[-30:],
)
def test_what_does_not_fit_is_refused_and_writes_nothing(words, text, files, capsys):
    before = sorted(files.iterdir())
    assert main(["run", *words]) == 1
    assert text in capsys.readouterr().err
    assert sorted(files.iterdir()) == before


def test_a_script_is_still_a_script(files, capsys):
    (files / "script.py").write_text("import sys\nprint('ran', sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, "-m", "trainkit", "run", "script.py", "--input", "x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ran ['--input', 'x']\n"
