"""What a layer class's signatures say, read once per class; the state of a call under way."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base.nested_shapes import has_shape, shapes_of

# A position no call reaches, so that `len(args) > position` needs no test for None before it.
_FAR = 1 << 30


class CallSpec:
    """What `__call__` must know of `call` and `build`.

    Attributes:
        names: the parameters of `call` by position.
        takes_training: whether `call` has the argument `training`.
        training_position: its place among the positional arguments.
        training_default: its default, `None` when there is none.
        mask_names: the parameters of `call` that want masks.
        mask_position: the place of `mask` among the positional arguments.
        build_names: the parameters of `build`.
        shape_names: the parameters of `compute_output_shape`.
        own_output_shape: whether a class of the user says the shape of the output itself.
        own_output_spec: whether one says shape and dtype itself.
        makes_masks: whether the class has a `compute_mask` of its own.
    """

    def __init__(self, kind: type, base: type) -> None:
        call: Any = kind.call  # type: ignore[attr-defined]
        parameters = list(signature_of(call).parameters.values())[1:]
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self.names = [p.name for p in positional]
        keywords = {p.name: p for p in parameters if p.kind is not p.VAR_KEYWORD}
        self.takes_training = "training" in keywords
        self.training_position = self.names.index("training") if "training" in self.names else _FAR
        default = keywords["training"].default if self.takes_training else None
        self.training_default = None if default is inspect.Parameter.empty else default
        self.mask_names = [n for n in keywords if n == "mask" or n.endswith("_mask")]
        self.mask_position = self.names.index("mask") if "mask" in self.names else _FAR
        self.build_names = _names_of(kind.build)  # type: ignore[attr-defined]
        self.shape_names = _names_of(kind.compute_output_shape)  # type: ignore[attr-defined]
        self.own_output_shape = _is_of_user(kind, "compute_output_shape")
        self.own_output_spec = _is_of_user(kind, "compute_output_spec")
        self.makes_masks = kind.compute_mask is not base.compute_mask  # type: ignore[attr-defined]

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by their names, those given by position first."""
        return {**dict(zip(self.names, args, strict=False)), **kwargs}

    def named_mask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The mask that a call was given or had filled in, `None` if there is none."""
        if len(args) > self.mask_position:
            return args[self.mask_position]
        return kwargs.get("mask")

    def shapes_for(
        self, method: str, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """The shapes of a call's tensors as arguments of `build` or `compute_output_shape`.

        One parameter gets the shape of the first tensor. Several are named after parameters of
        `call`: `query_shape` gets that of `query`.

        Raises:
            InvalidArgumentError: one of several parameters is not named so.
        """
        names = self.build_names if method == "build" else self.shape_names
        arguments = self.by_name(args, kwargs)
        # A mask is a tensor as well, but nothing is built for its shape.
        shapes = {n: shapes_of(x) for n, x in arguments.items() if n != "mask" and has_shape(x)}
        if len(names) < 2:
            return {name: next(iter(shapes.values()), None) for name in names}
        for name in names:
            source = name.removesuffix("_shape")
            # Refused now, by name: a parameter that matches no argument would get no shape, and
            # `build` would raise a TypeError about its own signature.
            if source == name or (source not in self.names and source not in arguments):
                raise InvalidArgumentError(
                    f"{type(layer).__name__}.{method} has several arguments, so each must be named "
                    f"after one of call's, with '_shape' at its end; {name!r} is not. call has "
                    f"{', '.join(self.names)}"
                )
        pairs = ((name, shapes.get(name.removesuffix("_shape"))) for name in names)
        return {name: shape for name, shape in pairs if shape is not None}


def call_spec_of(kind: type, base: type) -> CallSpec:
    """The facts of a layer class, whose base is `base`, read at the first call of this."""
    # Of this very class: a base's would be inherited, and its `call` may have other arguments.
    spec: CallSpec | None = kind.__dict__.get("_call_spec")
    if spec is None:
        spec = kind._call_spec = CallSpec(kind, base)  # type: ignore[attr-defined]
    return spec


def _names_of(method: Any) -> list[str]:
    parameters = list(signature_of(method).parameters.values())[1:]
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _is_of_user(kind: type, method: str) -> bool:
    """Whether the class that defines `method` for `kind` is none of this package."""
    first = next(base for base in kind.__mro__ if method in base.__dict__)
    return not first.__module__.startswith("trainkit.")


class CallFrame(threading.local):
    """The layer call under way in this thread.

    Attributes:
        entry: the outermost layer, `None` outside of calls.
        training: what the innermost call that says so runs for.
        builds: whether a first call is under way, whose failure puts back all layers inside.
        scopes: the layers that are being built, outer ones first.
        noted: hears of each loss that `add_loss` gets and of its layer, while not `None`.
        fits: whether a `train_step` of the user's is under way.
    """

    def __init__(self) -> None:
        self.entry: Any = None
        self.training: Any = None
        self.builds = False
        self.scopes: list[Any] = []
        self.noted: list[tuple[Any, Any]] | None = None
        self.fits = False


FRAME = CallFrame()


@contextlib.contextmanager
def inference() -> Iterator[None]:
    """Context in which layers are called for inference, unless a call says otherwise."""
    outer, FRAME.training = FRAME.training, False
    try:
        yield
    finally:
        FRAME.training = outer


@contextlib.contextmanager
def fitting() -> Iterator[None]:
    """Context of a `train_step` of the user's, whose calls may leave out that they train."""
    outer, FRAME.fits = FRAME.fits, True
    try:
        yield
    finally:
        FRAME.fits = outer
