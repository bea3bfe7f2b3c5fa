"""The check behind `custom_gradient(check=True)`: a given rule beside central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.devices import to_numpy
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, constant_from
from trainkit.core.values.python_signatures import signature_of

_TOLERANCE = {"float64": 1e-5, "float32": 1e-2, "float16": 1e-1, "bfloat16": 2e-1}
_MOST_ELEMENTS = 64


class GradientMismatchError(InvalidArgumentError):
    """A gradient rule disagrees with finite differences."""


def compare_with_differences(f: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    """Compare the rule that `f` returns with central differences of its result.

    At most 64 elements of each argument are moved, spread evenly over it. Values at which the
    differences themselves are not finite are left out.

    Args:
        f: returns `(result, grad_fn)`.
        args: its arguments, nested; the tensors of floating dtype among them are checked.
        kwargs: its keyword arguments.

    Raises:
        GradientMismatchError: they disagree; the text shows both, element by element.
    """
    flat = nest.flatten(args)
    result, backward = f(*args, **kwargs)
    outputs = [to_numpy(y._array) for y in nest.flatten(result)]
    # Another factor for each element: with ones, a rule that mixes the elements of the upstream
    # gradient up would pass.
    upstream = [np.cos(1.0 + np.arange(y.size)).reshape(y.shape).astype(y.dtype) for y in outputs]
    wants = _gradients_of(backward, upstream)
    tensors = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
    for position, gx in zip(tensors, wants, strict=True):
        x = flat[position]
        if gx is None or not x.dtype.is_floating:
            continue
        gradient = np.asarray(gx.numpy() if hasattr(gx, "numpy") else gx, np.float64)
        _compare(f, args, kwargs, position, np.broadcast_to(gradient, x.shape), upstream)


def _gradients_of(backward: Callable[..., Any], upstream: list[Any]) -> list[Any]:
    seeds = [constant_from(u) for u in upstream]
    # Asked beforehand: a `TypeError` of the call may be one of the rule's own.
    parameter = signature_of(backward).parameters.get("variables")
    if parameter is not None and parameter.default is parameter.empty:
        gradients = backward(*seeds, variables=[])[0]
    else:
        gradients = backward(*seeds)
    return nest.flatten([gradients])


def _compare(
    f: Callable[..., Any], args: Any, kwargs: Any, position: int, gradient: Any, upstream: list[Any]
) -> None:
    flat = nest.flatten(args)
    x = flat[position]
    base = np.asarray(x.numpy(), np.float64)
    name = x.dtype.name
    # Halves are moved as far as float32: by their own epsilon a step would be a tenth of `x`.
    eps = float(np.finfo(np.float64 if name == "float64" else np.float32).eps)
    positions = np.unique(np.linspace(0, base.size - 1, min(base.size, _MOST_ELEMENTS)).astype(int))

    def total(values: Any) -> float:
        moved = list(flat)
        moved[position] = constant_from(values.astype(x.dtype.dtype))
        out = nest.flatten(f(*nest.pack(args, moved), **kwargs)[0])
        pairs = zip(out, upstream, strict=True)
        return float(sum(np.sum(np.asarray(y.numpy(), np.float64) * u) for y, u in pairs))

    worse = []
    for i in positions:
        # The best step of a central difference: its error is h**2 from the curve and eps / h from
        # rounding, least in sum near the cube root of eps.
        step = eps ** (1 / 3) * max(1.0, abs(float(base.flat[i])))
        up, down = base.copy(), base.copy()
        up.flat[i] += step
        down.flat[i] -= step
        slope = (total(up) - total(down)) / (2 * step)
        mine = float(gradient.flat[i])
        # `not ... <=` in place of `>`: a rule that gives NaN is wrong, too.
        if np.isfinite(slope) and not abs(mine - slope) <= _TOLERANCE[name] * max(1.0, abs(slope)):
            worse.append((np.unravel_index(i, base.shape), float(base.flat[i]), mine, slope))
    if worse:
        raise GradientMismatchError(_text(f, position, worse))


def _text(f: Callable[..., Any], position: int, worse: list[Any]) -> str:
    code = getattr(f, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    lines = [
        f"custom_gradient of {getattr(f, '__name__', 'function')!r}{where}: the rule for argument "
        f"{position} disagrees with finite differences at {len(worse)} of the elements tried.",
        "  element        at x           given          differences",
    ]
    for index, at, mine, slope in worse[:8]:
        where_ = str(tuple(int(n) for n in index))
        lines.append(f"  {where_:<14} {at:<14.6g} {mine:<14.6g} {slope:.6g}")
    lines.append(
        "Correct the gradient function, or leave out check=True if the difference is meant."
    )
    return "\n".join(lines)
