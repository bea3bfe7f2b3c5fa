"""Calls of a model that repeat outside of training, by a program of the whole model.

`model(x)` runs layer by layer. A loop that plays, serves or measures calls it so a thousand times,
on inputs of one shape, and all that comes of a call is its outputs. So once calls repeat they run
the graph that `tk.function` would make of the model: the same bits, in fewer passes over memory.

Nobody can tell but by the time, which is what the conditions below are for: nobody's own code runs
in the model, no tape looks, no variable is assigned, and nothing was set in any part since.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.masks import HELD, mask_of
from trainkit.core.process import forks
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import set_silently
from trainkit.core.values.attribute_state import CHANGES
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.graph.tracing.function import Function, calls_are_observed
from trainkit.graph.tracing.traced_arguments import short_key
from trainkit.layers.base.call_spec import FRAME
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.tracking import all_layers
from trainkit.models.part_settings import is_of_package, settings_of
from trainkit.models.training.trainer import Trainer

EAGER_CALLS = 16
"""Calls in a row between which nothing is set, before a graph is made: fewer do not pay for it."""

_MOST_KINDS = 64
"""Shapes and structures of inputs that are distinguished; a program that meets more has no loop."""

_TAPES, _THREAD, _STAND_INS = trace_state.TAPES, trace_state.THREAD, trace_state.STAND_INS
_NUMBERS = "biufcV"  # NumPy's kinds of dtypes that hold numbers; bfloat16 is a V
_DONE = object()


class ModelCalls:
    """Runs the calls of one drawn model: layer by layer, and by programs once they repeat."""

    def __init__(self) -> None:
        # the number of changes at the last early call, and how many calls have seen that number
        self._changes, self._unchanged_calls = -1, 0
        # the number for which the following are right
        self._described_changes = -1
        self._may_run_programs = self._asks_entry = False
        self._description: Any = None
        self._functions: dict[Any, Function] = {}
        self._programs: dict[Any, ConcreteFunction | None] = {}
        self._lock = forks.make_lock()
        self._preparing: dict[Any, tuple[ConcreteFunction, Generator[bool, None, None]]] = {}

    def __call__(self, model: Any, inputs: Any) -> Any:
        """The outputs of a model.

        Args:
            model: its `_run_layers` gives them layer by layer.
            inputs: for which the caller gives no mask.
        """
        if _TAPES or _THREAD.traces or FRAME.training or FRAME.fits:
            return model._run_layers(inputs)
        if _THREAD.acts_for_graph or _STAND_INS:
            return model._run_layers(inputs)
        if CHANGES.parts != self._described_changes:
            return self._run_early(model, inputs)
        if not self._may_run_programs or calls_are_observed():
            return model._run_layers(inputs)
        if self._asks_entry and FRAME.entry is not model:
            return model._run_layers(inputs)
        arrays: list[Any] = []
        key = _key_of(inputs, arrays)
        program = self._programs.get(key)
        if program is not None:
            try:
                return program.run_arrays(arrays)
            except Exception:  # layer by layer the error says in which one it is
                return model._run_layers(inputs)
        outputs = model._run_layers(inputs)
        if key is not None:
            self._prepare(model, key, inputs, arrays, outputs)
        return outputs

    def _run_early(self, model: Any, inputs: Any) -> Any:
        """One of the calls before it is known that calls repeat."""
        changes = CHANGES.parts
        if changes != self._changes:
            self._changes, self._unchanged_calls = changes, 0
        outputs = model._run_layers(inputs)
        self._unchanged_calls += 1
        if self._unchanged_calls >= EAGER_CALLS and changes == CHANGES.parts:
            with self._lock:
                self._describe(model)
                self._described_changes = changes
        return outputs

    def _describe(self, model: Any) -> None:
        """See whether programs may run the model, and forget those of what it was before."""
        self._may_run_programs = runs_library_code_alone(model)
        self._asks_entry = any(map(asks_entry, all_layers(model, Layer)))
        description = _description_of(model) if self._may_run_programs else None
        if description != self._description:
            self._description = description
            self._functions, self._programs, self._preparing = {}, {}, {}

    # ------------------------------------------------------------------ making a program

    def _prepare(self, model: Any, key: Any, inputs: Any, arrays: list[Any], outputs: Any) -> None:
        """Go on with the program for such inputs: one part of the work with each call.

        An input that is met for the first time is only noted: it may be the last one of its kind.
        """
        if key not in self._programs:
            if len(self._programs) < _MOST_KINDS:
                self._programs[key] = None
            return
        if not self._lock.acquire(blocking=False):  # another thread is at it
            return
        try:
            self._advance(model, key, inputs, arrays, outputs)
        finally:
            self._lock.release()

    def _advance(self, model: Any, key: Any, inputs: Any, arrays: list[Any], outputs: Any) -> None:
        """The next part: the graph, then its program bit by bit, then whether it gives the same."""
        if key not in self._preparing:
            concrete = self._trace(model, key, inputs)
            if concrete is None:
                self._may_run_programs = False
            else:
                self._preparing[key] = (concrete, concrete.graph.program_in_parts())
            return
        concrete, parts = self._preparing[key]
        try:
            if next(parts, _DONE) is not _DONE:
                return
            is_same = _same_bits(outputs, concrete.run_arrays(arrays))
        except Exception:  # what can't be compiled, or not run so, goes on layer by layer
            is_same = False
        del self._preparing[key]
        if is_same:
            self._programs[key] = concrete
        else:
            self._may_run_programs = False

    def _trace(self, model: Any, key: Any, inputs: Any) -> ConcreteFunction | None:
        """The graph of the model; `None` where more comes of a call than its outputs."""
        structure, leaves = _parts_of(inputs)
        kind = key[:2]  # the structure, and whether layers go by their default of `training`
        if kind not in self._functions:
            reference: Any = weakref.ref(model)  # a model that nobody uses any more goes at once
            self._functions[kind] = Function(
                lambda *leaves: reference()._run_layers(_pack(structure, leaves)),
                autograph=False,
                reduce_retracing="rows",
                name=model.name,
            )
        try:
            concrete: Any = self._functions[kind].get_concrete_function(*leaves)
        except Exception:  # layers that look at values, as some that prepare data do
            return None
        graph, results = concrete.graph, nest.flatten(concrete.structured_outputs)
        alone = not (graph.assigned or graph.has_effects or graph.runs_python or concrete.closed)
        if not alone or any(mask_of(y) is not None for y in results):
            return None
        return concrete


def outputs_of(model: Any, inputs: Any) -> Any:
    """The outputs of a drawn model for inputs without a mask.

    What is called within another model of this package is part of the program of that one.
    """
    entry = FRAME.entry
    if entry is model or not is_of_package(type(entry)):
        return repeated_calls_of(model)(model, inputs)
    return model._run_layers(inputs)


def repeated_calls_of(model: Any) -> ModelCalls:
    """What runs the calls of a model; copies have one of their own."""
    calls = model.__dict__.get("_repeated_calls")
    if calls is None:
        calls = ModelCalls()
        set_silently(model, _repeated_calls=calls)
    return calls


def runs_library_code_alone(model: Any) -> bool:
    """Whether functions of this package are all that a call of a drawn model runs."""
    kind = type(model)
    if model.run_eagerly or not all(
        _is_of_package(getattr(kind, name)) for name in ("call", "__call__")
    ):
        return False
    for layer in all_layers(model, Layer):
        if layer.activity_regularizer is not None or layer._losses:
            return False  # losses of a call are read after it
        if layer is not model and not all(map(is_of_package, type(layer).__mro__[:-1])):
            return False
        # what models hold, as a loss of the user's, is for training
        values = () if isinstance(layer, Trainer) else vars(layer).values()
        if not all(_is_of_package(value) for value in values if callable(value)):
            return False
    return True


def asks_entry(layer: Layer) -> bool:
    """Whether what a layer does by default depends on the outermost layer that is called."""
    return type(layer)._default_training_within is not Layer._default_training_within


def _is_of_package(function: Any) -> bool:
    """Whether a function, a class or what can be called is this package's own."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return is_of_package(named) if getattr(named, "__module__", None) else False


