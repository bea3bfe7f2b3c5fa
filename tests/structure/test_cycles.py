"""No two files import each other, directly or around; late imports need a reason."""

import ast

import pytest

from tests.structure.imports import (
    circles,
    files,
    import_graph,
    imports_of,
    late_import_graph,
    late_imports_of,
    late_strangers,
)

OPTIONAL = "an optional dependency: whoever does not use it need not have it"
START_UP = "heavy: `import trainkit`, or its first use, stays light without it"
NEVER_USED = "of the standard library, and used by few programs: start-up time"

# trainkit's own files imported inside functions, by the file that does so, each with the reason why
# it stays there. They may only get fewer.
LATE: dict[str, dict[str, str]] = {
    "trainkit": {"trainkit.tf.left_out": START_UP},
    "trainkit.autodiff.custom_vjp": {
        "trainkit.autodiff.custom_vjp_check": "only whoever checks a rule needs it"
    },
    "trainkit.autodiff.jacobians": {"trainkit.ops.core.vmap": START_UP},
    "trainkit.checkpoints.format.writer": {"trainkit.checkpoints.format.validation": START_UP},
    "trainkit.collectives.world": {
        "trainkit.collectives.mpi_group": "importing it starts MPI, which only a launcher asks for"
    },
    "trainkit.core.names": {"trainkit.core.values.tf1_names": START_UP},
    "trainkit.graph.autograph.convert": {
        "trainkit.graph.autograph.lambda_source": START_UP,
        "trainkit.graph.autograph.prepare": START_UP,
    },
    "trainkit.graph.runtime.programs_by_size": {
        "trainkit.graph.runtime.fusion": START_UP,
        "trainkit.graph.runtime.general_fusion": START_UP,
    },
    "trainkit.graph.runtime.tiers": {
        "trainkit.graph.gpu.gpu_program": START_UP,
        "trainkit.graph.runtime.fusion": START_UP,
    },
    "trainkit.graph.tracing.function": {
        "trainkit.graph.tracing.retracing": START_UP,
        "trainkit.graph.tracing.verify": START_UP,
    },
    "trainkit.kernels.jit.kernel_family": {"trainkit.kernels.jit.kernel_code": START_UP},
    "trainkit.optimizers.base.step_plan": {"trainkit.optimizers.base.update_cuda": START_UP},
    "trainkit.ops.sampling.generators": {"trainkit.ops.sampling.distributions": START_UP},
    "trainkit.profiler.profiling": {
        "trainkit.profiler.chrome": START_UP,
        "trainkit.profiler.tensorboard": START_UP,
    },
}

# What is not trainkit's and may be imported inside functions, with the reason.
STRANGERS = {
    "cuda": OPTIONAL,
    "cudnn": OPTIONAL,
    "cupy": OPTIONAL,
    "cupyx": OPTIONAL,
    "huggingface_hub": OPTIONAL,
    "jax": OPTIONAL,
    "sklearn": OPTIONAL,
    "torch": OPTIONAL,
    "google": START_UP,
    "h5py": START_UP,
    "hashlib": START_UP,
    "llvmlite": START_UP,
    "malt": START_UP,
    "matplotlib": OPTIONAL,
    "ml_dtypes": START_UP,
    "numba": START_UP,
    "pooch": START_UP,
    "tensorboardX": START_UP,
    "tqdm": START_UP,
    "concurrent": NEVER_USED,
    "ctypes": NEVER_USED,
    "difflib": NEVER_USED,
    "fcntl": "absent on Windows",
    "grp": "absent on Windows",
    "pwd": "absent on Windows",
    "importlib": NEVER_USED,
    "inspect": NEVER_USED,
    "json": NEVER_USED,
    "multiprocessing": NEVER_USED,
    "secrets": NEVER_USED,
    "shutil": NEVER_USED,
    "tempfile": NEVER_USED,
    "urllib": NEVER_USED,
}


def arrows() -> dict[str, set[str]]:
    named = late_import_graph()
    return {
        name: {each.target for each in (*its, *named[name])} for name, its in import_graph().items()
    }


def path_around(members: set[str], start: str) -> str:
    """One way from `start` through its circle back to it, the shortest."""
    graph = arrows()
    before: dict[str, str] = {}
    waiting = [start]
    for here in waiting:
        for there in sorted(graph[here] & members):
            if there == start:
                steps = [start, here]
                while steps[-1] != start:
                    steps.append(before[steps[-1]])
                return " -> ".join(reversed(steps))
            if there not in before:
                before[there] = here
                waiting.append(there)
    raise AssertionError(f"{start} is in no circle")


