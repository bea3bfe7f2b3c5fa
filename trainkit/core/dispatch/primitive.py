"""`@primitive`: a kernel, its shape rule and its gradient rules under one name.

A call has three outcomes, decided in this order: an input is symbolic and the graph being traced
gets a node; a tape tracks an input and gets an entry; or the kernel just runs. The usual case,
plain tensors and Python numbers, is served by the functions of `eager`; everything else comes
to `Primitive.slow`.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

import numpy as np

from trainkit.core import devices, dtypes, shapes
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.declaring_modules import check_declaring_module
from trainkit.core.dispatch.eager import KERNEL_ERRORS, callable_for, with_tuned, wrapped
from trainkit.core.dispatch.facets import (
    COMMON,
    COMPOSITE,
    ELEMENTWISE,
    FLOATS,
    INTEGERS,
    METHODS,
    Facets,
)
from trainkit.core.dispatch.formulas import steps_of
from trainkit.core.dispatch.known_sizes import as_known, known_results
from trainkit.core.dispatch.number_operands import (
    convert_first_array,
    first_tensor,
    number_beside,
    weak_fits,
)
from trainkit.core.errors import (
    InvalidArgumentError,
    LeakedTensorError,
    NoValueError,
    OpError,
    PositionError,
)
from trainkit.core.shapes import Spec
from trainkit.core.string_tensor import StringTensor
from trainkit.core.tensor import (
    PRIMITIVES,
    Tensor,
    convert_to_tensor,
    is_tensor,
    keep_input,
    tensor_beside,
)
from trainkit.core.values.python_values import require_integers_fit, short_text

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import TensorLike

# An overflow or a division by zero gives inf or nan, as in every framework; NumPy's warnings would
# name a line of this package. Only those are dropped; the user's own NumPy code keeps its warnings,
# and what this package says itself is shown.
_OF_NUMPY = r".* encountered|Mean of empty slice|Degrees of freedom <= 0"
warnings.filterwarnings("ignore", _OF_NUMPY, RuntimeWarning, module=r"trainkit\.")

Rule = Callable[..., Any]

P = ParamSpec("P")
AnyRule = TypeVar("AnyRule", bound=Rule)

_TAPES = trace_state.TAPES
_XP = devices.XP_OF
_F32 = np.dtype(np.float32)
_BF16, _SHORT = dtypes.bfloat16.dtype, frozenset(d.dtype for d in dtypes.HALVES)
_NUMBERS = (bool, int, float, complex)


class Operation(Protocol[P]):
    """What stands in place of a kernel: the same call on tensors, and where its rules are given.

    Attributes:
        primitive: the declaration behind it.
    """

    __name__: str
    primitive: Primitive

    def __call__(self, *inputs: P.args, **settings: P.kwargs) -> Tensor:
        """The result on tensors, or what converts to them.

        Type checkers take it for a tensor; several results are unpacked into tensors.
        """

    def gradients(self, *rules: Rule | None) -> Self:
        """Give a rule `(g, y, *inputs, **settings)` per input, `None` where none is."""

    def array_gradients(self, *rules: Rule | None) -> Self:
        """Give rules `(g, y, *inputs, **settings)` on NumPy arrays, of the same bits.

        The backward pass takes them for floats where no tape listens. A rule that can't do a case
        gives `NotImplemented`, as those of the other inputs must then do too; all inputs go by the
        rules of `gradients`.
        """

    def joint_gradient(self, rule: AnyRule) -> AnyRule:
        """Give one rule that returns the gradients of all inputs."""

    def joint_array_gradient(self, rule: AnyRule) -> AnyRule:
        """Give one rule `(g, y, *inputs, needed, **settings)` on NumPy arrays, of the same bits.

        It gives a gradient or `None` for each input, or `NotImplemented` for a case that it can't
        do. `needed` says of each input whether its gradient is of use.
        """

    # those of `Facets`, where they are described
    declare: Callable[..., None]
    batch_by: Callable[[Any], Any]
    stack_by: Callable[[Any], Any]
    lower_by: Callable[[Any], Any]
    parts_by: Callable[[Any], Any]


if TYPE_CHECKING:

    class UnaryOperation(Operation[[TensorLike]], Protocol):
        """An element-wise operation of one tensor."""

        def __call__(self, x: TensorLike) -> Tensor: ...

    class BinaryOperation(Operation[[TensorLike, TensorLike]], Protocol):
        """An element-wise operation of two tensors."""

        def __call__(self, x1: TensorLike, x2: TensorLike) -> Tensor: ...

    class _OneInput(Protocol):
        @property
        def nin(self) -> Literal[1]: ...

    class _TwoInputs(Protocol):
        @property
        def nin(self) -> Literal[2]: ...


class Primitive:
    """One operation: what it computes, what shape that has, and how gradients go back.

    Attributes:
        name: the key in `PRIMITIVES`.
        kernel: function of `(xp, *arrays, **settings)`; a ufunc takes the arrays alone.
        body: the kernel as it was written, which is the reference; `kernel` may ask a tuned one.
        shape_rule: function of `Spec`s and settings to the `Spec` of the result.
        rules: one function `(g, y, *inputs, **settings)` per input, `None` for an input without a
            gradient; one rule serves all inputs when the primitive takes any number (`variadic`).
        given_rules: the same as functions of NumPy arrays, where they were given as such.
        given_joint: the same as one function of arrays for all inputs.
        joint: one function that gives the gradients of all inputs at once, instead of `rules`.
        joint_asks: whether it takes `needed`, a bool for each input: which gradients are of use.
        joint_adds: whether it takes `sums`, the gradient so far of each input or `None`, and gives
            totals where there is one.
        joint_sparse: whether it takes `None` for a result without a gradient, in place of zeros.
        broadcasts: its gradient is summed over the axes along which an input was broadcast.
        passes_errors: what its kernel raises is meant for the user as it is.
        facets: the record of what else is known of it.
        input_names: those of the kernel, by which a call may give them; none for `variadic` ones.
        fewest_inputs: how many of them have no default.
        op: the callable.
    """

    def __init__(self, name: str, kernel: Any, shape_rule: Rule) -> None:
        self.name = name
        self.kernel = self.body = kernel
        self.shape_rule = shape_rule
        self.rules: tuple[Rule | None, ...] | None = None
        self.joint: Rule | None = None
        self.joint_asks = False
        self.joint_adds = False
        self.joint_sparse = False
        self.array_vjps: Any = None  # made from the rules by the backward pass
        self.given_rules: tuple[Rule | None, ...] | None = None
        self.given_joint: Rule | None = None
        self.broadcasts = shape_rule in (*shapes.NUMBERS_BROADCAST, shapes.broadcast_bool)
        self.is_ufunc = isinstance(kernel, np.ufunc)
        self.passes_errors = False
        self.input_names: tuple[str, ...] = ()
        self.fewest_inputs = 0
        # Until `_register` has the function for this kind of kernel. To `Facets.declare` it is the
        # sign that facets which become a part of that function may still be given.
        self.op: Callable[..., Any] = self.slow
        self.facets = Facets(self, ELEMENTWISE if self.is_ufunc else COMPOSITE)
        # Said once, by the shape rule: one that promises floats needs a kernel that gets floats.
        self.float_dtype = shapes.FLOAT_DTYPES.get(shape_rule, shapes.float_dtype)
        if shape_rule in shapes.FLOAT_DTYPES:
            self.facets.promotion = FLOATS
        elif shape_rule is shapes.broadcast:
            self.facets.promotion = COMMON
        elif shape_rule in (shapes.broadcast_bool, shapes.unchanged_bool):
            self.facets.no_gradient = INTEGERS

    @property
    def recorded(self) -> bool:
        """Whether tapes take note of calls."""
        return self.rules is not None or self.joint is not None

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def steps(self) -> list[tuple[Any, ...]] | None:
        """The ufuncs that the body calls, element by element; `None` where it does more.

        Each is the first three fields of an `ArrayCall`.
        """
        names, _, has_settings = _arguments(self.body)
        settings = names[1 + len(self.input_names) :] if has_settings else ()
        calls = steps_of(self.body, len(self.input_names), settings)
        return None if calls is None else [call[:3] for call in calls]

    # ------------------------------------------------------------------ running

    def run(self, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The kernel's result on arrays, without a look at tapes or dtypes."""
        if self.is_ufunc:
            # Of one array the loops of float32 are ten times as fast as those of 16-bit floats.
            if len(arrays) == 1 and type(arrays[0]) is np.ndarray and arrays[0].dtype in _SHORT:
                return _round_to(arrays[0].dtype, self.kernel(_widen(arrays[0])))
            return self.kernel(*arrays)
        xp = next((_XP[type(a)] for a in arrays if hasattr(a, "dtype")), np)
        # NumPy promotes bfloat16 beside a Python number to float32, and a kernel would give either
        # dtype. It computes in float32 as a whole, and its results are rounded once, at the end; on
        # the CPU that of float16 does, too, whose loops go number by number.
        if self.facets.promotion == FLOATS and (short := _short_dtype(xp, arrays)) is not None:
            tuned = self.facets.tuned
            if xp is not np and tuned is not None:
                # kernels of a GPU read bfloat16, and round once by themselves
                result = tuned.run_on_gpu(xp, arrays, settings)
                if result is not None:
                    return result
            return _round_to(short, self.kernel(xp, *map(_widen, arrays), **settings))
        return self.kernel(xp, *arrays, **settings)

    def slow(self, *inputs: Any, **settings: Any) -> Any:
        """A call with anything but plain tensors of one dtype: convert, promote, or trace."""
        ready = [x._read() if hasattr(type(x), "_is_variable") else x for x in inputs]
        if any(x is not y for x, y in zip(inputs, ready, strict=True)):
            return self.op(*ready, **settings)  # a variable's value may well be a usual case
        self._convert(ready)
        # Text has no dtype to promote to; what numbers may stand beside it is a facet.
        if not any(type(x) is StringTensor for x in ready):
            self._promote(ready)
        # After the conversion, since a list that holds a symbol has become one.
        is_symbolic = any(isinstance(x, Tensor) and type(x) is not Tensor for x in ready)
        y = (self.trace if is_symbolic else self.execute)(tuple(ready), settings)
        if self.facets.logits_of:
            keep_input(y, ready[0], self, settings)
        return y

    def trace(self, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Add a node to the graph being traced, and an entry to each tape that tracks an input."""
        known_values = known_results(self, inputs, settings)
        if known_values is None:
            return self._traced(inputs, settings)
        return as_known(known_values, lambda: self._traced(inputs, settings))

    def _traced(self, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        symbols = [x for x in inputs if isinstance(x, Tensor) and type(x) is not Tensor]
        # A symbol with a way of its own, such as the stack of a vmap, comes before those of a
        # graph, which knows nothing of its inside: it has the graph compute with that.
        # asked of types: what an object does not have is looked for in long ways
        symbolic: Any = next((x for x in symbols if _is_applied_by(x)), symbols[0])
        if _is_applied_by(symbolic):
            return symbolic.apply_primitive(self, inputs, settings)
        graph = trace_state.current_trace()
        if graph is None:
            # Its graph is finished; any other symbol without a trace was never part of one.
            if hasattr(symbolic, "leak_text"):
                raise LeakedTensorError(f"{self.name}: {symbolic.leak_text()}")
            raise InvalidArgumentError(
                f"{self.name}: {symbolic!r} belongs to a graph and has no value here. Return it "
                "from the function that is being traced, or do this step inside that function."
            )
        y = graph.apply(self, inputs, settings)
        if _TAPES:
            trace_state.record(self, inputs, y, settings)
        return y

    def execute(self, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Run the kernel on tensors and numbers that are ready for it, and record the call."""
        arrays = [x._array if type(x) is Tensor else x for x in inputs]
        try:
            result = self.run(arrays, settings)
        except KERNEL_ERRORS as error:
            result = self.again(error, inputs, settings)
        # Only where dtypes meet has NumPy chosen one; other kernels make what their rule promises.
        if self.is_ufunc or self.facets.promotion != "none":
            result = self._settled(result, arrays, settings)
        y = wrapped(result)
        if _TAPES:
            trace_state.record(self, inputs, y, settings or None)
        return y

    def _settled(self, result: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        """`result` in the dtype that the shape rule promises, where NumPy's own choice differs."""
        if type(result) is tuple or self.shape_rule in (
            shapes.broadcast_bool,
            shapes.unchanged_bool,
        ):
            return result
        # The dtype without the rule, which would broadcast shapes that NumPy has broadcast already.
        if self.shape_rule in shapes.NUMBERS_BROADCAST:
            promised_dtype = dtypes.result_type(*arrays)
            if self.facets.promotion == FLOATS:
                promised_dtype = self.float_dtype(promised_dtype)
            if result.dtype != promised_dtype.dtype and promised_dtype.dtype.kind != "b":
                return result.astype(promised_dtype.dtype)
        elif self.is_ufunc and self.shape_rule not in (shapes.unchanged, shapes.floating):
            specs = [Spec(x.shape, x.dtype) if hasattr(x, "shape") else x for x in arrays]
            promised_dtype = self.shape_rule(*specs, **settings).dtype
            if result.dtype != promised_dtype.dtype:
                return result.astype(promised_dtype.dtype)
        return result

    def _convert(self, ready: list[Any]) -> None:
        """Turn lists and arrays into tensors, numbers too where the kernel needs arrays."""
        # Numbers and lists take the dtype and the device of the first tensor, as in TensorFlow.
        like = first_tensor(ready)
        # Where there is none, numbers are weak beside an array as they are beside its tensor.
        beside = convert_first_array(ready) if like is None and len(ready) > 1 else like
        for i, x in enumerate(ready):
            if x is None or isinstance(x, Tensor):
                continue
            # NumPy's float64 is a Python float as well, but one that has a dtype.
            if isinstance(x, int | float | complex) and not isinstance(x, np.generic):
                if type(x) not in _NUMBERS:  # NumPy takes no class of a user's as weak
                    kind: Any = next(k for k in _NUMBERS if isinstance(x, k))
                    x = ready[i] = kind(x)
                # A ufunc itself takes the number for weak, so no array need be made of it.
                if (
                    self.is_ufunc
                    and beside is not None
                    and type(x) is not bool
                    and weak_fits(x, beside)
                ):
                    continue
                ready[i] = number_beside(x, beside)
                continue
            # A list has no dtype and takes the hint; an array has one, which only gives way where
            # it is of floats beside tensors of floats.
            hint = like.dtype if like is not None and isinstance(x, list | tuple) else None
            promotes = self.is_ufunc or self.facets.promotion in (COMMON, FLOATS)
            dtype = dtypes.beside(x, ready) if promotes and like is not None else None
            try:
                if hint is not None and promotes and self._mixes_values():
                    ready[i] = tensor_beside(x, hint)
                else:
                    ready[i] = convert_to_tensor(x, dtype, dtype_hint=hint)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.name}: argument {i}: {error}") from None
        # Numbers alone: with one tensor among them the result gets a dtype of this package in place
        # of NumPy's float64, and the others stay weak.
        if self.is_ufunc and not any(isinstance(x, Tensor) for x in ready):
            ready[0] = convert_to_tensor(ready[0])

    def _mixes_values(self) -> bool:
        """Whether results hold values of the operands; comparisons and searches hold answers."""
        return self.facets.no_gradient is not INTEGERS or self.shape_rule is shapes.broadcast

    def _promote(self, ready: list[Any]) -> None:
        """Cast tensors to the dtype they promote to."""
        operands = [x for x in ready if x is not None]
        promotion = self.facets.promotion
        if promotion == FLOATS:
            common_dtype = self.float_dtype(dtypes.result_type(*operands))
        elif (promotion == COMMON or self.is_ufunc) and len(ready) > 1:
            common_dtype = dtypes.result_type(*operands)
        elif self.is_ufunc and operands[0].dtype.is_bool:
            # the square of a bool is an int32
            common_dtype = self.shape_rule(_spec(operands[0])).dtype
        else:
            return
        if common_dtype.is_bool and self.is_ufunc:
            return
        # The operation in place of `astype`: tapes record it, so each gradient comes back in the
        # dtype of its input. By its name, since `cast` is declared in `ops`, above this floor.
        cast = late_ops.cast
        weak_fails = common_dtype.name == "bfloat16"  # NumPy's own promotion knows nothing of it
        like = first_tensor(operands)
        for i, x in enumerate(ready):
            if isinstance(x, Tensor):
                if x.dtype != common_dtype:
                    ready[i] = cast(x, dtype=common_dtype.name)
            elif x is not None and weak_fails:
                ready[i] = number_beside(x, like)

    # ------------------------------------------------------------------ errors

    def _named(self, error: OpError) -> OpError:
        """`error` with this operation's name where a rule that many share could not know it."""
        unnamed = "operation: "
        if error.args and str(error.args[0]).startswith(unnamed):
            error.args = (f"{self.name}: {str(error.args[0])[len(unnamed) :]}", *error.args[1:])
        return error

    def refused(self, error: Exception, inputs: tuple[Any, ...], settings: Any) -> Exception:
        """The error of the shape rule as one that names the operation and shows the inputs."""
        if isinstance(error, OpError):
            return self._named(error)
        if isinstance(error, NoValueError):
            return error
        return InvalidArgumentError(f"{self.name}: {error}\n{describe(inputs, settings)}")

    def again(self, error: Exception, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The result where numbers of the CPU stand beside arrays of a GPU, or on another GPU.

        Else it raises `error`. Such inputs come here, and not to `run` at once, so that the usual
        call need not ask.
        """
        arrays = [x._array if type(x) is Tensor else x for x in inputs]
        moved = devices.on_one_device(arrays)
        # CuPy launches on the current device; arrays that all lie on another GPU need no more than
        # that it is changed.
        where = devices.other_gpu(moved)
        # Nothing would be different in a second try.
        if where is None and all(a is b for a, b in zip(moved, arrays, strict=True)):
            self._raise_explained(error, inputs, settings)
        try:
            if where is not None:
                with devices.kernels_on(where):
                    return self.run(devices.on_one_device(arrays), settings)
            return self.run(moved, settings)
        except KERNEL_ERRORS as still:
            self._raise_explained(still, inputs, settings)

    def _raise_explained(self, error: Exception, inputs: Any, settings: dict[str, Any]) -> NoReturn:
        """Raise what explains `error`, which may be `error`: that one is no cause of itself."""
        explanation = self.explained(error, inputs, settings)
        if explanation is error:
            raise error
        raise explanation from error

    def explained(self, error: Exception, inputs: tuple[Any, ...], settings: Any) -> Exception:
        """The error of a kernel as one that names the operation and shows the inputs."""
        placed = [x for x in inputs if type(x) is Tensor and not devices.is_host_number(x._array)]
        # First, as all other words on arrays of two devices would be about their types.
        if len(input_devices := {x.device for x in placed}) > 1:
            return InvalidArgumentError(
                f"{self.name}: the inputs are on {' and '.join(sorted(input_devices))}; bring them "
                f"to one device with .cpu() or .gpu()\n{_device_list(inputs)}"
            )
        if self.passes_errors:
            return error
        if isinstance(error, OpError):
            return self._named(error)
        try:
            # The rule knows the names of axes and what was expected, a kernel has NumPy's words. It
            # would be slow in each call, but one that has failed can wait.
            self.shape_rule(*map(_spec, inputs), **settings)
        except OpError as better:
            return self._named(better)
        except Exception:  # the rule has no better words than the kernel
            pass
        if isinstance(error, OverflowError) and (tensor := first_tensor(inputs)) is not None:
            try:
                for x in (*inputs, *settings.values()):
                    require_integers_fit(x, tensor.dtype)
            except InvalidArgumentError as better:
                error = better
        kind = PositionError if isinstance(error, IndexError) else InvalidArgumentError
        return kind(f"{self.name}: {error}\n{describe(inputs, settings)}")


def _spec(x: Any) -> Any:
    return Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x


def describe(inputs: Sequence[Any], settings: dict[str, Any] | None = None) -> str:
    """Shapes and dtypes of inputs and the settings, a line each, for error texts."""
    lines = []
    for i, x in enumerate(inputs):
        if is_tensor(x):
            lines.append(f"  input {i}  {tuple(x.shape)} {x.dtype.name}")
        else:
            lines.append(f"  input {i}  {short_text(x)}")
    lines += [f"  {name}={short_text(value)}" for name, value in (settings or {}).items()]
    return "\n".join(lines)


def _device_list(inputs: Sequence[Any]) -> str:
    """Shape, dtype and device of each tensor, a line each."""
    return "\n".join(
        f"  input {i}  {tuple(x.shape)} {x.dtype.name} on {x.device}"
        for i, x in enumerate(inputs)
        if type(x) is Tensor
    )


def _short_dtype(xp: Any, arrays: Sequence[Any]) -> Any:
    """The dtype of 16-bit floats that are computed in float32, `None` where there are none."""
    short_dtypes = _SHORT if xp is np else (_BF16,)
    return next((a.dtype for a in arrays if getattr(a, "dtype", None) in short_dtypes), None)


def _widen(array: Any) -> Any:
    """An array of 16-bit floats as float32, others as they are."""
    is_short = getattr(array, "dtype", None) in _SHORT
    return dtypes.cast_array(array, _F32) if is_short else array


def _round_to(dtype: Any, result: Any) -> Any:
    """The float32 arrays among the results as `dtype`."""
    if type(result) is tuple:
        return tuple(_round_to(dtype, part) for part in result)
    return dtypes.cast_array(result, dtype) if result.dtype == _F32 else result


def _is_applied_by(x: Any) -> bool:
    """Whether a symbol takes operations over itself, as it is no part of a graph being traced."""
    return hasattr(type(x), "apply_primitive")


def _arguments(function: Any) -> tuple[tuple[str, ...], bool, int]:
    """Names of arguments, whether there may be more by position, how many come by keyword alone.

    `inspect.signature` says the same in ten times the time, once for every operation that there is.
    """
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names, bool(code.co_flags & inspect.CO_VARARGS), code.co_kwonlyargcount


def _register(
    prim: Primitive, op: Callable[..., Any], doc: str | None, module: str
) -> Operation[Any]:
    check_declaring_module(prim.name, prim.facets.effect, module)
    if prim.name in PRIMITIVES:
        raise ValueError(f"there is a primitive {prim.name!r} already")
    PRIMITIVES[prim.name] = prim
    prim.op = op
    late_ops.provide(prim.name, op)
    # Both, since a traceback, a profile or an error of missing arguments may show either.
    for function in (op, getattr(op, "__wrapped__", op)):
        function.__name__ = function.__qualname__ = prim.name
        function.__doc__ = doc
    op.primitive = prim  # type: ignore[attr-defined]

    def gradients(*rules: Rule | None) -> Operation[Any]:
        # What the backward pass made of earlier rules is void.
        prim.rules, prim.array_vjps = rules, None
        return operation

    def joint_gradient(rule: AnyRule) -> AnyRule:
        prim.joint, prim.array_vjps = rule, None
        prim.joint_asks = "needed" in _arguments(rule)[0]
        prim.joint_adds = "sums" in _arguments(rule)[0]
        return rule

    def joint_array_gradient(rule: AnyRule) -> AnyRule:
        prim.given_joint = rule
        return rule

    def array_gradients(*rules: Rule | None) -> Operation[Any]:
        prim.given_rules = rules
        return operation

    op.gradients = gradients  # type: ignore[attr-defined]
    op.array_gradients = array_gradients  # type: ignore[attr-defined]
    op.joint_gradient = joint_gradient  # type: ignore[attr-defined]
    op.joint_array_gradient = joint_array_gradient  # type: ignore[attr-defined]
    for method in METHODS:
        setattr(op, method, getattr(prim.facets, method))
    operation = cast(Operation[Any], op)
    return operation


def primitive(
    shape_rule: Rule, *, name: str | None = None, **facets: Any
) -> Callable[[Callable[Concatenate[Any, P], Any]], Operation[P]]:
    """Declare an operation by its kernel.

    The kernel takes `xp` (NumPy or CuPy), then arrays by position, then settings by keyword; it
    gives an array or a tuple of arrays. The callable that replaces it takes tensors in their place,
    and has `gradients(*rules)` (a rule `(g, y, *inputs, **settings)` per input, or `None`) and
    `joint_gradient(rule)` (a rule that gives all of them at once).

    Args:
        shape_rule: gives the `Spec` of the result from `Spec`s and settings. Those of
            `shapes.FLOAT_DTYPES` also make integers floats before the kernel runs.
        name: the key in `PRIMITIVES`; by default the kernel's name.
        **facets: what else is known of it: `semantics`, `batch`, `memory` … (see `Facets`).
    """

    def declare(kernel: Callable[Concatenate[Any, P], Any]) -> Operation[P]:
        prim = Primitive(name or kernel.__name__, kernel, shape_rule)
        if facets:
            prim.facets.declare(**facets)
        # Before `callable_for`, whose functions bind the kernel.
        if prim.facets.tuned:
            prim.kernel = with_tuned(kernel, prim.facets.tuned)
        names, variadic, has_settings = _arguments(kernel)
        # `xp` comes first, settings come by keyword alone, and the names between are inputs.
        arity = None if variadic else len(names) - has_settings - 1
        if arity is not None:
            prim.input_names = names[1 : arity + 1]
            prim.fewest_inputs = arity - len(inspect.unwrap(kernel).__defaults__ or ())
        op = callable_for(prim, arity, has_settings > 0)
        return _register(prim, op, kernel.__doc__, kernel.__module__)

    return declare


_UFUNC_ARGS = {
    1: "x: a tensor, or what becomes one.",
    2: "x1: a tensor, a Python number, or what becomes a tensor.\n"
    "        x2: the same; the shapes are broadcast, and the dtypes promoted.",
}


@overload
def ufunc(
    function: _OneInput,
    shape_rule: Rule,
    doc: str,
    example: tuple[str, str] | None = None,
    *,
    name: str | None = None,
    **facets: Any,
) -> UnaryOperation: ...
@overload
def ufunc(
    function: _TwoInputs,
    shape_rule: Rule,
    doc: str,
    example: tuple[str, str] | None = None,
    *,
    name: str | None = None,
    **facets: Any,
) -> BinaryOperation: ...
@overload
def ufunc(
    function: np.ufunc,
    shape_rule: Rule,
    doc: str,
    example: tuple[str, str] | None = None,
    *,
    name: str | None = None,
    **facets: Any,
) -> Operation[...]: ...
def ufunc(
    function: Any,
    shape_rule: Rule,
    doc: str,
    example: tuple[str, str] | None = None,
    *,
    name: str | None = None,
    **facets: Any,
) -> Any:
    """Declare an element-wise operation whose kernel is a NumPy ufunc, under its name or `name`.

    CuPy's serves GPU arrays by itself. A ufunc of two inputs takes Python numbers as they are:
    they are weak. `doc` says in a line what it computes, and `example` is an expression with what
    it gives; the docstring has both. More is said of it by `facets`, as in `primitive`.
    """
    prim = Primitive(name or function.__name__, function, shape_rule)
    if facets:
        prim.facets.declare(**facets)
    text = f"{doc}\n\n    Args:\n        {_UFUNC_ARGS[function.nin]}\n"
    if example is not None:
        output = example[1].replace("\n", "\n        ")
        text += f"\n    Example:\n        >>> {example[0]}\n        {output}\n"
    module = sys._getframe(1).f_globals["__name__"]  # a ufunc itself is NumPy's
    return _register(prim, callable_for(prim, function.nin, False), text, module)
