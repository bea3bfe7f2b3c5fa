"""When a compiled kernel takes over from the plain one.

A kernel is compiled for one signature, such as a number of filters. Compiling takes a second or two
the first time, so it happens only for signatures on which a process spends its time: once the plain
version has worked for about `START_SECONDS` a thread compiles in the background (or loads what an
earlier process has left on disk), and once it has worked for about `SWITCH_SECONDS` the compiled
kernel takes over. Both are counted in estimated work, not by the clock, so the change comes at the
same call of every run, and one run is like another to the last bit. `KernelChoice` lets a
checkpoint carry the counts, so that a run which goes on changes where the one that was never
stopped did.

The environment variable `TRAINKIT_JIT` decides: "0" never compiles, "eager" compiles at the first
call, anything else does as said above.
"""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import PRODUCT_NANOSECONDS
from trainkit.core.dispatch.slow_work import slow_work
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process import forks
from trainkit.core.process.key_locks import KeyLocks
from trainkit.core.process.requirements import install_command
from trainkit.core.trackable import Trackable
from trainkit.kernels.threads import pools

Kernel = Callable[..., Any]
Key = tuple[Any, ...]

SWITCH_SECONDS = 0.1
"""Compiling takes a second or two, once on a machine; loading what lies on disk, a tenth of one."""
START_SECONDS = SWITCH_SECONDS / 10
PRODUCT_SECONDS = PRODUCT_NANOSECONDS * 1e-9
"""What plain versions take for a multiplication and its addition, which BLAS does for them."""
BYTE_SECONDS = 2e-10
"""What they take for a byte that one of their passes reads or writes."""
FUNCTION_SECONDS = 1e-7
"""What they take for a special function of a number, an approximation of many passes."""
STEP_SECONDS = 3e-5
"""What ten calls of NumPy take whatever the sizes: a step of a loop, such as of LSTM.

A call on which the plain version spends less does not count towards compiling. It uses a kernel
that is compiled all the same: a small call wakes no threads, see `shared`.
"""

MODES = ("off", "hot", "eager")

FLOAT_SUFFIXES = {np.dtype(np.float32): "", np.dtype(np.float64): "_float64"}
"""How the names end of kernels that are compiled for both types of floats."""


def _mode_of(text: str) -> str:
    if text.strip().lower() in ("0", "off", "false", "no"):
        return "off"
    return "eager" if text.strip().lower() == "eager" else "hot"


class _State:
    """The mode, and all families, so that a change of mode reaches them."""

    mode = _mode_of(os.environ.get("TRAINKIT_JIT", ""))
    began = time.time()  # of this run: kernels that come on the disk later are counted first
    families: tuple[Family, ...] = ()
    missing: tuple[str, ...] = ()  # modules of compilers that are not installed


def mode() -> str:
    """Which kernels are compiled: "off", "hot" or "eager"; at first what `TRAINKIT_JIT` says."""
    return _State.mode


