"""The program of a graph on a GPU: in two parts where it can be, and captured when used again."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.devices import XP_OF, Device
from trainkit.core.process import forks
from trainkit.graph.gpu.cuda_graph import CannotReplay, Capture, NotCaptured
from trainkit.graph.gpu.fused_on_gpu import CUDA
from trainkit.graph.gpu.placement import (
    NotApart,
    Parts,
    Reader,
    Seen,
    observed,
    on_its_gpu,
    without_idle_copies,
)
from trainkit.graph.ir.graph import Graph, Node
from trainkit.graph.runtime.fusion import fuse
from trainkit.graph.runtime.program import Program

CALLS_BEFORE_CAPTURE = 3
"""Calls on arrays of the same shapes before the launches are captured."""
MOST_DROPPED = 8
"""Captures that may be lost because a variable has moved, before no more are made."""
_MOST_PLANS = 16

_MODE = os.environ.get("TRAINKIT_CUDA_GRAPHS", "")


_ONE_GPU: frozenset[Device] = frozenset()


class _Captures:
    wanted = _MODE.strip().lower() not in ("0", "off", "false", "no")


class GpuProgram:
    """A graph on a GPU: call it with one array per input.

    Args:
        graph: optimised.
        fuses: whether runs of element-wise operations become one kernel each.
        captures: whether launches are captured as a CUDA graph.
    """

    def __init__(self, graph: Graph, fuses: bool, captures: bool) -> None:
        self.graph = graph
        self._fuses = fuses
        self._captures = captures and graph.outer is None and _Captures.wanted
        self._wholes: dict[Any, Program] = {}
        self._plans: dict[Any, _ShapeProgram | None] = {}
        self._calls: dict[Any, int] = {}
        self._reason: str | None = None if self._captures else "CUDA graphs are turned off"
        self._variables = [n.value for n in graph.nodes if n.kind == "variable"]
        self._is_open = _has_open_shapes(graph)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays, on the GPU where they lie; assigned variables are stored."""
        if not devices.several_gpus():
            return self._run(arrays)
        variable_arrays = [variable._value._array for variable in self._variables]
        gpus = devices.gpus_of([*arrays, *variable_arrays])
        del variable_arrays  # a variable that is held by others would be moved
        if len(gpus) != 1:
            return self._run(arrays, gpus)
        with devices.kernels_on(*gpus):
            return self._run(arrays, gpus)

    def _run(self, arrays: list[Any], gpus: frozenset[Device] = _ONE_GPU) -> list[Any]:
        if not self._captures:
            return self._as_a_whole(arrays, gpus)
        key = (gpus, self._key(arrays))
        plan = self._plans.get(key)
        if plan is not None:
            return plan(arrays)
        if key in self._plans or not self._is_worth_it(key):
            return self._as_a_whole(arrays, gpus)
        return self._first(key, arrays, gpus)

    def _key(self, arrays: list[Any]) -> Any:
        variable_arrays = [variable._value._array for variable in self._variables]
        return tuple([(type(a), a.shape, a.dtype.num) for a in (*arrays, *variable_arrays)])

    def _is_worth_it(self, key: Any) -> bool:
        """Whether arrays of these shapes come often enough for programs of their own."""
        if not self._is_open:
            return True
        if len(self._calls) > 256:
            self._calls.clear()
        self._calls[key] = calls = self._calls.get(key, 0) + 1
        return calls >= CALLS_BEFORE_CAPTURE and len(self._plans) < _MOST_PLANS

    def _as_a_whole(self, arrays: list[Any], gpus: frozenset[Device]) -> list[Any]:
        placement = self._places(arrays, gpus)
        program = self._wholes.get(placement)
        if program is not None:
            return program(arrays)
        results, observations = observed(self.graph, arrays)
        self._wholes[placement] = self._whole(observations)
        return results

    def _places(self, arrays: list[Any], gpus: frozenset[Device]) -> Any:
        """Which arrays of a call lie on the CPU, and where the others do."""
        variable_arrays = [variable._value._array for variable in self._variables]
        placement = gpus, tuple([XP_OF[type(a)] is np for a in (*arrays, *variable_arrays)])
        return placement if placement in self._wholes or len(self._wholes) < _MOST_PLANS else None

    def _whole(self, observations: Seen) -> Program:
        """The program of the graph as it is, for arrays that lie where those of a run lay."""
        if len(observations.gpus) > 1 or len(self._wholes) >= _MOST_PLANS:
            return Program(self.graph, on_gpu=True, watched=on_its_gpu)
        # a kernel takes the GPU's arrays; single numbers would leave the CPU with it
        return self.program(self.graph, {y.node for y in observations.on_host})

    def _first(self, key: Any, arrays: list[Any], gpus: frozenset[Device]) -> list[Any]:
        placement = self._places(arrays, gpus)
        results, observations = observed(self.graph, arrays)
        try:
            self._plans[key] = _ShapeProgram(
                self, Parts(*without_idle_copies(self.graph, observations))
            )
        except NotApart as error:
            self._plans[key], self._reason = None, str(error)
            self._wholes.setdefault(placement, self._whole(observations))
        return results

    def program(self, graph: Graph, left_out: Collection[Node] = ()) -> Program:
        """The program of a graph, where what can be one kernel is one."""
        return Program(fuse(graph, CUDA, left_out) if self._fuses else graph, on_gpu=True)

    def status(self) -> str:
        """How the graph runs, in words."""
        plans = [plan for plan in self._plans.values() if plan is not None]
        reasons = [*(plan.reason for plan in plans), self._reason]
        reason = next(filter(None, reasons), None)
        if any(plan.replays for plan in plans):
            replays = sum(plan.replays for plan in plans)
            graphs = sum(plan.captures for plan in plans)
            text = f"{replays} replays of {graphs} CUDA graph{'s' * (graphs != 1)}"
            return f"{text}; no more since {reason}" if reason else text
        if reason:
            return f"launched operation by operation, not as a CUDA graph: {reason}"
        return "launched operation by operation; a CUDA graph is captured after a few calls"


