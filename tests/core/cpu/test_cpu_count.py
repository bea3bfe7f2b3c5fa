"""How many cores a process may use."""

import pytest

from trainkit.core.cpu import cpu_count


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """A folder in place of the control groups', and a function that writes files there."""
    monkeypatch.setattr(cpu_count, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(cpu_count, "bound_cores", lambda: 8)
    text = cpu_count._text
    own = {"/proc/self/cgroup": ""}
    monkeypatch.setattr(cpu_count, "_text", lambda path: own[path] if path in own else text(path))

    def write(path, content):
        if path in own:
            own[path] = content
        else:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        cpu_count.quota.cache_clear()

    cpu_count.quota.cache_clear()
    yield write
    cpu_count.quota.cache_clear()


def test_without_a_limit_the_bound_cores_count(groups):
    assert cpu_count.quota() is None
    assert cpu_count.usable_cores() == 8
    groups("cpu.max", "max 100000\n")
    assert cpu_count.usable_cores() == 8


def test_a_limit_counts_in_started_cores(groups):
    groups("cpu.max", "150000 100000\n")
    assert cpu_count.quota() == 1.5
    assert cpu_count.usable_cores() == 2
    groups("cpu.max", "1000 100000\n")
    assert cpu_count.usable_cores() == 1
    groups("cpu.max", "9900000 100000\n")
    assert cpu_count.usable_cores() == 8


def test_the_smallest_limit_of_the_groups_around_counts(groups):
    groups("/proc/self/cgroup", "0::/outer/inner\n")
    groups("outer/cpu.max", "200000 100000\n")
    groups("outer/inner/cpu.max", "400000 100000\n")
    assert cpu_count.quota() == 2


def test_version_one_has_two_files(groups):
    groups("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/job\n")
    groups("cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n")
    groups("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    assert cpu_count.quota() == 3
    groups("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n")
    assert cpu_count.quota() is None


def test_files_that_make_no_sense_are_no_limit(groups):
    groups("cpu.max", "many 100000\n")
    assert cpu_count.quota() is None
    groups("cpu.max", "0 0\n")
    assert cpu_count.quota() is None


def test_a_system_that_can_not_bind(monkeypatch):
    monkeypatch.delattr(cpu_count.os, "sched_getaffinity")
    monkeypatch.setattr(cpu_count.os, "cpu_count", lambda: None)
    assert cpu_count.bound_cores() == 1


@pytest.mark.parametrize(
    ("local", "around", "expected"), [(4, {0, 1}, 2), (4, {0, 1, 2}, 8), (16, {0, 1}, 1)]
)
def test_processes_of_a_launcher_share_the_cores(groups, monkeypatch, local, around, expected):
    for name, value in (("PMI_RANK", "1"), ("PMI_SIZE", "16"), ("MPI_LOCALNRANKS", str(local))):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        cpu_count.os,
        "sched_getaffinity",
        lambda pid: {0, 1} if pid == 0 else around,
        raising=False,
    )
    assert cpu_count.usable_cores() == expected
