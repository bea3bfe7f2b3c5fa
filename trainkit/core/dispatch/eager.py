"""The functions that users call in place of kernels: the hot path of the library.

The usual case, plain tensors and Python numbers, is known by `type(x) is Tensor` alone, and
everything else goes to `Primitive.slow`. There is a function for each kind of kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core import devices, dtypes, shapes, tensor
from trainkit.core.cpu.cost_model import CALL_FLOATS
from trainkit.core.dispatch import native, trace_state
from trainkit.core.dispatch.facets import COMMON, FLOATS, PRODUCT
from trainkit.core.tensor import LARGE, Tensor, keep_input
from trainkit.core.tensor_shape import TensorShape
from trainkit.core.values.batch_size import COUNTED
from trainkit.core.variable import Variable

if TYPE_CHECKING:
    from trainkit.core.dispatch.facets import Tuned
    from trainkit.core.dispatch.primitive import Primitive

KERNEL_ERRORS = (ValueError, TypeError, IndexError, KeyError, OverflowError, np.linalg.LinAlgError)
"""What a kernel may raise when its inputs do not fit; it is explained to the user."""

_ndarray = np.ndarray
# The functions below bind these lists once, since a name of an enclosing function is read faster
# than an attribute of a module. So the lists are changed in place and never replaced.
_TAPES = trace_state.TAPES
_XP = devices.XP_OF
# Sets of types: one test of all types of a call takes less than a test of each input.
_READY = frozenset((Tensor, type(None)))
_ON_CPU = frozenset((np.ndarray, type(None)))
_F32, _BF16 = np.dtype(np.float32), dtypes.bfloat16.dtype
_HALVES = frozenset(d.dtype for d in dtypes.HALVES)
# Kernels over floats run on these as they are; on 16-bit floats, for which NumPy's loops are slow
# or give float32 beside a Python number, they run in float32.
_FLOAT_DTYPES = frozenset(d.dtype for d in dtypes.ALL if d.is_differentiable) - _HALVES


MOST_BY_DOT = CALL_FLOATS
"""Elements of a matrix up to which `dot`'s shorter way to the call of BLAS counts."""

WIDE: list[Callable[..., Any]] = []
"""What calls ufuncs of large arrays instead, in programs that have any."""
_LARGE = LARGE


def _call_quietly(ufunc: np.ufunc, *arrays: Any) -> Any:
    """What a ufunc gives; compiled functions call it here, where NumPy's warnings are dropped."""
    return ufunc(*arrays)


def wrapped(result: Any) -> Any:
    """A kernel's result, an array or a tuple of such, as tensors."""
    if type(result) is tuple:
        return tuple([wrapped(item) for item in result])
    y = Tensor()
    y._array = result
    return y


# Before any operation is declared, since `callable_for` asks for compiled functions.
native.call_if_built(
    "bind", Tensor, Variable, trace_state, WIDE, LARGE, KERNEL_ERRORS, _call_quietly, wrapped
)
native.call_if_built("switch", True)


def _read_by_compiled_code(*names: str) -> None:
    """Let compiled functions give properties of tensors, which operations in Python ask for often.

    They take a sixth of the time, and leave what is not usual to the Python functions.
    """
    readers = [getattr(Tensor, name) for name in names]
    functions = [reader.fget for reader in readers]
    native.call_if_built("bind_properties", TensorShape, COUNTED, *functions, dtypes.BY_NUMPY)
    for name, reader in zip(names, readers, strict=True):
        function = getattr(native.NATIVE, f"tensor_{name}", reader.fget)
        setattr(Tensor, name, property(function, doc=reader.__doc__))


_read_by_compiled_code("shape", "dtype")

activation_of: Callable[[Tensor], Any] = getattr(
    native.NATIVE, "activation_of", tensor.activation_of
)
"""(primitive, input, settings) of the sigmoid or softmax that gave a tensor, or `None`."""


def _settled_dtype(ufunc: np.ufunc) -> Any:
    """float32 if that is what float32 gives, so that nobody need look at a result; else `None`."""
    return _F32 if f"{'f' * ufunc.nin}->f" in ufunc.types else None


def _promotion(prim: Primitive) -> tuple[bool, bool]:
    """Whether inputs are brought to one dtype, and whether to one of floats."""
    promotion = prim.facets.promotion
    return promotion != "none", promotion == FLOATS


