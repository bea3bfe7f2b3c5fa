"""`RematScope`: layers made inside forget what they compute, and compute it again for gradients."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from trainkit import activations
from trainkit.autodiff import recompute
from trainkit.autodiff.recompute import CallContext, recompute_grad
from trainkit.core import nest
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import set_silently
from trainkit.layers.base.call_spec import FRAME

_MODES = ("full", "activations", "larger_than", "list_of_layers", None)


class RematMode(NamedTuple):
    """What a `RematScope` asks for; the attributes are its arguments."""

    mode: str | None
    output_size_threshold: int
    layer_names: tuple[str, ...]


class _RematScopes(threading.local):
    """The modes of the scopes that this thread is in, innermost last."""

    def __init__(self) -> None:
        self.active: list[RematMode] = []


SCOPES = _RematScopes()


class RematScope:
    """Context whose layers trade time for memory: gradients compute their insides once more.

    What counts is where a layer is made, not where it is called. A `Model` keeps the inputs of its
    layers; it is computed again as a whole only if `"list_of_layers"` names it.

    Args:
        mode: `"full"` for all layers; `"activations"` for the activation functions of layers that
            have one; `"larger_than"` for layers whose output has more than `output_size_threshold`
            elements, unknown sizes counted as 1; `"list_of_layers"` for those named; `None` for
            none, inside a scope that has another mode.
        output_size_threshold: number of elements, for `"larger_than"`.
        layer_names: names, for `"list_of_layers"`.

    Raises:
        ValueError: there is no such mode.

    >>> with RematScope("larger_than", output_size_threshold=2048):
    ...     layer = tk.layers.Dense(4096, activation="gelu")
    """

    def __init__(
        self,
        mode: str | None = "full",
        output_size_threshold: int = 1024,
        layer_names: Iterable[str] | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(
                f"RematScope: mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r}"
            )
        self.mode = mode
        self.output_size_threshold = output_size_threshold
        self.layer_names = list(layer_names or ())

    def __enter__(self) -> RematScope:
        names = tuple(self.layer_names)
        SCOPES.active.append(RematMode(self.mode, self.output_size_threshold, names))
        return self

    def __exit__(self, *exc: object) -> None:
        SCOPES.active.pop()


def get_current_remat_mode() -> RematMode | None:
    """What the innermost `RematScope` of this thread asks for, `None` outside of all."""
    return SCOPES.active[-1] if SCOPES.active else None


def rematerialize(layer: Any, mode: RematMode) -> None:
    """Let calls of `layer` be computed again for gradients, as far as `mode` asks for it."""
    named = mode.mode == "list_of_layers" and layer.name in mode.layer_names
    if named or (mode.mode not in (None, "list_of_layers") and layer._rematerialized_by_scopes):
        # Beside the method of the class, which `__call__` then does not reach; other layers of the
        # class pay nothing, and a subclass may go on to override `call`.
        set_silently(layer, call=RematerializedCall(layer, mode))


class RematerializedCall:
    """Stands in a layer for its method `call`.

    Attributes:
        layer: whose method it is.
        mode: what the scope asked for in which the layer was made.
    """

    def __init__(self, layer: Any, mode: RematMode) -> None:
        self.layer = layer
        self.mode = mode
        self._sizes: dict[Any, int] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the layer's method, with less memory kept for its gradient."""
        # Not `self.layer.call`, which is this object.
        method = functools.partial(type(self.layer).call, self.layer)
        if self.mode.mode == "activations":
            return self._with_activation(method, args, kwargs)
        if self.mode.mode == "larger_than":
            if self._size(method, args, kwargs) <= self.mode.output_size_threshold:
                return method(*args, **kwargs)
        return recompute_grad(method)(*args, **kwargs)

    def _with_activation(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result, the layer's activation function computed again for gradients."""
        attributes = self.layer.__dict__
        activation = attributes.get("activation")
        if activation is None or activation is activations.linear:
            return method(*args, **kwargs)
        # Only while the call runs: configs and users read the attribute.
        attributes["activation"] = recompute_grad(activation)
        try:
            return method(*args, **kwargs)
        finally:
            attributes["activation"] = activation

    def _size(self, method: Callable[..., Any], args: Any, kwargs: Any) -> int:
        """How many elements the result has; unknown sizes count as 1."""
        specs = nest.map_structure(_spec, (args, kwargs))
        # As text, since nests of lists and dicts can't be keys. A run on shapes is a whole call of
        # the layer, so it is made once for each shape.
        key = repr(specs)
        if key not in self._sizes:
            outputs = _without_losses(lambda: result_specs(method, *specs[0], **specs[1]))
            sizes = [
                [n or 1 for n in y.shape] for y in nest.flatten(outputs) if isinstance(y, Spec)
            ]
            self._sizes[key] = sum(map(math.prod, sizes))
        return self._sizes[key]


def _without_losses(call: Callable[[], Any]) -> Any:
    """What `call` gives; layers forget the losses that were added meanwhile."""
    outer, FRAME.noted = FRAME.noted, []
    try:
        return call()
    finally:
        for layer, loss in FRAME.noted:
            # By identity: `==` compares tensors element by element.
            set_silently(layer, _losses=[x for x in layer._losses if x is not loss])
        FRAME.noted = outer


def _spec(x: Any) -> Any:
    return Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x


class _LayerContext(CallContext):
    """What layers know of the call around them, and the losses that they note in it."""

    def __init__(self) -> None:
        self._entry, self._training = FRAME.entry, FRAME.training
        self._noted: list[tuple[Any, Any]] = []

    def first(self, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The result, and the losses that were added meanwhile."""
        outer, FRAME.noted = FRAME.noted, self._noted
        try:
            result = call()
        finally:
            FRAME.noted = outer
        return result, [loss for _, loss in self._noted]

    def again(self, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The same, for what the first call ran for; layers keep the losses that they have."""
        frame = FRAME
        # The second call adds each loss once more, and it may run while another call is under way:
        # what the frame says is that of the first call for so long, and put back after it.
        saved_losses = [(layer, list(layer._losses)) for layer, _ in self._noted]
        outer = frame.entry, frame.training, frame.noted
        frame.entry, frame.training, frame.noted = self._entry, self._training, []
        try:
            result = call()
            return result, [loss for _, loss in frame.noted]
        finally:
            frame.entry, frame.training, frame.noted = outer
            for layer, losses in saved_losses:
                set_silently(layer, _losses=losses)

    def replace(self, left: list[Any]) -> None:
        """Let layers hold the losses through which gradients go."""
        # Tensors from inside have no gradient outside of the call, those in their place do. A scope
        # around this one has to hear of them, as it replaces them once more.
        for (layer, old), new in zip(self._noted, left, strict=True):
            set_silently(layer, _losses=[new if loss is old else loss for loss in layer._losses])
            if FRAME.noted is not None:
                FRAME.noted.append((layer, new))


# A hook, as autodiff stands below layers and imports none of them.
recompute.new_context = _LayerContext
