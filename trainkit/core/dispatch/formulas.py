"""Bodies of arithmetic as straight lines of calls, one element at a time.

A body such as `1 / (1 + xp.exp(-x))` runs once on operands that note which functions are called on
them, whatever shape arrays will have. From then on the line of these calls stands for the body: the
compiled half calls NumPy's loops in its order, with the same bits and without an array and a call
of NumPy for each step; kernels over large arrays and the updates of optimizers are written from it.
A body that asks for more, such as a shape, or chooses by numbers, has no such line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

MOST_STEPS = 16
"""More of them are left to the body, where NumPy's loops are called."""

NO_UFUNCS = ("copy", "cast", "where")
"""Functions of elements that are no ufunc of NumPy, but for "clip", which is one without a name."""


class ArrayCall(NamedTuple):
    """One call of a straight line, on arrays or on each of their elements.

    Attributes:
        function: a ufunc with one result; a kernel, called as `kernel(np, *operands, **settings)`;
            or the name of what is neither.
        sources: for each operand the number of an input, or behind these that of an earlier call;
            -1 for a constant.
        numbers: for each operand the constant, in the dtype in which it is taken where dtypes are
            known, or the name of the setting that it is; `None` for an array. May be left out where
            all are arrays.
        settings: keyword arguments of a kernel.
    """

    function: Any
    sources: tuple[int, ...]
    numbers: tuple[Any, ...] = ()
    settings: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the function."""
        name: str = self.function if isinstance(self.function, str) else self.function.__name__
        return name


class Untraceable(Exception):
    """The body does what no list of calls says."""


class ElementTrace:
    """The calls that bodies make on operands of this trace.

    Attributes:
        calls: in their order.
        dtypes: those of inputs, then of the results of calls; `None` where no dtype is known. Then
            a body can't ask for it, and is made of ufuncs of one or two operands alone.
    """

    def __init__(self) -> None:
        self.calls: list[ArrayCall] = []
        self.dtypes: list[np.dtype[Any] | None] = []

    @property
    def input_count(self) -> int:
        """How many arrays come in."""
        return len(self.dtypes) - len(self.calls)

    def input(self, dtype: np.dtype[Any] | None = None) -> TracedElements:
        """An array that comes in; all inputs come before the first call."""
        self.dtypes.append(dtype)
        return TracedElements(self, len(self.dtypes) - 1)

    def add_setting(self, name: str) -> TracedElements:
        """A Python number that is another in each call of the body."""
        return TracedElements(self, -1, name)

    def note(
        self, function: np.ufunc | str, operands: Sequence[Any], dtype: np.dtype[Any] | None
    ) -> TracedElements:
        """The result, of this dtype, of a function of operands that are as it takes them."""
        traced = [x if isinstance(x, TracedElements) else None for x in operands]
        sources = tuple(-1 if x is None else x.position for x in traced)
        # A number made of settings alone is Python's to compute, in float64.
        if max(sources) < 0:
            raise Untraceable("a number made of numbers")
        numbers = tuple(
            x if t is None else t.setting or None for x, t in zip(operands, traced, strict=True)
        )
        self.calls.append(ArrayCall(function, sources, numbers))
        self.dtypes.append(dtype)
        return TracedElements(self, len(self.dtypes) - 1)

    def call_ufunc(self, ufunc: np.ufunc, operands: Sequence[Any]) -> TracedElements:
        """The result of a ufunc, whose operands are converted first where they have to be."""
        if ufunc.nout != 1 or ufunc.signature is not None:
            raise Untraceable(ufunc.__name__)
        if self.dtypes[0] is None:
            # Arrays take other ufuncs than `power` for some exponents.
            fits = all(type(x) in (TracedElements, int, float) for x in operands)
            if not fits or len(operands) > 2 or ufunc is np.power:
                raise Untraceable(ufunc.__name__)
            return self.note(ufunc, operands, None)
        *dtypes, result = ufunc.resolve_dtypes((*map(self._kind_of, operands), None))
        converted = list(map(self.convert, operands, dtypes))
        return self.note(ufunc, converted, result)

    def convert(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """`x` as an operand of another dtype."""
        if not isinstance(x, TracedElements):
            return np.asarray(x).astype(dtype)[()]
        if x.setting or self.dtypes[x.position] == dtype:
            return x
        return self.note("cast", [x], dtype)

    def choose(self, condition: Any, x: Any, y: Any) -> TracedElements:
        """The elements of `x` where the condition is true, else those of `y`."""
        if self._kind_of(condition) != np.bool_:
            raise Untraceable("a condition that is no bool")
        dtype = self._common_dtype(x, y)
        return self.note("where", [condition, *(self.convert(v, dtype) for v in (x, y))], dtype)

    def limit(self, x: Any, low: Any, high: Any) -> TracedElements:
        """Elements between two limits."""
        dtype = self._common_dtype(x, low, high)
        return self.note("clip", [self.convert(v, dtype) for v in (x, low, high)], dtype)

    def _common_dtype(self, *operands: Any) -> np.dtype[Any]:
        # numbers of Python are weak beside arrays by their values, not by their types
        kinds = [0.0 if kind is float else kind for kind in map(self._kind_of, operands)]
        kinds = [x if type(x) in (bool, int) else k for x, k in zip(operands, kinds, strict=True)]
        return np.result_type(*kinds)

    def _kind_of(self, x: Any) -> Any:
        """What NumPy resolves a loop by: a dtype, or the type of a Python number."""
        if type(x) in (bool, int, float):
            return type(x)
        if isinstance(x, TracedElements):
            return float if x.setting else self.dtypes[x.position]
        if np.ndim(x):
            raise Untraceable("an array beside those of the formula")
        return np.asarray(x).dtype


class TracedElements(NDArrayOperatorsMixin):
    """Elements of an array of unknown shape, with arithmetic on them alone.

    Attributes:
        trace: what notes the arithmetic.
        position: the number of the input or call, -1 for a setting.
        setting: the name of a setting, else empty.
    """

    __slots__ = ("position", "setting", "trace")

    def __init__(self, trace: ElementTrace, position: int, setting: str = "") -> None:
        self.trace, self.position, self.setting = trace, position, setting

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the elements."""
        dtype = self.trace.dtypes[self.position]
        if dtype is None or self.setting:
            raise Untraceable("a dtype")
        return dtype

    def astype(self, dtype: Any, copy: bool = True) -> TracedElements:
        """The elements converted to `dtype`."""
        if np.dtype(dtype) != self.dtype:
            return self.trace.note("cast", [self], np.dtype(dtype))
        return self.trace.note("copy", [self], self.dtype) if copy else self

    def __pow__(self, exponent: Any) -> Any:
        # as the operator of NumPy's arrays, which calls other functions than `power` for these
        typed = self.trace.dtypes[0] is not None
        if typed and type(exponent) in (int, float) and exponent in (2, 0.5):
            return np.square(self) if exponent == 2 else np.sqrt(self)
        raise Untraceable(f"a power with the exponent {exponent!r}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        targets = options.pop("out", (None,))
        if method != "__call__" or options:
            raise Untraceable(f"{ufunc.__name__}.{method} with {sorted(options)}")
        result = self.trace.call_ufunc(ufunc, inputs)
        return result if targets[0] is None else result._write_to(targets[0])

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = {"where": self.trace.choose, "clip": self.trace.limit}.get(func.__name__)
        if handler is None or kwargs or len(args) != 3 or self.trace.dtypes[0] is None:
            raise Untraceable(f"np.{func.__name__}")
        return handler(*args)

    def call(self, name: str) -> TracedElements:
        """What the function of elements of this name, which is none of NumPy's, makes of them."""
        return self.trace.note(name, [self], self.trace.dtypes[self.position])

    def _write_to(self, target: Any) -> TracedElements:
        """`target`, which has these elements from now on."""
        # What came in would change for others too, and in another dtype it would be rounded.
        if not isinstance(target, TracedElements) or target.position < self.trace.input_count:
            raise Untraceable("writing into an array of others")
        if target.dtype != self.dtype:
            raise Untraceable(f"writing {self.dtype} into an array of {target.dtype}")
        target.position = self.position
        return target

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"the attribute {name!r} of an array")

    def __bool__(self) -> bool:
        raise Untraceable("a decision on a value")

    def __len__(self) -> int:
        raise Untraceable("the length of an array")