def _description_of(model: Any) -> Any:
    """What a graph of the model depends on: its layers, its variables and their settings."""
    layers = [(id(layer), type(layer)) for layer in all_layers(model, Layer)]
    return layers, [id(v) for v in model.variables], settings_of(model)


# ---------------------------------------------------------------------- inputs and outputs


def _key_of(inputs: Any, arrays: list[Any]) -> Any:
    """What tells inputs of one kind from others, `None` for those that programs do not take.

    Args:
        inputs: a tensor, or a list, tuple or dict of tensors.
        arrays: takes the arrays of the tensors.
    """
    structure, leaves = _parts_of(inputs)
    for x in leaves:
        if type(x) is not Tensor:
            return None
        array = x._array
        if type(array) is not np.ndarray or array.dtype.kind not in _NUMBERS:
            return None
        if HELD and mask_of(x) is not None:
            return None
    return structure, FRAME.training is None, short_key(leaves, arrays)


def _parts_of(inputs: Any) -> tuple[Any, tuple[Any, ...]]:
    """How inputs are nested, and what is in them."""
    kind = type(inputs)
    if kind is dict:
        return (kind, *inputs), tuple(inputs.values())
    if kind is list or kind is tuple:
        return kind, tuple(inputs)
    return None, (inputs,)


def _pack(structure: Any, leaves: tuple[Any, ...]) -> Any:
    """Inputs of a structure that `_parts_of` gave."""
    if structure is None:
        return leaves[0]
    if isinstance(structure, tuple):
        return dict(zip(structure[1:], leaves, strict=True))
    return structure(leaves)


def _same_bits(outputs: Any, others: Any) -> bool:
    """Whether two calls gave the same, nested alike."""
    if not nest.same_structure(outputs, others):
        return False
    pairs = zip(nest.flatten(outputs), nest.flatten(others), strict=True)
    return all(
        type(a) is type(b) is Tensor
        and a._array.dtype == b._array.dtype
        and a._array.shape == b._array.shape
        and a._array.tobytes() == b._array.tobytes()
        for a, b in pairs
    )
