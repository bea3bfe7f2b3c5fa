"""The GPU's benchmarks run through on the stand-in for CuPy, whose times mean nothing."""

import json
import sys
from types import SimpleNamespace

import pytest

import trainkit as tk
from tests.stand_in import cudnn
from trainkit.kernels.cudnn import deferred


@pytest.fixture
def gpu(bench_modules):
    return bench_modules("gpu")


def run(gpu, monkeypatch, *words):
    monkeypatch.setattr(gpu.sys, "argv", ["gpu.py", *words])
    gpu.main()


SMALL = ("--small", "--rounds=1", "--seconds=0")


@pytest.mark.parametrize("case", ["matmul", "mlp", "eager", "cnn", "lstm", "transformer", "adam"])
def test_each_case_runs_and_is_kept(gpu, monkeypatch, tmp_path, capsys, case):
    monkeypatch.setitem(gpu.CASES, case, {"trainkit": gpu.CASES[case]["trainkit"]})
    kept = tmp_path / "found.json"
    run(gpu, monkeypatch, case, *SMALL, "--limit=0", "--on=stand-in", f"--json={kept}")
    names = [case + " trainkit", *[case + " trainkit tf32"] * (case != "adam")]
    assert all(f"{case:11} trainkit" in line for line in capsys.readouterr().out.splitlines()[1:])
    found = json.loads(kept.read_text())["found"]
    assert list(found) == names
    assert all(0 < numbers["host_seconds"] for numbers in found.values())


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("case", ["batch_norm", "layer_norm"])
def test_kernels_that_are_chosen_between_have_a_row_each(gpu, monkeypatch, capsys, case, policy):
    kinds, before = [], deferred.mode()
    made = {name: gpu.CASES[case][name] for name in ("trainkit", "own", "cudnn")}

    def noted(gpu_of_it, rounds, least):
        cudnn.STATE.executed.clear()
        gpu_of_it[0]()
        kinds.append({node for graph, _ in cudnn.STATE.executed for node in graph})
        return 1.0, 1.0

    monkeypatch.setattr(gpu, "seconds", noted)
    monkeypatch.setitem(gpu.CASES, case, made)
    words = (*SMALL, "--limit=0", "--on=stand-in", f"--policy={policy}")
    run(gpu, monkeypatch, case, *words)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [[case, name] for name in made]
    node = case.replace("_", "")
    assert kinds == [set(), set(), {node, f"{node}_backward"}]
    assert deferred.mode() == before


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_is_measured_once_and_where_it_means_anything(
    gpu, monkeypatch, capsys, policy
):
    for case in ("mlp", "adam"):
        monkeypatch.setitem(gpu.CASES, case, {"trainkit": gpu.CASES[case]["trainkit"]})
    words = (*SMALL, "--limit=0", "--on=stand-in", f"--policy={policy}")
    run(gpu, monkeypatch, "mlp", "adam", *words)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["mlp", "trainkit"]]


def test_tf32_is_chosen_for_each_measurement(gpu, monkeypatch):
    chosen = []
    monkeypatch.setattr(gpu, "_choose_tf32", lambda *given: chosen.append(given))
    monkeypatch.setitem(gpu.CASES, "mlp", {"trainkit": gpu.CASES["mlp"]["trainkit"]})
    run(gpu, monkeypatch, "mlp", *SMALL, "--limit=0", "--on=stand-in")
    assert chosen == [("trainkit", False), ("trainkit", True)]


@pytest.mark.parametrize("allowed", [False, True])
def test_all_contestants_take_tf32_alike(gpu, monkeypatch, allowed):
    """PyTorch by itself takes it for convolutions alone, trainkit for nothing."""
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)),
        cudnn=SimpleNamespace(allow_tf32=True),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(backends=backends))
    config = tk.config.experimental
    try:
        for name in ("torch", "trainkit"):
            gpu._choose_tf32(name, allowed)
        assert backends.cuda.matmul.allow_tf32 is allowed
        assert backends.cudnn.allow_tf32 is allowed
        assert config.tensor_float_32_execution_enabled() is allowed
    finally:
        config.enable_tensor_float_32_execution(False)


def test_tf32_is_a_row_of_its_own_for_products_and_convolutions(gpu):
    """So that no time with it stands beside one without."""
    for case in ("matmul", "cnn", "resnet50", "transformer", "lstm"):
        found = gpu.contestants(case, "float32")
        for name in ("trainkit", "torch"):
            assert (name in found) == (f"{name} tf32" in found)
        assert "trainkit tf32" in found
        assert not any("tf32" in name for name in gpu.contestants(case, "mixed_bfloat16"))


def test_a_measurement_in_its_own_process_and_one_that_takes_too_long(gpu, monkeypatch, capsys):
    monkeypatch.setitem(gpu.CASES, "adam", {"copy": None})  # the process has cases of its own
    run(gpu, monkeypatch, "adam", *SMALL, "--limit=100", "--on=stand-in")
    assert "adam        copy" in capsys.readouterr().out
    run(gpu, monkeypatch, "adam", *SMALL, "--limit=0.01", "--on=stand-in")
    assert "no end within 0.01 s" in capsys.readouterr().out


def test_what_is_not_installed_is_left_out(gpu, monkeypatch, capsys):
    def missing(size, policy):
        raise ImportError("no such library")

    monkeypatch.setitem(gpu.CASES, "adam", {"torch": missing})
    run(gpu, monkeypatch, "adam", *SMALL, "--limit=0", "--on=stand-in")
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_rates_count_what_is_moved(gpu):
    size = gpu.SIZES["full"]
    assert gpu.rate("adam", "trainkit", size, 1.0).split() == ["2.8", "GB/s"]
    assert gpu.rate("update", "torch", size, 1.0).split() == ["0.7", "GB/s"]
    assert gpu.rate("adam", "copy", size, 1.0).split() == ["0.8", "GB/s"]
    assert gpu.rate("matmul", "torch", size, 1.0).split() == ["27.49", "TFLOP/s"]


@pytest.mark.usefixtures("on_cpu")
def test_without_a_gpu_it_says_what_to_install(gpu, monkeypatch):
    monkeypatch.setattr("trainkit.core.devices.gpu_count", lambda: 0)
    with pytest.raises(SystemExit, match=r"pip install 'cupy-cuda13x\[ctk\]"):
        run(gpu, monkeypatch, "adam", "--limit=0")


def test_an_unknown_case_is_named(gpu, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(gpu, monkeypatch, "vgg")
    assert "there is no case ['vgg']; there are matmul" in capsys.readouterr().err