def _has_open_shapes(graph: Graph) -> bool:
    return any(None in tuple(x.shape) for x in graph.inputs) or any(
        None in tuple(n.value.shape) for n in graph.nodes if n.kind == "variable"
    )


class _ShapeProgram:
    """The parts of a graph as programs, for arrays of certain shapes on certain devices.

    Attributes:
        replays: how many CUDA graphs were launched.
        captures: how many were captured.
        reason: why none is, if that is known.
    """

    def __init__(self, owner: GpuProgram, parts: Parts) -> None:
        self.replays = self.captures = 0
        self.reason: str | None = None
        graph = parts.graph
        self._host = Program(parts.host) if parts.host.outputs else None
        self._device = owner.program(parts.device)
        self._host_sources = Reader(graph, parts.host_sources)
        self._device_sources = Reader(graph, parts.device_sources)
        self._count = len(parts.numbers)
        locations = {y: (0, i) for i, y in enumerate(parts.host_results)}
        locations |= {y: (1, i) for i, y in enumerate(parts.device_results)}
        self._outputs = [locations[y] for y in graph.outputs]
        self._stored = [(slot.variable, *locations[slot.now]) for slot in parts.assigned]
        self._assigned: list[list[Any]] = [[] for _ in parts.device_results]
        for variable, on_device, i in self._stored:
            if on_device:
                self._assigned[i].append(variable)
        self._handed = sorted({i for on_device, i in self._outputs if on_device})
        self._capture: Capture | None = None
        self._calls = self._misses = self._since = self._drop = 0
        self._why = ""
        self._lock = forks.make_lock()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays; assigned variables are stored."""
        with self._lock:
            host_values = self._host.run(*self._host_sources(arrays)) if self._host else []
            numbers, host_results = host_values[: self._count], host_values[self._count :]
            device_results = self._run_replay(arrays, numbers)
            if device_results is None:
                device_results = self._launch_kernels(arrays, numbers)
            for variable, on_device, i in self._stored:
                if not on_device:
                    variable._take(host_results[i])
        return [
            (device_results if on_device else host_results)[i] for on_device, i in self._outputs
        ]

    def _launch_kernels(self, arrays: list[Any], numbers: Sequence[Any]) -> list[Any]:
        """The results of the GPU's part, one operation after the other."""
        results = self._device([*self._device_sources(arrays), *numbers])
        for variable, on_device, i in self._stored:
            if on_device:
                variable._take(results[i])
        return results

    # ------------------------------------------------------------------ CUDA graphs

    def _run_replay(self, arrays: list[Any], numbers: Sequence[Any]) -> Any:
        """The results of the GPU's part by its CUDA graph; `None` where none can be launched."""
        if self.reason is not None:
            return None
        self._calls += 1
        inputs = self._device_sources.given(arrays)
        if self._capture is None:
            if self._calls < CALLS_BEFORE_CAPTURE or not self._capture_graph(inputs, numbers):
                return None
        assert self._capture is not None
        try:
            handed = self._capture.replay(inputs, numbers)
        except CannotReplay as error:
            self._miss(str(error))
            return None
        self.replays += 1
        self._since += 1
        results: list[Any] = [None] * len(self._assigned)
        for i, y in zip(self._handed, handed, strict=True):
            results[i] = y
        return results

    def _capture_graph(self, inputs: list[Any], numbers: Sequence[Any]) -> bool:
        variables = self._device_sources.variables
        gpu_arrays = [*inputs, *(v._value._array for v in variables if v is not None)]
        if not gpu_arrays:
            self.reason = "it reads nothing that is on the GPU"
            return False
        xp = XP_OF[type(gpu_arrays[0])]
        del gpu_arrays  # a variable that is held by others would be moved
        try:
            self._capture = Capture(
                xp, self._device, variables, inputs, numbers, self._assigned, self._handed
            )
        except NotCaptured as error:
            self.reason = str(error)
            return False
        self.captures += 1
        self._since = 0
        return True

    def _miss(self, reason: str) -> None:
        """Count a replay that could not be; after two in a row the graph is captured anew."""
        self._misses = 1 if self._since else self._misses + 1
        self._why = reason if self._misses == 1 else self._why
        if self._since > MOST_DROPPED:
            self._drop = 0
        self._since = 0
        if self._misses > 1:
            self._capture, self._calls, self._misses = None, 0, 0
            self._drop += 1
        if self._drop >= MOST_DROPPED:
            self.reason = self._why
