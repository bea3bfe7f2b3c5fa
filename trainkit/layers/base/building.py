"""Building layers whole: at once, even while a graph is traced, and undone when it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.trackable import set_silently
from trainkit.layers.base import tracking
from trainkit.layers.base.call_spec import FRAME
from trainkit.layers.base.error_context import called_on_none, explain_none
from trainkit.layers.base.paths import current_path, scope
from trainkit.layers.base.weights import WeightHolder


def marking_built(build: Callable[..., None]) -> Callable[..., None]:
    """`build` made to run at once even inside a trace; a failure leaves the layer as it was."""

    @functools.wraps(build)
    def build_whole(self: Any, *args: Any, **kwargs: Any) -> None:
        before = state_of(self)
        names = self._facts.build_names
        if "input_shape" in kwargs and not args and names and "input_shape" not in names:
            kwargs = {names[0]: kwargs.pop("input_shape"), **kwargs}  # its name before Keras 3
        shapes = {**dict(zip(names, args, strict=False)), **kwargs}
        inside = self.__dict__.get("_in_build", False)  # `super().build()` of a subclass's build
        set_silently(self, _in_build=True)
        try:
            # Weights need values now, not symbols of a graph that is traced around the first call,
            # and tapes must not see initial values computed. The scope gives the paths of weights.
            with eval_shape.eagerly(), trace_state.silence(), scope(self):
                set_silently(self, _path=current_path())
                build(self, *args, **kwargs)
        except BaseException:
            put_back([(self, before)])
            raise
        # Not before the build has ended: what it calls would take the layer for one with weights.
        self.built = True
        set_silently(
            self, _build_shapes=shapes, _in_build=inside, _locked=self._locks and not inside
        )
        # A checkpoint that waits for weights hears of attributes as they are set, and of the others
        # here. By the class, as an attribute of the user's may be called `parts`.
        for name, part in type(self).parts(self).items():
            if name not in self.__dict__:  # weights that no attribute holds
                self._part_added(name, part)

    return build_whole


def state_of(layer: Any) -> dict[str, Any]:
    """What `layer` is made of now."""
    # The lists change in place, so they are copied; the class is noted since quantizing and LoRA
    # turn a layer into one of another class.
    return {
        **layer.__dict__,
        "_own": list(layer._own),
        "_losses": list(layer._losses),
        "__class__": type(layer),
    }


def state_of_all(layer: Any) -> list[tuple[Any, dict[str, Any]]]:
    """What `layer` and the layers inside are made of now."""
    return [(each, state_of(each)) for each in tracking.all_layers(layer, WeightHolder)]


def put_back(states: list[tuple[Any, dict[str, Any]]]) -> None:
    """Make layers what they were when `state_of_all` looked."""
    for layer, state in states:
        state = dict(state)
        object.__setattr__(layer, "__class__", state.pop("__class__"))
        layer.__dict__.clear()
        layer.__dict__.update(state)


def first_call(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Build and call; a failure leaves this layer and those inside as they were."""
    # The outermost first call notes the whole tree. One inside need not: each layer would be noted
    # once for each layer around it.
    outermost = not FRAME.builds
    states = state_of_all(layer) if outermost else []
    FRAME.builds = True
    try:
        with scope(layer):
            if "name" in layer.__dict__:  # else `_prepare` says what is wrong
                set_silently(layer, _path=current_path())  # a map of dtype policies asks for it
            args, kwargs = layer._prepare(args, kwargs)
            # Before the call: it comes back through `__call__`, which would build once more.
            set_silently(layer, built=True, _locked=layer._locks)
            y = layer(*args, **kwargs)
            if y is None:
                set_silently(layer, _gave_none=True)
            return y
    except BaseException as error:
        missing = ""
        if isinstance(error, Exception):
            missing = called_on_none(layer, FRAME.entry, args)
            missing = missing or explain_none(error, layer, FRAME.entry, args, kwargs)
        put_back(states)
        if missing:
            raise ValueError(missing) from error
        raise
    finally:
        if outermost:
            FRAME.builds = False


def build_for_symbols(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check and build for arguments with `Spec`s, where the class says its output shape."""
    states = [] if layer.built else state_of_all(layer)
    try:
        with scope(layer):
            args, kwargs = layer._prepare(args, kwargs)
            # A class without a build of its own was left to its call, which shapes do not reach
            # where the class says its output itself; it is built as far as shapes can.
            if not layer.built:
                shapes = layer._facts.shapes_for("build", layer, args, kwargs)
                layer.build(*list(shapes.values())[:1])
    except BaseException:
        put_back(states)
        raise


def all_built(layer: Any) -> bool:
    """Whether all layers inside are built."""
    return all(inner.built for inner in tracking.all_layers(layer, WeightHolder)[1:])
