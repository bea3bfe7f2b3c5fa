"""A plan for each description that was asked for, built at the first call and run by the others.

A plan is known by what it computes: the function that describes it, that function's facts (shapes,
strides, dtypes, padding ...), how floats may be rounded, and the device. What cuDNN has no plan for
is remembered, too, and left to the plain bodies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.process import forks
from trainkit.kernels.cuda.raw_kernel import ALIGNMENT
from trainkit.kernels.cudnn import deferred, frontend, plan_choice, plan_store
from trainkit.kernels.cudnn.description import Description
from trainkit.kernels.matmul.matmul_gpu import takes_tf32
from trainkit.kernels.threads import pools

Array = Any
Describe = Callable[..., None]


class Numerics(NamedTuple):
    """How a plan may compute.

    Attributes:
        full: products of float32 keep all bits, so without TensorFloat-32.
        determined: two runs must give the same bits.
    """

    full: bool
    determined: bool


class Request(NamedTuple):
    """What a plan is known by; `facts` are what `describe` takes after the description."""

    describe: Describe
    facts: tuple[Any, ...]
    numerics: Numerics
    device: int

    def text(self) -> str:
        """The same in words that any process gives."""
        function_name = f"{self.describe.__module__}.{self.describe.__qualname__}"
        return f"{function_name} {self.facts!r} {tuple(self.numerics)!r}"


class BuiltPlan:
    """A computation that cuDNN is ready to run.

    Args:
        description: its tensors.
        graph: the frontend's graph with its plan built; that of the description, or a stored one.
    """

    def __init__(self, description: Description, graph: Any) -> None:
        self._description, self._graph = description, graph
        self._bytes = max(1, int(graph.get_workspace_size()))
        self._lock = forks.make_lock()  # the frontend keeps what it hands over in the graph

    def __call__(self, xp: Any, arrays: dict[str, Any]) -> None:
        """Write the results, for tensors and numbers by name."""
        addresses, live_arrays = self._description.pack(arrays)
        workspace = xp.empty(self._bytes, np.uint8)
        with self._lock:
            self._graph.execute(addresses, workspace.data.ptr, handle=frontend.handle(xp))
        del live_arrays


_PLANS: dict[Request, BuiltPlan | str] = {}
_BUILDING = forks.make_lock()
_WARNED: list[str] = []


def clear() -> None:
    """Forget all plans, and what there are none for."""
    _PLANS.clear()
    _WARNED.clear()


def count() -> int:
    """How many plans there are."""
    return sum(isinstance(plan, BuiltPlan) for plan in _PLANS.values())


def refused() -> dict[str, str]:
    """What cuDNN has no plan for, with its reasons."""
    return {k.text(): reason for k, reason in _PLANS.items() if isinstance(reason, str)}


def run(
    xp: Any,
    describe: Describe,
    facts: tuple[Any, ...],
    arrays: dict[str, Any],
    is_replaceable: bool = False,
) -> bool:
    """Compute what `describe(description, *facts)` says; false where cuDNN can't.

    Args:
        xp: CuPy.
        describe: a function of a module; its name is a part of what the plan is known by.
        facts: all that the description depends on, the dtype of what is multiplied first.
        arrays: inputs and results by name, in the layout of the description, and numbers.
        is_replaceable: whether other kernels serve as well, so that where a plan would have to be
            built while a CUDA graph is captured it is false, too.

    Raises:
        UnimplementedError: the plan would have to be built while a CUDA graph is captured.
        RuntimeError: cuDNN fails in a plan that it has built.
    """
    request = Request(describe, facts, _numerics(xp, facts[0]), int(xp.cuda.Device().id))
    plan = _PLANS.get(request)
    if plan is None:
        if is_replaceable and frontend.is_capturing(xp):
            return False
        plan = _make(xp, request, arrays)
    if isinstance(plan, str):
        return False
    try:
        plan(xp, arrays)
    except RuntimeError as error:
        raise RuntimeError(
            f"cuDNN fails in {describe.__qualname__}: {error}\nTRAINKIT_CUDNN=0 runs without it"
        ) from error
    return True


def _numerics(xp: Any, dtype: str) -> Numerics:
    return Numerics(dtype == "float32" and not takes_tf32(xp), pools.determined())


def _make(xp: Any, request: Request, arrays: dict[str, Any]) -> BuiltPlan | str:
    frontend.refuse_in_capture(xp, f"a plan of cuDNN for {request.describe.__qualname__} is built")
    with _BUILDING:
        plan = _PLANS.get(request)  # of another thread, meanwhile
        if plan is None:
            plan = _PLANS[request] = _built(xp, request, arrays)
    return plan


def _built(xp: Any, request: Request, arrays: dict[str, Any]) -> BuiltPlan | str:
    """The plan, or why there is none."""
    cudnn = frontend.frontend()
    try:
        handle = frontend.handle(xp)
        description = Description(cudnn, handle=handle)
        request.describe(description, *request.facts)
        name = plan_store.digest(xp, cudnn, request.text(), deferred.plan_mode())
        graph = plan_store.read(cudnn, handle, name)
        if graph is not None:
            return BuiltPlan(description, graph)
        plan_choice.build(xp, cudnn, handle, description, request.numerics, arrays)
        plan_store.write(name, description.graph)
        return BuiltPlan(description, description.graph)
    except MemoryError:
        raise
    except cudnn.cudnnGraphNotSupportedError as error:
        return _first_line(error) or "not supported"
    except Exception as error:  # of the library: a part of it that is missing, of another version
        _warn(f"{type(error).__name__}: {_first_line(error)}")
        return _first_line(error) or type(error).__name__


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _warn(reason: str) -> None:
    if not _WARNED:
        _WARNED.append(reason)
        warnings.warn(
            f"cuDNN is there but builds no plan ({reason}); the plain bodies serve. `python -m "
            "trainkit doctor` says more, TRAINKIT_CUDNN=0 leaves it alone",
            stacklevel=2,
        )


def ready(xp: Any, x: Array) -> Array:
    """`x` as cuDNN takes it: in row-major order, from an aligned address on."""
    x = xp.ascontiguousarray(x)
    return x if x.data.ptr % ALIGNMENT == 0 else x.copy()


def is_served(xp: Any, *arrays: Array | None) -> bool:
    """Whether these are arrays of one dtype that cuDNN takes, on the current device."""
    operands = [a for a in arrays if a is not None]
    first = operands[0]
    if first.dtype.name not in ("float32", "float16", "bfloat16") or not all(
        type(a) is type(first) and a.dtype == first.dtype and a.size for a in operands
    ):
        return False
    device = int(xp.cuda.Device().id)
    return frontend.is_there() and all(int(a.device.id) == device for a in operands)
