"""A contestant is warmed up, sampled and cleaned up, in a process of its own."""

import pytest


@pytest.fixture
def contestant(bench_modules):
    return bench_modules("contestant")


@pytest.fixture
def clock(monkeypatch, contestant):
    """A clock that steps move on by hand."""
    now = [0.0]
    monkeypatch.setattr(contestant.time, "perf_counter", lambda: now[0])

    def taking(seconds, log):
        def step():
            now[0] += seconds
            log.append(now[0])
            return 0.25

        return lambda: step

    return taking


def test_a_sample_has_as_many_steps_as_its_length_asks_for(contestant, clock):
    log = []
    ready = contestant.Prepared(clock(0.001, log), seconds=0.25, warm_seconds=1.0)
    assert 1.0 <= log[-1] < 3.0
    before = len(log)
    assert ready.sample() == pytest.approx(0.001)
    assert len(log) - before == 250 + 50  # a fifth of them brings the caches back
    assert ready.first == 0.25


def test_a_long_step_is_done_once(contestant, clock):
    log = []
    ready = contestant.Prepared(clock(5.0, log), seconds=0.1, warm_seconds=1.0)
    assert len(log) == 3  # the first, one that is warm, and one to know how long it lasts
    assert ready.sample() == 5.0
    assert len(log) == 4


def test_a_step_may_measure_by_itself(contestant):
    class Step:
        def __call__(self):
            return 0.5

        def measured(self):
            return 1.25

    ready = contestant.Prepared(Step, seconds=0.1, warm_seconds=1.0)
    assert (ready.first, ready.sample()) == (0.5, 1.25)


def test_a_step_that_starts_from_nothing_is_done_once_for_each_sample(contestant):
    done = []

    class Step:
        fresh = True

        def measured(self):
            done.append(True)
            return 0.001

    ready = contestant.Prepared(Step, seconds=0.1, warm_seconds=1.0)
    assert (ready.first, done) == (None, [])
    assert ready.sample() == 0.001
    assert done == [True]


def test_what_compiles_is_waited_for(contestant, clock, monkeypatch):
    log, answers = [], iter([True, True, False])
    monkeypatch.setattr(contestant, "compiling", lambda: next(answers))
    contestant.Prepared(clock(1.0, log), seconds=0.1, warm_seconds=0.0)
    assert len(log) == 1 + 2 + 1
    monkeypatch.setattr(contestant, "compiling", lambda: True)
    contestant.Prepared(clock(1.0, log), seconds=0.1, warm_seconds=0.0)
    assert len(log) == 4 + 1 + contestant.LONGEST_COMPILE_SECONDS + 1


def test_a_generator_cleans_up(contestant):
    done = []

    def started():
        yield lambda: None
        done.append(True)

    ready = contestant.Prepared(started, 0.0, 0.0)
    assert ready.first is None
    assert done == []
    ready.close()
    assert done == [True]


@pytest.mark.parametrize(
    ("name", "compiles"), [("trainkit-compile", True), ("trainkit-compiler", False)]
)
def test_threads_that_compile_are_known(contestant, name, compiles):
    import threading

    wait = threading.Event()
    thread = threading.Thread(target=wait.wait, name=name)
    thread.start()
    assert contestant.compiling() is compiles
    wait.set()
    thread.join()
    assert not contestant.compiling()


FILE = """
from timing import Benchmark


def absent():
    import a_framework_nobody_has


def broken():
    raise OSError("no disk")


def dying():
    import os
    os._exit(3)


def noisy():
    print("hello")
    return lambda: 0.5


BENCHMARKS = [
    Benchmark("one", "s", 1, {"a": noisy, "absent": absent, "broken": broken, "dying": dying})
]
"""


@pytest.fixture
def process(bench_modules, tmp_path):
    processes = bench_modules("processes")
    path = tmp_path / "bench_a.py"
    path.write_text(FILE)
    begun = []

    def begin(name):
        begun.append(processes.Process(path, name, {}))
        return processes, begun[-1]

    yield begin
    for one in begun:
        one.end()


def test_a_process_takes_samples(process):
    processes, one = process("a")
    remote = processes.Remote(one, 0, 0.0, 0.0, shared=True)
    assert remote.first == 0.5
    assert remote.sample() >= 0
    remote.close()
    with pytest.raises(processes.Failed, match="nothing is prepared"):
        remote.sample()


def test_a_framework_that_is_absent(process):
    processes, one = process("absent")
    with pytest.raises(processes.Absent, match="a_framework_nobody_has"):
        processes.Remote(one, 0, 0.0, 0.0, shared=False)


@pytest.mark.parametrize(
    ("name", "text"), [("broken", "OSError: no disk"), ("dying", "ended with status 3")]
)
def test_a_contestant_that_fails(process, name, text):
    processes, one = process(name)
    with pytest.raises(processes.Failed, match=text):
        processes.Remote(one, 0, 0.0, 0.0, shared=False)


def test_frameworks_may_have_a_python_of_their_own(bench_modules, monkeypatch, tmp_path):
    processes = bench_modules("processes")
    assert processes.pythons("torch=/a,tensorflow=/b") == {"torch": "/a", "tensorflow": "/b"}
    assert processes.pythons("") == {}
    with pytest.raises(ValueError, match="expected NAME=PATH, got 'torch'"):
        processes.pythons("torch")
    asked = []

    def start(command, **more):
        asked.append(command[0])
        raise FileNotFoundError

    monkeypatch.setattr(processes.subprocess, "Popen", start)
    where = {"torch": "/a", "keras": "/k", "keras-jax": "/j"}
    for name in ("torch tuned", "keras-torch fit", "keras-jax fit", "trainkit"):
        with pytest.raises(FileNotFoundError):
            processes.Process(tmp_path, name, where)
    assert asked == ["/a", "/k", "/j", processes.sys.executable]


def test_no_setting_of_kernels_or_threads_is_handed_on(bench_modules, monkeypatch):
    processes = bench_modules("processes")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HOME", "/home/x")
    given = processes.environment()
    assert not {"OPENBLAS_CORETYPE", "OMP_NUM_THREADS"} & set(given)
    assert given["HOME"] == "/home/x"
