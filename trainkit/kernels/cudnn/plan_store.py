"""Plans on disk: what cuDNN has built once need not be searched, nor measured, by another process.

They lie where compiled kernels lie (`jit/code_store.py`), under a digest of all that they depend
on: what is computed, how plans are chosen, the versions of frontend, cuDNN and CUDA, and the GPU.
They are read by the same rules: whole ones alone, that none but the trusted could have written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trainkit.kernels.jit.code_store import read_code, write_code
from trainkit.kernels.jit.digests import digest_of


@lru_cache(maxsize=64)
def _machine(xp: Any, device: int) -> str:
    """The GPU and its driver, as far as plans depend on them."""
    properties = xp.cuda.runtime.getDeviceProperties(device)
    name = properties["name"]
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    facts = (
        text,
        str(xp.cuda.Device(device).compute_capability),
        properties.get("multiProcessorCount"),
    )
    return f"{facts!r} {xp.cuda.runtime.runtimeGetVersion()} {xp.cuda.runtime.driverGetVersion()}"


def digest(xp: Any, cudnn: Any, request_text: str, mode: str) -> str:
    """The name of a plan."""
    versions = f"{cudnn.__version__} {cudnn.backend_version()}"
    machine = _machine(xp, int(xp.cuda.Device().id))
    return digest_of("cudnn plan", request_text, mode, versions, machine)


def read(cudnn: Any, handle: Any, name: str) -> Any:
    """A graph with the stored plan; `None` where there is none that this cuDNN takes."""
    data = read_code(name)
    if data is None:
        return None
    graph = cudnn.pygraph(handle=handle)
    try:
        graph.deserialize(handle, list(data))
    except Exception:  # of a library that says little of it: the plan is built anew, and replaced
        return None
    return graph


def write(name: str, graph: Any) -> None:
    """Keep the plan of a graph; where it can't be put into bytes, the next process builds it."""
    try:
        data = bytes(graph.serialize())
    except RuntimeError:
        return
    if data:
        write_code(name, data)
