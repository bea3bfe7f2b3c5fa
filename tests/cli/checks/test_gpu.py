import pytest

from tests import stand_in
from tests.stand_in import cudnn
from tests.stand_in.kernels import has_compiler
from trainkit.cli.checks import gpu
from trainkit.kernels.cudnn import deferred, plans

H200 = [{"name": "NVIDIA H200", "driver": "580.95.05"}]
GOOD = {"cupy": "14.0.0", "count": 1, "runtime": 13000, "kernels": 6.0, "products": 8.0}
NO_CUPY = {"failure": "ModuleNotFoundError: No module named 'cupy'"}


@pytest.fixture
def machine(monkeypatch):
    """Says what is visible, and what the two probes find."""

    def set_up(visible, cupy, cudnn=None, plans=None):
        monkeypatch.setattr(gpu, "visible_gpus", lambda: visible)
        answers = {gpu._CUPY: cupy, gpu._CUDNN: cudnn or {"frontend": "1.18", "backend": 91200}}
        answers[gpu._PLANS] = plans or {"plans": 9, "refused": {}}
        monkeypatch.setattr(gpu, "probed", answers.__getitem__)
        return list(gpu.check())

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return set_up


def test_no_gpu_is_as_it_should_be(machine):
    (found,) = machine([], NO_CUPY)
    assert (found.level, found.text) == ("ok", "no GPU is visible: everything runs on the CPU")


def test_cupy_without_a_gpu_is_noted(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (found,) = machine([], {**GOOD, "count": 0})
    assert found.level == "note"
    assert "CUDA_VISIBLE_DEVICES='' decides which are" in found.text


def test_a_gpu_without_cupy(machine):
    (found,) = machine(H200, NO_CUPY)
    assert found.level == "warning"
    assert found.text == "NVIDIA H200 can't be used: CuPy is not installed"
    assert found.mend.startswith("pip install 'cupy-cuda13x[ctk]>=")
    (found,) = machine([{"name": "old", "driver": "535.1"}], NO_CUPY)
    assert found.mend.startswith("pip install 'cupy-cuda12x[ctk]>=")


def test_a_gpu_that_works(machine):
    found = machine(H200, GOOD)
    assert [f.level for f in found] == ["ok"] * 3
    assert found[0].text == "CuPy 14.0.0 with CUDA 13.0 uses NVIDIA H200"
    assert found[1].text == "cuDNN 91200 by its frontend 1.18"
    assert (
        found[2].text
        == "cuDNN has 9 plans for a convolution, attention and normalization, 0 refused"
    )


def test_a_gpu_without_cudnn(machine):
    found = machine(H200, GOOD, {"failure": "No module named 'cudnn'"})
    assert [f.level for f in found] == ["ok", "note"]
    assert found[1].text == (
        "cuDNN can't be used, convolutions go by plain products: No module named 'cudnn'"
    )


def test_a_cupy_that_crashes(machine):
    (found,) = machine(H200, {"failure": "ends the process with SIGSEGV"})
    assert found.level == "problem"
    assert found.text == "CuPy can't use NVIDIA H200: ends the process with SIGSEGV"


def test_a_cupy_that_sees_nothing(machine):
    (found,) = machine(H200, {"cupy": "14", "count": 0})
    assert found.level == "problem"
    assert found.text == "CuPy sees no GPU, the driver NVIDIA H200"


def test_a_library_of_cuda_that_is_missing(machine):
    broken = {**GOOD, "products": None, "errors": {"products": "ImportError: libcublas.so"}}
    found = machine(H200, broken)
    assert found[0].level == "problem"
    assert found[0].text.endswith("but products fail: ImportError: libcublas.so")


def test_the_drivers_tool_names_gpus(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.95.05'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert gpu.visible_gpus() == H200
    tool.write_text("#!/bin/sh\necho 'no driver'\nexit 9\n")
    monkeypatch.setattr(gpu.glob, "glob", lambda pattern: ["/dev/nvidia0", "/dev/nvidiactl"])
    assert gpu.visible_gpus() == [{"name": "the GPU /dev/nvidia0", "driver": ""}]


def test_plans_that_cudnn_refuses_are_listed(machine):
    refused = {"conv.back (2, 8)": "no engine", "attention.forward ()": "head too wide"}
    found = machine(H200, GOOD, plans={"plans": 7, "refused": refused})[2:]
    assert [f.level for f in found] == ["ok", "note", "note"]
    assert (
        found[0].text
        == "cuDNN has 7 plans for a convolution, attention and normalization, 2 refused"
    )
    assert found[1].text.endswith("the plain bodies serve: conv.back (2, 8): no engine")
    (failed,) = machine(H200, GOOD, plans={"failure": "ends the process with SIGSEGV"})[2:]
    assert failed.level == "problem"
    assert "SIGSEGV" in failed.text


@pytest.mark.skipif(not has_compiler(), reason="g++ is not here")
def test_the_probe_of_plans_runs(monkeypatch):
    with stand_in.in_place():
        plans.clear()
        facts = {}
        scope = {"facts": facts, "note": lambda name, find: facts.update({name: find()})}
        before = deferred.mode()
        exec(gpu._PLANS, scope)
        deferred.set_mode(before)
        built = {node for graph in cudnn.STATE.built for node in graph}
        plans.clear()
    assert {"conv_fprop", "batchnorm", "layernorm_backward", "rmsnorm", "sdpa"} <= built
    assert facts["plans"] > 0
    assert isinstance(facts["refused"], dict)
