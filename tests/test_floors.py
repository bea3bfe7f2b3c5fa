"""Imports inside trainkit go down only: from lower floors, or from the own folder."""

import ast
import importlib.util
import pathlib

import pytest

from tests.structure.imports import is_second_name

PACKAGE = pathlib.Path(importlib.util.find_spec("trainkit").submodule_search_locations[0])

# What stands directly in trainkit/, a folder or a file, and its floor.
FLOORS = {
    "core": 0,
    "kernels": 1,
    "collectives": 1,
    "compiler": 2,
    "ops": 2,
    "random": 3,
    "array_api": 3,
    "records": 3,
    "autodiff": 3,
    "graph": 4,
    "data": 4,
    "summary": 4,
    "checkpoints": 4,
    "journal": 5,
    "saved_graph": 5,
    "profiler": 5,
    "visualization": 5,
    "initializers": 5,
    "regularizers": 5,
    "constraints": 5,
    "activations": 5,
    "quantizers": 5,
    "losses": 5,
    "distribution": 5,
    "interop": 5,
    "layers": 6,
    "optimizers": 6,
    "metrics": 6,
    "callbacks": 7,
    "models": 8,
    "datasets": 8,
    "applications": 9,
    "onnx": 9,
    "weights": 9,
    "image_generators": 9,
    "distillation": 9,
    "wrappers": 9,
    "runs": 9,
    # the doors: names only, which may lead from one to another
    "aliases": 10,
    "compat": 10,
    "tf": 10,
    "keras": 10,
    "eager": 10,
    "cli": 10,
    "__main__": 10,
    "__init__": 10,
}

DOORS = 10

# A file of core imports only files that stand before it here.
CORE_ORDER = [
    "process/requirements",
    "cpu/cost_model",
    "dispatch/native",
    "dispatch/ownership",
    "dispatch/late_ops",
    "process/forks",
    "process/key_locks",
    "process/garbage",
    "process/launcher",
    "cpu/cpu_count",
    "process/child_python",
    "process/side_work",
    "files/printable",
    "process/console",
    "process/plotting",
    "process/traceback_filter",
    "cpu/openblas",
    "cpu/lapack_library",
    "cpu/processor",
    "cpu/blas_config",
    "user_frames",
    "errors",
    "files/local_paths",
    "files/output_folders",
    "files/readable_files",
    "files/folder_descent",
    "files/trusted_folders",
    "values/aggregation",
    "values/attribute_state",
    "values/batch_size",
    "values/number_texts",
    "values/table_columns",
    "values/type_aliases",
    "values/call_signatures",
    "values/torch_names",
    "values/tf1_names",
    "values/python_signatures",
    "values/config_text",
    "values/docstrings",
    "values/html_text",
    "dtypes",
    "tensor_shape",
    "shapes",
    "devices",
    "device_lists",
    "rng",
    "fingerprints",
    "nest",
    "names",
    "second_names",
    "process/later_imports",
    "dispatch/slow_work",
    "trackable",
    "keras_tree",
    "dispatch/facets",
    "dispatch/crossed_samples",
    "dispatch/trace_state",
    "values/text_arrays",
    "values/foreign_arrays",
    "values/python_values",
    "masks",
    "dispatch/operator_types",
    "tensor",
    "symbolic_tensor",
    "string_tensor",
    "config_values",
    "registry",
    "values/configurable",
    "tensor_spec",
    "dispatch/eval_shape",
    "dispatch/straight_line",
    "row_updates",
    "variable",
    "variable_owner",
    "dispatch/eager",
    "dispatch/formulas",
    "dispatch/known_sizes",
    "dispatch/declaring_modules",
    "dispatch/number_operands",
    "dispatch/primitive",
]


def place(module: str, package: pathlib.Path = PACKAGE) -> tuple[str, ...]:
    """What a dotted name stands for: ('core', 'shapes'), ('ops',) or ('__init__',)."""
    parts = module.split(".")[1:]
    found: list[str] = []
    folder = package
    for part in parts:
        if (folder / part).is_dir() or (not found and part in FLOORS):
            found.append(part)
            folder = folder / part
        elif (folder / f"{part}.py").is_file():
            return (*found, part)
        else:
            break  # a name inside the module found so far
    return tuple(found) or ("__init__",)


