"""Models as diagrams: `model_to_dot` writes Graphviz's language, `plot_model` makes a picture.

The text is written here, so no package is needed for it; a picture is made of it by Graphviz's
program `dot`.
"""

from __future__ import annotations

import html
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from trainkit.core import nest
from trainkit.core.files.local_paths import local_path
from trainkit.layers.base.keras_tensor import CallNode, KerasTensor
from trainkit.layers.base.layer import Layer
from trainkit.layers.core import InputLayer
from trainkit.models.functional import FunctionalGraph
from trainkit.models.model import Model
from trainkit.models.sequential import Sequential

_RANKDIRS = ("TB", "BT", "LR", "RL")
_SPLINES = ("ortho", "curved", "polyline", "spline", "line", "none")
_TEXTS = ("dot", "gv", "raw")
_SHOWN = ("png", "jpg", "jpeg", "gif")


class Shown(NamedTuple):
    """What the box of a layer tells besides its class."""

    names: bool
    shapes: bool
    dtype: bool
    activations: bool
    trainable: bool


class DotGraph:
    """A graph in Graphviz's language."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_string(self) -> str:
        """The text."""
        return self._text

    __str__ = to_string

    def create(self, prog: str = "dot", format: str = "ps") -> bytes:
        """A picture.

        Args:
            prog: the program of Graphviz that lays the graph out.
            format: `"png"`, `"svg"`, `"pdf"` or another that the program knows; `"raw"` for the
                text itself.

        Raises:
            ImportError: the program is not installed.
            RuntimeError: it does not know the format.
        """
        if format in _TEXTS:
            return self._text.encode()
        program = shutil.which(prog)
        if program is None:
            raise ImportError(_MISSING.format(prog))
        command = [program, f"-T{format}"]
        process = subprocess.run(command, input=self._text.encode(), capture_output=True)
        if process.returncode:
            raise RuntimeError(f"{prog} -T{format} failed: {process.stderr.decode().strip()}")
        return process.stdout

    def write(self, path: str | os.PathLike[str], prog: str = "dot", format: str = "raw") -> bool:
        """Make a picture and put it into a file; see `create`.

        Args:
            path: of the file.
            prog: as for `create`.
            format: as for `create`.
        """
        target = pathlib.Path(local_path(path))
        target.write_bytes(self.create(prog, format))
        return True


_MISSING = (
    "a picture of a model is made by Graphviz, whose program {!r} is not installed; see "
    "https://graphviz.org/download/ (for instance: apt install graphviz). A file that ends in "
    ".dot is written without it"
)


def model_to_dot(
    model: Model,
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = True,
    rankdir: str = "TB",
    expand_nested: bool = False,
    dpi: float = 200,
    subgraph: bool = False,
    show_layer_activations: bool = False,
    show_trainable: bool = False,
    splines: str = "ortho",
    **kwargs: Any,
) -> DotGraph:
    """A model as a graph: a box for each layer, and arrows along which tensors go.

    A subclassed model is one box: what its `call` does is not known.

    Args:
        model: a model that is built.
        show_shapes: whether boxes tell the shapes of inputs and outputs.
        show_dtype: whether they tell the dtypes of outputs.
        show_layer_names: whether they tell the names of layers.
        rankdir: where arrows lead: `"TB"` down, `"BT"` up, `"LR"` and `"RL"` to a side.
        expand_nested: whether functional and sequential models inside are drawn with their layers,
            in a frame.
        dpi: dots per inch of a picture.
        subgraph: whether a frame for use in another graph is wanted.
        show_layer_activations: whether boxes tell the activations of layers that have one.
        show_trainable: whether boxes of layers with weights tell whether these are trained.
        splines: how arrows run: `"ortho"`, `"curved"`, `"polyline"`, `"spline"`, `"line"` or
            `"none"`.
        **kwargs: there are no others; each is refused by its name.

    Raises:
        TypeError: `model` is none.
        ValueError: it is not built, or an argument has a value that there is not.

    >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3, name="first")])
    >>> "<b>first</b> (Dense)" in model_to_dot(model).to_string()
    True
    """
    _check(model, rankdir, dpi, splines, kwargs)
    details = Shown(
        show_layer_names, show_shapes, show_dtype, show_layer_activations, show_trainable
    )
    drawing = _Drawing(details, expand_nested)
    if subgraph:
        return DotGraph("\n".join([*drawing.frame(model, ""), *drawing.arrows(), ""]))
    settings = f'rankdir="{rankdir}", concentrate="true", dpi="{dpi}", splines="{splines}"'
    lines = [
        "digraph G {",
        f"  graph [{settings}];",
        '  node [shape="plain", fontname="Helvetica"];',
        *drawing.body(model, "  "),
        *("  " + arrow for arrow in drawing.arrows()),
        "}",
    ]
    return DotGraph("\n".join([*lines, ""]))


def plot_model(
    model: Model,
    to_file: str | os.PathLike[str] = "model.png",
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = False,
    rankdir: str = "TB",
    expand_nested: bool = False,
    dpi: float = 200,
    show_layer_activations: bool = False,
    show_trainable: bool = False,
    splines: str = "ortho",
    **kwargs: Any,
) -> Any:
    """Put a diagram of a model into a file.

    Args:
        model: a model that is built.
        to_file: path of the file; its ending says the format, PNG if there is none. A file that
            ends in `.dot` gets the text of the graph, which needs no Graphviz.
        show_shapes: see `model_to_dot`.
        show_dtype: see `model_to_dot`.
        show_layer_names: see `model_to_dot`.
        rankdir: see `model_to_dot`.
        expand_nested: see `model_to_dot`.
        dpi: see `model_to_dot`.
        show_layer_activations: see `model_to_dot`.
        show_trainable: see `model_to_dot`.
        splines: see `model_to_dot`.
        **kwargs: see `model_to_dot`.

    Returns:
        In a notebook the picture, to be shown; `None` elsewhere.

    Raises:
        ImportError: Graphviz is not installed. In a notebook that is printed, so that the cells
            below still run.
        TypeError, ValueError: see `model_to_dot`.
    """
    switches = (show_shapes, show_dtype, show_layer_names)
    more = (show_layer_activations, show_trainable, splines)
    dot = model_to_dot(model, *switches, rankdir, expand_nested, dpi, False, *more, **kwargs)
    kind = pathlib.Path(to_file).suffix[1:].lower() or "png"
    in_notebook = "IPython.core.magics.namespace" in sys.modules
    if in_notebook and kind not in _TEXTS and shutil.which("dot") is None:
        print(_MISSING.format("dot"))
        return None
    dot.write(to_file, format=kind)
    return _display(str(to_file), kind) if in_notebook else None


def _display(path: str, kind: str) -> Any:
    """The picture as notebooks show it, `None` for formats that they do not."""
    display = importlib.import_module("IPython.display")
    if kind == "svg":
        return display.SVG(filename=path)
    return display.Image(filename=path, format=kind) if kind in _SHOWN else None


def _check(model: Any, rankdir: str, dpi: float, splines: str, more: dict[str, Any]) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"a diagram is drawn of a model, got {type(model).__name__}")
    if more.pop("layer_range", None) is not None:
        raise ValueError("layer_range is no longer an argument; the whole model is drawn")
    if more:
        raise ValueError(f"Unrecognized keyword arguments: {', '.join(sorted(more))}")
    if not model.built:
        raise ValueError(
            f"This model, {model.name!r}, has not yet been built: call it on data, or "
            "build(input_shape)"
        )
    for name, value, choices in (("rankdir", rankdir, _RANKDIRS), ("splines", splines, _SPLINES)):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    if not dpi > 0:
        raise ValueError(f"dpi must be positive, got {dpi}")


class _Drawing:
    """The lines of a graph: boxes now, arrows when all boxes are there."""

    def __init__(self, details: Shown, expand: bool) -> None:
        self.details, self.expand = details, expand
        self._boxes: dict[int, str] = {}
        self._frames = 0
        self._arrows: dict[tuple[str, str], None] = {}

    def arrows(self) -> list[str]:
        return [f'{a} -> {b} [penwidth="2"];' for a, b in self._arrows]

    def frame(self, model: Model, indent: str) -> list[str]:
        """A model in a frame of its own."""
        self._frames += 1
        name = html.escape(model.name)
        return [
            f"{indent}subgraph cluster_{self._frames} {{",
            f'{indent}  style="dashed"; label=<{name}>; labeljust="l";',
            *self.body(model, indent + "  "),
            f"{indent}}}",
        ]

    def body(self, model: Model, indent: str) -> list[str]:
        """The boxes of a model's layers; the arrows between them are noted."""
        if not _has_parts(model):
            return [self._box(model, None, indent)]
        graph, lines = model._graph, []
        calls = _first_calls(graph)
        for layer in _drawn(model):
            if self.expand and _has_parts(layer):
                lines += self.frame(layer, indent)
            elif id(layer) not in self._boxes:
                lines.append(self._box(layer, calls.get(id(layer)), indent))
        for source, k, target, i in _links(model, graph):
            self._arrows[self._exit(source, k), self._entry(target, i)] = None
        return lines

    def _box(self, layer: Layer, call: CallNode | None, indent: str) -> str:
        name = self._boxes[id(layer)] = f"layer_{len(self._boxes)}"
        return f"{indent}{name} [label={label(layer, call, self.details)}];"

    def _exit(self, layer: Any, k: int) -> str:
        """The box that the output `k` of a layer or model comes from."""
        while self.expand and _has_parts(layer):
            layer, k = _end(layer, k)
        return self._boxes[id(layer)]

    def _entry(self, layer: Any, i: int) -> str:
        """The box that the input `i` of a layer or model goes to."""
        while self.expand and _has_parts(layer):
            layer = _start(layer, i)
        return self._boxes[id(layer)]


