"""Seeds for every test, and the devices that tests run on."""

import gc
import itertools
import os
import random
import signal
import threading

# Hot kernels compile in threads, and Numba sets warning filters meanwhile, which all threads share:
# a test of a warning would depend on chance. Tests of kernels choose a mode themselves.
os.environ.setdefault("TRAINKIT_JIT", "0")

import hypothesis
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.core.process.key_locks import KeyLocks
from trainkit.kernels.jit import kernel_family

SEED = 20


def pytest_addoption(parser):
    parser.addoption(
        "--gpu-stand-in",
        action="store_true",
        help="put NumPy behind CuPy's interface and make that the default device of every test; "
        "shows what would be copied or refused, and nothing about a GPU",
    )


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # No test is to fail since a machine is busy, or a compiler works in between. Nor by chance: a
    # commit that passed would fail on another day. A seed, which may be a word, draws others.
    slow = [hypothesis.HealthCheck.too_slow]
    is_fixed = config.getoption("--hypothesis-seed", None) is None
    hypothesis.settings.register_profile(
        "patient",
        hypothesis.settings.default,
        deadline=None,
        suppress_health_check=slow,
        derandomize=is_fixed,
    )
    hypothesis.settings.load_profile("patient")
    if config.getoption("--gpu-stand-in"):  # before tests are imported, which make tensors
        standing_in = stand_in.in_place()
        standing_in.__enter__()
        config.add_cleanup(lambda: standing_in.__exit__(None, None, None))


@hypothesis.settings(max_examples=1, database=None, phases=[hypothesis.Phase.generate])
@hypothesis.given(hypothesis.strategies.none())
def draw_once(value):
    """Hypothesis makes its random numbers at the first draw, and asks who refers to them."""


def pytest_collection(session):
    """What is made from here on stays: collections of garbage would look at it again and again."""
    gc.disable()


def pytest_collection_finish(session):
    """Tens of thousands of tests stay until the end: collections of garbage pass over them."""
    draw_once()  # before: objects that are frozen are not named when one asks who refers to another
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """What a folder's tests leave stays too, as what Numba knows of kernels that it compiled.

    A collection took two seconds behind tests of kernels, and there are hundreds.
    """
    if nextitem is not None and nextitem.path.parent != item.path.parent:
        gc.collect()
        gc.freeze()


def pytest_report_header(config):
    if config.getoption("--gpu-stand-in"):
        return "GPU STAND-IN: NumPy behind CuPy's interface; nothing here runs on a GPU"
    return None


PASSED_PER_DOT = 100
passed = itertools.count(1)


def pytest_report_teststatus(report, config):
    """A dot for a hundred tests that passed: 47,000 would each be written and flushed by itself."""
    if report.when == "call" and report.outcome == "passed" and config.get_verbosity() < 1:
        if not hasattr(report, "wasxfail") and next(passed) % PASSED_PER_DOT:
            return "passed", "", ""
    return None


def gpu_works() -> bool:
    return bool(tk.config.list_physical_devices("GPU"))


@pytest.fixture(autouse=True)
def _seeded():
    """The same random numbers for each test, whatever ran before it."""
    random.seed(SEED)
    np.random.seed(SEED)
    tk.random.set_seed(SEED)


@pytest.fixture(autouse=True)
def _kernels():
    """What a test says of compiled kernels holds for it alone."""
    before = kernel_family.mode()
    yield
    if kernel_family.mode() != before:
        kernel_family.set_mode(before)


@pytest.fixture
def kernels():
    """A function that sets when compiled kernels are taken."""
    return kernel_family.set_mode


@pytest.fixture
def eager(kernels):
    """Compiled kernels are taken from the first call on."""
    kernels("eager")


@pytest.fixture(params=["off", "eager"])
def mode(request, kernels):
    """Compiled kernels are never taken, then from the first call on."""
    kernels(request.param)
    return request.param


@pytest.fixture(params=["/cpu:0", pytest.param("/gpu:0", marks=pytest.mark.gpu), "stand-in"])
def device(request):
    """Name of each device in turn; the GPU's tests are skipped where none works.

    The stand-in for CuPy has the name of a GPU too, and its tests run everywhere.
    """
    if request.param == "stand-in":
        with stand_in.in_place():
            yield "/gpu:0"
        return
    if request.param.startswith("/gpu") and not gpu_works():
        pytest.skip("no working GPU")
    yield request.param


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def any_gpu(request):
    """The stand-in for CuPy, then the GPU, each as the default device."""
    if request.param == "stand-in":
        with stand_in.in_place():
            yield request.param
        return
    if not gpu_works():
        pytest.skip("no working GPU")
    yield request.param


@pytest.fixture
def inside(any_gpu):
    """For tests that look into the stand-in."""
    if any_gpu != "stand-in":
        pytest.skip("only the stand-in can be looked into")


@pytest.fixture
def on_cpu():
    """For tests of what only the CPU promises, such as an error for each position outside."""
    with tk.device("/cpu:0"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


@pytest.fixture
def two_arrivals(monkeypatch):
    """An event that is set once two threads have come for a lock of `KeyLocks`."""
    arrivals, both, enter = [], threading.Event(), KeyLocks._enter

    def note_arrival(self, key):
        lock = enter(self, key)
        arrivals.append(key)
        if len(arrivals) == 2:
            both.set()
        return lock

    monkeypatch.setattr(KeyLocks, "_enter", note_arrival)
    return both
