"""The choice of OpenBLAS's kernels and of how its threads wait.

NumPy's OpenBLAS knows AVX-512 kernels but some versions pick AVX2 ones on processors that they have
no name for. Measured on one of these, matrix products took 0.5 to 0.8 of the time with the AVX-512
kernels. OpenBLAS looks at its environment variables when it is loaded with NumPy; where that has
happened before, it is let look again.
"""

from __future__ import annotations

import os
import re
import sys

from trainkit.core.cpu import openblas
from trainkit.core.cpu.cpu_count import bound_cores, usable_cores
from trainkit.core.cpu.processor import processor_facts

# OpenBLAS's threads wait for work in a busy loop for two to the power of this many clock ticks. Its
# own 26 is 25 ms, in which they take a core from compiled kernels (a step of a small convolutional
# network took 1.8 times as long on two cores); 0.4 ms still bridges the gaps within a step.
_TIMEOUT = "20"

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""The variables in which OpenBLAS looks for its number of threads; the first one set counts."""

SET: dict[str, str] = {}
"""The environment variables that were set here, and not by the user."""

_NEEDED = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}


def choose_kernels() -> str:
    """Ask OpenBLAS for its AVX-512 kernels where that is known to help.

    Its waiting threads are set to sleep soon. Where control groups give less time than the cores
    would, it also gets as many threads as that makes, unless the user has said how many.

    No kernels are asked for when `OPENBLAS_CORETYPE` is set, when the processor has no AVX-512, or
    when `TRAINKIT_BLAS` is `"default"`. When NumPy is loaded already, all of it is done with the
    loaded OpenBLAS, unless other threads may be computing with it or `TRAINKIT_BLAS` says
    `"default"`.

    Returns:
        What was done, in words for a report.
    """
    if "numpy" not in sys.modules:
        return _ask()
    if openblas.blas_library() is None:
        return "NumPy was imported before trainkit, with another BLAS than OpenBLAS"
    if os.environ.get("TRAINKIT_BLAS") == "default":
        return "NumPy was imported before trainkit, TRAINKIT_BLAS=default leaves it as it is"
    if not openblas.others_wait():
        return "NumPy was imported before trainkit, and other threads were at work: nothing is set"
    said = _ask()
    read = not SET or openblas.read_again()
    if THREAD_VARIABLES[0] in SET:
        openblas.set_blas_threads(int(SET[THREAD_VARIABLES[0]]))
    if not read:
        for name in SET:
            del os.environ[name]
        SET.clear()
        return "NumPy was imported before trainkit, with an OpenBLAS that can't be told anything"
    return said


def _ask() -> str:
    """Set the environment variables that the user has not set."""
    _set("OPENBLAS_THREAD_TIMEOUT", _TIMEOUT)
    if usable_cores() < bound_cores() and not any(map(_says_a_number, THREAD_VARIABLES)):
        os.environ[THREAD_VARIABLES[0]] = SET[THREAD_VARIABLES[0]] = str(usable_cores())
    if "OPENBLAS_CORETYPE" in os.environ:
        return f"OPENBLAS_CORETYPE={os.environ['OPENBLAS_CORETYPE']} was set"
    if os.environ.get("TRAINKIT_BLAS") == "default":
        return "TRAINKIT_BLAS=default leaves the choice to OpenBLAS"
    if not has_avx512():
        return "the processor has no AVX-512, OpenBLAS chooses by itself"
    _set("OPENBLAS_CORETYPE", "SkylakeX")
    return "OPENBLAS_CORETYPE=SkylakeX was set for AVX-512"


def _says_a_number(name: str) -> bool:
    """Whether OpenBLAS takes a number of threads from a variable: not from an empty one, or 0."""
    digits = re.match(r"\s*\+?(\d+)", os.environ.get(name, ""))
    return digits is not None and int(digits[1]) > 0


def _set(name: str, value: str) -> None:
    if name not in os.environ:
        os.environ[name] = SET[name] = value


def has_avx512() -> bool:
    """Whether the processor has what OpenBLAS's AVX-512 kernels need."""
    return _processor_flags() >= _NEEDED


def _processor_flags() -> set[str]:
    return set(processor_facts()[1])


CHOICE = choose_kernels()
