"""Whether cuDNN or a kernel of trainkit's own serves a call: the faster one, timed once.

What was chosen is remembered, in memory and beside the plans on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.process import forks
from trainkit.kernels.cudnn import frontend, plan_choice, plan_store
from trainkit.kernels.jit.code_store import read_code, write_code
from trainkit.kernels.threads import pools

Run = Callable[[], Any]

OWN, LIBRARY = b"own", b"cudnn"

_CHOICES: dict[tuple[Any, ...], bytes] = {}
_MEASURING = forks.make_lock()


def clear() -> None:
    """Forget all choices that are in memory."""
    _CHOICES.clear()


def choices() -> dict[str, str]:
    """What serves each call that was timed: "own" or "cudnn"."""
    return {repr(key): choice.decode() for key, choice in _CHOICES.items()}


def fastest(xp: Any, problem: tuple[Any, ...], own: Run, library: Run) -> Any:
    """What the faster one gives; `None` where neither can.

    Nothing is timed while a CUDA graph is captured: without a choice the own kernel is asked first.

    Args:
        xp: CuPy.
        problem: name, dtype and sizes of what is computed.
        own: computes it by an own kernel, or gives `None`.
        library: the same by cuDNN.
    """
    if not frontend.is_there():
        return own()
    key = (*problem, pools.determined(), int(xp.cuda.Device().id))
    choice = _CHOICES.get(key)
    if choice is None and not frontend.is_capturing(xp):
        with _MEASURING:
            choice = _CHOICES.get(key)  # of another thread, meanwhile
            if choice is None:
                choice = _CHOICES[key] = _make(xp, key, own, library)
    first, second = (library, own) if choice == LIBRARY else (own, library)
    result = first()
    return second() if result is None else result


def _make(xp: Any, key: tuple[Any, ...], own: Run, library: Run) -> bytes:
    cudnn = frontend.frontend()
    name = plan_store.digest(xp, cudnn, f"choice {key[:-1]!r}", "measure")
    choice = read_code(name)
    if choice in (OWN, LIBRARY):
        return choice
    times = {}
    for candidate, run in ((OWN, own), (LIBRARY, library)):
        if run() is None:
            continue
        times[candidate] = plan_choice.milliseconds(xp, run)
    choice = min(times, key=lambda c: times[c]) if times else OWN
    if len(times) == 2:  # else one can't do it here, which is no matter of speed
        write_code(name, choice)
    return choice
