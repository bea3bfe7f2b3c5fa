"""`enable_check_numerics`: the first operation that gives NaN or infinity raises, and says why.

While it is on, functions of operations are exchanged in place, as for a profile; while it is off,
there is not a single instruction more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process import forks
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.user_frames import Line, line_text, user_line
from trainkit.graph.tracing.python_calls import functions_run_eagerly, run_functions_eagerly
from trainkit.profiler.instrumentation import (
    Point,
    Undo,
    exchanged,
    function_at,
    layer_calls_exchanged,
    operations_exchanged,
    put_back,
)

_GRADIENT = Point("autodiff.tape", "GradientTape.gradient", "tape", lambda args: "gradient")
_MOST_ORIGINS = 100_000


class NumericsError(InvalidArgumentError):
    """An operation gave NaN or infinity.

    Attributes:
        operation: its name; with `" gradient"` behind it, that of a gradient.
        layer: the names of the layers around it, the outermost first, with a `/` between.
        line: file, number and function of the user's line that called it; `None` if unknown.
        statistics: lines about its inputs and its output.
    """

    operation: str
    layer: str
    line: Line | None
    statistics: list[str]
    _names_layer: bool


class _Checks:
    """The checks that are on, and what puts everything back."""

    undo: list[Undo] | None = None
    eagerly = False
    lock = forks.make_lock()


class _Where(threading.local):
    """What is under way in this thread.

    Attributes:
        layers: the names of the layers that are being called.
        origins: by the identity of an array, the array, and the layer and line it comes from.
        paused: whether nothing is checked.
    """

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.origins: dict[int, tuple[Any, str, Line | None]] = {}
        self.paused = False


_WHERE = _Where()


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Have every operation checked from now on: the first that gives NaN or infinity raises.

    The error names the operation, the layer, the line, and the least, greatest and mean values of
    the inputs. Gradients are checked as well. Meanwhile functions run operation by operation, which
    is slow. Operations that only pass an infinity on are not errors: masks are made with them.

    Args:
        stack_height_limit: for callers of TensorFlow; only the line that matters is shown.
        path_length_limit: characters of a file's path that are shown, its end.

    Raises:
        ValueError: a limit is not above 0.

    Example:
        >>> tk.debugging.enable_check_numerics()
        >>> try:
        ...     tk.math.log(tk.constant(0.0))
        ... except tk.errors.InvalidArgumentError as error:
        ...     print("log gave -infinity" if "log" in str(error) else error)
        log gave -infinity
        >>> tk.debugging.disable_check_numerics()
    """
    if stack_height_limit < 1 or path_length_limit < 1:
        raise ValueError(
            f"enable_check_numerics: limits must be above 0, got {stack_height_limit} and "
            f"{path_length_limit}"
        )
    with _Checks.lock:
        if _Checks.undo is not None:
            return
        undo: list[Undo] = []
        try:
            undo.extend(operations_exchanged(lambda p: _check_numbers(p.name, path_length_limit)))
            undo.append(layer_calls_exchanged(lambda: _WHERE.layers))
            undo.append(exchanged(function_at(_GRADIENT), _checked_gradient(path_length_limit)))
        except BaseException:
            put_back(undo)
            raise
        _Checks.eagerly = functions_run_eagerly()
        run_functions_eagerly(True)
        _Checks.undo = undo


def disable_check_numerics() -> None:
    """End what `enable_check_numerics` began; without that it does nothing.

    Example:
        >>> tk.debugging.enable_check_numerics()
        >>> tk.debugging.disable_check_numerics()
    """
    with _Checks.lock:
        if _Checks.undo is not None:
            put_back(_Checks.undo)
            _Checks.undo = None
            run_functions_eagerly(_Checks.eagerly)
            _WHERE.__dict__.clear()
            _WHERE.__init__()  # type: ignore[misc]


@contextlib.contextmanager
def checking_numerics() -> Iterator[None]:
    """Check within a block, unless checks are on anyway."""
    was_on = _Checks.undo is not None
    enable_check_numerics()
    try:
        yield
    finally:
        if not was_on:
            disable_check_numerics()


# ------------------------------------------------------------------ single calls


def _check_numbers(name: str, path_length: int) -> Callable[[Callable[..., Any]], Any]:
    def make(call: Callable[..., Any]) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            if not (_WHERE.paused or trace_state.THREAD.traces):
                _WHERE.paused = True  # texts are made with operations, too
                try:
                    _check(name, args, result, path_length)
                finally:
                    _WHERE.paused = False
            return result

        return run

    return make


def _arrays(values: Any) -> list[Any]:
    """The arrays of floats of all tensors in a nest."""
    tensors = [x for x in nest.flatten(values) if is_tensor(x)]
    plain_tensors = [x.value() if hasattr(x, "assign") else x for x in tensors]
    arrays = [x._array for x in plain_tensors if type(x) is Tensor]
    return [a for a in arrays if a.dtype.kind in "fcV" and a.size]


def _counts(array: Any) -> tuple[int, int]:
    """How many values are NaN, and how many infinite."""
    values = array.astype(np.float32) if array.dtype.kind == "V" else array
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.complex128 if values.dtype.kind == "c" else np.float64)
    if bool(abs(total) < np.inf):  # one sum tells for nearly all arrays
        return 0, 0
    infinite = int((abs(values) == np.inf).sum())
    return int((values != values).sum()), infinite


