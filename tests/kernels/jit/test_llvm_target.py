"""Which processor LLVM is told of."""

import pytest

pytest.importorskip("llvmlite")

from trainkit.kernels.jit import llvm_target, target


@pytest.fixture(autouse=True)
def without_variables(monkeypatch):
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("level", "last"),
    [("x86-64-v4", "-prefer-256-bit"), ("x86-64-v3", ""), ("", ""), ("aarch64", "")],
)
def test_kernels_are_scheduled_for_the_instruction_set(monkeypatch, level, last):
    import llvmlite.binding as llvm

    monkeypatch.setattr(llvm_target, "level", lambda: level)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "znver5")
    name, features = llvm_target.processor()
    assert name == (level if level.startswith("x86") else "znver5")
    host = llvm.get_host_cpu_features().flatten()
    assert features == (f"{host},{last}" if last else host)


def test_numbas_variables_go_first(monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_NAME", "znver4")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avx2")
    assert llvm_target.processor() == ("znver4", "+avx2")


def test_a_name_alone_keeps_the_features_of_the_host(monkeypatch):
    import llvmlite.binding as llvm

    monkeypatch.setenv("NUMBA_CPU_NAME", "skylake")
    assert llvm_target.processor() == ("skylake", llvm.get_host_cpu_features().flatten())


@pytest.mark.skipif(not target.level().startswith("x86"), reason="levels are those of x86-64")
def test_the_machine_that_writes_code_knows_the_instruction_set():
    assert llvm_target.processor()[0] == target.level()
    llvm_target.target_machine()
