"""A model's step as a compiled function, made once the step has been run and seen to pay."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from trainkit import ops
from trainkit.collectives import replica as replicas
from trainkit.collectives.replica import REPLICAS
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.values.attribute_state import CHANGES
from trainkit.graph.ir.crossed_batches import warn_of_crossed_batches
from trainkit.graph.tracing.function import Function
from trainkit.graph.tracing.python_calls import functions_run_eagerly
from trainkit.layers.base.call_spec import fitting
from trainkit.models import part_settings

FIRST_EAGER = 1
"""Steps that run operation by operation, so that all that is made by the first call is there.

The graph is made before the last of them ends: the first step is the slowest of all in any case.
Made by a later one, that would take up to twenty times as long as its neighbours.
"""

EAGER_PREDICTIONS = 16
"""The same for predictions, of which so few do not make up for the tracing."""

EAGER_SECONDS = 0.25
"""Or those that have taken so long together: about what the tracing of a large network takes."""

_DONE = object()


class CompiledStep:
    """Calls a step eagerly at first, then as a graph; both give the same numbers.

    A step that can't be traced, because it looks at values or leaves the library, goes on eagerly,
    and a warning says why. A graph has the settings of layers and optimizers as numbers, so once
    somebody sets another, the next step runs operation by operation, and the one after is traced.

    Args:
        model: whose settings the step reads.
        step: a bound method of it, `train_step` or `test_step`.
        jit_compile: `True`, `False`, or `"auto"`.
        first_eager: how many steps run operation by operation at first.

    Attributes:
        eager_steps: so many of the next steps run operation by operation, to be looked at.
    """

    def __init__(
        self,
        model: Any,
        step: Callable[[Any], Any],
        jit_compile: Any,
        first_eager: int = FIRST_EAGER,
    ) -> None:
        self._model = model
        self._step, self._first_eager = step, first_eager
        self._calls = self.eager_steps = 0
        self._eager_seconds = 0.0
        self._compiles = False  # what the replica that goes ahead has chosen for this step
        self._jit = None if jit_compile == "auto" else bool(jit_compile)
        self._function: Any = self._traceable()
        self._settings: Any = None
        self._changes = (0, 0)
        self._parts: Any = None  # what is left to do for the program of the graph

    def _traceable(self) -> Any:
        """The step as a function: a third number of rows makes one graph for all others.

        Lengths of sequences have graphs of their own, whose sums are in the order of eager steps.
        """
        return Function(self._step, jit_compile=self._jit, reduce_retracing="rows")

    def __call__(self, data: Any) -> Any:
        """One step on a batch."""
        if functions_run_eagerly() or trace_state.THREAD.traces:
            return self._step(data)
        if self._function is None:
            return self._step_eagerly(data)
        if REPLICAS and replicas.follows_in_process():
            return (self._function if self._compiles else self._step_eagerly)(data)
        self._compiles = False
        if self._calls > self._first_eager and self._changes != (
            CHANGES.attributes,
            CHANGES.trainable,
        ):
            self._look_at_settings()
        if self._calls < self._first_eager:
            return self._run_early(data)
        if self.eager_steps:
            self.eager_steps -= 1
            return self._step_eagerly(data)
        if self._calls == self._first_eager:
            self._calls += 1
            if not self._trace(data, stacklevel=5):
                return self._step_eagerly(data)
        if self._parts is not None:
            if next(self._parts, _DONE) is not _DONE:
                return self._step_eagerly(data)
            self._parts = None
        self._compiles = True
        return self._function(data)

    def _step_eagerly(self, data: Any) -> Any:
        """One step, operation by operation, whose values have the dtypes that the graph's have."""
        with trace_state.acting_for_graph():
            return self._step(data)

    def _run_early(self, data: Any) -> Any:
        """One of the steps that run operation by operation at first."""
        began = time.perf_counter()
        result = self._step_eagerly(data)
        self._calls += 1
        self._eager_seconds += time.perf_counter() - began
        if REPLICAS:  # they trace after the same number of steps, so no clock decides for them
            return result
        if self._first_eager > FIRST_EAGER:
            if self._eager_seconds > EAGER_SECONDS and self._calls > FIRST_EAGER:
                self._calls = self._first_eager
        # once settings have changed the step after is traced, if they are still the same then
        elif self._settings is None:
            self._calls = self._first_eager + 1
            if self._trace(data, stacklevel=6):
                self._advance_program()
        return result

    def _trace(self, data: Any, stacklevel: int) -> bool:
        """Make the graph of the step; where that fails a warning says why, and there is none."""
        try:
            concrete = self._function.get_concrete_function(data)
        except Exception as error:
            self._function = None
            warnings.warn(
                f"{getattr(self._step, '__qualname__', 'the step')} can't be compiled and runs "
                f"eagerly, which is slower: {type(error).__name__}: {error}\n"
                "compile(run_eagerly=True) says that this is meant.",
                UserWarning,
                stacklevel=stacklevel,
            )
            return False
        self._note_settings()
        if _has_own_loss(self._step):
            warn_of_crossed_batches(concrete.graph)
        if self._first_eager and not REPLICAS:
            self._parts = concrete.graph.program_in_parts()
        return True

    def _advance_program(self) -> None:
        """Make the program of the graph, up to where it waits for a compiler."""
        for waits in self._parts:
            if waits:
                return
        self._parts = None

    def traced_batch(self) -> Any:
        """What a batch was like when the step was traced last, `None` if it never was."""
        graphs = [] if self._function is None else self._function.concrete_functions()
        return graphs[-1].arguments[0][0] if graphs else None

    def compile_first(self) -> None:
        """Let the next step be a graph already; all that a first call makes has to be there."""
        self._calls = self._first_eager = 0

    def _note_settings(self) -> None:
        self._settings = part_settings.settings_of(self._model)
        self._changes = (CHANGES.attributes, CHANGES.trainable)

    def _look_at_settings(self) -> None:
        """Forget the graph if it was traced with other settings than there are."""
        before = self._settings
        self._note_settings()
        if self._settings != before:
            self._function = self._traceable()
            self._parts = None
            self._calls = max(self._first_eager - 1, 0)