def _unary_ufunc(prim: Primitive) -> Callable[..., Any]:
    ufunc, slow, tapes, threaded = prim.kernel, prim.slow, _TAPES, WIDE
    record_one, checked = trace_state.record_one, prim.shape_rule is not shapes.unchanged_bool

    def op(x: Any) -> Any:
        if type(x) is not Tensor:
            return slow(x)
        array = x._array
        if array.dtype in _HALVES:
            return slow(x)
        try:
            # The list is empty where nothing runs in threads, and the test of that costs least.
            if threaded and array.size >= _LARGE:
                result = threaded[0](ufunc, array)
            else:
                result = ufunc(array)
        except KERNEL_ERRORS as error:
            result = prim.again(error, (x,), {})
        # The square root of an integer is float64 to NumPy and the default float here. NumPy has
        # one object for each usual dtype; an equal one of another identity costs the slow way and
        # is still right.
        if checked and result.dtype is not array.dtype:
            return slow(x)
        y = Tensor()
        y._array = result
        if tapes:
            record_one(prim, x, y, None)
        return y

    return op


def _binary_ufunc(prim: Primitive) -> Callable[..., Any]:
    # Two tensors of one dtype, a tensor and a Python number, and weights are the calls of a
    # training step. All else is promoted or traced, by `slow`.
    ufunc, slow, tapes, threaded = prim.kernel, prim.slow, _TAPES, WIDE
    record_two, settled = trace_state.record_two, _settled_dtype(prim.kernel)
    # A comparison gives bools whatever its inputs are, so their dtypes need not agree.
    any_result = prim.shape_rule is shapes.broadcast_bool

    def op(x1: Any, x2: Any) -> Any:
        if type(x1) is Tensor:
            one = array = x1._array
            dtype = one.dtype
            if type(x2) is Tensor:
                two = x2._array
                if two.dtype is not dtype and not any_result:
                    return slow(x1, x2)
            elif type(x2) is float or type(x2) is int:
                two = x2
            elif type(x2) is Variable:
                # What is read may be a symbol of a traced graph or have another dtype: the call
                # begins anew with it, and no branch here has to know of that.
                x2 = x2._read()
                if type(x2) is not Tensor or x2._array.dtype is not dtype:
                    return op(x1, x2)
                two = x2._array
            else:
                return slow(x1, x2)
        elif type(x2) is Tensor and (type(x1) is float or type(x1) is int):
            one, two = x1, x2._array
            dtype, array = two.dtype, two
        elif type(x1) is Variable:
            return op(x1._read(), x2)
        else:
            return slow(x1, x2)
        try:
            if threaded and array.size >= _LARGE:
                result = threaded[0](ufunc, one, two)
            else:
                result = ufunc(one, two)
        except KERNEL_ERRORS as error:
            result = prim.again(error, (x1, x2), {})
        # NumPy has computed float64 of an int32 and 1.5, say; `slow` computes again in the dtype of
        # the shape rule. Floats of one dtype, of which steps are made, never come here.
        if dtype is not settled and result.dtype is not dtype and not any_result:
            return slow(x1, x2)
        y = Tensor()
        y._array = result
        if tapes:
            record_two(prim, x1, x2, y)
        return y

    return op


def _unary(prim: Primitive) -> Callable[..., Any]:
    kernel, slow, tapes = prim.kernel, prim.slow, _TAPES
    record_one, checked = trace_state.record_one, prim.facets.promotion == FLOATS
    logits_of = prim.facets.logits_of

    def op(x: Any, **settings: Any) -> Any:
        if type(x) is not Tensor:
            return slow(x, **settings)
        array = x._array
        # By identity first: the set would have to hash the dtype, in each call of the usual kind.
        if checked and array.dtype is not _F32 and array.dtype not in _FLOAT_DTYPES:
            return slow(x, **settings)
        try:
            # The module is looked up for other arrays alone.
            if type(array) is _ndarray:
                result = kernel(np, array, **settings)
            else:
                result = kernel(_XP[type(array)], array, **settings)
        except KERNEL_ERRORS as error:
            result = prim.again(error, (x,), settings)
        if type(result) is tuple:
            y = wrapped(result)
            trace_state.record(prim, (x,), y, settings or None)
            return y
        y = Tensor()
        y._array = result
        if logits_of:
            keep_input(y, x, prim, settings)
        if tapes:
            record_one(prim, x, y, settings or None)
        return y

    return op


def _binary(prim: Primitive) -> Callable[..., Any]:
    """The function of a kernel with two inputs and no settings."""
    kernel, general, tapes = prim.kernel, _general(prim), _TAPES
    record, record_two = trace_state.record, trace_state.record_two
    promotes = prim.facets.promotion == COMMON

    def op(x1: Any, x2: Any) -> Any:
        if type(x1) is Variable:
            x1 = x1._read()
        if type(x2) is Variable:
            x2 = x2._read()
        if type(x1) is not Tensor or type(x2) is not Tensor:
            # Numbers, lists, symbols and `None`, which `_general` sorts out.
            return general(x1, x2)
        one, two = x1._array, x2._array
        if type(one) is not _ndarray or type(two) is not _ndarray:
            # Arrays of a GPU: `_general` calls the kernel with their own module.
            return general(x1, x2)
        if promotes and one.dtype is not two.dtype:
            return general(x1, x2)
        try:
            result = kernel(np, one, two)
        except KERNEL_ERRORS as error:
            result = prim.again(error, (x1, x2), {})
        if type(result) is tuple:
            y = wrapped(result)
            record(prim, (x1, x2), y, None)
            return y
        y = Tensor()
        y._array = result
        if tapes:
            record_two(prim, x1, x2, y)
        return y

    return op


