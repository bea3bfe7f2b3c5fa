"""Which plan of those that cuDNN has is built: the recommended one, or the fastest.

Source: NVIDIA, "cuDNN frontend developer guide", heuristics and autotuning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.cudnn import deferred
from trainkit.kernels.cudnn.description import Description

MOST_WORKSPACE = 1 << 30
"""Bytes that a plan may ask for."""
MEASURED = 5
"""So many plans are timed, the recommended one first."""
ROUNDS = 3


def build(
    xp: Any, cudnn: Any, handle: Any, description: Description, numerics: Any, arrays: Any
) -> None:
    """Build a plan in the description's graph.

    Args:
        xp: CuPy.
        cudnn: the frontend.
        handle: of this thread.
        description: what is computed.
        numerics: how it may be computed, a `Numerics`.
        arrays: those of the call, which measured plans write to.

    Raises:
        cudnnGraphNotSupportedError: there is no plan for it.
    """
    graph = description.graph
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.deselect_workspace_greater_than(MOST_WORKSPACE)
    graph.deselect_numeric_notes(_unwanted(cudnn, numerics))
    graph.check_support()
    if deferred.plan_mode() == "measure" and graph.get_execution_plan_count() > 1:
        graph.build_plan_at_index(_fastest(xp, cudnn, handle, description, arrays))
    else:
        graph.build_plans()


def _unwanted(cudnn: Any, numerics: Any) -> list[Any]:
    """Properties of plans that would round more than asked for, or otherwise in each run."""
    notes = cudnn.numerical_note
    unwanted_notes = [notes.REDUCED_PRECISION_REDUCTION, notes.DOWN_CONVERT_INPUTS]
    if numerics.full:
        unwanted_notes.append(notes.TENSOR_CORE)
    if numerics.determined:
        unwanted_notes.append(notes.NONDETERMINISTIC)
    return unwanted_notes


def _fastest(xp: Any, cudnn: Any, handle: Any, description: Description, arrays: Any) -> int:
    """The place of the fastest among the first plans that can be built."""
    graph = description.graph
    pack, live_arrays = description.pack(arrays)
    times: dict[int, float] = {}
    refused: Exception | None = None
    for i in range(min(MEASURED, graph.get_execution_plan_count())):
        try:
            graph.build_plan_at_index(i)
        except (cudnn.cudnnGraphNotSupportedError, ValueError) as error:  # deselected, or not here
            refused = error
            continue
        size = max(1, int(graph.get_workspace_size_plan_at_index(i)))
        workspace = xp.empty(size, np.uint8)

        def call(i: int = i, address: int = workspace.data.ptr) -> None:
            graph.execute_plan_at_index(pack, address, i, handle=handle)

        times[i] = milliseconds(xp, call)
    del live_arrays
    if not times:
        raise refused or cudnn.cudnnGraphNotSupportedError("there is no plan")
    return min(times, key=lambda i: times[i])


def milliseconds(xp: Any, call: Any) -> float:
    """The shortest time of a call on the device, after one that warms up."""
    call()
    times = []
    for _ in range(ROUNDS):
        start, stop = xp.cuda.Event(), xp.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(float(xp.cuda.get_elapsed_time(start, stop)))
    return min(times)