class OwnTrainStep(CompiledStep):
    """The same for a `train_step` of the user's: augmentation is on in it, as in Keras."""

    def __call__(self, data: Any) -> Any:
        """One step on a batch."""
        with fitting():
            return super().__call__(data)


def own_step_run_eagerly(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A `train_step` of the user's that is never compiled, in which augmentation is on."""

    def run(data: Any) -> Any:
        with fitting():
            return step(data)

    return run


def _has_own_loss(step: Any) -> bool:
    """Whether a step of the library's calls a `compute_loss` of the user's."""
    of_library = str(getattr(step, "__module__", "")).startswith("trainkit.")
    loss = getattr(type(getattr(step, "__self__", None)), "compute_loss", None)
    return of_library and not str(getattr(loss, "__module__", "trainkit.")).startswith("trainkit.")


class StepsInARow:
    """Takes `steps_per_execution` batches of an iterator, or those that are left, through a step.

    Args:
        model: says how many.
        step: a function of a batch, compiled or not.
        joined: give the results of all one after the other, rather than that of the last.
    """

    def __init__(self, model: Any, step: Callable[[Any], Any], joined: bool) -> None:
        self.model, self.step, self.joined = model, step, joined

    def traced_batch(self) -> Any:
        """What a batch was like when the step was traced last, `None` if it never was."""
        return self.step.traced_batch() if isinstance(self.step, CompiledStep) else None

    def __call__(self, batches: Iterable[Any]) -> Any:
        """The result; `StopIteration` if there is no batch."""
        waiting = iter(batches)
        result = self.step(next(waiting))
        if self.model.steps_per_execution == 1:
            return result
        results = [result]
        for _ in range(self.model.steps_per_execution - 1):
            try:
                batch = next(waiting)
            except StopIteration:
                break
            results = [*(results if self.joined else ()), self.step(batch)]
        if len(results) == 1:
            return results[0]
        return nest.map_structure(lambda *parts: ops.concatenate(parts, axis=0), *results)


def make_steps(model: Any, mode: str, step: Callable[[Any], Any], force: bool) -> Any:
    """A function of batches; the one made before, unless what it depends on has changed.

    The model has it as an attribute, such as `train_function`.

    Args:
        model: compiled.
        mode: `"train"`, `"test"` or `"predict"`.
        step: the method of the model that takes one batch.
        force: make it anew in any case.
    """
    depends: list[Any] = [model.run_eagerly, model.jit_compile, model.steps_per_execution]
    if mode == "train":
        depends += [id(v) for v in model.trainable_variables]
    entry = model._steps_made.get(mode)
    if force or entry is None or entry[0] != depends:
        module = str(getattr(step, "__module__", ""))  # a functools.partial has none
        is_own = mode == "train" and not module.startswith("trainkit.")
        if not model.run_eagerly:
            many = model.steps_per_execution > 1
            first_eager = EAGER_PREDICTIONS if mode == "predict" and not many else FIRST_EAGER
            if model.distribute_strategy.virtual is not None:  # as many turns make many calls
                first_eager = 0
            kind = OwnTrainStep if is_own else CompiledStep
            step = kind(model, step, model.jit_compile, first_eager)
        elif is_own:
            step = own_step_run_eagerly(step)
        entry = model._steps_made[mode] = (depends, StepsInARow(model, step, mode == "predict"))
    name, steps = f"{mode}_function", entry[1]
    # to set an attribute means that parts and settings are looked at again
    if model.__dict__.get(name) is not steps:
        setattr(model, name, steps)
    return steps


def minimize(optimizer: Any, tape: Any, loss: Any, variables: list[Any]) -> None:
    """Let `optimizer` take a step with the gradients of `loss`; replicas join theirs on the way."""
    if not (REPLICAS and optimizer._step_from(tape, loss, variables, True)):
        optimizer.apply(tape.gradient(loss, variables), variables)
