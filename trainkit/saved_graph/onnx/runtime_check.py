"""The file beside the function: both run on random inputs, and the results are compared."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.process.requirements import install_command
from trainkit.core.tensor import convert_to_tensor
from trainkit.graph.tracing.concrete import ConcreteFunction

SIZES = ((1, 5), (3, 9))
"""Batch size, and size of other free axes, for each run."""

TOLERANCE = 1e-3
"""Largest difference, relative to the largest result where that is above 1."""


class Check:
    """What a comparison with onnxruntime found.

    Attributes:
        differences: for each run the sizes of its inputs, and the largest difference of a result,
            relative to the largest element where that is above 1.
    """

    def __init__(self) -> None:
        self.differences: list[tuple[list[tuple[int, ...]], float]] = []

    @property
    def largest(self) -> float:
        """The largest difference of all runs."""
        return max((difference for _, difference in self.differences), default=0.0)

    def __repr__(self) -> str:
        return f"<Check: {len(self.differences)} runs, largest difference {self.largest:.2e}>"


def onnxruntime() -> Any:
    """The module.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise ImportError(
            "export to ONNX: verify=True runs the file in onnxruntime, which is not installed: "
            f"{install_command('export')}; or leave verify out"
        ) from None


def check_file(concrete: ConcreteFunction, model: Any, shared_batch: bool) -> Check:
    """Run the bytes of a file in onnxruntime, beside the function that they were made of.

    Args:
        concrete: the function.
        model: the `EncodedModel`.
        shared_batch: whether the first free axis of all inputs is the same.

    Raises:
        ImportError: onnxruntime is not installed.
        InvalidArgumentError: results differ by more than `TOLERANCE`, or onnxruntime refuses the
            file.
    """
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    if model.outside:
        names = [name for name, _ in model.outside]
        values = [runtime.OrtValue.ortvalue_from_numpy(array) for _, array in model.outside]
        options.add_external_initializers(names, values)
    try:
        session = runtime.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidArgumentError(
            f"export to ONNX: onnxruntime {runtime.__version__} refuses the file: {error}"
        ) from error
    check = Check()
    for arrays in _random_inputs(concrete, shared_batch):
        _compare(concrete, session, arrays, check)
    return check


def _random_inputs(concrete: ConcreteFunction, shared_batch: bool) -> Iterator[list[Any]]:
    generator = np.random.default_rng(0)
    for batch, other in SIZES:
        arrays = []
        for x in concrete.inputs:
            free = [batch if i == 0 and shared_batch else other for i in range(len(x.shape))]
            shape = [f if n is None else n for f, n in zip(free, x.shape, strict=True)]
            arrays.append(_random(generator, shape, x.dtype))
        yield arrays


def _random(generator: Any, shape: list[int], dtype: Any) -> Any:
    if dtype.is_bool or not dtype.is_floating:
        return generator.integers(0, 2, shape).astype(dtype.dtype)
    return generator.uniform(0, 1, shape).astype(dtype.dtype)


def _compare(concrete: ConcreteFunction, session: Any, arrays: list[Any], check: Check) -> None:
    results = concrete.run([convert_to_tensor(a) for a in arrays])
    expected = [np.asarray(y.numpy()) for y in nest.flatten(results) if hasattr(y, "numpy")]
    names = [x.name for x in session.get_inputs()]
    feeds = {
        x.name: a for x, a in zip(session.get_inputs(), arrays, strict=True) if x.name in names
    }
    outputs = session.run(None, feeds)
    shapes = [a.shape for a in arrays]
    worst = max((difference(a, b) for a, b in zip(expected, outputs, strict=True)), default=0.0)
    check.differences.append((shapes, worst))
    if not worst <= TOLERANCE:
        raise InvalidArgumentError(
            f"export to ONNX: for inputs of the shapes {shapes} the results in onnxruntime differ "
            f"by {worst:.2e} from those of trainkit, more than {TOLERANCE}; the file is not "
            "written. Leave verify out to write it, and please report the model"
        )


def difference(a: Any, b: Any) -> float:
    """The largest difference of two arrays, relative to the largest element if that is above 1."""
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    one, other = [np.asarray(x, np.float64) for x in (a, b)]
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    finite = np.abs(one[np.isfinite(one)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    largest = float(apart.max())
    return largest / scale if np.isfinite(largest) else float("inf")