def _general(prim: Primitive) -> Callable[..., Any]:
    """The function of any other kernel; inputs may be `None`."""
    slow, mixed, tapes, record = prim.slow, _mix_numbers(prim), _TAPES, trace_state.record
    kernel, run = prim.kernel, prim.run
    one_dtype, floats_only = _promotion(prim)
    names, min_inputs = prim.input_names, prim.fewest_inputs

    def op(*inputs: Any, **settings: Any) -> Any:
        if len(inputs) < min_inputs:
            # Kernels take inputs by position; one that was given by name is among the settings.
            inputs += _by_names(names[len(inputs) :], settings)
        kinds = set(map(type, inputs))
        if Variable in kinds:
            inputs = tuple([x._read() if type(x) is Variable else x for x in inputs])
            # Anew, since what is read of a variable may be a symbol.
            kinds = set(map(type, inputs))
        if not kinds <= _READY:
            return mixed(*inputs, **settings)
        arrays = [None if x is None else x._array for x in inputs]
        if one_dtype:
            # A mixture is promoted by casts that tapes record, so gradients keep their dtypes.
            dtypes = {array.dtype for array in arrays if array is not None}
            if len(dtypes) > 1 or (floats_only and not dtypes <= _FLOAT_DTYPES):
                return slow(*inputs, **settings)
        try:
            if _ON_CPU.issuperset(map(type, arrays)):
                result = kernel(np, *arrays, **settings)
            else:
                result = run(arrays, settings)
        except KERNEL_ERRORS as error:
            result = prim.again(error, inputs, settings)
        y = wrapped(result)
        if tapes:
            record(prim, inputs, y, settings or None)
        return y

    return op


