"""The OpenBLAS that NumPy has loaded: what it says of itself, and what can still be set."""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from typing import Any

_PTHREADS = 1
"""What OpenBLAS says of itself where it starts threads of its own, and not OpenMP's."""

_WAITING = {"threading": {"wait", "join", "_wait_for_tstate_lock"}, "selectors": {"select"}}
"""Functions of the standard library, by module, in which a thread waits and computes nothing."""
_WAITING_PACKAGES = ("ipykernel", "tornado", "tqdm", "zmq")
"""Packages whose threads pass on messages or wait, as those around a notebook do."""


@lru_cache(maxsize=1)
def blas_library() -> Any:
    """The OpenBLAS that NumPy has loaded, or `None` where there is another BLAS.

    Calls through it keep the interpreter's lock: they are short.
    """
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line and "numpy" in line}
        import ctypes

        return ctypes.PyDLL(paths.pop()) if paths else None
    except OSError:
        return None


def _function(*names: str) -> Any:
    return _look_up(blas_library(), *names)


@lru_cache(maxsize=32)
def _look_up(library: Any, *names: str) -> Any:
    """The first of these names that a library has."""
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)


def set_blas_threads(count: int) -> bool:
    """Let BLAS use `count` threads; False where its library is not known."""
    setter = _function("scipy_openblas_set_num_threads64_", "openblas_set_num_threads")
    if setter is None:
        return False
    import ctypes

    setter(ctypes.c_int(count))
    return True


def blas_threads() -> int:
    """How many threads BLAS uses; 0 where its library is not known."""
    getter = _thread_getter(blas_library())
    return int(getter()) if getter is not None else 0


@lru_cache(maxsize=4)
def _thread_getter(library: Any) -> Any:
    """What tells the number of threads, which kernels ask at each call."""
    return _look_up(library, "scipy_openblas_get_num_threads64_", "openblas_get_num_threads")


def blas_text(what: str) -> str:
    """What OpenBLAS says of itself: `"config"` or `"corename"`; empty where it is not known."""
    import ctypes

    getter = _function(f"scipy_openblas_get_{what}64_", f"openblas_get_{what}")
    if getter is None:
        return ""
    getter.restype = ctypes.c_char_p
    return (getter() or b"").decode()


def most_blas_threads() -> int:
    """How many threads OpenBLAS was built for; 0 where it does not say."""
    words = blas_text("config").split("MAX_THREADS=")
    digits = words[1].split()[0] if len(words) == 2 else ""
    return int(digits) if digits.isdecimal() else 0


# ------------------------------------------------------------------ once it is loaded


def _find_restart() -> list[Any] | None:
    """The functions that `read_again` calls, or `None` where the library does not show them all.

    Those of NumPy 2.5 and newer keep them to themselves.
    """
    if (_function("scipy_openblas_get_parallel64_", "openblas_get_parallel") or int)() != _PTHREADS:
        return None
    names = ("openblas_read_env", "blas_thread_shutdown_", "gotoblas_dynamic_quit")
    functions = [_function(name) for name in (*names, "gotoblas_dynamic_init", "blas_thread_init")]
    return None if None in functions else functions


def can_read_again() -> bool:
    """Whether the library that NumPy has loaded takes settings."""
    return _find_restart() is not None


def read_again() -> bool:
    """Let a loaded OpenBLAS take up environment variables set since, and its threads start anew.

    It looks for `OPENBLAS_THREAD_TIMEOUT` when its threads start, and for `OPENBLAS_CORETYPE` when
    its kernels are chosen. Both happen again here. That is only safe while nothing computes with
    it: threads that were stopped at work would be waited for forever. So it is not done unless all
    other threads of the interpreter wait; none of them goes on meanwhile, as the interpreter's
    lock is held.

    Returns:
        Whether it was done: not while other threads work, and not with another BLAS.
    """
    restarting = _find_restart()
    if restarting is None or not others_wait():
        return False
    for function in restarting:
        function()
    return True


def others_wait() -> bool:
    """Whether all threads of the interpreter but this one are seen to wait."""
    frames = sys._current_frames()
    own = threading.get_ident()
    return all(_waits(frame) for thread, frame in frames.items() if thread != own)


def _waits(frame: Any) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    if module.partition(".")[0] in _WAITING_PACKAGES:
        return True
    return frame.f_code.co_name in _WAITING.get(module, ())
