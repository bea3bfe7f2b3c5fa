"""`print`, assertions and calls back into Python as operations that a graph keeps."""

from __future__ import annotations

import copy
import sys
import traceback
from typing import Any

import numpy as np

from trainkit.core import devices, nest, recorder
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.facets import MESSAGE, Effect
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.source_lines import Line, origin_of
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.graph.origins import place_text


def _nothing(*inputs: Any, **settings: Any) -> tuple[Spec, ...]:
    return ()


class Template:
    """The texts of a `print` with holes for the tensors; hashable, so that it can be a setting."""

    def __init__(
        self, parts: tuple[Any, ...], sep: str, end: str, stream: Any, summarize: int
    ) -> None:
        self.parts = parts
        self.sep = sep
        self.end = end
        self.stream = stream
        self.summarize = summarize

    def write(self, arrays: Any) -> None:
        """Fill the holes and print."""
        values = iter(arrays)
        parts = [
            nest.map_structure(lambda x: next(values) if x is HOLE else x, part)
            for part in self.parts
        ]
        texts = [formatted(part, self.summarize) for part in parts]
        out = self.stream
        if callable(out):
            out = out()
        if isinstance(out, str):
            with open(out.removeprefix("file://"), "a") as file:
                file.write(self.sep.join(texts) + self.end)
            return
        out.write(self.sep.join(texts) + self.end)
        out.flush()

    def __repr__(self) -> str:
        return repr(self.sep.join(str(part) for part in self.parts))


class _Hole:
    def __repr__(self) -> str:
        return "{}"


HOLE = _Hole()


@primitive(
    _nothing,
    name="print",
    effect=Effect("it prints"),
    semantics=MESSAGE,
    graph_name="PrintV2",
    text="beside numbers",
)
def _print(xp: Any, *arrays: Any, template: Template) -> tuple[Any, ...]:
    """Print a text with the values of tensors in it."""
    template.write([np.asarray(devices.to_numpy(a)) for a in arrays])
    return ()


def formatted(x: Any, summarize: int = 3) -> str:
    """A value as TensorFlow's `print` shows it: no fraction in whole floats, rows in brackets."""
    if isinstance(x, np.ndarray | np.generic):
        return _array_text(_quoted_texts(np.asarray(x)), summarize)
    if isinstance(x, list | tuple):
        inner = ", ".join(_quoted(item, summarize) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_quoted(v, summarize)}" for k, v in x.items()) + "}"
    return str(x)


def _quoted(x: Any, summarize: int) -> str:
    return repr(x) if isinstance(x, str) else formatted(x, summarize)


def _quoted_texts(x: Any) -> Any:
    """The texts of an array in quotation marks; a single text, and numbers, as they are."""
    if x.ndim == 0 or x.dtype.kind not in "OS":
        return x
    quoted = np.empty(x.shape, object)
    for place, item in np.ndenumerate(x):
        quoted[place] = b'"' + item + b'"'
    return quoted


def _number_text(x: Any) -> str:
    if isinstance(x, bytes):
        return x.decode(errors="replace")
    if isinstance(x, bool | np.bool_):
        return "1" if x else "0"
    if isinstance(x, int | np.integer):
        return str(int(x))
    if isinstance(x, complex | np.complexfloating):
        return f"({_number_text(x.real)},{_number_text(x.imag)})"
    text = f"{float(x):.9g}" if x.dtype == np.float32 else f"{float(x):.17g}"
    short = np.format_float_positional(x, trim="-") if 1e-5 <= abs(x) < 1e16 or x == 0 else text
    return short


def _array_text(x: Any, summarize: int) -> str:
    if x.ndim == 0:
        return _number_text(x[()])
    count = len(x)
    if summarize < 0 or count <= 2 * summarize:
        items = [_array_text(np.asarray(row), summarize) for row in x]
    else:
        first = [_array_text(np.asarray(row), summarize) for row in x[:summarize]]
        last = [_array_text(np.asarray(row), summarize) for row in x[-summarize:]]
        items = [*first, "...", *last]
    joint = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " "
    return "[" + joint.join(items) + "]"


def print_(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> None:
    """Print tensors and other values, now or, inside a traced function, each time the graph runs.

    Args:
        *inputs: tensors, texts, numbers, and nests of them.
        output_stream: a file object (`sys.stderr` by default) or `"file://path"`, to which is
            appended.
        summarize: how many first and last items of each axis are shown; -1 shows all.
        sep: between the inputs.
        end: after the last.
        name: not kept.
    """
    stream = (lambda: sys.stderr) if output_stream is None else output_stream
    tensors: list[Any] = []

    def hole(x: Any) -> Any:
        if is_tensor(x):
            tensors.append(x.value() if not isinstance(x, Tensor) else x)
            return HOLE
        return x

    parts = tuple(nest.map_structure(hole, x) for x in inputs)
    template = Template(parts, sep, end, stream, summarize)
    if recorder.current_trace() is not None:
        recorder.current_trace().apply(_print.primitive, tuple(tensors), {"template": template})
    else:
        template.write([np.asarray(t.numpy()) for t in tensors])


@primitive(_nothing, name="assert_true", effect=Effect("it raises", saved=True), semantics=MESSAGE)
def assert_true(xp: Any, condition: Any, *shown: Any, message: str) -> tuple[Any, ...]:
    """Raise unless all elements of `condition` hold."""
    if not bool(condition.all()):
        texts = [f"\n  {devices.to_numpy(x)!r}" for x in shown]
        raise InvalidArgumentError(message + "".join(texts))
    return ()


@primitive(_nothing, name="check_shape", effect=Effect("it raises"), semantics=MESSAGE)
def _check_shape(xp: Any, x: Any, *, shape: tuple[int | None, ...]) -> tuple[Any, ...]:
    """Raise unless `x` has the shape that `set_shape` said."""
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise InvalidArgumentError(
            f"set_shape said that the shape is {tuple(shape)}, it is {tuple(x.shape)}"
        )
    return ()


class Raised:
    """An error as a setting of `raise_error`."""

    def __init__(self, error: Exception, place: str) -> None:
        self.error = error
        self.place = place

    def __repr__(self) -> str:
        return repr(self.error)


@primitive(_nothing, name="raise_error", effect=Effect("it raises"), semantics=MESSAGE)
def _raise_error(xp: Any, *, raised: Raised) -> tuple[Any, ...]:
    """Raise an error of the user's."""
    error = copy.copy(raised.error).with_traceback(None)
    error.add_note(f"raised {raised.place}")
    raise error


_raise_error.primitive.passes_errors = True


def raise_when_run(error: Exception) -> None:
    """Raise `error` when the branch that is being traced runs."""
    raised = Raised(error, place_text(_raising_line(error), "at "))
    recorder.current_trace().apply(_raise_error.primitive, (), {"raised": raised})


def _raising_line(error: Exception) -> Line | None:
    """The user's line that raised `error`."""
    found = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        found = origin_of(code.co_filename, number) or found
    return found