def steps_of(
    body: Callable[..., Any], inputs: int, settings: Sequence[str]
) -> tuple[ArrayCall, ...] | None:
    """The ufunc calls that `body(np, *arrays, **settings)` makes, of which the last is its result.

    Args:
        body: arithmetic element by element.
        inputs: how many arrays it takes, all of one shape and dtype of floats.
        settings: names of its settings, each a Python number.

    Returns:
        The calls, `None` for a body that is more than such calls. Besides ufuncs there are "where",
        "clip", and the "cast" of truth values to floats.
    """
    calls = _calls_of(body, inputs, settings, None)
    if calls is None:
        # A body that asks for the dtype may do the same in both that the compiled half works on.
        narrow = _calls_of(body, inputs, settings, np.dtype(np.float32))
        calls = _calls_of(body, inputs, settings, np.dtype(np.float64))
        if narrow is None or calls is None or not _agree(narrow, calls):
            return None
    return calls if len(calls) <= MOST_STEPS else None


def _calls_of(
    body: Callable[..., Any], inputs: int, settings: Sequence[str], dtype: np.dtype[Any] | None
) -> tuple[ArrayCall, ...] | None:
    """The ufuncs that a body calls on arrays of one dtype, all of it in that dtype."""
    trace = ElementTrace()
    arrays = [trace.input(dtype) for _ in range(inputs)]
    try:
        result = body(np, *arrays, **{name: trace.add_setting(name) for name in settings})
    except Exception:  # a body may stumble over such operands in any way
        return None
    if not ends_in(trace, result) or not {*trace.dtypes} <= {dtype, _BOOL}:
        return None
    if not all(_has_loop(trace, number) for number in range(len(trace.calls))):
        return None
    return tuple(
        call._replace(numbers=tuple(map(_as_python, call.numbers))) for call in trace.calls
    )


