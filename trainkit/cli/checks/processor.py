"""The processor: BLAS and its kernels, and the sizes of the pools of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from trainkit.cli.checks.finding import Finding
from trainkit.core.cpu import blas_config, cpu_count
from trainkit.kernels.threads import pools

_AVX512_CORES = ("SkylakeX", "Cooperlake", "SapphireRapids")


def check_blas() -> Iterator[Finding]:
    """Which BLAS NumPy has, and whether it uses the kernels that the processor allows."""
    if pools.blas_library() is None:
        name, version = _built_with()
        yield Finding(
            "note",
            f"NumPy's BLAS is {name} {version}; trainkit knows how to set threads and kernels of "
            "OpenBLAS only, this one has its own environment variables",
            facts={"library": name, "version": version},
        )
        return
    words = pools.blas_text("config").split()
    version, core = (words[1] if len(words) > 1 else "?"), pools.blas_text("corename")
    facts = {
        "library": "OpenBLAS",
        "version": version,
        "kernels": core,
        "choice": blas_config.CHOICE,
    }
    text = f"OpenBLAS {version} with its {core} kernels"
    if core in _AVX512_CORES or not blas_config.has_avx512():
        yield Finding("ok", text, facts=facts)
    else:
        yield Finding(
            "warning",
            f"{text}, which leave AVX-512 unused ({blas_config.CHOICE}); float32 matrix products "
            "take up to twice as long",
            _way_to_avx512(),
            facts,
        )
    if "OPENBLAS_CORETYPE" in blas_config.SET:
        yield Finding(
            "note",
            "trainkit chose these kernels, which it can't where NumPy is imported first and "
            "other threads are at work",
            "export OPENBLAS_CORETYPE=SkylakeX",
        )


def _built_with() -> tuple[str, str]:
    """Name and version of the BLAS that NumPy was built with."""
    built = np.show_config(mode="dicts")
    blas = (built or {}).get("Build Dependencies", {}).get("blas", {})
    return str(blas.get("name", "unknown")), str(blas.get("version", ""))


def _way_to_avx512() -> str:
    if "OPENBLAS_CORETYPE" in os.environ and "OPENBLAS_CORETYPE" not in blas_config.SET:
        return "unset OPENBLAS_CORETYPE"
    if os.environ.get("TRAINKIT_BLAS") == "default":
        return "unset TRAINKIT_BLAS"
    return "export OPENBLAS_CORETYPE=SkylakeX"


def check_threads() -> Iterator[Finding]:
    """Whether the pools are as large as the cores that may be used."""
    usable, quota = cpu_count.usable_cores(), cpu_count.quota()
    pool, kernels = pools.blas_threads(), _kernel_threads()
    facts = {
        "cores": os.cpu_count(),
        "bound_cores": cpu_count.bound_cores(),
        "quota": quota,
        "usable_cores": usable,
        "blas_threads": pool,
        "kernel_threads": kernels,
        "pipeline_threads": pools.pipeline_threads(),
    }
    limit = "" if quota is None else f", a control group gives the time of {quota:g}"
    yield Finding(
        "ok",
        f"{usable} of {os.cpu_count()} cores can be used{limit}; threads: BLAS {pool or '?'}, "
        f"compiled kernels {kernels}, pipelines {pools.pipeline_threads()}",
        facts=facts,
    )
    if pool > usable:
        text = f"BLAS has {pool} threads for {usable} cores: they wait for each other"
        yield Finding("warning", text, f"export OPENBLAS_NUM_THREADS={usable}")
    elif 0 < pool < min(usable, pools.most_blas_threads() or usable):
        names = [name for name in blas_config.THREAD_VARIABLES if name in os.environ]
        cause = f", as {names[0]} says" if names else ""
        mend = f"unset {names[0]}" if names else f"export OPENBLAS_NUM_THREADS={usable}"
        yield Finding("note", f"operations use {pool} of {usable} cores{cause}", mend)
    if pool and kernels != pool:
        text = f"compiled kernels have {kernels} threads and BLAS has {pool}"
        yield Finding("warning", text, "unset NUMBA_NUM_THREADS")
    if os.environ.get("OMP_WAIT_POLICY", "").lower() == "active":
        text = "OMP_WAIT_POLICY=active lets the kernels' waiting threads keep their cores from BLAS"
        yield Finding("warning", text, "unset OMP_WAIT_POLICY")


def _kernel_threads() -> int:
    """The size that the pool of compiled kernels will have."""
    said = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) else pools.compute_threads()
