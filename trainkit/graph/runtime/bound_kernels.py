"""The kernel of each node of a program, chosen once: a function of arrays alone.

What a graph knows of a node (its dtypes, sizes and constants) decides which kernel runs, so that
no call asks for it again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch.eager import KERNEL_ERRORS
from trainkit.core.dispatch.facets import ELEMENTWISE, FLOATS, NUMBER, PRODUCT
from trainkit.core.dispatch.primitive import describe
from trainkit.core.dtypes import HALVES, string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.string_tensor import run_beside_text
from trainkit.graph.ir.assigned_devices import brings_beside
from trainkit.graph.ir.graph import GraphTensor, Node
from trainkit.graph.ir.user_lines import located
from trainkit.graph.runtime.joined_normalization import JoinedOperation


def bound_kernel(node: Node, on_gpu: bool = False) -> Callable[..., Any]:
    """The kernel of a node with its settings, as a function of arrays alone."""
    primitive = node.primitive
    inputs = [x for x in node.inputs if isinstance(x, GraphTensor)]
    if brings_beside(node):  # single numbers stay where they are, that is what it asks
        return functools.partial(primitive.kernel, np)
    # a number that decides how the kernel runs, read once where it is the same in all calls
    if on_gpu and primitive.facets.reads.get(0) == NUMBER:
        return functools.partial(_run_controlled, primitive, node.settings, _known(node.inputs[0]))
    if any(x.dtype is string for x in inputs):
        return functools.partial(_run_on_text, primitive, node.settings)
    beside = on_gpu and primitive.facets.semantics is ELEMENTWISE
    numbers = _numbers_of_gpu(node.inputs) if beside else {}
    if numbers and len(numbers) < len(inputs):
        return functools.partial(_run_beside_numbers, primitive, node.settings, numbers)
    run_on_halves = None if on_gpu else _rule_of_halves(node)
    if run_on_halves is not None:
        return functools.partial(_run_on_halves, run_on_halves, primitive.body, node.settings)
    if on_gpu:
        return functools.partial(_run, primitive, node.settings)
    if any(x.dtype in HALVES for x in inputs):
        # what `run` calls where nothing is widened, without its questions
        is_plain = not primitive.is_ufunc and primitive.facets.promotion != FLOATS
        run = functools.partial(primitive.kernel, np, **node.settings)
        return run if is_plain else functools.partial(_run, primitive, node.settings)
    # NumPy's function itself where its dtype is the promised one: no call of Python's between
    if primitive.is_ufunc:
        kernel: Callable[..., Any] = primitive.kernel
        dtype = node.outputs[0].dtype.dtype
        return kernel if _dtype_given(node) == dtype else functools.partial(_cast, kernel, dtype)
    if isinstance(primitive, JoinedOperation):
        return primitive.bound(node.settings)
    # the tuned kernel would send such arrays to the body anyway, after a look at each
    small = _is_too_small(node)
    if primitive.facets.semantics is PRODUCT and small and _is_plain_product(inputs):
        return np.matmul
    tuned = primitive.facets.tuned
    if not small and tuned is not None and tuned.bind is not None:
        return _bound_tuned(tuned.bind(node.settings), primitive.body, node.settings)
    kernel = primitive.body if small else primitive.kernel
    return functools.partial(kernel, np, **node.settings)


def _bound_tuned(run: Any, body: Any, settings: dict[str, Any]) -> Callable[..., Any]:
    """A tuned kernel of arrays alone, and the body for what that leaves to it."""

    def run_bound(*arrays: Any) -> Any:
        result = run(*arrays)
        return body(np, *arrays, **settings) if result is None else result

    return run_bound


def _rule_of_halves(node: Node) -> Any:
    """What is asked for a node's arrays of 16-bit floats, `None` without such or a kernel."""
    tuned = node.primitive.facets.tuned
    if tuned is None or tuned.of >= len(node.inputs):
        return None
    x = node.inputs[tuned.of]
    return tuned.on_halves(x.dtype.dtype) if isinstance(x, GraphTensor) else None


def _run_on_halves(run: Any, body: Any, settings: dict[str, Any], *arrays: Any) -> Any:
    """What the operation gives of arrays of the CPU, without a look at their types."""
    result = run(*arrays, **settings)
    return body(np, *arrays, **settings) if result is None else result


