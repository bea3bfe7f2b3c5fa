"""ONNX's own node tests on `tk.onnx`: how many pass, fail, and need an operator that is missing.

    python benchmarks/onnx_node_tests.py [--op Resize] [--traced]

It needs the package `onnx`, which has the tests. Each is run eagerly, or with `--traced` in a
`tk.function` of its first input. A test that gives or takes float8 or other things that
no tensor here holds counts as not supported, with the reason.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import warnings
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import trainkit as tk
from trainkit.core.errors import OpError, UnimplementedError
from trainkit.onnx.onnx_loading import graph_layer

# What a test expects can't come out, and why.
EXPLAINED = {
    "bernoulli": "random draws: the expected ones are those of NumPy's generator",
    "training_dropout": "random draws: the expected ones are those of NumPy's generator",
    "bf16": "bfloat16 is rounded at other places than in the reference, within its precision",
    "to_INT4": "integers of four bits are held in eight",
    "test_if_seq": "with --traced: branches that give sequences run in eager calls alone",
    "to_UINT4": "integers of four bits are held in eight",
}
HELD_AS = {"int4": np.int8, "uint4": np.uint8}


def as_array(value: Any) -> Any:
    """An input or result of a test: an array, or a list of them."""
    if isinstance(value, list):
        return [as_array(x) for x in value]
    if hasattr(value, "raw_data"):
        value = numpy_helper.to_array(value)
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(HELD_AS.get(array.dtype.name, array.dtype))


def run(case: Any, path: pathlib.Path, traced: bool) -> None:
    """Run one test.

    Raises:
        AssertionError: results differ.
        OpError: it can't be run.
    """
    path.write_bytes(case.model.SerializeToString())
    layer = graph_layer(path, trainable=False)
    names = [v.name for v in layer.imported.graph.inputs]
    for inputs, expected in case.data_sets:
        given = dict(zip(names, map(as_array, inputs), strict=True))
        given = {k: tk.constant(x) if isinstance(x, np.ndarray) else x for k, x in given.items()}
        training = "training" in case.name
        if traced:
            results = traced_call(layer, names, given, training)
        else:
            results = layer.call(given, training)
        results = results if isinstance(results, dict) else {layer.imported.outputs[0]: results}
        for name, wanted in zip(layer.imported.outputs, expected, strict=True):
            compare(results[name], as_array(wanted), case)


def traced_call(layer: Any, names: list[str], given: dict[str, Any], training: bool) -> Any:
    """A call as a graph, in which the first input is a place, and the others are known."""
    if not names or not isinstance(given[names[0]], tk.Tensor):
        return layer.call(given, training)
    return tk.function(lambda x: layer.call({**given, names[0]: x}, training))(given[names[0]])


def compare(result: Any, wanted: Any, case: Any) -> None:
    """Check dtype, shape and values of one result."""
    if isinstance(wanted, list):
        assert len(result) == len(wanted), f"{len(result)} items, expected {len(wanted)}"
        for item, expected in zip(result, wanted, strict=True):
            compare(item, expected, case)
        return
    array = result.numpy() if hasattr(result, "numpy") else np.asarray(result)
    if wanted.dtype.kind in "OUS":
        compare_text(np.asarray(array, object), wanted)
        return
    assert array.dtype == wanted.dtype, f"dtype {array.dtype}, expected {wanted.dtype}"
    assert array.shape == wanted.shape, f"shape {array.shape}, expected {wanted.shape}"
    if array.dtype.kind in "fV":
        array, wanted = array.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(array, wanted, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-6))


def compare_text(array: Any, wanted: Any) -> None:
    """Check the texts of one result; those of a test may be bytes or not."""
    assert array.shape == wanted.shape, f"shape {array.shape}, expected {wanted.shape}"
    texts = [x if isinstance(x, bytes) else str(x).encode() for x in wanted.ravel().tolist()]
    assert array.ravel().tolist() == texts, f"{array.ravel().tolist()}, expected {texts}"


def main() -> None:
    """Run all tests and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", help="only tests whose name contains this")
    parser.add_argument("--traced", action="store_true", help="in a tk.function")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    unsupported: defaultdict[str, list[str]] = defaultdict(list)
    failures: list[str] = []
    cases = [c for c in collect_testcases() if (arguments.op or "") in c.name]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        for case in cases:
            try:
                run(case, path, arguments.traced)
            except UnimplementedError as error:
                counts["not supported"] += 1
                text = str(error).replace(repr(str(path)), "")
                unsupported[text.partition("supported: ")[2].partition(";")[0] or text].append(
                    case.name
                )
            except (OpError, AssertionError, ValueError, TypeError) as error:
                counts["failed"] += 1
                why = next((text for key, text in EXPLAINED.items() if key in case.name), None)
                failures.append(f"failed: {case.name}: {why or first_line(error)}")
            else:
                counts["passed"] += 1
    for why, names in sorted(unsupported.items()):
        print(f"not supported, {len(names)} tests: {why[:200]}  e.g. {names[0]}")
    print("\n".join(sorted(failures)))
    print(", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "not supported")))


def first_line(error: Exception) -> str:
    """The type of an error and what it says, in one line."""
    return f"{type(error).__name__} {' '.join(str(error).split())[:300]}"


if __name__ == "__main__":
    main()