def test_no_circle_between_files():
    """Imports inside functions and by name count; those for type checkers alone do not."""
    found = circles(arrows())
    shown = "\n".join(path_around(members, min(members)) for members in found)
    assert not found, f"files import one another in a circle:\n{shown}"


def test_an_import_inside_a_function_has_a_reason():
    found = [
        f"{name}, line {late.line}, imports {late.target}"
        for name, its in import_graph().items()
        for late in its
        if late.inside_function and late.target not in LATE.get(name, {})
    ]
    assert not found, "\n".join(["import at the top of the file, or give LATE a reason", *found])


def test_a_reason_that_nothing_needs_any_more_goes():
    there = {
        (name, late.target)
        for name, its in import_graph().items()
        for late in its
        if late.inside_function
    }
    unused = [
        f"{name}: {target}" for name in LATE for target in LATE[name] if (name, target) not in there
    ]
    assert not unused, "\n".join(["take these out of LATE", *unused])


def test_what_is_not_ours_is_imported_late_for_a_reason_only():
    found = [
        f"{name} imports {there}"
        for name in files()
        for there in late_strangers(name)
        if there.partition(".")[0] not in STRANGERS
    ]
    assert not found, "\n".join(["inside functions; do so at the top of the file", *found])


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [{"a", "b"}]),
        (
            {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"d"}},
            [{"d", "e"}, {"b", "c"}],
        ),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": {"a"}}, [{"a", "b", "c", "d"}]),
    ],
    ids=["none", "two", "two circles", "two ways round"],
)
def test_circles_are_found(graph, expected):
    assert circles(graph) == expected


def test_the_way_around_a_circle_is_shown(monkeypatch):
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}
    monkeypatch.setattr(f"{__name__}.arrows", lambda: graph)
    assert path_around({"a", "b", "c"}, "a") == "a -> b -> c -> a"


def test_all_kinds_of_import_are_read():
    source = """
from trainkit.core import tensor
from trainkit.core.tensor import Tensor
import trainkit.ops
from . import tape
if TYPE_CHECKING:
    from trainkit.models import Model
def late():
    if ready:
        from trainkit.graph.tracing import function
"""
    modules = {"trainkit", "trainkit.core", "trainkit.core.tensor", "trainkit.ops"}
    modules |= {"trainkit.autodiff.tape", "trainkit.graph", "trainkit.models"}
    found = imports_of(ast.parse(source), "trainkit.autodiff.backward", False, modules)
    assert [(each.target, each.inside_function) for each in found] == [
        ("trainkit.core.tensor", False),
        ("trainkit.core.tensor", False),
        ("trainkit.ops", False),
        ("trainkit.autodiff.tape", False),
        ("trainkit.graph", True),
    ]


def test_imports_by_name_are_read():
    source = """
_EXPORTING = "trainkit.models.exporting"
rows_gpu = DeferredModule("trainkit.kernels.indexing.rows_gpu")
plans = CudnnModule("trainkit.kernels.cudnn.plans")
MAX_POOL = kernel_family.Family("max_pool", "pooling.pool_compiled", "max_pool")
def late():
    importlib.import_module(_EXPORTING)
    import_module("trainkit.ops")
    import_module("numpy")
    import_module(name)
    Path("trainkit.ops")
"""
    kernels = {"indexing.rows_gpu", "cudnn.plans", "pooling.pool_compiled"}
    modules = {"trainkit.models.exporting", "trainkit.ops"}
    modules |= {f"trainkit.kernels.{name}" for name in kernels}
    named = late_imports_of(ast.parse(source), "trainkit.data", modules)
    assert {each.target for each in named} == modules
    assert len(named) == len(modules)


def test_a_circle_through_a_name_is_seen(monkeypatch):
    name, other = "trainkit.core.names", "trainkit.models.training.fit"
    assert not any(name in members for members in circles(arrows()))
    source = f"import importlib\ndef late():\n    return importlib.import_module({other!r})\n"
    graph = {**late_import_graph(), name: late_imports_of(ast.parse(source), name, set(files()))}
    monkeypatch.setattr(f"{__name__}.late_import_graph", lambda: graph)
    with pytest.raises(AssertionError, match=rf"{name} -> {other} -> "):
        test_no_circle_between_files()
