"""The GPU's benchmarks run through on the stand-in for CuPy, whose times mean nothing."""

import json

import pytest

from tests import stand_in


@pytest.fixture
def gpu(bench_modules):
    return bench_modules("gpu")


def run(gpu, monkeypatch, *words):
    monkeypatch.setattr(gpu.sys, "argv", ["gpu.py", *words])
    gpu.main()


@pytest.mark.parametrize("case", ["matmul", "mlp", "cnn", "adam"])
def test_each_case_runs_and_is_kept(gpu, monkeypatch, tmp_path, capsys, case):
    monkeypatch.setitem(gpu.CASES, case, {"trainkit": gpu.CASES[case]["trainkit"]})
    kept = tmp_path / "found.json"
    with stand_in.in_place():
        run(gpu, monkeypatch, case, "--small", "--rounds=1", "--seconds=0", f"--json={kept}")
    assert f"{case:9} trainkit" in capsys.readouterr().out
    assert list(json.loads(kept.read_text())["seconds"]) == [f"{case} trainkit"]


def test_the_rates_count_what_is_moved(gpu):
    size = gpu.SIZES["full"]
    assert gpu.rate("adam", "trainkit", size, 1.0).split() == ["2.8", "GB/s"]
    assert gpu.rate("update", "torch", size, 1.0).split() == ["0.7", "GB/s"]
    assert gpu.rate("adam", "copy", size, 1.0).split() == ["0.8", "GB/s"]
    assert gpu.rate("matmul", "torch", size, 1.0).split() == ["27.49", "TFLOP/s"]


@pytest.mark.usefixtures("on_cpu")
def test_without_a_gpu_it_says_what_to_install(gpu, monkeypatch):
    monkeypatch.setattr("trainkit.core.devices.gpu_count", lambda: 0)
    with pytest.raises(SystemExit, match=r"pip install 'trainkit\[cuda13\]'"):
        run(gpu, monkeypatch, "adam")


def test_an_unknown_case_is_named(gpu, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(gpu, monkeypatch, "vgg")
    assert "there is no case ['vgg']; there are matmul" in capsys.readouterr().err
