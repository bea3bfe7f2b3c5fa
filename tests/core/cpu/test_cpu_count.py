"""How many cores a process may use."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

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


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_groups_of_version_one_within_one_another(groups, folder, controllers):
    """The line names the controllers in another order than the folder on some systems."""
    groups("/proc/self/cgroup", f"5:memory:/m\n4:{controllers}:/outer/inner\n")
    groups(f"{folder}/outer/inner/cpu.cfs_quota_us", "-1\n")
    groups(f"{folder}/outer/inner/cpu.cfs_period_us", "100000\n")
    assert cpu_count.quota() is None
    groups(f"{folder}/outer/cpu.cfs_quota_us", "150000\n")
    groups(f"{folder}/outer/cpu.cfs_period_us", "50000\n")
    assert cpu_count.quota() == 3


@pytest.mark.parametrize(
    ("limit", "cores"), [("50000", 1), ("100000", 1), ("100001", 2), ("250000", 3), ("max", 8)]
)
def test_a_part_of_a_core_is_a_thread(groups, limit, cores):
    groups("/proc/self/cgroup", "0::/job\n")
    groups("job/cpu.max", f"{limit} 100000\n")
    assert cpu_count.usable_cores() == cores


def test_fewer_bound_cores_than_the_limit_gives_count(groups, monkeypatch):
    groups("cpu.max", "250000 100000\n")
    monkeypatch.setattr(cpu_count, "bound_cores", lambda: 2)
    assert cpu_count.usable_cores() == 2


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
        cpu_count.os, "sched_getaffinity", lambda pid: {0, 1} if pid == 0 else around, raising=False
    )
    assert cpu_count.usable_cores() == expected


# ------------------------------------------------------------------ at import

IMPORT = """
import builtins, json, os, pathlib, sys
tree, join = sys.argv[1:]
if join:
    pathlib.Path(join, "cgroup.procs").write_text(str(os.getpid()))
if tree:
    def redirected(path, *args, opened=open, **kwargs):
        found = str(path).startswith(("/sys/fs/cgroup", "/proc/self/cgroup"))
        return opened(tree + str(path) if found else path, *args, **kwargs)

    builtins.open = redirected
    os.sched_getaffinity = lambda who: set(range(8))
import trainkit
from trainkit.core.cpu import blas_config, openblas
from trainkit.kernels.threads import pools, thread_pool
print(json.dumps([
    blas_config.SET.get("OPENBLAS_NUM_THREADS"),
    min(openblas.blas_threads(), pools.compute_threads()),
    thread_pool.thread_pool() is not None,
]))
"""
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")


def imported(tree="", join="", **variables):
    """What OpenBLAS is told, the threads of an operation, and whether there is a pool of them."""
    given = {name: text for name, text in os.environ.items() if name not in THREAD_VARIABLES}
    command = [sys.executable, "-c", IMPORT, str(tree), str(join)]
    done = subprocess.run(command, env=given | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_files(tree, version, cores):
    """Groups of a job, as files: it has so many cores' time, its step no limit of its own."""
    line, base = ("0::/job/step", "") if version == 2 else ("4:cpuacct,cpu:/job/step", "cpu/")
    limits = {
        2: {"job/cpu.max": f"{cores * 100_000:.0f} 100000", "job/step/cpu.max": "max 100000"},
        1: {
            "job/cpu.cfs_quota_us": f"{cores * 100_000:.0f}",
            "job/cpu.cfs_period_us": "100000",
            "job/step/cpu.cfs_quota_us": "-1",
            "job/step/cpu.cfs_period_us": "100000",
        },
    }[version]
    files = {"/proc/self/cgroup": line}
    files |= {f"/sys/fs/cgroup/{base}{name}": text for name, text in limits.items()}
    for path, text in files.items():
        place = pathlib.Path(f"{tree}{path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")


needs_cores = pytest.mark.skipif(
    cpu_count.usable_cores() < 2, reason="one core: every operation has one thread"
)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes can't be bound here")
@pytest.mark.parametrize("version", [1, 2])
def test_half_a_core_is_one_thread_from_the_import_on(tmp_path, version):
    in_files(tmp_path, version, 0.5)
    assert imported(tmp_path) == ["1", 1, False]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes can't be bound here")
def test_two_and_a_half_cores_are_three_threads(tmp_path):
    in_files(tmp_path, 2, 2.5)
    assert imported(tmp_path)[0] == "3"


@needs_cores
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes can't be bound here")
@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_a_number_that_the_user_says_goes_before_the_limit(tmp_path, name):
    in_files(tmp_path, 2, 0.5)
    assert imported(tmp_path, **{name: "2"}) == [None, 2, True]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes can't be bound here")
@pytest.mark.parametrize("text", ["", "0", "many"])
@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_variable_without_a_number_leaves_the_limit(tmp_path, name, text):
    """OpenBLAS passes over such a variable, and would take all cores."""
    in_files(tmp_path, 2, 0.5)
    assert imported(tmp_path, **{name: text}) == ["1", 1, False]


@contextlib.contextmanager
def real_groups(cores):
    """A control group with so many cores' time, and the folder of one in it without a limit."""
    root = pathlib.Path(cpu_count.CGROUPS)
    new = (root / "cgroup.controllers").exists()
    job = (root if new else root / "cpu") / f"trainkit-test-{os.getpid()}"
    limit, step = int(cores * 100_000), job / "step"
    try:
        job.mkdir()
        if new:
            (job / "cpu.max").write_text(f"{limit} 100000")
        else:
            (job / "cpu.cfs_period_us").write_text("100000")
            (job / "cpu.cfs_quota_us").write_text(str(limit))
        step.mkdir()
        yield step
    except OSError as error:
        pytest.skip(f"control groups can't be made here: {error}")
    finally:
        for folder in (step, job):
            with contextlib.suppress(OSError):
                folder.rmdir()


def test_in_a_control_group(tmp_path):
    """A real one, around the group that the process is in."""
    with real_groups(0.5) as group:
        set_to, threads, pool = imported(join=group)
    assert (threads, pool) == (1, False)
    assert set_to == ("1" if cpu_count.bound_cores() > 1 else None)
