"""Runs a piece of Python in several processes under `mpiexec`, for tests."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

MPIEXEC = pathlib.Path(sys.executable).parent / "mpiexec"

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="mpi4py and the mpiexec of mpich are not installed beside this Python",
)

YIELDING = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
"""Lets MPICH sleep where it waits; it spins otherwise, on the core that another process needs.

A sum over four processes on two busy cores takes a fourth of the time.
"""

_BEFORE = """
import sys
import numpy as np
import trainkit as tk

strategy = tk.distribute.MultiWorkerMirroredStrategy()
rank = strategy.rank
size = strategy.num_replicas_in_sync
"""


def run_processes(size, code, arguments=(), timeout=90, environment=None, check=True):
    """What `size` processes print that run `code`, which knows `tk`, `strategy`, `rank`, `size`.

    With `size=1` there is no launcher. The result is what `subprocess.run` gives.
    """
    program = _BEFORE + textwrap.dedent(code)
    return run_command(size, ["-c", program, *map(str, arguments)], timeout, environment, check)


def run_program(size, path, arguments=(), timeout=150, environment=None, check=True):
    """The same for a program in a file of the tests."""
    command = [str(path), *map(str, arguments)]
    return run_command(size, command, timeout, environment, check)


def run_command(size, command, timeout=60, environment=None, check=True):
    """The same for what stands behind the name of Python."""
    command = [sys.executable, *command]
    if size > 1:
        command = [str(MPIEXEC), "-n", str(size), *command]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "OMPI_", "SLURM_"))}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**clean, **YIELDING, "TRAINKIT_JIT": "0", **(environment or {})},
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done
