"""`GradientTape`: records operations, then goes back over them.

A tape is a dict in the order of events: what was watched, and the result of each operation with an
entry that says how it was computed. The backward pass goes from the last entry to the first and
calls one rule per input that needs it. Rules are made of operations, so an outer tape that is
recording sees them and can differentiate again.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Iterator
from operator import attrgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from trainkit.autodiff import explain as causes
from trainkit.autodiff.backward import (
    DIFFERENTIABLE,
    backward_pass,
    backward_pass_on_arrays,
    entries_of,
    one_for,
    reachable_tensors,
    zeros_like,
)
from trainkit.autodiff.jacobians import Jacobians
from trainkit.autodiff.unread_values import UnreadValues
from trainkit.core import nest
from trainkit.core.dispatch import late_ops, native, trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.user_frames import user_line
from trainkit.core.values.type_aliases import Leaf
from trainkit.core.variable import Variable

if TYPE_CHECKING:
    from trainkit.core.dispatch.primitive import Primitive

K = TypeVar("K")
LeafT = TypeVar("LeafT", bound="Leaf")


_TAPES, _THREAD = trace_state.TAPES, trace_state.THREAD
_ON_CPU = (np.ndarray, np.generic)
_LEAVES = frozenset((Tensor, Variable))


class NoGradientWarning(UserWarning):
    """What `gradient(..., explain=True)` warns with: sources that have no gradient, and why."""


class UnconnectedGradients(enum.StrEnum):
    """What `gradient` gives for a source that the target does not depend on.

    Attributes:
        NONE: `None`, the default.
        ZERO: zeros in the shape of the source.
    """

    NONE = "none"
    ZERO = "zero"


def _check_unconnected(value: Any) -> str:
    """`value` as one of `UnconnectedGradients`; a member of a user's own Enum counts too.

    Raises:
        ValueError: it is none of them.
    """
    option = value if type(value) is str else getattr(value, "value", value)
    if option not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
        raise ValueError(
            f"GradientTape.gradient: unconnected_gradients={option!r}; use 'none' or 'zero'"
        )
    return str(option)


class GradientTape(Jacobians):
    """Records the operations of a block, so that their gradients can be asked for.

    Reading a trainable variable inside the block watches it; tensors are watched by `watch`. A tape
    that is not persistent gives one gradient and frees what it recorded on its backward pass.

    Args:
        persistent: keep the record, so that gradients can be asked for again and again.
        watch_accessed_variables: watch trainable variables by themselves when they are read.

    >>> x = tk.constant(3.0)
    >>> with tk.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watches_variables = watch_accessed_variables
        self._recording = False
        self._spent = False
        self.thread = get_ident()
        self._forget()

    def _forget(self) -> None:
        self.tracked: dict[Any, Any] = {}  # as `trace_state.TapeLike` says
        self._leaves: set[Any] = set()  # what was watched, as against computed
        self.exits: list[causes.Exit] = []
        self._variables: list[Variable] = []
        # id of a variable -> (variable, the tensors that reads of it gave)
        self._reads: dict[int, tuple[Variable, list[Tensor]]] = {}
        self._unread = UnreadValues()

    def __repr__(self) -> str:
        state = ", ".join(
            word
            for word, holds in (
                ("recording", self._recording),
                ("persistent", self._persistent),
                ("used up", self._spent),
            )
            if holds
        )
        operations = sum(entry is not None for entry in list(self.tracked.values()))
        return (
            f"<GradientTape{', ' * bool(state)}{state}: computed tensors {operations}, watched "
            f"{len(self._leaves)}, variables {len(self._variables)}>"
        )

    def _end(self) -> None:
        """Free the record after the one gradient; which variables were watched is still known."""
        variables = self._variables
        self._forget()
        self._variables = variables
        self._spent = True

    # ------------------------------------------------------------------ recording

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError("GradientTape: this tape is recording already")
        # A tape may be made in one thread and entered in another: it records the one it runs in.
        self.thread = get_ident()
        self._recording = True
        _TAPES.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._recording:
            self._stop()

    def _start(self) -> None:
        self._recording = True
        _TAPES.append(self)

    def free_unread_values(self) -> None:
        """Free what no gradient rule reads and nobody else holds; layers call this."""
        if self.thread == get_ident():  # another thread may be recording
            self._unread.free(self.tracked)

    def _stop(self) -> None:
        self._recording = False
        # the backward pass frees the record as it goes, and nothing else may hold a part of it
        self._unread = UnreadValues()
        # Not the last one of necessity: an outer tape may be paused inside of an inner one.
        _TAPES.remove(self)

    def watch(self, tensor: Any) -> None:
        """Track a tensor or variable, or a nest of them, from here on.

        Raises:
            ValueError: something in it is neither.

        Warns:
            UserWarning: a dtype has no gradients; what has it is not watched.
        """
        for x in nest.flatten(tensor):
            if not is_tensor(x):
                raise ValueError(
                    f"GradientTape.watch: {x!r} is no tensor and no variable; convert it with "
                    "tk.convert_to_tensor first, and compute with the result"
                )
            if not x.dtype.is_differentiable:
                warnings.warn(
                    f"GradientTape.watch: a tensor of dtype {x.dtype.name} has no gradients, so "
                    "its gradient will be None; cast it to a floating dtype first",
                    UserWarning,
                    stacklevel=2,
                )
                continue
            # A variable changes, the tensor that a read gives does not: the tape tracks these
            # tensors.
            if isinstance(x, Variable):
                snapshot = x.value()
                if id(x) in self._reads:
                    self._note_again(self._reads[id(x)][1], snapshot)
                else:
                    self._note(x, snapshot)
            else:
                # A result that is watched keeps its entry, so gradients still go through it.
                self.tracked.setdefault(x)
                self._leaves.add(x)

    def watches(self, x: Tensor) -> bool:
        """Whether `x` is a leaf; `trace_state` calls this."""
        return x in self._leaves

    def note_variable(self, variable: Variable, snapshot: Tensor) -> None:
        """Hear of a read; `trace_state` calls this."""
        read = self._reads.get(id(variable))
        if read is None:
            if self._watches_variables and variable.trainable:
                self._note(variable, snapshot)
        # Reads between two assignments give one tensor, so the comparison is nearly always all.
        elif read[1][-1] is not snapshot:
            self._note_again(read[1], snapshot)

    def note_operation(
        self,
        primitive: Primitive,
        inputs: tuple[Any, ...],
        output: Tensor | tuple[Tensor, ...],
        settings: dict[str, Any] | None,
    ) -> None:
        """Record an operation that was done without this tape, if it tracks one of `inputs`.

        The arguments are those of `trace_state.record`.
        """
        if self.tracked.keys().isdisjoint(inputs):
            return
        if primitive.rules is None and primitive.joint is None:
            self.note_exit(primitive.name, inputs)
            return
        self.tracked[output] = (primitive, settings, *inputs)
        if type(output) is tuple:
            self.tracked.update(dict.fromkeys(output))

    def note_exit(self, how: str, inputs: tuple[Any, ...]) -> None:
        """Hear of a use that no gradient goes through; `trace_state` calls this."""
        if len(self.exits) < causes.MOST_EXITS:
            self.exits.append(causes.Exit(how, inputs, user_line()))

    def _note(self, variable: Variable, snapshot: Tensor) -> None:
        """Watch a variable that has not been read before."""
        # One look into a set settles it for plain tensors; others have to be asked.
        if type(snapshot) is not Tensor or snapshot._array.dtype not in DIFFERENTIABLE:
            if not snapshot.dtype.is_differentiable:
                return
        self._reads[id(variable)] = (variable, [snapshot])
        self._variables.append(variable)
        self.tracked.setdefault(snapshot)
        self._leaves.add(snapshot)

    def _note_again(self, snapshots: list[Tensor], snapshot: Tensor) -> None:
        if not any(snapshot is other for other in snapshots):
            snapshots.append(snapshot)
            self.tracked.setdefault(snapshot)
            self._leaves.add(snapshot)

    def stop_recording(self) -> _Pause:
        """A context in which this tape records nothing."""
        if not self._recording:
            raise ValueError("GradientTape.stop_recording: the tape is not recording")
        return _Pause(self)

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        """Record again for a while, where the block is over and the record is still there."""
        over = not self._recording and not self._spent and self.thread == get_ident()
        if over:
            self._start()
        try:
            yield
        finally:
            if over:
                self._stop()

    def reset(self) -> None:
        """Forget everything recorded and watched so far."""
        self._forget()
        self._spent = False

    @property
    def entries(self) -> list[tuple[Any, tuple[Any, ...], Any, Any]]:
        """What is recorded: a tuple (primitive, inputs, output, settings) for each operation."""
        return entries_of(self.tracked)

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables that are watched, in the order in which they were made."""
        return tuple(sorted(self._variables, key=attrgetter("_creation")))

    # ------------------------------------------------------------------ gradients

    @overload
    def gradient(
        self,
        target: Any,
        sources: Leaf,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> Tensor: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: list[LeafT],
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> list[Tensor]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: tuple[Leaf, ...],
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> tuple[Tensor, ...]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: dict[K, LeafT],
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> dict[K, Tensor]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> Any: ...
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
        explain: bool = False,
    ) -> Any:
        """The derivative of the sum of `target` by each of `sources`.

        Args:
            target: tensor, or nest of tensors, that was computed while the tape recorded.
            sources: tensor or variable, or nest of them.
            output_gradients: gradient by each target, of its shape; ones by default.
            unconnected_gradients: `"none"` or `"zero"`, see `UnconnectedGradients`.
            explain: warn of each source without a gradient, with the cause and the line of code.

        Returns:
            A nest like `sources`: for each a tensor of its shape and dtype, or `None` when the
            target does not depend on it.

        Raises:
            RuntimeError: the tape is not persistent and has given its gradient.
            ValueError: `unconnected_gradients` is neither of the two, or `output_gradients` do not
                fit the target.
        """
        if unconnected_gradients != UnconnectedGradients.NONE:
            unconnected_gradients = _check_unconnected(unconnected_gradients)
        if self._spent:
            raise RuntimeError(
                "GradientTape.gradient can be called only once on a tape that is not persistent; "
                "make it with GradientTape(persistent=True) to ask again"
            )
        tracked, reads = self.tracked, self._reads
        if type(target) is not Tensor:
            self._note_targets(target)
        targets = (
            [target]
            if type(target) is Tensor
            else [self.as_target(t) for t in nest.flatten(target)]
        )
        grads = self._seeds(targets, output_gradients)
        # A list of variables and tensors alone is flat as it is.
        is_flat = type(sources) is list and _LEAVES.issuperset(map(type, sources))
        flat = sources if is_flat else nest.flatten(sources)
        leaves, tracked_sources = [], set()
        for source in flat:
            read = reads.get(id(source))
            # A variable that was assigned to between reads stands in the record as several tensors;
            # their gradients are added up in `_result`.
            group = self._tensors_of(source) if read is None else read[1]
            leaves.append(group)
            for t in group:
                if t in tracked:
                    tracked_sources.add(t)
        tracked_targets = [t for t in targets if t in tracked]
        # The pass uses the record up, so what it computes must not be recorded in it. A persistent
        # tape that still records hears its own pass, and can differentiate that in turn.
        if self._recording and not self._persistent:
            self._stop()
        try:
            # The causes are looked up in the record, which therefore is kept when they are asked
            # for.
            self._pass_back(grads, tracked_sources, explain or self._persistent)
            # Without a single gradient an optimizer is about to fail: the causes are noted for its
            # error. In all other cases nothing is looked up, as it costs a turn over the record.
            if explain or grads.keys().isdisjoint(tracked_sources):
                self._explain(
                    flat, leaves, targets, grads, tracked_sources.union(tracked_targets), explain
                )
        finally:
            # Also where a rule raises: the pass has used up a part of the record by then.
            if not self._persistent:
                self._end()
        results: list[Any] = []
        for source, group in zip(flat, leaves, strict=True):
            if len(group) == 1 and (t := group[0]) in tracked_sources and t in grads:
                results.append(grads[t])
            else:
                parts = [grads[t] for t in group if t in tracked_sources and t in grads]
                results.append(self._result(source, parts, unconnected_gradients))
        return results if is_flat else nest.pack(sources, results)

    def _explain(
        self,
        sources: list[Any],
        leaves: list[list[Tensor]],
        targets: list[Tensor],
        grads: dict[Tensor, Tensor],
        tracked: set[Tensor],
        aloud: bool,
    ) -> None:
        """Find out why sources have no gradient; warn, or keep it for the optimizer's error.

        `tracked` are those of sources and targets that were tracked.
        """
        # The pass of a tape that is not persistent has used its record up, unless the causes are
        # asked for or it had nothing to begin with.
        is_whole = aloud or self._persistent or tracked.isdisjoint(targets)
        lines, record = [], self.entries if is_whole else None
        for source, group in zip(sources, leaves, strict=True):
            if any(t in grads for t in group if t in tracked):
                continue
            text = causes.reason(source, group, targets, record, self.exits, tracked)
            lines.append(text)
            if isinstance(source, Variable):
                causes.remember(source, text)
        if aloud and lines:
            warnings.warn(
                "GradientTape.gradient: no gradient, because\n  " + "\n  ".join(lines),
                NoGradientWarning,
                stacklevel=3,
            )

    def _note_targets(self, target: Any) -> None:
        """Take variables among the targets for reads, since each is a source of itself."""
        for v in nest.flatten(target):
            if isinstance(v, Variable) and v.dtype.is_differentiable:
                snapshot = v.value()
                self._note_again(self._reads.setdefault(id(v), (v, []))[1], snapshot)

    @staticmethod
    def as_target(target: Any) -> Tensor:
        """The tensor that a target stands for.

        Raises:
            ValueError: it is none.
        """
        if isinstance(target, Variable):
            return target.value()
        if not isinstance(target, Tensor):
            raise ValueError(
                f"GradientTape.gradient: the target {target!r} is no tensor, so nothing is known "
                "of how it was computed"
            )
        return target

    @staticmethod
    def _seeds(targets: list[Tensor], output_gradients: Any) -> dict[Tensor, Tensor]:
        """What the backward pass begins with: gradients by the targets."""
        if output_gradients is None:
            # The usual call: one loss, no output gradients.
            if len(targets) == 1 and type(t := targets[0]) is Tensor:
                return {t: one_for(t)} if t._array.dtype in DIFFERENTIABLE else {}
            gradients: list[Any] = [None] * len(targets)
        else:
            gradients = nest.flatten(output_gradients)
        if len(gradients) != len(targets):
            raise ValueError(
                f"GradientTape.gradient: {len(targets)} targets but "
                f"{len(gradients)} output_gradients"
            )
        seeds: dict[Tensor, Tensor] = {}
        for t, g in zip(targets, gradients, strict=True):
            if t.dtype.is_differentiable:
                seed = one_for(t) if g is None else convert_to_tensor(g, dtype_hint=t.dtype)
                if g is not None and tuple(seed.shape) != tuple(t.shape):
                    raise InvalidArgumentError(
                        f"GradientTape.gradient: a target has shape {t.shape}, its output gradient "
                        f"{seed.shape}"
                    )
                # A target that stands in the list twice counts twice.
                seeds[t] = late_ops.add(seeds[t], seed) if t in seeds else seed
        return seeds

    @staticmethod
    def _tensors_of(source: Any) -> list[Tensor]:
        """The tensors in the record that stand for a source which is no variable that was read."""
        if type(source) is Tensor:
            return [source]
        if isinstance(source, Variable):
            return []  # never read
        if not isinstance(source, Tensor):
            raise ValueError(
                f"GradientTape.gradient: the source {source!r} is neither a tensor nor a variable"
            )
        return [source]

    def _result(self, source: Any, parts: list[Tensor], unconnected: str) -> Any:
        if not parts:
            if unconnected == UnconnectedGradients.ZERO:
                return zeros_like(source.value() if isinstance(source, Variable) else source)
            return None
        total = parts[0]
        for more in parts[1:]:
            total = late_ops.add(total, more)
        return total

    def _pass_back(self, grads: dict[Tensor, Tensor], sources: set[Tensor], keep: bool) -> None:
        """Fill `grads`, those of the targets, for all of `sources` that the targets depend on.

        Unless the record is to be kept it is used up.
        """
        tracked = dict(self.tracked) if keep else self.tracked
        # With all leaves asked for, each entry lies on the way from one of them: the record is the
        # set of what is needed, and no other has to be made.
        needed = tracked if self._leaves <= sources else reachable_tensors(sources, self.entries)
        if grads.keys().isdisjoint(needed):
            return
        run = backward_pass_on_arrays if self._unheard(grads) else backward_pass
        run(tracked, grads, needed, sources)

    def _unheard(self, grads: dict[Tensor, Tensor]) -> bool:
        """Whether no tape and no trace would see the pass back, which begins with NumPy arrays."""
        # Tapes of other threads hear nothing of what is computed in this one.
        if _THREAD.traces or (_TAPES and any(tape.thread == get_ident() for tape in _TAPES)):
            return False
        for g in grads.values():
            if type(g) is not Tensor or not isinstance(g._array, _ON_CPU):
                return False
        return True


class _Pause:
    """What `stop_recording` gives."""

    def __init__(self, tape: GradientTape) -> None:
        self._tape = tape

    def __enter__(self) -> None:
        self._tape._stop()

    def __exit__(self, *exc: object) -> None:
        self._tape._start()


trace_state.new_tape = GradientTape
native.call_if_built("bind_tape", GradientTape)
