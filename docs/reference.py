"""Writes docs/reference/, a page per door with all its public names: python docs/reference.py.

The text and the signature of an operation that `ufunc(...)` makes exist only at run time, so
the package is looked at as it is imported, rather than read as mkdocstrings reads it. Griffe's
parser takes the docstrings apart.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from griffe import Docstring, DocstringSection, DocstringSectionKind

FOLDER = Path(__file__).parent / "reference"

# A name behind several doors is described at the first of these, and the others lead there.
DOORS = {
    "tk.layers": "Layers",
    "tk.models": "Models",
    "tk.losses": "Losses",
    "tk.metrics": "Metrics",
    "tk.optimizers": "Optimizers and schedules",
    "tk.callbacks": "Callbacks",
    "tk.runs": "Runs",
    "tk.loggers": "Loggers",
    "tk.activations": "Activations",
    "tk.initializers": "Initializers",
    "tk.regularizers": "Regularizers",
    "tk.constraints": "Constraints",
    "tk.keras.applications": "Models with known weights",
    "tk.visualization": "Images with boxes and masks",
    "tk.distillation": "Distillation",
    "tk.wrappers": "Models for scikit-learn",
    "tk.quantizers": "Quantizers",
    "tk.distribute": "Distribution strategies",
    "tk.distribution": "Distribution",
    "tk.data": "Data pipelines",
    "tk.data.experimental": "Data pipelines: experimental names",
    "tk.records": "Records",
    "tk.lookup": "Lookup tables",
    "tk.datasets": "Data sets",
    "tk.checkpoints": "Checkpoints",
    "tk.train": "Training: checkpoints, examples, coordinators",
    "tk.summary": "Summaries for TensorBoard",
    "tk.summary.experimental": "Summaries: experimental names",
    "tk.profiler": "Profiles",
    "tk.profiler.experimental": "Profiles: TensorFlow's names",
    "tk.autodiff": "Gradients",
    "tk.math": "Mathematics",
    "tk.linalg": "Linear algebra",
    "tk.nn": "Neural network operations",
    "tk.image": "Images",
    "tk.audio": "Audio",
    "tk.signal": "Signals",
    "tk.strings": "Strings",
    "tk.bitwise": "Bits",
    "tk.random": "Random numbers",
    "tk.io": "Files and records",
    "tk.nest": "Nested structures",
    "tk.config": "Configuration",
    "tk.debugging": "Debugging",
    "tk.dtypes": "Element types",
    "tk.errors": "Errors",
    "tk.autograph": "AutoGraph",
    "tk.saved_graph": "Saved graphs",
    "tk.saved_model": "Saved models",
    "tk.onnx": "ONNX files",
    "tk.weights": "Weights of other libraries",
    "tk.interop": "Functions inside PyTorch and JAX",
    "tk.hub": "Models in folders, for the Hub",
    "tk.experimental": "Optional values",
    "tk.test": "Tests",
    "tk.types": "Types",
    "tk.version": "Versions",
    "tk": "trainkit",
    "tk.utils": "Keras utilities",
    "tk.saving": "Keras saving",
    "tk.mixed_precision": "Mixed precision",
    "tk.dtype_policies": "Dtype policies",
    "tk.ops": "Operations under Keras's names",
    "tk.keras": "Keras",
    "tk.keras.export": "Keras export",
    "tk.keras.config": "Keras configuration",
    "tk.keras.random": "Keras random numbers",
    "tk.keras.backend": "Keras backend",
    "tk.keras.tree": "Keras trees",
    "tk.keras.preprocessing": "Keras preprocessing",
    "tk.eager": "The first eager API",
    "tk.compat.v1": "Graphs and sessions",
    "tk.array_api": "The Array API standard",
}

TITLES = {
    DocstringSectionKind.parameters: "Args",
    DocstringSectionKind.other_parameters: "Other arguments",
    DocstringSectionKind.attributes: "Attributes",
    DocstringSectionKind.returns: "Returns",
    DocstringSectionKind.yields: "Yields",
    DocstringSectionKind.raises: "Raises",
    DocstringSectionKind.warns: "Warns",
}


def holder(door: str) -> Any:
    """The module, or the namespace inside one, that `tk.some.thing` stands for."""
    package = importlib.import_module("trainkit")
    return functools.reduce(getattr, door.split(".")[1:], package)


@functools.cache
def borrowed(file: str) -> frozenset[str]:
    """Names that a module imports for itself: `from x import y`, not the export `... as y`."""
    found = set()
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.asname is None}
    return frozenset(found)


def is_public(value: Any) -> bool:
    """Whether a door shows this value to users: not its modules, nor what it has of Python."""
    if isinstance(value, ModuleType):
        return False
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).split(".")[0] == "trainkit"


def public_names(door: str) -> list[str]:
    """The names of a door, in the order of the alphabet whatever their case."""
    place = holder(door)
    file = getattr(place, "__file__", None)
    names = {name for name in dir(place) if not name.startswith("_")}
    listing = vars(place).get("__dir__")
    if file is not None and getattr(listing, "__module__", None) != place.__name__:
        names -= borrowed(file)
    return sorted((n for n in names if is_public(getattr(place, n))), key=lambda n: (n.lower(), n))


def signature(value: Any) -> str:
    """The arguments with their defaults, a line each where one line is too long for all."""
    try:
        found = _own_signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parts = list(_arguments([p for name, p in found.parameters.items() if name != "self"]))
    line = f"({', '.join(parts)})"
    return line if len(line) <= 80 else "(\n    " + ",\n    ".join(parts) + ",\n)"


def _own_signature(value: Any) -> inspect.Signature:
    """That of an operation is its body's, without the array module, the first argument there."""
    body = getattr(getattr(value, "primitive", None), "kernel", None)
    if not inspect.isfunction(body) or inspect.isclass(value):
        return inspect.signature(value)
    parameters = list(inspect.signature(body).parameters.values())
    return inspect.Signature(parameters[1:] if parameters[0].name == "xp" else parameters)