def only_for_types(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def run_time_nodes(node: ast.AST):
    """All nodes below, except what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If) and only_for_types(child):
            for otherwise in child.orelse:
                yield otherwise
                yield from run_time_nodes(otherwise)
        else:
            yield from run_time_nodes(child)


def imported(source: str, package_name: str) -> list[tuple[int, str]]:
    """Line and full dotted name of each trainkit import, those inside functions too."""
    names = []
    for node in run_time_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package_name.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return [(line, name) for line, name in names if name.split(".")[0] == "trainkit"]


def fault(here: tuple[str, ...], there: tuple[str, ...]) -> str | None:
    """Why the file `here` may not import `there`, or None when it may."""
    floor, theirs_floor = FLOORS[here[0]], FLOORS[there[0]]
    if here[0] == there[0] == "core":
        if len(here) == 1 or len(there) == 1:
            return None if len(here) == 1 else "a file of core imports the core package as a whole"
        ours, theirs = "/".join(here[1:]), "/".join(there[1:])
        listed_before = CORE_ORDER[: CORE_ORDER.index(ours)] if ours in CORE_ORDER else []
        return (
            None if theirs in listed_before else f"core/{theirs} is not listed before core/{ours}"
        )
    if here[0] == there[0]:
        return None
    if theirs_floor < floor:
        return None
    if theirs_floor > floor:
        return f"floor {floor} imports from floor {theirs_floor}"
    if len(here) == len(there) == 1 or floor == DOORS:
        return None
    return f"{here[0]} and {there[0]} are folders of the same floor"


def module_name(path: pathlib.Path) -> str:
    parts = ["trainkit", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(path for path in PACKAGE.rglob("*.py") if not is_second_name(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    name = module_name(path)
    package_name = name if path.name == "__init__.py" else name.rpartition(".")[0]
    here = place(name)
    found = []
    for line, target in imported(path.read_text(encoding="utf-8"), package_name):
        why = fault(here, place(target))
        if why:
            found.append(f"line {line} imports {target}: {why}")
    assert not found, "\n".join(found)


def test_everything_has_a_floor():
    standing = {
        path.stem
        for path in PACKAGE.iterdir()
        if any(path.glob("*.py")) or (path.suffix == ".py" and not is_second_name(path))
    }
    assert standing <= set(FLOORS), "give each a floor in FLOORS"


def test_every_core_file_has_its_turn():
    core = PACKAGE / "core"
    standing = {
        str(path.relative_to(core).with_suffix(""))
        for path in core.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert standing <= set(CORE_ORDER), "give each a place in CORE_ORDER"


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("ops", "linalg"), ("layers", "dense")),
        (("data", "dataset"), ("graph", "function")),
        (("layers", "dense"), ("optimizers", "adam")),
        (("losses", "classification"), ("activations",)),
        (("core", "shapes"), ("core", "tensor")),
        (("core", "tensor"), ("core",)),
        (("models", "model"), ("__init__",)),
    ],
    ids=lambda where: "-".join(where),
)
def test_an_arrow_up_or_sideways_is_a_fault(here, there):
    assert fault(here, there)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("layers", "dense"), ("ops", "linalg")),
        (("layers", "dense"), ("layers", "layer")),
        (("initializers",), ("activations",)),
        (("core", "tensor"), ("core", "shapes")),
        (("core",), ("core", "tensor")),
        (("__init__",), ("keras",)),
        (("keras",), ("tf", "math")),
    ],
    ids=lambda where: "-".join(where),
)
def test_an_arrow_down_or_within_the_folder_is_none(here, there):
    assert fault(here, there) is None


def test_all_kinds_of_import_are_read():
    source = """
import numpy
import trainkit.ops
from trainkit import core, layers as tall
from . import tape
from ..graph.function import function
def late():
    from trainkit.keras import layers
if TYPE_CHECKING:
    from trainkit.models import Model
else:
    import trainkit.eager
"""
    assert [name for _, name in imported(source, "trainkit.autodiff")] == [
        "trainkit.ops",
        "trainkit.core",
        "trainkit.layers",
        "trainkit.autodiff.tape",
        "trainkit.graph.function.function",
        "trainkit.keras.layers",
        "trainkit.eager",
    ]
