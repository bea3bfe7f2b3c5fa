"""The backward pass: from the last entry of a tape to the first, one rule per input that needs it.

There are two. `backward_pass` works on tensors, so that a tape or a trace that is listening sees
all that it computes. `backward_pass_on_arrays` is taken when nobody listens: gradients are plain
arrays, sums of them are made in place, and the rules of element-wise operations are those of
`vjps_on_arrays`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from trainkit.autodiff.accumulation import accumulate
from trainkit.autodiff.vjps_on_arrays import compiled_vjps, made_vjps
from trainkit.core import devices, dtypes
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.native import NATIVE
from trainkit.core.dispatch.straight_line import COMPUTED_IN
from trainkit.core.tensor import Tensor, wrap

_ONES = {d.dtype: d.dtype.type(1) for d in dtypes.ALL if d.is_differentiable}
DIFFERENTIABLE = frozenset(_ONES)
"""NumPy dtypes of what has gradients."""


def entries_of(tracked: dict[Any, Any]) -> list[tuple[Any, tuple[Any, ...], Any, Any]]:
    """The record of a tape as a list of (primitive, inputs, output, settings)."""
    return [
        (entry[0], entry[2:], output, entry[1])
        for output, entry in tracked.items()
        if entry is not None
    ]


def reachable_tensors(sources: Iterable[Tensor], entries: list[Any]) -> set[Tensor]:
    """Tensors, and all that was computed from them by the entries of a record."""
    reached = set(sources)
    # Inputs stand before what is computed from them, so one turn in this order finds all.
    for _, inputs, output, _ in entries:
        if not reached.isdisjoint(inputs):
            if type(output) is tuple:
                reached.update(output)
            else:
                reached.add(output)
    return reached


def backward_pass(
    tracked: dict[Any, Any], grads: dict[Tensor, Tensor], needed: Any, kept: set[Tensor]
) -> None:
    """Go through a record from the last entry to the first and fill `grads`.

    Args:
        tracked: as `trace_state.TapeLike` says; used up on the way, which frees what it holds.
        grads: gradients by tensor so far, at first those of the targets.
        needed: holds the tensors whose gradient is of use, as a set, or `tracked` itself for all;
            rules of other inputs are not called.
        kept: tensors whose gradient stays in `grads` after their entry has been passed.
    """
    # The inputs of an entry stand before it in the record. So when an entry comes up, all that uses
    # its output has been passed, and the gradient by it is complete.
    take, lookup, add = tracked.popitem, grads.get, late_ops.add
    passed = None if needed is tracked else needed.discard  # what is held there is not freed
    while tracked:
        output, entry = take()
        if entry is None:
            continue
        # Of results that came together each stands behind their tuple without an entry: they are
        # skipped, and their gradients wait in `grads` until the tuple comes up.
        g = _gradient_of(entry[0], output, grads, kept)
        if passed is not None and type(output) is not tuple and output not in kept:
            passed(output)
        if g is None:
            continue
        sums = _sums_taken_out(entry, grads, needed) if entry[0].joint_adds else None
        for x, gx in _sent_back(entry, output, g, needed, sums):
            before = lookup(x)
            # The sum is an operation: a tape or a trace that listens sees it, as second derivatives
            # need.
            grads[x] = gx if before is None else add(before, gx)
        if sums:
            grads.update((x, total) for x, total in sums.items() if x not in grads)


def _sums_taken_out(entry: Any, grads: dict[Tensor, Tensor], needed: Any) -> dict[Tensor, Tensor]:
    """Gradients so far of the inputs, for a rule that adds to them; what it leaves comes back."""
    # An input that is there twice has two gradients, and a sum can go on in one of them only.
    counts = Counter(id(x) for x in entry[2:])
    return {x: grads.pop(x) for x in entry[2:] if counts[id(x)] == 1 and x in grads and x in needed}


def _gradient_of(
    primitive: Any, output: Any, grads: dict[Tensor, Any], retained: set[Tensor]
) -> Any:
    """The gradient of what an entry gave, taken out of `grads` unless it is to be kept."""
    if type(output) is tuple:
        return _gather(primitive, output, grads, retained)
    return grads.get(output) if output in retained else grads.pop(output, None)


def _sent_back(
    entry: Any, output: Any, g: Any, needed: Any, sums: dict[Tensor, Tensor] | None = None
) -> list[tuple[Tensor, Any]]:
    """The inputs of an entry that need a gradient, each with what the entry adds to it.

    With `sums` a joint rule that can go on with them gives totals of their tensors.
    """
    primitive, settings, *inputs = entry
    # A joint rule computes all gradients at once, so what nobody needs is dropped afterwards.
    if primitive.joint is not None:
        pairs = _joint(primitive, g, output, inputs, settings, needed, sums)
        contributions = [(x, gx) for x, gx in pairs if gx is not None and x in needed]
    else:
        keywords = settings or {}
        contributions = []
        for x, rule in zip(inputs, primitive.rules):  # noqa: B905 - one rule may serve any number
            if rule is not None and x in needed:
                gx = rule(g, output, *inputs, **keywords)
                if gx is not None:
                    contributions.append((x, gx))
    # Rules leave the shapes of broadcast inputs alone: the sums over the axes stand here once.
    if primitive.broadcasts:
        contributions = [(x, _summed_like(gx, x)) for x, gx in contributions]
    return contributions


def _summed_like(gx: Any, x: Any) -> Any:
    # No operation where the shapes agree, which is the usual case.
    if type(gx) is Tensor and type(x) is Tensor and gx._array.shape == x._array.shape:
        return gx
    return late_ops.sum_to_like(gx, x)


def _joint(
    primitive: Any,
    g: Any,
    output: Any,
    inputs: Any,
    settings: Any,
    needed: set[Tensor],
    sums: dict[Tensor, Tensor] | None,
) -> Any:
    """Each input with its gradient, all of them computed by one rule."""
    keywords = settings or {}
    if primitive.joint_asks:
        keywords = {**keywords, "needed": tuple(x in needed for x in inputs)}
    if sums:
        keywords = {**keywords, "sums": tuple(map(sums.get, inputs))}
    gradients = primitive.joint(g, output, *inputs, **keywords)
    return zip(inputs, gradients, strict=True)


def _gather(
    primitive: Any, outputs: tuple[Tensor, ...], grads: dict[Tensor, Tensor], retained: set[Tensor]
) -> Any:
    """Gradients of several outputs; `None` when there is none at all.

    For an output without a gradient there are zeros, or `None` if the primitive wants it so.
    """
    gradients = [grads.get(y) if y in retained else grads.pop(y, None) for y in outputs]
    if all(g is None for g in gradients):
        return None
    if primitive.joint_sparse:
        return tuple(gradients)
    return tuple(zeros_like(y) if g is None else g for y, g in zip(outputs, gradients, strict=True))


# ---------------------------------------------------------------------- on arrays


def backward_pass_on_arrays(
    tracked: dict[Any, Any], grads: dict[Tensor, Any], needed: Any, kept: set[Tensor]
) -> None:
    """Do what `backward_pass` does, on NumPy arrays; no tape and no trace may be listening."""
    # The keys stay, only values are exchanged, so the dict may be written while it is read.
    for x, seed in grads.items():
        grads[x] = seed._array
    if NATIVE is None or not NATIVE.is_on():
        unusual = _backward_pass_on_arrays(tracked, grads, needed, kept)
    else:
        # The compiled pass does entries of one result by compiled vjps and joint rules itself; for
        # all others it calls these functions, which share `grads` with it.
        helpers = compiled_vjps, _of_many, _by_other_rules, _by_rules_on_tensors
        unusual = NATIVE.backward_pass(tracked, grads, needed, kept, *helpers)
    for x, g in grads.items():
        grads[x] = tensor = Tensor()
        tensor._array = g
    if unusual:  # a rule gave something that is no plain tensor
        # The entry of that rule is passed, so what it gave is added here. What is left of the
        # record goes on with tensors, which take any kind of gradient.
        for x, gx in unusual:
            grads[x] = late_ops.add(grads[x], gx) if x in grads else gx
        backward_pass(tracked, grads, needed, kept)


def _backward_pass_on_arrays(
    tracked: dict[Any, Any], grads: dict[Tensor, Any], needed: Any, retained: set[Tensor]
) -> Any:
    """The same, up to a rule that gives no plain tensors: what this rule gave, else `None`.

    This is the hot path of a backward pass; what is usual is done by functions written for it.
    """
    lookup: Any = grads.get
    take, drop = tracked.popitem, grads.pop
    passed = None if needed is tracked else needed.discard  # what is held there is not freed
    # Sources are leaves as a rule, and leaves have no entry that would take their gradient out of
    # `grads`. Unless a source is a result the loop need not ask for each output.
    keeps = False
    for x in retained:
        if tracked[x] is not None:  # a result, which is not only watched
            keeps = True
    plain = passed is None and not keeps
    # The ids of tensors whose gradient is a sum made here. Those of tensors that have been passed
    # stay behind, but what is left of the record was there beside them and has other ids.
    sums: set[int] = set()
    while tracked:
        output, entry = take()
        if entry is None:
            continue
        if plain:
            g = drop(output, None)
        elif keeps and output in retained:
            g = lookup(output)
        else:
            g = drop(output, None)
            if passed is not None:
                passed(output)
        # Gradients of several results are kept by the results, none by their tuple.
        if g is None:
            if type(output) is tuple:
                unusual = _of_many(entry, output, grads, needed, retained, sums)
                if unusual is not None:
                    return unusual
            continue
        primitive = entry[0]
        vjps = primitive.array_vjps
        if vjps is None:
            vjps = made_vjps(primitive)
        vjps = vjps[g.dtype]
        # Vjps that are written out know no settings of the operation, so an entry with some goes by
        # the other rules.
        if vjps is not None and entry[1] is None:
            if len(entry) == 3:
                # A vjp of one input is written out of steps and never declines. Only rules that
                # were declared for two inputs do.
                vjps(output, g, entry[2], needed, grads, sums)
                continue
            _, _, a, b = entry
            # A Python number has no array, no gradient and no dtype of its own, so there is a vjp
            # for each side on which one may stand.
            if type(b) is not Tensor:
                back = vjps[1]
            elif type(a) is not Tensor:
                back = vjps[2]
            else:
                back = vjps[0]
            if back is not None and not back(output, g, a, b, needed, grads, sums):
                continue
        unusual = _by_other_rules(entry, output, g, grads, needed, sums)
        if unusual is not None:
            return unusual
    return None


def _of_many(
    entry: Any,
    outputs: tuple[Tensor, ...],
    grads: dict[Tensor, Any],
    needed: Any,
    retained: set[Tensor],
    sums: set[int],
) -> Any:
    """Pass an entry that gave several results; what its rules gave if it is no plain tensors."""
    # Rules on tensors see tensors; `_gather` takes them out of this dict and not out of `grads`.
    upstream = {y: wrap(grads[y]) for y in outputs if y in grads}
    for y in upstream:
        if y not in retained:
            del grads[y]
    g = _gather(entry[0], outputs, upstream, retained)
    return None if g is None else _by_rules_on_tensors(entry, outputs, g, grads, needed, sums)


def _by_other_rules(
    entry: Any, output: Any, g: Any, grads: dict[Tensor, Any], needed: Any, sums: set[int]
) -> Any:
    """Pass an entry that has no vjp written out; what its rules gave if it is no plain tensors.

    Rules on arrays are taken where there are any, else those on tensors.
    """
    primitive = entry[0]
    # Rules on arrays are for dtypes in which kernels run as they are: halves and complex numbers go
    # by the rules on tensors.
    if g.dtype in COMPUTED_IN:
        if primitive.given_joint is not None:
            if _by_given_joint(entry, output, g, grads, needed, sums):
                return None
        elif primitive.given_rules is not None and len(entry) == 3:
            if _by_given_rules(entry, output, g, grads, needed, sums):
                return None
    return _by_rules_on_tensors(entry, output, wrap(g), grads, needed, sums)


def _by_rules_on_tensors(
    entry: Any, output: Any, g: Any, grads: dict[Tensor, Any], needed: Any, sums: set[int]
) -> Any:
    contributions = _sent_back(entry, output, g, needed)
    # First all are looked at, then all are added: a pass that hands over has added none.
    for _, gx in contributions:
        if type(gx) is not Tensor:
            return contributions
    for x, gx in contributions:
        accumulate(x, gx._array, grads, sums)
    return None


def _by_given_rules(
    entry: Any, output: Any, g: Any, grads: dict[Tensor, Any], needed: Any, sums: set[int]
) -> bool:
    """Pass an entry of one input by the rule on arrays beside its own, if that can do it."""
    primitive, settings, x = entry
    if x in needed:
        (rule,) = primitive.given_rules
        gx = rule(g, output._array, x._array, **(settings or {}))
        if gx is NotImplemented:
            return False
        accumulate(x, gx, grads, sums)
    return True


def _by_given_joint(
    entry: Any, output: Any, g: Any, grads: dict[Tensor, Any], needed: Any, sums: set[int]
) -> bool:
    """Pass an entry by the joint rule on arrays beside its own, if that can do it."""
    primitive, settings, *inputs = entry
    arrays = [x._array if type(x) is Tensor else x for x in inputs]
    mask = [x in needed for x in inputs]
    gradients = primitive.given_joint(g, output._array, *arrays, needed=mask, **(settings or {}))
    if gradients is NotImplemented:
        return False
    for x, gx, use in zip(inputs, gradients, mask, strict=True):
        if use and gx is not None:
            accumulate(x, gx, grads, sums)
    return True


def ones_like(x: Tensor) -> Tensor:
    """Ones in the shape, dtype and place of `x`."""
    if type(x) is Tensor:
        from_array = x._array
        # in its order, as all that comes back from there is combined with it, number by number
        flags = from_array.flags
        order: Any = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        return wrap(module_of(x).ones(from_array.shape, from_array.dtype, order))
    ones: Tensor = late_ops.ones_like(x, dtype=None)
    return ones


def one_for(x: Tensor) -> Tensor:
    """What a backward pass from `x` begins with: ones; for a scalar on the CPU NumPy's own one."""
    # A loss is a scalar in nearly every step: NumPy's one is made once for each dtype.
    if type(x) is Tensor and not x._array.shape and isinstance(x._array, (np.ndarray, np.generic)):
        return wrap(_ONES[x._array.dtype])
    return ones_like(x)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros in the shape, dtype and place of `x`."""
    if type(x) is Tensor:
        from_array = x._array
        return wrap(module_of(x).zeros(from_array.shape, from_array.dtype))
    zeros: Tensor = late_ops.zeros_like(x, dtype=None)
    return zeros


def rows_of_zeros(x: Tensor, count: int) -> Tensor:
    """A tensor (count, ...x) of zeros."""
    # Sizes of `x` may be unknown in a graph, so the rows get their shape by broadcasting.
    rows = wrap(module_of(x).zeros((count, *[1] * len(x.shape)), x.dtype.dtype))
    zeros: Tensor = late_ops.add(rows, zeros_like(x))
    return zeros


def unit_seeds(target: Tensor, count: int) -> Tensor:
    """A tensor (count, ...target): for each element one that is 1 there and 0 elsewhere."""
    units = module_of(target).eye(count, dtype=target.dtype.dtype)
    return wrap(units.reshape((count, *target.shape)))


def module_of(x: Tensor) -> Any:
    """The array module of a tensor's device; that of new tensors for a symbolic one."""
    if type(x) is Tensor:
        return devices.XP_OF[type(x._array)]
    return devices.current().xp