def set_mode(name: str) -> None:
    """Choose which kernels are compiled, and let all of them start anew.

    Args:
        name: "off" for none, "hot" for those that are used much, "eager" for each at its first
            call.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    if name not in MODES:
        raise InvalidArgumentError(f"the mode of compiled kernels is one of {MODES}, not {name!r}")
    _State.mode = name
    for family in _State.families:
        family.forget()


def owned(array: Any) -> Any:
    """`array` itself if it is writeable and in row-major order, or a copy that is."""
    if array.flags.carray:
        return array
    if array.dtype is bfloat16.dtype:  # by its bits: NumPy copies what it does not know one by one
        return np.array(array.view(np.uint16), order="C").view(array.dtype)
    return np.array(array, order="C")


class Family:
    """Kernels of one kind, one for each signature.

    Args:
        name: what it is called in checkpoints and in warnings; no two families share one.
        file: the module in `kernels` that holds `builder`; it is imported when first
            needed.
        builder: the name of the function that compiles the kernel of a key, given as arguments.
        exact: the kernels give the bits of the plain version, so they may take over at any call;
            no call waits for them.
        alone: short calls count towards compiling too, as the kernels gain most in them.
        formerly: what it is called in checkpoints of 0.2, if that was another name.
    """

    def __init__(
        self,
        name: str,
        file: str,
        builder: str,
        exact: bool = False,
        alone: bool = False,
        formerly: str | None = None,
    ) -> None:
        self.name = name
        self.formerly = formerly or name
        self.exact = exact
        self.alone = alone
        self.file = file
        self.builder = builder
        self._ready: dict[Key, Any] = {}
        self._spent: dict[Key, float] = {}
        self._threads: dict[Key, threading.Thread] = {}
        self._built: dict[Key, Any] = {}
        self._compiling = KeyLocks()
        _State.families += (self,)

    def find(self, key: Key, seconds: float) -> Any:
        """The compiled kernel for `key` if it is to be used in this call, else `None`.

        Args:
            key: numbers and names that the kernel is compiled for.
            seconds: estimate of what this call takes without it.
        """
        # The usual case, in a call's path: one look-up. False stands for a kernel that could not be
        # compiled.
        kernel = self._ready.get(key)
        if kernel is not None:
            return kernel or None
        if _State.mode == "off":
            return None
        spent = self._spent.get(key)
        if spent is None:
            kernel = self._met(key)
            if kernel is not None:
                return kernel
            spent = self._spent[key]
        counts = seconds >= STEP_SECONDS or self.alone
        if not counts and spent < SWITCH_SECONDS and _State.mode != "eager":
            return None
        return self._warm(key, spent + seconds)

    def forget(self) -> None:
        """Start anew, as in a fresh process."""
        for thread in self._threads.values():
            # A thread that still compiles would put its kernel into the tables after they are
            # cleared.
            thread.join()
        for table in (self._ready, self._spent, self._threads, self._built):
            table.clear()

    # ------------------------------------------------------------------ compiling

    def _met(self, key: Key) -> Any:
        """The kernel that is at hand when a run first asks for it, `None` where there is none.

        Calls of every size ask in the same way, so which of them comes first changes nothing.
        """
        spent = _RESTORED.pop(f"{self.name}{key!r}", None)
        if spent is None:  # of two families with one former name the first to ask has its count
            spent = _RESTORED.pop(f"{self.formerly}{key!r}", None)
        if spent is None or spent >= SWITCH_SECONDS or self.exact:
            # A file that another process writes during this run must not move the change: the same
            # run alone would not have found it.
            until = _State.began if spent is None and not self.exact else math.inf
            kernel = _kernel_code().kernel_at_hand(self.file, self.builder, key, until)
            if kernel is not None:
                # It counts as used from the start, so a checkpoint says so to the run that goes on.
                self._spent[key], self._ready[key] = SWITCH_SECONDS, kernel
                return kernel
        self._spent[key] = spent or 0.0
        return None

    def _warm(self, key: Key, spent: float) -> Any:
        """Count a call that is worth compiling for, and compile when enough have come."""
        if _State.mode == "eager":
            with self._compiling.hold(key):  # another thread may have compiled it meanwhile
                if key not in self._ready:
                    self._compile(key)
                    self._take(key)
            return self._ready.get(key) or None
        self._spent[key] = spent
        if spent >= START_SECONDS and key not in self._threads:
            self._begin(key)
        is_compiled = self.exact and key in self._threads and not self._threads[key].is_alive()
        if spent >= SWITCH_SECONDS or is_compiled:
            # For the bits, not for the speed: the change has to come at this call in every run.
            # Exact kernels, which change none, are taken when they are done.
            self._threads[key].join()
            return self._take(key)
        return None

    def _begin(self, key: Key) -> None:
        """Compile in a thread, which others may join as soon as they find it."""
        with _BEGINNING:  # Dataset.map calls kernels in several threads
            if key not in self._threads:
                thread = threading.Thread(target=self._compile, args=(key,), daemon=True)
                # Started before it is in the table: whoever finds it there may join it.
                thread.start()
                self._threads[key] = thread

    def _take(self, key: Key) -> Any:
        kernel = self._built.get(key, False)
        self._ready[key] = kernel
        return kernel or None

    def _compile(self, key: Key) -> None:
        try:
            pools.configure_threads()
            code = _kernel_code()
            # Without a date: by now the change is settled by counts, so any file that fits will do.
            kernel = code.kernel_at_hand(self.file, self.builder, key)  # another process's
            if kernel is None:
                work = slow_work(f"compiling the kernel {self.name!r}", "compiling {} kernels")
                with work, forks.COMPILING:
                    kernel = code.compiled_kernel(self.file, self.builder, key)
            self._built[key] = _guarded(kernel)
        except ModuleNotFoundError as error:
            _say_missing(error, self.name)
        except Exception as error:  # without it everything still works, only slower
            warnings.warn(
                f"the kernel {self.name}{key} can't be compiled, the plain version goes on: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return


def _say_missing(error: ModuleNotFoundError, kernel: str) -> None:
    """Say once that a compiler is missing, and name the first kernel that is slower by that."""
    package = str(error.name).partition(".")[0]
    if package in _State.missing:
        return
    _State.missing += (package,)
    warnings.warn(
        f"{package} is not installed, so kernels that did not come compiled, such as this "
        f"{kernel!r}, stay plain ones, with the same results, only slower; "
        f"{_MENDS.get(package, 'install it')}, or TRAINKIT_JIT=0 keeps this quiet",
        RuntimeWarning,
        stacklevel=3,
    )


_MENDS = {
    "numba": f"{install_command('numba')} brings it",
    "llvmlite": "pip install llvmlite brings it",
}


def _kernel_code() -> Any:
    """Where code comes from: files, which only a program with large arrays looks for."""
    from trainkit.kernels.jit import kernel_code

    return kernel_code


_RESTORED: dict[str, float] = {}
"""Work that a restored run had done with kernels that this process has not met yet."""


_BEGAN = "began"
"""Under this name the counts of a checkpoint hold when its run began; kernels have brackets."""


class KernelChoice(Trackable):
    """How far each kernel is on its way to the compiled version, as a part of a checkpoint.

    It also says when the run began: a kernel that is on disk is used from the first call if it was
    there by then. What others compile meanwhile does not move the change.

    `BackupAndRestore` stores one with the run. A custom loop that wants to go on to the last bit
    names one in its checkpoint: `tk.train.Checkpoint(model=model, kernels=KernelChoice())`.
    """

    def state_arrays(self) -> dict[str, Any]:
        """The estimated seconds of work by kernel, as JSON in bytes."""
        work = dict(_RESTORED)
        for family in _State.families:
            if not family.exact:
                work |= {f"{family.name}{key!r}": s for key, s in family._spent.items()}
        import json

        # Beyond the switch nothing is counted that matters, and equal runs write equal files.
        counts = {name: min(s, SWITCH_SECONDS) for name, s in sorted(work.items())}
        text = json.dumps({_BEGAN: _State.began, **counts})
        return {"work": np.frombuffer(text.encode(), np.uint8).copy()}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        """Go on with the counts of the run that wrote them, in this process.

        Raises:
            ValueError: the array does not hold such counts; nothing is changed then.
        """
        import json

        try:
            work = json.loads(bytes(np.asarray(arrays["work"], np.uint8)).decode())
            counts = {str(name): float(seconds) for name, seconds in work.items()}
            began = counts.pop(_BEGAN, _State.began)  # files of 0.2 did not say
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"the counts of kernels can't be read: {error!r}") from None
        for family in _State.families:
            if not family.exact:
                family.forget()
        _State.began = began
        _RESTORED.clear()
        _RESTORED.update(counts)


_LAUNCH, _BEGINNING = forks.make_lock(), forks.make_lock()


def _guarded(kernel: Any) -> Kernel:
    """`kernel` behind a lock where Numba's threads can serve only one caller at a time."""
    if isinstance(kernel, BuiltinFunctionType):  # a kernel of ours, for the thread pool
        return kernel
    import numba

    kernel.disable_compile()
    unlocked: Kernel = kernel
    try:
        layer = numba.threading_layer()
    except ValueError:  # nothing has run in parallel yet
        return unlocked
    if layer != "workqueue":
        return unlocked

    def locked(*args: Any) -> Any:
        with _LAUNCH:
            return kernel(*args)

    return locked
