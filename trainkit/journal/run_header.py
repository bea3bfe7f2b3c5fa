"""The first line of a journal: where a run takes place, and of what code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.checkpoints.format.manifest import manifest
from trainkit.core import devices
from trainkit.core.cpu import openblas, processor
from trainkit.core.trackable import Trackable
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.threads import pools

_VARIABLES = (
    "TRAINKIT_",
    "OPENBLAS_",
    "OMP_",
    "MKL_",
    "GOTO_",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "CUDA_VISIBLE_DEVICES",
    "PYTHONHASHSEED",
)
"""Variables that may change bits, by their beginnings. No others are written: some hold secrets."""

_GIT_SECONDS = 5.0
_MOST_TEXT = 300


def new_header(more: dict[str, Any]) -> dict[str, Any]:
    """The fields of the first line.

    Args:
        more: what the loop knows: of the model, the optimizer, the data.
    """
    return {
        "id": os.urandom(8).hex(),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "process": os.getpid(),
        **environment(),
        "code": code_facts(),
        **more,
    }


def environment() -> dict[str, Any]:
    """What may change bits beside the program: versions, processor, BLAS, threads, variables."""
    facts = manifest(Trackable())
    return {
        "versions": {**facts["versions"], "python": facts["python"]},
        "platform": facts["platform"],
        "processor": _processor(),
        "numpy_simd": _simd(),
        "blas": {
            "config": openblas.blas_text("config")[:_MOST_TEXT],
            "core": openblas.blas_text("corename")[:_MOST_TEXT],
            "threads": openblas.blas_threads(),
        },
        "threads": pools.compute_threads(),
        "kernels": kernel_family.mode(),
        "device": devices.current().name,
        "variables": {
            name: value[:_MOST_TEXT]
            for name, value in sorted(os.environ.items())
            if name.startswith(_VARIABLES)
        },
        **{name: facts[name] for name in ("seed", "seeds_derived") if name in facts},
    }


def _processor() -> str:
    return processor.processor_facts()[0] or platform.processor() or platform.machine()


def _simd() -> list[str]:
    """What NumPy uses of the processor, beyond what it was built for."""
    extensions = (np.show_config(mode="dicts") or {}).get("SIMD Extensions", {})
    return [str(name) for name in extensions.get("found", [])]


def code_facts() -> dict[str, Any]:
    """The program's file with its hash, and git's commit and whether files differ from it."""
    facts: dict[str, Any] = {"arguments": [argument[:_MOST_TEXT] for argument in sys.argv[:50]]}
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script and os.path.isfile(script):
        facts["script"] = os.path.abspath(script)
        facts["sha256"] = hashlib.sha256(Path(script).read_bytes()).hexdigest()
    commit = manifest(Trackable()).get("git_commit")
    if commit is not None:
        facts["commit"] = commit
        facts["dirty"] = _is_dirty()
    return facts


def _is_dirty() -> bool | None:
    """Whether tracked files differ from the commit; `None` where git can't tell in time."""
    # the repository's own configuration must not have programs started by this look
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    command += ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    try:
        process = subprocess.run(
            command, capture_output=True, timeout=_GIT_SECONDS, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(process.stdout.strip())