def _is_too_small(node: Node) -> bool:
    """Whether a node's arrays surely have fewer elements than a tuned kernel is for."""
    tuned = node.primitive.facets.tuned
    if tuned is None or tuned.of >= len(node.inputs):
        return False
    return not tuned.is_asked([_most_elements(x) for x in node.inputs])


def _most_elements(x: Any) -> Any:
    """How many elements an input has, infinity where that is not known, 0 without an array."""
    if not isinstance(x, GraphTensor):
        return 0
    dims = (None,) if x.shape.rank is None else tuple(x.shape)
    return math.inf if None in dims else math.prod(dims)


def _is_plain_product(inputs: list[GraphTensor]) -> bool:
    """Whether a product of these is NumPy's own: two matrices of a type that is not widened."""
    return all(
        len(x.shape) == 2 and x.dtype.name in ("float32", "float64", "int32", "int64")
        for x in inputs
    )


def _known(x: Any) -> Any:
    """The number that a constant is, read once, so that no call waits for it; else `None`."""
    constant = isinstance(x, GraphTensor) and x.node.kind == "constant"
    return devices.to_numpy(x.node.value._array).item() if constant else None


def _run_controlled(
    primitive: Any, settings: dict[str, Any], constant: Any, first: Any, *arrays: Any
) -> Any:
    if constant is not None:
        first = constant
    elif devices.is_host_number(first):
        # `on_one_device` would take it to the GPU, from where it had to be waited for
        first = first.item()
    return primitive.run([first, *devices.on_one_device(arrays)], settings)


def _run(primitive: Any, settings: dict[str, Any], *arrays: Any) -> Any:
    return primitive.run(devices.on_one_device(arrays), settings)


def _numbers_of_gpu(inputs: tuple[Any, ...]) -> dict[int, Any]:
    """By their places the constants that are single numbers of a GPU, as numbers of the CPU.

    A Python number becomes such a constant where a graph is traced for a GPU, whether or not the
    tensor beside it will lie there.
    """
    constants = {
        i: x.node.value._array
        for i, x in enumerate(inputs)
        if isinstance(x, GraphTensor) and x.node.kind == "constant"
    }
    return {
        i: devices.to_numpy(array)
        for i, array in constants.items()
        if devices.XP_OF[type(array)] is not np and not array.ndim
    }


def _run_beside_numbers(
    primitive: Any, settings: dict[str, Any], numbers: dict[int, Any], *arrays: Any
) -> Any:
    """As `_run`, with `numbers` beside arrays that all lie on the CPU."""
    for i, array in enumerate(arrays):
        # an array of a GPU is there, so the constants lie where they should
        if i not in numbers and devices.XP_OF[type(array)] is not np:
            return primitive.run(devices.on_one_device(arrays), settings)
    operands = [numbers.get(i, array) for i, array in enumerate(arrays)]
    return primitive.run(operands, settings)


def _run_on_text(primitive: Any, settings: dict[str, Any], *arrays: Any) -> Any:
    return run_beside_text(primitive, arrays, settings)


def _cast(kernel: Any, dtype: Any, *arrays: Any) -> Any:
    return kernel(*arrays).astype(dtype)


def _dtype_given(node: Node) -> Any:
    """The dtype that NumPy's own function gives on inputs like those of `node`."""
    kinds = [x.dtype.dtype if isinstance(x, GraphTensor) else (type(x), x) for x in node.inputs]
    try:
        return _dtype_of(node.primitive.kernel, *kinds)
    except KERNEL_ERRORS as error:  # NumPy's function has nothing for these types
        refused = InvalidArgumentError(f"{node.primitive.name}: {error}\n{describe(node.inputs)}")
        raise located(refused, node) from error


@functools.lru_cache(maxsize=1024)
def _dtype_of(kernel: Any, *kinds: Any) -> Any:
    """The dtype of a function's result, for arrays of dtypes and numbers with their types."""
    # Python's numbers stay what they are: beside arrays they have no dtype of their own
    like = [x[1] if isinstance(x, tuple) else np.ones((), x) for x in kinds]
    # only the dtype counts; ones may overflow a narrow type on the way
    with np.errstate(all="ignore"):
        return kernel(*like).dtype
