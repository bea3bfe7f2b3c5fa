"""When kernels are compiled, when they take over, and what happens when they can't be."""

import concurrent.futures
import importlib.util
import math
import pkgutil
import sys
import threading
import types

import numpy as np
import pytest

from trainkit import kernels
from trainkit.core.errors import InvalidArgumentError
from trainkit.kernels.jit import kernel_code, kernel_family

THIRD = 0.3 * kernel_family.SWITCH_SECONDS


class Compiled:
    """Stands for what Numba gives."""

    def __init__(self, key):
        self.key = key

    def disable_compile(self):
        pass

    def __call__(self):
        return self.key


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The keys that the families below have compiled, in order."""
    keys = []

    def build(*key):
        keys.append(key)
        if key == ("broken",):
            raise TypeError("no such type")
        return Compiled(key)

    module = types.ModuleType("trainkit.kernels.convolution.conv_compiled")
    module.build = build
    monkeypatch.setitem(sys.modules, "trainkit.kernels.convolution.conv_compiled", module)
    monkeypatch.setattr(kernel_family._State, "families", kernel_family._State.families)
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path))
    if importlib.util.find_spec("numba") is None:  # whose types and threads are asked about
        kept = types.SimpleNamespace(can_be_kept=lambda kernel: False)
        monkeypatch.setitem(sys.modules, "trainkit.kernels.jit.object_code", kept)
        monkeypatch.setattr(kernel_family, "_guarded", lambda kernel: kernel)
    before = kernel_family.mode()
    yield keys
    kernel_family.set_mode(before)


def every_family():
    """The families of the package, without those that tests have made."""
    for module in pkgutil.walk_packages(kernels.__path__, "trainkit.kernels."):
        if module.name.endswith("_tuned") or "coding" in module.name:
            importlib.import_module(module.name)
    return [f for f in kernel_family._State.families if f.name != "test"]


def family(mode):
    kernel_family.set_mode(mode)
    return kernel_family.Family("test", "convolution.conv_compiled", "build")


def test_a_thread_that_finds_a_kernel_about_to_be_compiled_waits_for_it(built, monkeypatch):
    hot, about, go = family("hot"), threading.Event(), threading.Event()

    class Late(threading.Thread):
        def start(self):
            if self.daemon:
                about.set()
                go.wait(5)
            super().start()

    monkeypatch.setattr(kernel_family.threading, "Thread", Late)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(hot.find, (1,), 2 * kernel_family.SWITCH_SECONDS)
        assert about.wait(5)
        second = pool.submit(hot.find, (1,), 2 * kernel_family.SWITCH_SECONDS)
        with pytest.raises(concurrent.futures.TimeoutError):
            second.result(0.2)  # without the lock it joins what has not begun
        go.set()
        assert first.result(5)() == second.result(5)() == (1,)
    assert built == [(1,)]


def test_a_kernel_takes_over_once_the_plain_version_has_worked_long_enough(built):
    hot = family("hot")
    calls = [hot.find((1,), THIRD) for _ in range(5)]
    assert calls[:3] == [None, None, None]
    assert calls[3]() == (1,)
    assert calls[4] is calls[3]
    assert built == [(1,)]


def test_each_signature_is_compiled_for_itself(built):
    hot = family("hot")
    for _ in range(4):
        hot.find((1,), THIRD)
    assert hot.find((2,), THIRD / 30) is None
    assert built == [(1,)]


def test_small_work_is_left_to_the_plain_version(built):
    hot = family("hot")
    assert all(hot.find((1,), 1e-6) is None for _ in range(10))
    assert built == []


def test_small_work_counts_for_kernels_that_wake_no_threads(built):
    kernel_family.set_mode("hot")
    alone = kernel_family.Family("test", "convolution.conv_compiled", "build", alone=True)
    calls = int(kernel_family.SWITCH_SECONDS / 1e-5)
    assert all(alone.find((1,), 1e-5) is None for _ in range(calls - 2))
    assert [alone.find((1,), 1e-5) for _ in range(4)][-1]() == (1,)


@pytest.fixture
def at_hand(monkeypatch):
    """Builds as if an earlier process had left the kernel of key (1,) on disk."""
    kernel = Compiled((1,))
    monkeypatch.setattr(
        kernel_code,
        "kernel_at_hand",
        lambda module, name, key, until=None: kernel if key == (1,) else None,
    )
    return kernel


def test_a_kernel_that_is_compiled_already_is_used_from_the_first_call(built, at_hand):
    hot = family("hot")
    assert hot.find((1,), THIRD) is at_hand
    assert hot.find((2,), THIRD / 30) is None
    assert hot.find((1,), 1e-6) is at_hand
    assert built == []


def test_small_calls_use_a_kernel_that_is_compiled_already_too(built, at_hand):
    """So the first call decides as any other one, whatever its size."""
    hot = family("hot")
    assert [hot.find((1,), 1e-6) for _ in range(3)] == [at_hand] * 3
    assert [hot.find((2,), 1e-6) for _ in range(3)] == [None] * 3
    assert built == []


def test_small_calls_look_once_for_a_kernel_that_is_not_there(built, monkeypatch):
    looks = []
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: looks.append(facts))
    hot = family("hot")
    assert [hot.find((1,), 1e-6) for _ in range(3)] == [None] * 3
    assert len(looks) == 1
    assert [hot.find((1,), THIRD) is None for _ in range(4)] == [True, True, True, False]
    assert hot.find((1,), 1e-6)() == (1,)


def test_a_small_call_of_a_run_that_goes_on_waits_for_the_kernel_that_it_had(built, monkeypatch):
    first = family("hot")
    for _ in range(5):
        first.find((1,), THIRD)
    assert first.find((1,), 1e-6)() == (1,)
    saved = kernel_family.KernelChoice().state_arrays()
    first.forget()
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.KernelChoice().load_state_arrays(saved)
    assert first.find((1,), 1e-6)() == (1,)  # compiled now


def test_small_calls_change_nothing_of_where_a_run_changes(built, monkeypatch):
    """What comes on the disk after the first call, of any size, is counted first."""
    first = family("hot")
    assert first.find((1,), 1e-6) is None
    saved = kernel_family.KernelChoice().state_arrays()
    first.forget()
    kernel_family.KernelChoice().load_state_arrays(saved)
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: Compiled((1,)))
    assert first.find((1,), 1e-6) is None
    assert [first.find((1,), THIRD) is None for _ in range(4)] == [True, True, True, False]


def test_a_checkpoint_says_that_a_kernel_was_used_from_the_first_call(built, at_hand, monkeypatch):
    first = family("hot")
    first.find((1,), THIRD)
    saved = kernel_family.KernelChoice().state_arrays()
    first.forget()
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.KernelChoice().load_state_arrays(saved)
    assert first.find((1,), THIRD)() == (1,)  # compiled now, for that call
    assert built == [(1,)]


def test_a_run_that_had_not_come_to_a_kernel_goes_on_without_it_for_as_long(built, monkeypatch):
    first = family("hot")
    first.find((1,), THIRD)
    saved = kernel_family.KernelChoice().state_arrays()
    first.forget()
    kernel_family.KernelChoice().load_state_arrays(saved)
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: Compiled((1,)))
    assert [first.find((1,), THIRD) is None for _ in range(4)] == [True, True, False, False]


def test_a_restored_run_changes_to_the_compiled_kernel_where_the_first_one_did(built):
    first = family("hot")
    choice = kernel_family.KernelChoice()
    uninterrupted = [first.find((1,), THIRD) for _ in range(2)]
    saved = choice.state_arrays()
    uninterrupted += [first.find((1,), THIRD) for _ in range(3)]

    first.forget()
    choice.load_state_arrays(saved)
    resumed = [first.find((1,), THIRD) for _ in range(3)]
    assert [k is None for k in uninterrupted[2:]] == [k is None for k in resumed]
    assert resumed[1]() == (1,)


def test_a_run_saved_after_the_change_goes_on_with_the_compiled_kernel(built):
    first = family("hot")
    for _ in range(5):
        first.find((1,), THIRD)
    saved = kernel_family.KernelChoice().state_arrays()
    first.forget()
    kernel_family.KernelChoice().load_state_arrays(saved)
    assert first.find((1,), THIRD)() == (1,)


def test_what_another_process_compiles_meanwhile_does_not_move_the_change(built, monkeypatch):
    """It came on the disk after the run had begun, before it was saved or after."""
    later = kernel_family._State.began + 1

    def at_hand(module, name, key, until=math.inf):
        return Compiled(key) if later <= until else None

    monkeypatch.setattr(kernel_code, "kernel_at_hand", at_hand)
    first = family("hot")
    choice = kernel_family.KernelChoice()
    saved = choice.state_arrays()
    uninterrupted = [first.find((1,), THIRD) is None for _ in range(5)]
    assert uninterrupted == [True, True, True, False, False]
    assert built == []  # it is loaded then, not compiled again

    first.forget()
    monkeypatch.setattr(kernel_family._State, "began", later + 1)  # another process goes on
    choice.load_state_arrays(saved)
    assert [first.find((1,), THIRD) is None for _ in range(5)] == uninterrupted


def test_a_checkpoint_that_does_not_say_when_its_run_began(built, at_hand):
    work = np.frombuffer(b'{"test(1,)": 0.03}', np.uint8)
    before = kernel_family._State.began
    kernel_family.KernelChoice().load_state_arrays({"work": work})
    assert kernel_family._State.began == before


def _named(name, formerly=None):
    return kernel_family.Family(name, "convolution.conv_compiled", "build", formerly=formerly)


def test_a_checkpoint_that_knows_a_kernel_by_its_former_name_goes_on_with_its_count(built):
    """Two families once shared that name; the first that asks has the count, as then."""
    kernel_family.set_mode("hot")
    sums, other = _named("moment_sums", "column_sums"), _named("reduced_columns", "column_sums")
    work = np.frombuffer(b'{"column_sums(1,)": 0.08}', np.uint8)
    kernel_family.KernelChoice().load_state_arrays({"work": work})
    assert sums.find((1,), THIRD)() == (1,)  # the rest of the way
    assert [other.find((1,), THIRD) is None for _ in range(4)] == [True, True, True, False]


def test_a_family_goes_on_with_its_own_count_and_not_with_that_of_a_former_namesake(built):
    kernel_family.set_mode("hot")
    sums, other = _named("moment_sums", "column_sums"), _named("reduced_columns", "column_sums")
    for _ in range(3):
        sums.find((1,), THIRD)
    other.find((1,), THIRD)
    saved = kernel_family.KernelChoice().state_arrays()
    for one in (sums, other):
        one.forget()
    kernel_family.KernelChoice().load_state_arrays(saved)
    assert [other.find((1,), THIRD) is None for _ in range(3)] == [True, True, False]
    assert sums.find((1,), THIRD)() == (1,)


def test_no_two_families_share_a_name():
    """Checkpoints hold the work of each under its name."""
    names = [family.name for family in every_family()]
    assert len(names) > 30
    assert sorted(names) == sorted(set(names))


def test_counts_that_make_no_sense_are_refused(built):
    with pytest.raises(ValueError, match="counts of kernels"):
        kernel_family.KernelChoice().load_state_arrays({"work": np.array([1, 2], np.uint8)})


def test_eager_compiles_at_the_first_call_however_small(built):
    assert family("eager").find((1,), 0.0)() == (1,)


def test_two_threads_compile_a_kernel_once(built, two_arrivals, monkeypatch):
    eager, compile_kernel = family("eager"), kernel_family.Family._compile

    def compile_late(self, key):
        assert two_arrivals.wait(60)
        compile_kernel(self, key)

    monkeypatch.setattr(kernel_family.Family, "_compile", compile_late)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        kernels = list(pool.map(lambda _: eager.find((1,), 0.0), range(2)))
    assert built == [(1,)]
    assert kernels[0] is kernels[1]
    assert kernels[0]() == (1,)


def test_off_never_compiles_nor_uses_what_is_compiled(built):
    eager = family("eager")
    assert eager.find((1,), THIRD) is not None
    kernel_family.set_mode("off")
    assert all(eager.find((1,), 9.0) is None for _ in range(3))
    assert built == [(1,)]


def test_a_kernel_that_can_not_be_compiled_warns_once_and_leaves_the_plain_version(built):
    eager = family("eager")
    with pytest.warns(RuntimeWarning, match=r"test\('broken',\).*TypeError: no such type"):
        assert eager.find(("broken",), THIRD) is None
    assert eager.find(("broken",), THIRD) is None
    assert built == [("broken",)]


def test_an_unknown_mode_is_named():
    with pytest.raises(InvalidArgumentError, match="'fast'"):
        kernel_family.set_mode("fast")


@pytest.mark.parametrize(
    ("text", "mode"), [("", "hot"), ("1", "hot"), ("0", "off"), ("off", "off"), ("eager", "eager")]
)
def test_environment_variable_names_the_mode(text, mode):
    assert kernel_family._mode_of(text) == mode