def _by_names(names: tuple[str, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs `names` that stand among the settings, which they leave; the first ones in a row.

    The kernel has the words for one that is missing.
    """
    inputs = []
    for name in names:
        if name not in settings:
            break
        inputs.append(settings.pop(name))
    return tuple(inputs)


def _mix_numbers(prim: Primitive) -> Callable[..., Any]:
    """The function of a kernel for inputs with Python numbers.

    Where inputs get one dtype, numbers behind a float32 tensor are float32.
    """
    slow = prim.slow
    if not _promotion(prim)[0]:
        return slow

    def op(*inputs: Any, **settings: Any) -> Any:
        dtype = None
        ready = []
        for x in inputs:
            if type(x) is Tensor:
                # Only the first tensor counts. A number before it has met no dtype yet and goes to
                # `slow`, which looks at all inputs.
                if dtype is None:
                    array, dtype = x._array, x._array.dtype
            elif x is not None:
                # Not `isinstance`: True is an int and NumPy's float64 a float, but neither is weak.
                is_number = type(x) is float or type(x) is int
                if not (is_number and dtype is _F32 and type(array) is _ndarray):
                    return slow(*inputs, **settings)
                number = Tensor()
                number._array = np.float32(x)
                x = number
            ready.append(x)
        # Anew with tensors alone, which the compiled function may serve.
        return prim.op(*ready, **settings)

    return op


def _accept_names(reference: Callable[..., Any], two: bool) -> Callable[..., Any]:
    """`reference` as the compiled functions are called: with TensorFlow's names of arguments.

    `name` is not kept; inputs `x1` and `x2` may be called `x` and `y`.
    """
    names = (("x", "x1"), ("y", "x2")) if two else ()

    def op(*inputs: Any, **settings: Any) -> Any:
        if settings:
            settings.pop("name", None)
            for short, long in names:
                if short in settings and long not in settings:
                    settings[long] = settings.pop(short)
        return reference(*inputs, **settings)

    op.__wrapped__ = reference  # type: ignore[attr-defined]
    return op


def _ask_first(tuned: Tuned, body: Callable[..., Any]) -> Any:
    """`body`, behind the kernels of a GPU that are asked first."""

    def kernel(xp: Any, *arrays: Any, **settings: Any) -> Any:
        if xp is not np:
            result = tuned.run_on_gpu(xp, arrays, settings)
            if result is not None:
                return result
        return body(xp, *arrays, **settings)

    return kernel


def _ask_on_halves(tuned: Tuned, body: Callable[..., Any]) -> Any:
    """`body`, behind what is asked for NumPy arrays of 16-bit floats."""
    index = tuned.of

    def kernel(xp: Any, *arrays: Any, **settings: Any) -> Any:
        run = tuned.on_halves(arrays[index].dtype) if xp is np else None
        if run is not None:
            result = run(*arrays, **settings)
            if result is not None:
                return result
        return body(xp, *arrays, **settings)

    return kernel


def with_tuned(body: Callable[..., Any], tuned: Tuned) -> Callable[..., Any]:
    """The kernel of an operation: `body`, or what is tuned for large NumPy arrays, or for a GPU."""
    run, min_size, index = tuned.run, tuned.fewest, tuned.of
    fewest_beside = sys.maxsize if tuned.fewest_beside is None else tuned.fewest_beside
    if tuned.on_gpu:
        body = _ask_first(tuned, body)
    if tuned.halves:
        body = _ask_on_halves(tuned, body)
    if run is None:
        return body

    def kernel(xp: Any, *arrays: Any, **settings: Any) -> Any:
        # By its size first, as a tuned kernel looks at layouts and dtypes before it declines, which
        # takes longer than a small body. An input with a default may be left out.
        x = arrays[index] if index < len(arrays) else None
        beside = arrays[index + 1] if index + 1 < len(arrays) else None
        if type(x) is _ndarray and (
            x.size >= min_size or (type(beside) is _ndarray and beside.size >= fewest_beside)
        ):
            result = run(*arrays, **settings)
            if result is not None:
                return result
        return body(xp, *arrays, **settings)

    return native.call_if_built("TunedKernel", body, run, min_size, index, fewest_beside) or kernel


def _compile(
    kind: str, prim: Primitive, reference: Callable[..., Any], *facts: Any
) -> Callable[..., Any]:
    """The compiled function that takes the usual calls before `reference`, where there is one."""
    op: Callable[..., Any] | None = native.call_if_built(kind, prim, reference, *facts)
    if op is None:
        return _accept_names(reference, kind.startswith("binary"))
    op.__wrapped__ = reference  # type: ignore[attr-defined]
    op.compiled_as = (kind, prim, *facts)  # type: ignore[attr-defined]
    return op


def as_method(op: Callable[..., Any], reflected: str) -> Callable[..., Any]:
    """An operation of two inputs as a method of Python's operator.

    Where the right one becomes no tensor and has the method named `reflected`, such as `__radd__`,
    that is left to answer. Calls of tensors alone go the way of `op`.
    """
    reference = native.python_function(op)

    def method(self: Any, other: Any) -> Any:
        try:
            # Tried first, so that usual operands do not pay for a look at foreign classes.
            return reference(self, other)
        except (TypeError, ValueError):
            if answers_itself(other, reflected):
                return NotImplemented
            raise

    method.__name__ = method.__qualname__ = getattr(op, "__name__", "method")
    method.__doc__ = op.__doc__
    # A second compiled function of the same primitive, before `method`: what it leaves has to come
    # to `method`, where the other operand may answer, and not to the reference of `op`.
    compiled_form = getattr(op, "compiled_as", None)
    compiled: Any = (
        None
        if compiled_form is None
        else native.call_if_built(compiled_form[0], compiled_form[1], method, *compiled_form[2:])
    )
    if compiled is None:
        return method
    compiled.__wrapped__, compiled.__doc__ = method, op.__doc__
    operator: Callable[..., Any] = compiled
    return operator


def answers_itself(other: Any, reflected: str) -> bool:
    """Whether an operator's right operand is of a foreign kind that has the method `reflected`."""
    return not isinstance(other, _OPERANDS) and hasattr(type(other), reflected)


_OPERANDS = (Tensor, Variable, np.ndarray, np.generic, int, float, complex, list, tuple, str, bytes)


def callable_for(prim: Primitive, arity: int | None, has_settings: bool) -> Callable[..., Any]:
    """The function that is called in place of the kernel of `prim`.

    Args:
        prim: the declaration.
        arity: how many inputs it takes, `None` for any number.
        has_settings: whether it takes settings besides.
    """
    if prim.is_ufunc and arity == 1:
        return _compile("unary_ufunc", prim, _unary_ufunc(prim))
    if prim.is_ufunc:
        return _compile("binary_ufunc", prim, _binary_ufunc(prim))
    one_dtype, floats_only = _promotion(prim)
    # The functions of two inputs do not look for integers, so an operation that makes these floats
    # is a general one.
    if arity == 2 and not has_settings and not floats_only:
        # Small products spend their time on the way to BLAS, hence a function of their own.
        if prim.facets.semantics is PRODUCT:
            return _compile("matmul", prim, _binary(prim), MOST_BY_DOT)
        return _compile("binary", prim, _binary(prim), one_dtype)
    if arity == 1:
        return _compile("unary", prim, _unary(prim), floats_only)
    return _compile("general", prim, _general(prim), one_dtype, floats_only)
