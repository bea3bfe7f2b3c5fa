import pytest

from trainkit.cli.checks import processor


@pytest.fixture
def machine(monkeypatch):
    """A machine with four cores, AVX-512, and an OpenBLAS that uses it with four threads."""
    for name in (*processor.blas_config.THREAD_VARIABLES, "NUMBA_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENBLAS_CORETYPE", "TRAINKIT_BLAS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(processor.blas_config, "SET", {})
    monkeypatch.setattr(processor.blas_config, "has_avx512", lambda: True)
    monkeypatch.setattr(processor.cpu_count, "usable_cores", lambda: 4)
    monkeypatch.setattr(processor.cpu_count, "quota", lambda: None)
    monkeypatch.setattr(processor.pools, "blas_library", lambda: object())
    monkeypatch.setattr(processor.pools, "blas_threads", lambda: 4)
    monkeypatch.setattr(processor.pools, "most_blas_threads", lambda: 64)
    monkeypatch.setattr(processor.pools._Chosen, "compute", 0)
    texts = {"config": "OpenBLAS 0.3.31 MAX_THREADS=64", "corename": "SkylakeX"}
    monkeypatch.setattr(processor.pools, "blas_text", texts.__getitem__)
    monkeypatch.texts = texts
    return monkeypatch


def levels(found):
    return [finding.level for finding in found]


def test_all_is_well(machine):
    assert levels(processor.check_blas()) == ["ok"]
    assert levels(processor.check_threads()) == ["ok"]


def test_kernels_without_avx512_are_slow(machine):
    machine.texts["corename"] = "Haswell"
    (found,) = processor.check_blas()
    assert found.level == "warning"
    assert "its Haswell kernels, which leave AVX-512 unused" in found.text
    assert found.mend == "export OPENBLAS_CORETYPE=SkylakeX"
    machine.setenv("TRAINKIT_BLAS", "default")
    assert next(iter(processor.check_blas())).mend == "unset TRAINKIT_BLAS"
    machine.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert next(iter(processor.check_blas())).mend == "unset OPENBLAS_CORETYPE"
    machine.setattr(processor.blas_config, "has_avx512", lambda: False)
    assert levels(processor.check_blas()) == ["ok"]


def test_a_choice_by_trainkit_depends_on_what_else_runs(machine):
    machine.setattr(processor.blas_config, "SET", {"OPENBLAS_CORETYPE": "SkylakeX"})
    found = list(processor.check_blas())
    assert levels(found) == ["ok", "note"]
    assert "can't where NumPy is imported first" in found[1].text


def test_another_blas(machine):
    machine.setattr(processor.pools, "blas_library", lambda: None)
    (found,) = processor.check_blas()
    assert found.level == "note"
    assert "OpenBLAS only" in found.text
    assert found.facts["library"]


def test_more_threads_than_cores(machine):
    machine.setattr(processor.cpu_count, "usable_cores", lambda: 2)
    machine.setattr(processor.cpu_count, "quota", lambda: 1.5)
    found = list(processor.check_threads())
    assert "a control group gives the time of 1.5" in found[0].text
    assert found[1].level == "warning"
    assert found[1].text == "BLAS has 4 threads for 2 cores: they wait for each other"
    assert found[1].mend == "export OPENBLAS_NUM_THREADS=2"


def test_fewer_threads_than_cores(machine):
    machine.setattr(processor.pools, "blas_threads", lambda: 1)
    machine.setenv("OMP_NUM_THREADS", "1")
    found = list(processor.check_threads())
    assert levels(found) == ["ok", "note"]
    assert found[1].text == "operations use 1 of 4 cores, as OMP_NUM_THREADS says"
    assert found[1].mend == "unset OMP_NUM_THREADS"


def test_pools_of_two_sizes(machine):
    machine.setenv("NUMBA_NUM_THREADS", "3")
    found = list(processor.check_threads())
    assert levels(found) == ["ok", "warning"]
    assert found[1].text == "compiled kernels have 3 threads and BLAS has 4"
    machine.setenv("NUMBA_NUM_THREADS", "many")
    assert levels(processor.check_threads()) == ["ok"]


def test_threads_that_never_sleep(machine):
    machine.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert levels(processor.check_threads()) == ["ok", "warning"]
