"""A step of a run done in two ways: in float32 and float64, compiled or not, on another device."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.user_frames import Line, line_text, user_line
from trainkit.core.variable import Variable
from trainkit.journal.state_digests import array_of
from trainkit.models.training.step_function import CompiledStep
from trainkit.ops.arrays.conversion import convert_to_tensor
from trainkit.runs.journaled_run import JournaledRun
from trainkit.runs.op_trace import line_below, observe_operations
from trainkit.runs.past_state import PastState
from trainkit.runs.run_diff import RunDifference

MODES = ("compiled", "gpu")
_MOST_SHOWN = 8


def _state(run: JournaledRun, step: int) -> PastState:
    state = run.at(step)
    if state.model is None:
        raise FailedPreconditionError(
            f"{run.folder} is of a loop of its own, whose step is in its program and can't be done "
            "alone; runs of fit can"
        )
    if not state.batches:
        raise InvalidArgumentError(f"{run.folder}: step {step} was never done")
    return state


# ------------------------------------------------------------------ a float64 shadow


@dataclasses.dataclass(frozen=True)
class OperationPrecision:
    """How many decimal digits of an operation's numbers are right, by its shadow in float64.

    Attributes:
        name: of the operation.
        layer: the names of the layers around it, with a `/` between.
        line: file, number and function of the user's line, `None` where there is none.
        digits_before: of the worst input.
        digits_after: of the worst output; the largest error, as part of the largest value.
        overflows: whether values are infinite or no numbers that are finite in float64.
    """

    name: str
    layer: str
    line: Line | None
    digits_before: float
    digits_after: float
    overflows: bool

    @property
    def lost(self) -> float:
        """How many digits the operation loses."""
        return self.digits_before - self.digits_after

    def __str__(self) -> str:
        where = f" in layer {self.layer!r}" if self.layer else ""
        digits_text = f"{self.digits_before:.1f} digits before, {self.digits_after:.1f} after"
        at = "" if self.line is None else f", called at {line_text(self.line)}"
        return f"{self.name}{where}: {'overflows, ' if self.overflows else ''}{digits_text}{at}"


class _Shadows:
    """The values of tensors as they would be, had all been computed in float64."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[Any, Any, float]] = {}
        self.results: list[OperationPrecision] = []
        self.asked_at = user_line()

    def observe(self, name: str, layer: str, call: Any, args: Any, kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        inputs = [x for x in nest.flatten([list(args), kwargs]) if _is_float(x)]
        outputs = [x for x in nest.flatten(result) if is_tensor(x)]
        if not inputs or not any(map(_is_float, outputs)):
            return result
        with trace_state.silence():
            try:
                again = nest.flatten(self._call(name, call, args, kwargs))
            except (TypeError, ValueError, NotImplementedError):
                return result  # an operation that has no float64
        if len(again) == len(outputs):
            before = min(self.digits_of(x) for x in inputs)
            self._compare(name, layer, before, outputs, again)
        return result

    def _call(self, name: str, call: Any, args: Any, kwargs: Any) -> Any:
        if name == "cast" and _is_float(args[0]):
            return self.shadow_of(args[0])
        wide_args, double_kwargs = nest.map_structure(self.shadow_of, [list(args), dict(kwargs)])
        if "dtype" in double_kwargs and _is_float_name(double_kwargs["dtype"]):
            double_kwargs["dtype"] = "float64"
        return call(*wide_args, **double_kwargs)

    def _compare(self, name: str, layer: str, before: float, outputs: Any, again: Any) -> None:
        worst, overflows = _most_digits(outputs[0]), False
        for output, shadow in zip(outputs, again, strict=True):
            if not _is_float(output):
                continue
            exact = np.asarray(array_of(shadow), np.float64)
            digits, infinite = _right_digits(output, exact)
            overflows = overflows or infinite
            worst = min(worst, digits)
            self.of[id(output)] = (output, convert_to_tensor(exact), digits)
        line = line_below(self.asked_at)
        self.results.append(OperationPrecision(name, layer, line, before, worst, overflows))

    def shadow_of(self, value: Any) -> Any:
        if not _is_float(value):
            return value
        entry = self.of.get(id(value))
        if entry is not None and entry[0] is value:
            return entry[1]
        return convert_to_tensor(np.asarray(array_of(value), np.float64))

    def digits_of(self, value: Any) -> float:
        entry = self.of.get(id(value))
        exact = entry is None or entry[0] is not value
        return _most_digits(value) if entry is None or exact else entry[2]


def _is_float(value: Any) -> bool:
    if not (isinstance(value, Tensor | Variable | np.ndarray) or is_tensor(value)):
        return False
    return _is_float_name(value.dtype)


def _is_float_name(dtype: Any) -> bool:
    try:
        return as_dtype(dtype).name in ("float16", "bfloat16", "float32")
    except (TypeError, ValueError):
        return False


def _most_digits(value: Any) -> float:
    """How many digits a rounded value of a type has."""
    bits = {"float16": 11, "bfloat16": 8, "float32": 24}.get(as_dtype(value.dtype).name, 53)
    return bits * math.log10(2)


def _right_digits(output: Any, exact: Any) -> tuple[float, bool]:
    """How many digits are right, and whether it is infinite where the shadow is not."""
    rounded = np.asarray(array_of(output), np.float64)
    digits = _most_digits(output)
    if rounded.shape != exact.shape or not rounded.size:
        return digits, False
    finite = np.isfinite(exact)
    if not np.isfinite(rounded[finite]).all():
        return 0.0, True
    error = float(np.abs(rounded[finite] - exact[finite]).max(initial=0.0))
    scale = float(np.abs(exact[finite]).max(initial=0.0))
    if error == 0 or scale == 0:
        return (digits if error == 0 else 0.0), False
    return min(max(-math.log10(error / scale), 0.0), digits), False


def shadow(run: JournaledRun, step: int = 1, dtype: str = "float64") -> RunDifference:
    """Do a step with a shadow in float64 of each value: which operation loses most digits.

    The shadow starts with the weights and the batch as they are, and takes the random numbers of
    the step, so what differs is rounding. Optimizers' updates are not among the operations.

    Args:
        run: of `fit`.
        step: its number, from 1.
        dtype: of the shadow; only `"float64"`.

    Returns:
        A difference of kind `"precision"`, with the operation in its cause and those that come next
        in its details.

    Raises:
        ValueError: the type is another.
        FailedPreconditionError: the run can't be gone back into, or is of a loop of one's own.
    """
    if dtype != "float64":
        raise InvalidArgumentError(f"shadow: the dtype must be 'float64', got {dtype!r}")
    state = _state(run, step)
    shadows = _Shadows()
    observe_operations(state.train_step, shadows.observe)
    ranked = sorted(
        shadows.results, key=lambda precision: (not precision.overflows, -precision.lost)
    )
    if not ranked:
        return RunDifference(None, "none", "no operation of the step has floats below float64")
    worst, *others = ranked
    cause = f"most digits are lost by {worst}"
    details = [str(precision) for precision in others[: _MOST_SHOWN - 1] if precision.lost > 0]
    return RunDifference(step, "precision", cause, details)


# ------------------------------------------------------------------ other ways to run


def diff_modes(run: JournaledRun, step: int = 1, mode: str = "compiled") -> RunDifference:
    """Do a step operation by operation on this device, and in another way; where they part.

    Args:
        run: of `fit`.
        step: its number, from 1.
        mode: `"compiled"`, as `fit` runs it by default, whose single operations can't be seen: the
            weights that it leaves are compared; `"gpu"`, with each operation on the processor and
            on the first GPU, from the inputs that it has on the device of the run.

    Raises:
        ValueError: the mode is another.
        FailedPreconditionError: the run can't be gone back into, or is of a loop of one's own.
        DeviceError: there is no GPU.
    """
    if mode not in MODES:
        raise InvalidArgumentError(f"diff_modes: mode must be one of {MODES}, got {mode!r}")
    if mode == "gpu":
        return _on_gpu(run, step)
    eager, compiled = _state(run, step), _state(run, step)
    eager.train_step()
    model: Any = compiled.model
    model.run_eagerly = False
    with compiled._own_random():
        steps = model.make_train_function(force=True)
        inner = getattr(steps, "step", None)
        if isinstance(inner, CompiledStep):  # else a function of the user's own
            inner.compile_first()
        steps(iter(compiled.batches))
    pairs = zip(_variables(eager), _variables(compiled), strict=True)
    apart = [
        (*_distance(one, other), path)
        for (path, one), (_, other) in pairs
        if array_of(one).tobytes() != array_of(other).tobytes()
    ]
    if not apart:
        return RunDifference(None, "none", "compiled or not, the step leaves the same bits")
    _, _, first = apart[0]
    largest, relative, path = max(apart)
    cause = (
        f"compiled, the step leaves other bits in {len(apart)} variables, {first} first: by "
        f"{largest:.3g} at most ({relative:.2g} of the largest value), in {path}"
    )
    details = [f"{name}: {value:.3g}" for value, _, name in sorted(apart)[::-1][:_MOST_SHOWN]]
    return RunDifference(step, "compiled", cause, details)


def _variables(state: PastState) -> list[tuple[str, Any]]:
    model: Any = state.model
    return [(v.path, v) for v in model.variables]


def _distance(one: Any, other: Any) -> tuple[float, float]:
    a, b = (np.asarray(array_of(x), np.float64) for x in (one, other))
    largest = float(np.abs(a - b).max(initial=0.0))
    return largest, largest / max(float(np.abs(a).max(initial=0.0)), 1e-300)


@dataclasses.dataclass(frozen=True)
class _OperationApart:
    """An operation that gives other bits on another device, from equal inputs.

    Attributes:
        operation: its name and where it is, in words.
        error: the largest difference, as part of the largest value; infinite where only one of the
            two is a finite number.
    """

    operation: str
    error: float

    def __str__(self) -> str:
        if math.isinf(self.error):
            return f"{self.operation}: a finite number on one of them alone"
        return f"{self.operation}: by {self.error:.2g} of the largest value"


class _HostValue:
    """The values of a tensor as they are, since an operation may write over it."""

    def __init__(self, value: Any) -> None:
        self.array = np.array(array_of(value))


class _Elsewhere:
    """Does each operation of a step on another device too, with the same inputs."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.apart: list[_OperationApart] = []
        self.missing: list[str] = []
        self.asked_at = user_line()

    def observe(self, name: str, layer: str, call: Any, args: Any, kwargs: Any) -> Any:
        inputs = nest.map_structure(_on_host, [list(args), dict(kwargs)])
        result = call(*args, **kwargs)
        where = f" in layer {layer!r}" if layer else ""
        line = line_below(self.asked_at)
        at = "" if line is None else f", called at {line_text(line)}"
        with trace_state.silence(), devices.device(self.device):
            moved_args, moved = nest.map_structure(_from_host, inputs)
            try:
                again = call(*moved_args, **moved)
            except (TypeError, ValueError, NotImplementedError):
                self.missing.append(f"{name}{where}{at}")
                return result
        pairs = zip(_tensors_in(result), _tensors_in(again), strict=True)
        error = max((_error(array_of(a), array_of(b)) for a, b in pairs), default=0.0)
        if error:
            self.apart.append(_OperationApart(f"{name}{where}{at}", error))
        return result


def _on_host(value: Any) -> Any:
    return _HostValue(value) if is_tensor(value) else value


def _from_host(value: Any) -> Any:
    return convert_to_tensor(value.array) if isinstance(value, _HostValue) else value


def _tensors_in(result: Any) -> list[Any]:
    return [x for x in nest.flatten(result) if is_tensor(x)]


def _error(one: Any, other: Any) -> float:
    """The largest difference as part of the largest value, 0 for the same bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return math.inf
    if one.tobytes() == other.tobytes():
        return 0.0
    if one.dtype.kind in "OSUT":
        return 0.0 if (one == other).all() else math.inf
    kind = np.complex128 if one.dtype.kind == "c" else np.float64
    a, b = one.astype(kind), other.astype(kind)
    finite = np.isfinite(a)
    if (finite != np.isfinite(b)).any():
        return math.inf
    largest = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    scale = float(np.abs(a[finite]).max(initial=0.0))
    return max(largest / scale if scale else largest, 5e-324)  # -0 and 0 differ, too


def _on_gpu(run: JournaledRun, step: int) -> RunDifference:
    """Each operation on the device of the run, and with equal inputs on the other one."""
    trained_on_gpu = "GPU" in str(run.header.get("device"))
    own_device, other_device = ("/gpu:0", "/cpu:0") if trained_on_gpu else ("/cpu:0", "/gpu:0")
    with devices.device("/gpu:0"):  # which says so where there is none
        elsewhere = _Elsewhere(other_device)
    with devices.device(own_device):
        observe_operations(_state(run, step).train_step, elsewhere.observe)
    missing = [f"not compared, as one device has none: {name}" for name in elsewhere.missing]
    if not elsewhere.apart:
        same = "from equal inputs, all operations give the same bits on either device"
        return RunDifference(None, "none", same, missing[:_MOST_SHOWN])
    first = elsewhere.apart[0]
    cause = f"first to give other bits on the other device, from equal inputs: {first}"
    ranked = sorted(elsewhere.apart, key=lambda apart: -apart.error)[:_MOST_SHOWN]
    return RunDifference(step, "device", cause, [*map(str, ranked), *missing[:_MOST_SHOWN]])
