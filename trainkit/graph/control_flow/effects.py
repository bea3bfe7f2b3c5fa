"""`print`, assertions and calls back into Python as operations that a graph keeps."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.facets import MESSAGE, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.user_frames import Line, origin_of
from trainkit.graph.ir.user_lines import place_text
from trainkit.ops.core.run_time_checks import assert_true as assert_true
from trainkit.ops.core.value_text import array_text, is_single_text, structure_text
from trainkit.ops.vmap_rules.shared_rules import with_settings


def _do_nothing(*inputs: Any, **settings: Any) -> tuple[Spec, ...]:
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
        values = list(arrays)
        texts_of_values = iter([array_text(x, self.summarize) for x in values])
        if len(values) == len(self.parts) == 1 and is_single_text(values[0]):
            # Alone it has no quotes in TensorFlow.
            texts = [str(values[0].item(), "utf-8", "replace")]
        else:
            texts = [structure_text(part, HOLE, texts_of_values) for part in self.parts]
        # Functions give the stream of this moment: a program, a notebook or a test may have put
        # another in the place of `sys.stderr` since the trace.
        out = self.stream
        if callable(out):
            out = out()
        if isinstance(out, str):
            path = local_path(out.removeprefix("file://"))
            with open(path, "a", encoding="utf-8") as file:
                file.write(self.sep.join(texts) + self.end)
            return
        out.write(self.sep.join(texts) + self.end)
        # Beside Python's own prints lines come in their order, also where the stream is buffered.
        out.flush()

    def holes(self) -> int:
        """How many values it takes."""
        return sum(x is HOLE for x in nest.flatten(self.parts))

    def data(self) -> tuple[Any, ...] | None:
        """All of it as data, the stream by name; `None` where it prints to a file or object.

        Holes are in it as they are, `HOLE`.
        """
        # Streams are not data, so a saved graph holds the name of one that every process has.
        name = "stderr" if self.stream is _stderr else _name_of_stream(self.stream)
        return None if name is None else (self.parts, self.sep, self.end, name, self.summarize)

    def __repr__(self) -> str:
        return repr(self.sep.join(str(part) for part in self.parts))


def template_of(data: Any) -> Template:
    """The template of `print` that `Template.data` described as plain values.

    Raises:
        ValueError: it is none of a template.
    """
    if not isinstance(data, tuple) or [type(x) for x in data] != [tuple, str, str, str, int]:
        raise ValueError("no template of print")
    parts, sep, end, name, summarize = data
    if name not in _STREAMS:
        raise ValueError(f"{name[:40]!r} is no stream; print writes to {sorted(_STREAMS)}")
    return Template(parts, sep, end, _STREAMS[name], summarize)


def _stderr() -> Any:
    return sys.stderr


_STREAMS: dict[str, Callable[[], Any]] = {"stderr": _stderr, "stdout": lambda: sys.stdout}
"""By name, and asked for at each print: a program may have put another in its place."""


def _name_of_stream(stream: Any) -> str | None:
    return next((name for name, s in _STREAMS.items() if stream in (s, s())), None)


class _Hole:
    def __repr__(self) -> str:
        return "{}"


HOLE = _Hole()


def _print_rule(*inputs: Any, template: Any) -> tuple[Spec, ...]:
    if not isinstance(template, Template) or template.holes() != len(inputs):
        raise InvalidArgumentError(f"print: {template!r} does not show {len(inputs)} values")
    return ()


@primitive(
    _print_rule,
    name="print",
    effect=Effect("it prints", saved=True),
    semantics=MESSAGE,
    graph_name="PrintV2",
    text="beside numbers",
    export=True,
)
def _print(xp: Any, *arrays: Any, template: Template) -> tuple[Any, ...]:
    """Print a text with the values of tensors in it."""
    template.write([np.asarray(devices.to_numpy(a)) for a in arrays])
    return ()


def print_(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> object:
    """Print tensors and other values, now or, inside a traced function, each time the graph runs.

    In a graph of version 1 it gives an operation that a session runs.

    Args:
        *inputs: tensors, texts, numbers, and nests of them.
        output_stream: a file object (`sys.stderr` by default) or `"file://path"`, to which is
            appended.
        summarize: how many first and last items of each axis are shown; -1 shows all.
        sep: between the inputs.
        end: after the last.

    Example:
        >>> import sys
        >>> tk.print("loss", tk.constant([1.0, 2.0]), output_stream=sys.stdout)
        loss [1 2]
    """
    stream = _stderr if output_stream is None else output_stream
    tensors: list[Any] = []

    def hole(x: Any) -> Any:
        if is_tensor(x):
            tensors.append(x.value() if not isinstance(x, Tensor) else x)
            return HOLE
        return x

    # Tensors are inputs of the node and all else is a setting, so structures keep their texts, and
    # values are put in when the graph runs.
    parts = tuple(nest.map_structure(hole, x) for x in inputs)
    template = Template(parts, sep, end, stream, summarize)
    graph = trace_state.current_graph()
    if getattr(graph, "is_built_by_hand", False):
        return graph.by_hand.effect(
            "PrintV2",
            lambda values: template.write([np.asarray(t.numpy()) for t in values]),
            tensors,
        )
    if graph is not None:
        graph.apply(_print.primitive, tuple(tensors), {"template": template})
    else:
        template.write([np.asarray(t.numpy()) for t in tensors])
    return None


@primitive(_do_nothing, name="check_shape", effect=Effect("it raises"), semantics=MESSAGE)
def _check_shape(xp: Any, x: Any, *, shape: tuple[int | None, ...]) -> tuple[Any, ...]:
    """Raise unless `x` has the shape that `set_shape` said."""
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise InvalidArgumentError(
            f"set_shape said that the shape is {tuple(shape)}, it is {tuple(x.shape)}"
        )
    return ()


_print.declare(batch=one_by_one("each item prints a line"))
_check_shape.batch_by(with_settings(lambda s, rank, count: {"shape": (count, *s["shape"])}))


class Raised:
    """An error as a setting of `raise_error`."""

    def __init__(self, error: Exception, place: str) -> None:
        self.error = error
        self.place = place

    def __repr__(self) -> str:
        return repr(self.error)


@primitive(_do_nothing, name="raise_error", effect=Effect("it raises"), semantics=MESSAGE)
def _raise_error(xp: Any, *, raised: Raised) -> tuple[Any, ...]:
    """Raise an error of the user's."""
    # One error stands in the graph for all runs: raised itself, it would collect the notes and
    # the frames of each.
    error = _copy(raised.error).with_traceback(None)
    error.add_note(f"raised {raised.place}")
    raise error


def _copy(error: Exception) -> Exception:
    """Another error of the same kind, text and attributes."""
    try:
        return copy.copy(error)
    except Exception:  # a class of the user's whose __init__ takes other arguments than `args`
        twin = type(error).__new__(type(error), *error.args)
        twin.args = error.args
        twin.__dict__.update(error.__dict__)
        return twin


_raise_error.primitive.passes_errors = True
_raise_error.declare(batch=one_by_one("it takes no values"))


def raise_when_run(error: Exception) -> None:
    """Raise `error` when the branch that is being traced runs."""
    raised = Raised(error, place_text(_raising_line(error), "at "))
    trace_state.current_trace().apply(_raise_error.primitive, (), {"raised": raised})


def _raising_line(error: Exception) -> Line | None:
    """The user's line that raised `error`."""
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        line = origin_of(code.co_filename, number) or line
    return line
