"""Shapes and dtypes that loop variables have in all rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.core.dtypes import DType
from trainkit.core.errors import DTypeError, ShapeError
from trainkit.core.shapes import Spec, TensorShape
from trainkit.graph.control_flow.loop_options import LoopOptions
from trainkit.graph.control_flow.loop_variables import loop_start
from trainkit.graph.ir.subgraphs import merged_dims


class LoopSpecs:
    """What loop variables are before the loop, made as general as all rounds need it.

    Args:
        loop_vars: tensors and Python numbers. A number takes the dtype that the body gives it,
            if it has the same value there.
        names: what they are called in error texts, `None` for numbers.
        loop: what the loop is called there, where variables have no names.
        options: what the body says of the loop while it is traced.
        fixed: which of them must keep their shapes, other than as `options` says; sizes of the
            others become unknown where they change. By default it is none of them.

    Attributes:
        specs: a `Spec` of each.
    """

    def __init__(
        self,
        loop_vars: Sequence[Any],
        names: Sequence[str] | None,
        loop: str,
        options: LoopOptions,
        fixed: Sequence[bool] | None = None,
    ) -> None:
        self._values = loop_vars
        self._start = [loop_start(x) for x in loop_vars]
        self.specs = [Spec(x.shape, x.dtype) for x in self._start]
        self._names = options.names = names or ()
        self._loop = loop
        self._options = options
        self._fixed = fixed or [False] * len(self.specs)
        # A variable may pass through several dtypes on the way to that of all rounds. One that
        # comes back would do so for ever, and `_widen` refuses it.
        self._dtypes = [{spec.dtype} for spec in self.specs]  # those of all rounds so far

    def start(self) -> list[Any]:
        """The loop variables before the first round, in the dtypes that rounds agree on."""
        return [_cast(x, spec) for x, spec in zip(self._start, self.specs, strict=True)]

    def take_invariants(self) -> bool:
        """Give variables the shapes that the body has said; whether that changed one."""
        before = self.specs
        self.specs = [
            Spec(self._invariant(i, spec.shape), spec.dtype) for i, spec in enumerate(before)
        ]
        return self.specs != before

    def admit(self, results: Sequence[Any]) -> bool:
        """Whether a body traced for these specs keeps them; if not, they are more general now.

        Raises:
            ShapeError: a rank changes, or the shape of a variable that must keep it.
            DTypeError: a dtype changes.
        """
        before = self.specs
        self.specs = [self._widen(i, y) for i, y in enumerate(results)]
        return self.specs == before

    def _label(self, i: int) -> str:
        return self._names[i] if i < len(self._names) else f"loop_var_{i}"

    def _invariant(self, i: int, shape: Any) -> Any:
        said = self._options.invariants.get(i) if self._fixed[i] else None
        if said is None:
            return shape
        if not TensorShape(shape).is_subtype_of(said):
            raise ShapeError(
                f"set_loop_options: {self._label(i)!r} has shape {tuple(shape)} before the loop, "
                f"its invariant is {tuple(said)}"
            )
        return tuple(said)

    def _widen(self, i: int, y: Any) -> Spec:
        spec, shape, after = self.specs[i], tuple(self._start[i].shape), tuple(y.shape)
        subject = f"{'' if self._names else self._loop + ': '}loop variable {self._label(i)!r} has"
        if len(shape) != len(after):
            raise ShapeError(
                f"{subject} shape {shape} before the loop and {after} after one iteration; the "
                "rank can't change. Start with a tensor of the final rank, or collect values in a "
                "tk.TensorArray."
            )
        dims = self._invariant(i, spec.shape)
        if self._fixed[i] and not TensorShape(after).is_subtype_of(dims):
            raise ShapeError(f"{subject} {self._shapes(i, shape, dims, after)}")
        dtype = spec.dtype
        if dtype != y.dtype:
            # one that comes back would come back for ever
            if y.dtype in self._dtypes[i] or not _holds(y.dtype, self._values[i]):
                raise DTypeError(
                    f"{subject} dtype {dtype.name} before the loop and {y.dtype.name} after one "
                    "iteration; start with a value of that dtype, or cast it in the body"
                )
            dtype = y.dtype
            self._dtypes[i].add(dtype)
        return Spec(merged_dims(dims, after), dtype)

    def _shapes(self, i: int, before: Any, dims: Any, after: Any) -> str:
        said = "" if before == dims else f"; its invariant is {dims}"
        name, general = self._label(i), list(merged_dims(dims, after))
        return (
            f"shape {before} before the loop and {after} after one iteration{said}. The loop runs "
            "over tensors, so its body is in the graph once, for one shape. For sizes that change "
            "begin the body with tk.autograph.experimental.set_loop_options("
            f"shape_invariants=[({name}, tk.TensorShape({general}))]), or collect values in a "
            "tk.TensorArray."
        )


def _cast(x: Any, spec: Spec) -> Any:
    return x if x.dtype == spec.dtype else late_ops.cast(x, dtype=spec.dtype.name)


def _holds(dtype: DType, x: Any) -> bool:
    """Whether `x` is a Python number, no bool, that is the same number in `dtype`."""
    if type(x) is float:
        return dtype.is_floating or dtype.is_complex
    if type(x) is not int or dtype.is_bool or not dtype.is_numeric:
        return False
    return not dtype.is_integer or dtype.min <= x <= dtype.max
