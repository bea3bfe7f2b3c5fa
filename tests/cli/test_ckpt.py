import json
import subprocess
import sys

import h5py
import numpy as np
import pytest

from tests.checkpoints.objects import Momentum, built_net, weights_of
from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.cli.main import main
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable


@pytest.fixture
def saved(tmp_path):
    """Two checkpoints of one run."""
    net, optimizer = built_net(1.0), Momentum()
    checkpoint = Checkpoint(model=net, optimizer=optimizer)
    optimizer.step(weights_of(net))
    first = checkpoint.save(tmp_path / "ckpt")
    net.layers[0].bias.assign(np.array([1.0, 1.25], np.float32))
    return first, checkpoint.save(tmp_path / "ckpt")


def run(capsys, *words):
    status = main([str(word) for word in words])
    return status, capsys.readouterr().out


def test_ls_lists_the_values_of_a_file(saved, capsys):
    status, out = run(capsys, "ckpt", "ls", saved[0])
    assert status == 0
    assert out.startswith(f"{saved[0]}: checkpoint, step 1, saved_at 20")
    assert "  model/layers/1/kernel                     (2, 4)           float32\n" in out
    assert out.endswith("  11 arrays, 180 bytes\n")


def test_ls_gives_json(saved, capsys):
    _, out = run(capsys, "ckpt", "ls", saved[0], "--json")
    data = json.loads(out)
    assert data["manifest"]["step"] == 1
    assert {"path": "save_counter", "shape": [], "dtype": "int64", "bytes": 8} in data["arrays"]


def test_ls_lists_the_checkpoints_of_a_folder(saved, capsys, tmp_path):
    (tmp_path / "ckpt-9").write_bytes(b"half")
    _, out = run(capsys, "ckpt", "ls", tmp_path)
    lines = out.splitlines()
    assert [line.partition("  ")[0] for line in lines[:2]] == list(saved)
    assert "can't be used" in lines[2]
    assert len(json.loads(run(capsys, "ckpt", "ls", tmp_path, "--json")[1])) == 3


def test_diff_shows_what_differs(saved, capsys):
    status, out = run(capsys, "ckpt", "diff", *saved)
    assert status == 1
    assert "model/layers/0/bias  other values: 1 differ, by 0.25 at most\n" in out
    assert "save_counter  other values" in out
    assert len(out.splitlines()) == 2
    assert run(capsys, "ckpt", "diff", saved[0], saved[0]) == (0, "no difference\n")


def test_diff_shows_paths_shapes_and_dtypes(tmp_path, capsys):
    one = Checkpoint(a=Variable([1.0]), b=Variable(1), c=Variable(2)).write(tmp_path / "one")
    two = Checkpoint(a=Variable([1.0, 2.0]), b=Variable(1.0), d=Variable(2)).write(tmp_path / "two")
    found = json.loads(run(capsys, "ckpt", "diff", one, two, "--json")[1])
    assert [(item["path"], item["what"]) for item in found] == [
        ("a", "other shape"),
        ("b", "other dtype"),
        ("c", "only in the first"),
        ("d", "only in the second"),
    ]
    assert (
        "a  other shape: (1,) float32 and (2,) float32\n"
        in run(capsys, "ckpt", "diff", one, two)[1]
    )


def test_verify_finds_damage(saved, capsys, tmp_path):
    assert run(capsys, "ckpt", "verify", tmp_path) == (
        0,
        f"{saved[0]}  good, 11 arrays\n{saved[1]}  good, 11 arrays\n",
    )
    with open(saved[1], "r+b") as file:
        file.seek(3000)
        byte = file.read(1)
        file.seek(3000)
        file.write(bytes([byte[0] ^ 1]))
    status, out = run(capsys, "ckpt", "verify", saved[1])
    assert status == 1
    assert "BAD" in out
    results = json.loads(run(capsys, "ckpt", "verify", tmp_path, "--json")[1])
    assert [r["good"] for r in results] == [True, False]


def test_cat_prints_values(saved, capsys):
    assert run(capsys, "ckpt", "cat", saved[1], "model/layers/0/bias") == (0, "[1.  , 1.25]\n")
    _, out = run(capsys, "ckpt", "cat", saved[1], "/model/layers/0/bias", "--json")
    assert json.loads(out) == {"shape": [2], "dtype": "float32", "values": [1.0, 1.25]}


def test_cat_names_what_is_near(saved, capsys):
    assert main(["ckpt", "cat", saved[1], "model/layers/0/bia"]) == 1
    assert "near: model/layers/0/bias" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_convert_to_a_flat_table_and_back(saved, capsys, tmp_path, ending):
    flat, again = tmp_path / f"m.{ending}", tmp_path / "again"
    assert run(capsys, "ckpt", "convert", saved[1], flat) == (0, f"{flat}: {ending}\n")
    assert run(capsys, "ckpt", "convert", flat, again)[0] == 0
    assert run(capsys, "ckpt", "diff", saved[1], again) == (0, "no difference\n")
    net, optimizer = built_net(0.0), Momentum()
    optimizer.step(weights_of(net))
    Checkpoint(model=net, optimizer=optimizer).restore(again).expect_partial()
    assert net.layers[0].bias.numpy().tolist() == [1.0, 1.25]


def test_convert_compresses_and_keeps_the_structure(capsys, tmp_path):
    part = Trackable()
    part.x, part.me = Variable(np.zeros((200, 100), np.float32)), part
    path = Checkpoint(a=part, b=part.x).write(tmp_path / "plain")
    small = tmp_path / "small"
    assert run(capsys, "ckpt", "convert", path, small, "--compression", "gzip")[0] == 0
    assert small.stat().st_size < 20_000
    with h5py.File(small) as file:
        assert file["a/x"] == file["b"]
        assert file["a/me"] == file["a"]
        assert file["a/x"].compression == "gzip"
    part.x.assign(np.ones((200, 100), np.float32))
    Checkpoint(a=part, b=part.x).read(small).assert_consumed()
    assert part.x.numpy().max() == 0.0


def test_convert_says_when_it_would_need_the_model(saved, tmp_path, capsys):
    assert main(["ckpt", "convert", saved[0], str(tmp_path / "m.weights.h5")]) == 1
    assert "only the model knows" in capsys.readouterr().err
    assert main(["ckpt", "convert", saved[0], str(tmp_path / "m.keras")]) == 1
    assert not (tmp_path / "m.keras").exists()


def test_errors_are_one_line(tmp_path, capsys):
    assert main(["ckpt", "ls", str(tmp_path / "none")]) == 1
    assert (
        capsys.readouterr().err
        == f"trainkit ckpt: there is no checkpoint {str(tmp_path / 'none')!r}\n"
    )
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])


def test_it_runs_as_a_module(saved):
    done = subprocess.run(
        [sys.executable, "-m", "trainkit", "ckpt", "verify", saved[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{saved[0]}  good, 11 arrays\n")