def _is_bad(array: Any) -> bool:
    return _counts(array) != (0, 0)


def _check(name: str, args: Any, result: Any, path_length: int) -> None:
    outputs = _arrays(result)
    line: Line | None = None
    for array in outputs:
        if len(_WHERE.origins) < _MOST_ORIGINS:
            line = line or user_line()
            _WHERE.origins[id(array)] = (array, "/".join(_WHERE.layers), line)
        nans, infinities = _counts(array)
        if not nans and not infinities:
            continue
        inputs = _arrays(args)
        before = [_counts(x) for x in inputs]
        # an infinity that was there before, or was asked for, is passed on
        if not nans and (not inputs or any(count for _, count in before)):
            continue
        passed_on = any(count for count, _ in before)
        _raise(name, "/".join(_WHERE.layers), user_line(), inputs, array, passed_on, path_length)


def _raise(
    name: str,
    layer: str,
    line: Line | None,
    inputs: list[Any],
    output: Any,
    passed_on: bool,
    path_length: int,
) -> None:
    nans, infinities = _counts(output)
    bad = " and ".join(
        f"{count} {word}" for count, word in ((nans, "NaN"), (infinities, "infinite")) if count
    )
    short_line = None if line is None else (line[0][-path_length:], *line[1:])
    lines = [f"  input {i}  {statistics(x)}" for i, x in enumerate(inputs)]
    lines.append(f"  output   {statistics(output)}")
    where = f" in layer {layer!r}" if layer else ""
    text = f"check_numerics: {name}{where} gave {bad} of {output.size} values"
    if passed_on:
        text += "; an input had NaN already, which no operation before it gave: look at the data "
        text += "and the weights"
    error = NumericsError("\n".join([text, f"  called at {line_text(short_line)}", *lines]))
    error._names_layer = True  # so that the layer adds no text of its own
    error.operation, error.layer, error.line, error.statistics = name, layer, line, lines
    raise error


def statistics(array: Any) -> str:
    """Shape, dtype, range, mean, and how many values are NaN or infinite.

    >>> statistics(np.array([1.0, np.inf, 3.0], np.float32))
    '(3,) float32  least 1  greatest 3  mean 2  (of 2 finite values)  NaN 0  infinite 1'
    """
    values = np.asarray(array.get() if hasattr(array, "get") else array)
    head = f"{tuple(values.shape)} {values.dtype.name}"
    numbers = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    finite = numbers[np.isfinite(numbers)]
    nans = int(np.isnan(numbers).sum())
    text = "no finite values"
    if finite.size and numbers.dtype.kind != "c":
        text = f"least {finite.min():.6g}  greatest {finite.max():.6g}  mean {finite.mean():.6g}"
        if finite.size < numbers.size:
            text += f"  (of {finite.size} finite values)"
    return f"{head}  {text}  NaN {nans}  infinite {numbers.size - finite.size - nans}"


# ------------------------------------------------------------------ gradients


def _checked_gradient(path_length: int) -> Callable[[Callable[..., Any]], Any]:
    def make(call: Callable[..., Any]) -> Any:
        def run(tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if _WHERE.paused or trace_state.THREAD.traces:
                return call(tape, target, *args, **kwargs)
            was_persistent = tape._persistent
            tape._persistent = True
            _WHERE.paused = True  # single operations of the gradients are looked at below
            try:
                gradients = call(tape, target, *args, **kwargs)
                if any(_is_bad(array) for array in _arrays(gradients)):
                    _blame(call, tape, target, path_length)
            finally:
                _WHERE.paused = False
                tape._persistent = was_persistent
                if not was_persistent:
                    tape._end()
                    _WHERE.origins.clear()
            return gradients

        return run

    return make


def _blame(call: Callable[..., Any], tape: Any, target: Any, path_length: int) -> None:
    """Raise for the operation, the last of the forward pass first, whose gradient is at fault."""
    entries: list[tuple[tuple[Any, ...], Any]] = []
    for output, entry in tape.tracked.items():
        if entry is not None:
            entries.append((output if type(output) is tuple else (output,), entry))
    tensors = list(
        {id(t): t for outputs, entry in entries for t in (*outputs, *_tensors(entry))}.values()
    )
    gradients = call(tape, target, tensors)
    by_tensor = {id(t): g for t, g in zip(tensors, gradients, strict=True) if g is not None}
    for outputs, (primitive, _, *inputs) in reversed(entries):
        after = [by_tensor[id(y)]._array for y in outputs if id(y) in by_tensor]
        if not after or any(_is_bad(g) for g in after):
            continue
        for x in _tensors((primitive, None, *inputs)):
            g = by_tensor.get(id(x))
            if g is not None and _is_bad(g._array):
                _, layer, line = _WHERE.origins.get(id(outputs[0]._array), (None, "", None))
                operands = [*after, *_arrays(list(inputs))]
                name = f"{primitive.name} gradient"
                _raise(name, layer, line, operands, g._array, False, path_length)


def _tensors(entry: Any) -> list[Tensor]:
    return [x for x in entry[2:] if type(x) is Tensor]