def _arguments(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Each argument with its default, and the marks between kinds of arguments."""
    before = None
    for parameter in parameters:
        if before == parameter.POSITIONAL_ONLY != parameter.kind:
            yield "/"
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.VAR_POSITIONAL,
            parameter.KEYWORD_ONLY,
        ):
            yield "*"
        before = parameter.kind
        text = str(parameter.replace(annotation=parameter.empty))
        yield re.sub(
            r"<(?:class|function) '?([\w.]+)[^>]*>|<([\w.]+) object at 0x\w+>", r"\1\2", text
        )
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def fence_sessions(text: str) -> str:
    """The text with its Python sessions, from a prompt to an empty line, fenced as code.

    Without a fence Markdown takes the three signs of a prompt for three nested quotations. Sessions
    with nothing but empty lines between them share a fence.
    """
    lines: list[str] = []
    in_session = in_fence = False
    for line in text.split("\n"):
        is_prompt = not in_fence and line.lstrip().startswith(">>> ")
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        if is_prompt and not in_session:
            while lines and not lines[-1]:
                lines.pop()
            if lines and lines[-1] == "```":  # the session before goes on
                lines[-1] = ""
            else:
                lines += [*([""] if lines else []), "```pycon"]
            in_session = True
        elif in_session and not line.strip():
            in_session = False
            lines.append("```")
        lines.append(line)
    return "\n".join([*lines, "```"] if in_session else lines)


def _section(section: DocstringSection) -> Iterator[str]:
    """A part of a docstring as Markdown."""
    kind = section.kind
    if kind is DocstringSectionKind.text:
        yield from (fence_sessions(section.value), "")
    elif kind is DocstringSectionKind.examples:
        yield from ("**Example**", "")
        for part, text in section.value:
            is_code = part is DocstringSectionKind.examples
            yield from (["```pycon", text, "```", ""] if is_code else [text, ""])
    elif kind in TITLES:
        yield from (f"**{TITLES[kind]}**", "")
        for item in section.value:
            name = getattr(item, "name", "") or getattr(item, "annotation", "") or ""
            yield (
                f"- `{name}`: {_cell(item.description)}" if name else f"- {_cell(item.description)}"
            )
        yield ""
    elif kind is DocstringSectionKind.admonition:
        yield from (f"**{section.title}**", "", fence_sessions(section.value.description), "")
    else:
        raise ValueError(f"docs/reference.py: no way to write a section of the kind {kind.value!r}")


def described(text: str) -> Iterator[str]:
    """A docstring in Google's style as Markdown."""
    docstring = Docstring(inspect.cleandoc(text), parser="google")
    for section in docstring.parse(warn_unknown_params=False, returns_named_value=False):
        yield from _section(section)


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class itself describes, in the order of its text."""
    for name, value in vars(kind).items():
        has_text = getattr(value, "__doc__", None)
        is_member = isinstance(value, (property, classmethod, staticmethod)) or callable(value)
        if not name.startswith("_") and has_text and is_member and not inspect.isclass(value):
            yield name, value


def _text_of(value: Any) -> str:
    if not callable(value):
        return f"`{value!r}`, a `{type(value).__name__}`."
    return inspect.getdoc(value) or ""


def entry(name: str, value: Any, others: list[str]) -> Iterator[str]:
    """All that is said of one name, which has `others` beside it."""
    yield from (f"## `{name.rpartition('.')[2]}` {{ #{name} }}", "")
    if others:
        yield from (f"Also {', '.join(others)}.", "")
    if callable(value):
        yield from ("```python", name.rpartition(".")[2] + signature(value), "```", "")
    yield from described(_text_of(value))
    if not inspect.isclass(value):
        return
    for method, member in methods(value):
        function = getattr(member, "__func__", member)
        shown = "" if isinstance(member, property) else signature(function)
        yield from (f"### `{method}` {{ #{name}.{method} }}", "")
        if shown:
            yield from ("```python", f"{method}{shown}", "```", "")
        yield from described(member.__doc__)


def page(door: str, title: str, homes: dict[int, tuple[str, str]]) -> str:
    """The page of a door. `homes` says where the names before it are described."""
    lines = [f"# {title}", "", f"`{door}`", ""]
    about = inspect.getdoc(holder(door)) if isinstance(holder(door), ModuleType) else None
    lines += [*described(about)] if about else []
    aliases: dict[str, list[str]] = {}
    elsewhere = []
    names = public_names(door)
    for name in sorted(
        names, key=lambda name: getattr(getattr(holder(door), name), "__name__", "") != name
    ):
        home, there = homes.setdefault(id(getattr(holder(door), name)), (door, name))
        if home == door:
            aliases.setdefault(there, []).append(name)
        else:
            elsewhere.append((name, f"{home}.{there}", page_name(home)))
    for name in (name for name in names if name in aliases):
        others = [f"`{door}.{other}`" for other in aliases[name] if other != name]
        lines += entry(f"{door}.{name}", getattr(holder(door), name), others)
    if elsewhere:
        lines += ["## Described elsewhere", ""]
        lines += [
            f"- `{door}.{name}`: [`{there}`]({file}#{there})"
            for name, there, file in sorted(elsewhere)
        ]
    return "\n".join(lines).rstrip() + "\n"


def page_name(door: str) -> str:
    """The file of a door's page."""
    return "trainkit.md" if door == "tk" else door.removeprefix("tk.").replace(".", "_") + ".md"


def pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    homes: dict[int, tuple[str, str]] = {}
    return {page_name(door): page(door, title, homes) for door, title in DOORS.items()}


def main() -> None:
    """Write all pages anew."""
    os.environ["TRAINKIT_NATIVE"] = "0"  # compiled functions tell no signature
    logging.getLogger("griffe").setLevel(logging.ERROR)  # it misses types, which are not shown
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    texts = pages()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    lists = "\n".join(f"- [{title}]({page_name(door)}): `{door}`" for door, title in DOORS.items())
    (FOLDER / "index.md").write_text(f"# Reference\n\n{lists}\n", encoding="utf-8")
    names = sum(text.count("\n## ") for text in texts.values())
    print(f"{FOLDER}: {len(texts)} pages, {names} names")


if __name__ == "__main__":
    sys.exit(main())
