"""What the system says of the processor."""

from types import SimpleNamespace

import pytest

from trainkit.core.cpu import processor
from trainkit.kernels.jit import target

OF_INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
model\t\t: 143
flags\t\t: fpu avx avx2 avx512f avx512bw avx512cd avx512dq avx512vl
"""
OF_ARM = """\
processor\t: 0
Features\t: fp asimd asimddp
CPU implementer\t: 0x41
"""


@pytest.mark.parametrize(
    ("machine", "text", "known"),
    [
        ("x86_64", OF_INTEL, {"avx2", "avx512f"}),
        ("aarch64", OF_ARM, {"asimd"}),
        ("aarch64", OF_INTEL, set()),
        ("x86_64", "", set()),
    ],
    ids=["x86", "arm", "arm emulated on x86", "nothing"],
)
def test_only_the_own_kind_of_abilities_counts(machine, text, known, monkeypatch, tmp_path):
    """Tiles laid out for wider vectors than are compiled for would give nonsense."""
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(processor, "_CPUINFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(processor.os, "uname", lambda: SimpleNamespace(machine=machine))
    _, found = processor.processor_facts.__wrapped__()
    assert known <= found
    assert bool(known) == bool(found)


def test_an_emulator_s_host_does_not_choose_the_tiles(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(OF_INTEL)
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(processor, "_CPUINFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(processor.os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    monkeypatch.setattr(target, "processor_facts", processor.processor_facts.__wrapped__)
    monkeypatch.setattr(target, "features", target.features.__wrapped__)
    assert target.vector_lanes() == 4


@pytest.fixture
def caches(monkeypatch, tmp_path):
    """A function that has the system name caches (level, type, size); then all is as before."""

    def named(*facts):
        for i, fact in enumerate(facts):
            folder = tmp_path / f"index{i}"
            folder.mkdir()
            for name, text in zip(("level", "type", "size"), fact, strict=True):
                (folder / name).write_text(f"{text}\n")
        monkeypatch.setattr(processor, "_CACHES", str(tmp_path))
        return [processor.cache_bytes.__wrapped__(level) for level in (1, 2, 3)]

    return named


def test_caches_are_read_by_level_and_those_of_instructions_are_left_out(caches):
    found = caches((1, "Instruction", "64K"), (1, "Data", "48K"), (2, "Unified", "1M"))
    assert found == [48 << 10, 1 << 20, 8 << 20]


def test_caches_that_nobody_names_have_usual_sizes(caches, monkeypatch):
    usual = [32 << 10, 512 << 10, 8 << 20]
    assert caches((1, "Data", "many"), (2, "Unified", ""), (3, "Unified", "0K")) == usual
    monkeypatch.setattr(processor, "_CACHES", "/no/such/folder")
    assert [processor.cache_bytes.__wrapped__(level) for level in (1, 2, 3)] == usual


@pytest.mark.parametrize("size", ["1K", "16K", "2M"])
def test_a_first_cache_that_no_processor_has_is_not_believed(caches, size):
    assert caches((1, "Data", size), (2, "Unified", "2M"))[:2] == [32 << 10, 2 << 20]


@pytest.mark.parametrize("size", ["4K", "64K", "1G"])
def test_nor_is_such_a_second_cache(caches, size):
    assert caches((1, "Data", "48K"), (2, "Unified", size))[:2] == [48 << 10, 512 << 10]
