"""What makes a machine busy or slow for a benchmark, and makes it as it was again."""

import os

import pytest


@pytest.fixture
def conditions(bench_modules):
    return bench_modules("conditions")


def runs(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_busy_processes_end_with_the_block(conditions):
    with conditions.busy(2) as numbers:
        assert len(numbers) == 2
        assert all(map(runs, numbers))
    assert not any(map(runs, numbers))


def test_there_is_a_busy_process_for_each_core(conditions, monkeypatch):
    monkeypatch.setattr(conditions.os, "sched_getaffinity", lambda who: {0, 3, 5}, raising=False)
    with conditions.busy() as numbers:
        assert len(numbers) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_is_written_as_the_system_wants_it(conditions, tmp_path, monkeypatch, version):
    monkeypatch.setattr(conditions, "GROUPS", tmp_path)
    above = tmp_path if version == 2 else tmp_path / "cpu"
    above.mkdir(exist_ok=True)
    if version == 2:
        (tmp_path / "cgroup.controllers").write_text("cpu")
    with conditions.quota(0.5) as group:
        assert group.parent == above
        assert (group / "cgroup.procs").read_text() == str(os.getpid())
        if version == 2:
            assert (group / "cpu.max").read_text() == "50000 100000"
        else:
            assert (group / "cpu.cfs_quota_us").read_text() == "50000"
            assert (group / "cpu.cfs_period_us").read_text() == "100000"
    assert (above / "cgroup.procs").read_text() == str(os.getpid())


def test_a_quota_that_is_refused_says_what_to_do(conditions, tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "GROUPS", tmp_path / "nowhere")
    with pytest.raises(conditions.Refused, match="CPUQuota=50%"), conditions.quota(0.5):
        raise AssertionError("was not refused")
