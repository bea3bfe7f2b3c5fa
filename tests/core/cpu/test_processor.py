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