def _has_parts(layer: Any) -> bool:
    """Whether it is a model of which is known how the layers follow each other."""
    if isinstance(layer, Sequential):
        return bool(layer.layers)
    return isinstance(layer, Model) and layer._graph is not None


def _drawn(model: Any) -> list[Any]:
    """The layers that get a box: all, but for what stands for the input of a stack."""
    return list(model.layers if isinstance(model, Sequential) else model.operations)


def _first_calls(graph: FunctionalGraph | None) -> dict[int, CallNode]:
    calls: dict[int, CallNode] = {}
    for node in graph.nodes if graph is not None else ():
        calls.setdefault(id(node.operation), node)
    return calls


def _links(model: Any, graph: FunctionalGraph | None) -> Iterator[tuple[Layer, int, Layer, int]]:
    """From which output of which layer to which input of which."""
    if isinstance(model, Sequential):
        for source, target in zip(model.layers, model.layers[1:], strict=False):
            yield source, 0, target, 0
        return
    for node in graph.nodes if graph is not None else ():
        for i, x in enumerate(node.inputs):
            if x.node is not None and x.node is not node:
                yield x.node.operation, _position(x), node.operation, i


def _position(x: KerasTensor) -> int:
    """Which of the outputs of its call a symbolic tensor is."""
    assert x.node is not None
    return next((k for k, y in enumerate(nest.flatten(x.node.outputs)) if y is x), 0)