_BOOL = np.dtype(np.bool_)


def _has_loop(trace: ElementTrace, number: int) -> bool:
    """Whether the compiled half has a loop for a call, which arrays would take, too."""
    call = trace.calls[number]
    dtypes = [None if i < 0 else trace.dtypes[i] for i in call.sources]
    if call.function == "cast":
        return dtypes == [_BOOL]
    if isinstance(call.function, str):
        dtypes = dtypes[call.function == "where" :]
        return call.function in ("where", "clip") and not (_BOOL in dtypes and None in dtypes)
    # Arrays take other ufuncs than `power` for some exponents.
    if call.function is np.power:
        return False
    if trace.dtypes[0] is None:  # then nobody knows which results are truth values
        return not any(types.endswith("->?") for types in call.function.types if types[0] == "f")
    return not (_BOOL in dtypes and None in dtypes)


def _as_python(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number


def _agree(narrow: Sequence[ArrayCall], wide: Sequence[ArrayCall]) -> bool:
    """Whether calls in float32 are those in float64, with their numbers rounded."""

    def round_numbers(call: ArrayCall) -> ArrayCall:
        numbers = (float(np.float32(x)) if type(x) is float else x for x in call.numbers)
        return call._replace(numbers=tuple(numbers))

    return [*map(round_numbers, wide)] == [*narrow]


def ends_in(trace: ElementTrace, result: Any) -> bool:
    """Whether `result` is that of the last call."""
    is_traced = isinstance(result, TracedElements) and bool(trace.calls)
    return is_traced and result.position == len(trace.dtypes) - 1
