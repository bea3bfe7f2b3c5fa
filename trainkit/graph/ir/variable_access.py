"""Variables read and written in the middle of a graph, on both sides of a call back into Python.

Python may read and assign any variable. So what a graph has assigned so far is stored before such a
call, and what it reads later is read from the variable again. Graphs that call no Python have none
of these nodes.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch.facets import CONTROL, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.variable import laid_out


def _like_variable(x: Any, *, variable: Any) -> Spec:
    return Spec(variable.shape, variable.dtype)


@primitive(
    _like_variable, effect=Effect("it assigns a variable"), text="beside numbers", semantics=CONTROL
)
def store_variable(xp: Any, x: Any, *, variable: Any) -> Any:
    """Give a variable the value `x`, which is the result, too."""
    tensor = Tensor()
    tensor._array = laid_out(x)
    variable._value = tensor
    return tensor._array


@primitive(
    _like_variable, effect=Effect("it reads a variable"), text="beside numbers", semantics=CONTROL
)
def load_variable(xp: Any, x: Any, *, variable: Any) -> Any:
    """The value that a variable has by now; `x` is the one that was known before.

    Its gradient is one by `x`: both are the same variable.
    """
    return variable._value._array


for _access in (store_variable, load_variable):
    _access.gradients(lambda g, y, x, *, variable: g)
    _access.declare(batch=one_by_one("a variable has one value for all items"))