def _end(model: Any, k: int) -> tuple[Layer, int]:
    if isinstance(model, Sequential):
        return model.layers[-1], 0
    x = model._graph.flat_outputs[k]
    return x.node.operation, _position(x)


def _start(model: Any, i: int) -> Layer:
    if isinstance(model, Sequential):
        first: Layer = model.layers[0]
        return first
    inputs = model._graph.flat_inputs
    layer: Layer = inputs[min(i, len(inputs) - 1)].node.operation
    return layer


# ------------------------------------------------------------------ what a box shows


def label(layer: Layer, call: CallNode | None, details: Shown) -> str:
    """The label of a layer's box, a table as Graphviz takes it.

    Args:
        layer: the layer.
        call: its first call in the model, if it is known.
        details: what the label holds.
    """
    kind = html.escape(_class_of(layer))
    title = f"<b>{html.escape(layer.name)}</b> ({kind})" if details.names else f"<b>{kind}</b>"
    cells = list(_cells(layer, call, details))
    rows = [_row([title], max(1, len(cells)))]
    activation = getattr(layer, "activation", None)
    if details.activations and activation is not None:
        name = getattr(activation, "name", None) or getattr(activation, "__name__", activation)
        rows.append(_row([_entry("Activation", str(name))], max(1, len(cells))))
    if cells:
        rows.append(_row(cells, 1))
    table = '<table border="0" cellborder="1" cellspacing="0" cellpadding="6">'
    return f"<{table}{''.join(rows)}</table>>"


def _class_of(layer: Any) -> str:
    """What kind of layer it is, as Keras calls it; operations have their own names."""
    if type(layer) is Model and layer._graph is not None:
        return "Functional"
    return str(getattr(layer, "primitive", type(layer).__name__))


def _row(cells: list[str], span: int) -> str:
    attribute = f' colspan="{span}"' if span > 1 else ""
    return "<tr>" + "".join(f"<td{attribute}>{cell}</td>" for cell in cells) + "</tr>"


def _entry(label: str, value: str) -> str:
    return f"{label}: <b>{html.escape(value)}</b>"


def _cells(layer: Layer, call: CallNode | None, details: Shown) -> Iterator[str]:
    outputs = None if call is None else call.outputs
    if details.shapes:
        if not isinstance(layer, InputLayer):
            inputs: Any = None if call is None else call.inputs
            yield _entry(
                "Input shape", _shapes(inputs[0] if inputs and len(inputs) == 1 else inputs)
            )
        yield _entry("Output shape", _shapes(outputs))
    if details.dtype:
        kinds = dict.fromkeys(str(y.dtype.name) for y in nest.flatten(outputs) if y is not None)
        yield _entry("Output dtype", ", ".join(kinds) or "?")
    if details.trainable and layer.weights:
        yield f"<b>{'Trainable' if layer.trainable else 'Non-trainable'}</b>"


def _shapes(symbols: Any) -> str:
    """The shapes of one or several symbolic tensors; `?` where they are not known."""
    if symbols is None:
        return "?"
    shapes = nest.map_structure(lambda x: None if x is None else tuple(x.shape), symbols)
    if isinstance(shapes, dict):
        return ", ".join(f"{key}: {shape}" for key, shape in shapes.items())
    return str(shapes)
