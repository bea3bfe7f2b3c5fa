"""GPUs: which are visible, and what is missing to use them."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from trainkit.cli.checks.finding import Finding
from trainkit.cli.checks.probe import failure_of, probed
from trainkit.core.process.requirements import install_command

_CUPY = """
import cupy
facts["cupy"] = cupy.__version__
note("count", lambda: cupy.cuda.runtime.getDeviceCount())
if facts["count"]:
    facts["runtime"] = cupy.cuda.runtime.runtimeGetVersion()
    note("kernels", lambda: float((cupy.arange(3, dtype="float32") * 2).sum()))
    note("products", lambda: float((cupy.ones((2, 2), "float32") @ cupy.ones((2, 2))).sum()))
    note("random numbers", lambda: float(cupy.random.standard_normal(2).sum()))
"""

_CUDNN = """
import cudnn
facts["frontend"] = cudnn.__version__
facts["backend"] = cudnn.backend_version()
"""

_PLANS = """
import trainkit as tk
from trainkit.kernels.cudnn import deferred, plans

if deferred.mode() != "off":
    deferred.set_mode("force")  # where own kernels would serve as well

def tried():
    for dtype in ("float32", "float16", "bfloat16"):
        x, kernel = tk.cast(tk.ones((2, 8, 8, 8)), dtype), tk.cast(tk.ones((3, 3, 8, 8)), dtype)
        q, each = tk.cast(tk.ones((2, 16, 2, 64)), dtype), tk.ones((8,))
        with tk.GradientTape() as tape:
            tape.watch([x, kernel, q])
            y = [
                tk.ops.conv(x, kernel, padding="same"),
                tk.ops.dot_product_attention(q, q, q),
                tk.ops.fused_batch_normalization(x, each, each)[0],
                tk.ops.layer_normalization(x, tk.cast(each, dtype), tk.cast(each, dtype)),
                tk.ops.rms_normalization(x),
            ]
        tape.gradient(y, [x, kernel, q])
    return plans.count()

note("plans", tried)
facts["refused"] = plans.refused()
"""

# What CuPy's CUDA needs of the driver.
_EXTRAS = ((580, "cuda13"), (525, "cuda12"))


def check() -> Iterator[Finding]:
    """Each visible GPU can be used, or it is said what is missing."""
    gpus = visible_gpus()
    facts = probed(_CUPY)
    missing = "No module named 'cupy'" in failure_of(facts, "cupy")
    if not gpus and missing:
        yield Finding("ok", "no GPU is visible: everything runs on the CPU")
    elif not gpus:
        yield Finding("note", f"CuPy is installed but no NVIDIA GPU is visible{_hidden()}")
    elif missing:
        yield Finding(
            "warning",
            f"{_list(gpus)} can't be used: CuPy is not installed",
            _install(gpus),
            {"gpus": gpus},
        )
    else:
        yield from _check_gpus(gpus, facts)


def _check_gpus(gpus: list[dict[str, str]], facts: dict[str, Any]) -> Iterator[Finding]:
    """Findings where a GPU and CuPy are there."""
    failure = failure_of(facts, "cupy") or failure_of(facts, "count")
    if failure:
        yield Finding("problem", f"CuPy can't use {_list(gpus)}: {failure}", _install(gpus))
        return
    if not facts["count"]:
        yield Finding("problem", f"CuPy sees no GPU{_hidden()}, the driver {_list(gpus)}")
        return
    text = f"CuPy {facts['cupy']} with CUDA {_version(facts['runtime'])} uses {_list(gpus)}"
    broken = {
        feature: reason for feature, reason in facts.get("errors", {}).items() if feature != "count"
    }
    if not broken:
        yield Finding("ok", text, facts={"gpus": gpus, **facts})
    for feature, reason in broken.items():
        yield Finding("problem", f"{text}, but {feature} fail: {reason}", _install(gpus))
    yield from _cudnn(gpus)


def _cudnn(gpus: list[dict[str, str]]) -> Iterator[Finding]:
    facts = probed(_CUDNN)
    failure = failure_of(facts, "frontend")
    if failure:
        text = f"cuDNN can't be used, convolutions go by plain products: {failure}"
        yield Finding("note", text, _install(gpus))
        return
    text = f"cuDNN {facts['backend']} by its frontend {facts['frontend']}"
    yield Finding("ok", text, facts=facts)
    yield from _plans()


def _plans() -> Iterator[Finding]:
    """What cuDNN makes of a convolution, attention and normalization, with their gradients."""
    facts = probed(_PLANS)
    failure = failure_of(facts, "plans")
    if failure:
        yield Finding("problem", f"cuDNN's plans can't be tried: {failure}")
        return
    refused = facts.get("refused", {})
    text = f"cuDNN has {facts['plans']} plans for a convolution, attention and normalization"
    yield Finding("ok", f"{text}, {len(refused)} refused", facts=facts)
    for layer, reason in refused.items():
        yield Finding("note", f"cuDNN has no plan, the plain bodies serve: {layer}: {reason}")


def visible_gpus() -> list[dict[str, str]]:
    """Name and driver of each NVIDIA GPU that the system shows."""
    gpus = _reported_by_driver()
    if not gpus:
        nodes = [path for path in glob.glob("/dev/nvidia*") if path[11:].isdecimal()]
        gpus = [{"name": f"the GPU {path}", "driver": ""} for path in sorted(nodes)]
    return gpus


def _reported_by_driver() -> list[dict[str, str]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [line.rpartition(",") for line in process.stdout.splitlines() if process.returncode == 0]
    return [{"name": name.strip(), "driver": driver.strip()} for name, _, driver in rows if name]


def _list(gpus: list[dict[str, str]]) -> str:
    return ", ".join(gpu["name"] for gpu in gpus)


def _hidden() -> str:
    """What hides GPUs, for texts."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if devices is None else f" (CUDA_VISIBLE_DEVICES={devices!r} decides which are)"


def _install(gpus: list[dict[str, str]]) -> str:
    """The command that installs the CuPy for this driver."""
    major = gpus[0]["driver"].partition(".")[0]
    fitting = [extra for lowest, extra in _EXTRAS if major.isdecimal() and int(major) >= lowest]
    return install_command(fitting[0] if fitting else "cuda12")


def _version(number: int) -> str:
    """CUDA's version from its number: 13.0 of 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"
