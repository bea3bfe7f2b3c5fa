"""Whether a function's result follows from its arguments alone, judged without running it.

The judgement reads the function's code: all that it reaches must be trainkit's, NumPy's or Python's
own pure functions, constants, or other functions that pass. It errs on the side of no.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from typing import Any

import numpy as np

from trainkit.core.dispatch.native import python_function
from trainkit.core.dtypes import DType
from trainkit.core.tensor import Tensor
from trainkit.core.tensor_spec import TensorSpec

_BUILTINS = frozenset(
    "abs all any bool complex dict divmod enumerate float frozenset int isinstance len list map "
    "max min "
    "pow range reversed round slice sorted str sum tuple type zip".split()
)
_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), DType, Tensor, TensorSpec,
    np.generic, np.ndarray, np.dtype,
)  # fmt: skip
_MODULES = ("trainkit", "numpy", "math")
# Names of operations that draw from a generator or do something besides their result.
_STATEFUL = tuple(
    "random shuffle dropout noise print assign _function summary write delete remove gfile".split()
)
_WRITES = (
    "STORE_GLOBAL",
    "DELETE_GLOBAL",
    "STORE_DEREF",
    "STORE_ATTR",
    "DELETE_ATTR",
    "IMPORT_NAME",
)
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")


def is_pure(function: Any) -> bool:
    """Whether calling `function` on equal arguments gives equal results, and does nothing else."""
    return _pure(function, set())


def _pure(function: Any, functions: set[int]) -> bool:
    """As `is_pure`; what is not known to be pure is not.

    Args:
        function: anything that is called.
        functions: ids of the functions whose code is being read: a call of one of these, by
            recursion, brings nothing that its own code does not have.
    """
    if isinstance(function, functools.partial):
        arguments = (*function.args, *function.keywords.values())
        return _pure(function.func, functions) and all(
            _constant(value, functions) for value in arguments
        )
    if isinstance(function, np.ufunc):
        return True
    function = python_function(function)
    if isinstance(function, types.FunctionType):
        if function.__module__ and function.__module__.split(".")[0] == "trainkit":
            return not _suspicious(function.__name__) and not _suspicious(function.__module__)
        return id(function) in functions or _pure_code(function, {*functions, id(function)})
    if isinstance(function, type):
        return function.__name__ in _BUILTINS or issubclass(function, np.generic)
    name = getattr(function, "__name__", "")
    return isinstance(function, types.BuiltinFunctionType) and name in _BUILTINS


def _pure_code(function: types.FunctionType, functions: set[int]) -> bool:
    outside = [cell.cell_contents for cell in function.__closure__ or () if _has_value(cell)]
    outside += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    codes = _codes(function.__code__)
    if not all(_quiet(code) for code in codes):
        return False
    names = {
        step.argval
        for code in codes
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for name in names:
        if name in function.__globals__:
            outside.append(function.__globals__[name])
        elif name not in _BUILTINS and not isinstance(getattr(builtins, name, None), type):
            return False
    return all(_constant(value, functions) for value in outside)


def _has_value(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that is bound later
        return False


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """The code of a function and of the functions written inside it."""
    inner = [
        c for const in code.co_consts if isinstance(const, types.CodeType) for c in _codes(const)
    ]
    return [code, *inner]


def _quiet(code: types.CodeType) -> bool:
    """Whether the code stores nothing outside of itself and names nothing that draws."""
    for step in dis.get_instructions(code):
        if step.opname in _WRITES or step.opname.startswith("YIELD"):
            return False
        if step.opname in _READS and isinstance(step.argval, str) and _suspicious(step.argval):
            return False
    return True


def _suspicious(name: str) -> bool:
    low = name.lower()
    return any(word in low for word in _STATEFUL)


def _constant(value: Any, functions: set[int]) -> bool:
    """Whether a value that a function refers to stays as it is."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        return name.split(".")[0] in _MODULES and not _suspicious(name)
    if isinstance(value, _CONSTANTS):
        return True
    if isinstance(value, tuple):
        return all(_constant(item, functions) for item in value)
    return callable(value) and _pure(value, functions)
