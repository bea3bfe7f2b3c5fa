"""`Layer`: weights made at the first call, a `call` made of operations, and a config."""

from __future__ import annotations

from typing import Any

from trainkit import constraints, initializers, ops, regularizers
from trainkit.core import abstract, dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import Family, deserialize_object, serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor, short_text
from trainkit.core.variable import Variable
from trainkit.layers import masks, tracking
from trainkit.layers.autocast import AutocastVariable, first_input, symbol_in, to_input
from trainkit.layers.building import all_built, marking_built, put_back, state_of_all
from trainkit.layers.call_facts import FRAME, CallFacts
from trainkit.layers.config import arguments_of
from trainkit.layers.dtype_policy import DTypePolicy, policy_of
from trainkit.layers.explaining import explain
from trainkit.layers.input_spec import InputSpec, check_inputs
from trainkit.layers.naming import name_for
from trainkit.layers.nested_shapes import known_sizes, shapes_of, specs_of, tuples_of
from trainkit.layers.weights import WeightHolder

LAYERS = Family("layers", "layer")
_HELD = masks.HELD


class Layer(WeightHolder):
    """A function with weights; the base of all layers and models.

    A subclass sets its settings in `__init__`, makes weights in `build(input_shape)` with
    `add_weight`, and does its math in `call(inputs)`. `build` runs by itself at the first call. If
    `call` has an argument `training`, it is what the caller says, else what the enclosing layer
    runs for, else its default.

    Args:
        activity_regularizer: function of the output whose result, divided by the batch size, counts
            as a loss.
        trainable: whether the weights are trained.
        dtype: dtype or `DTypePolicy` of weights and arithmetic; by default float32.
        autocast: whether floating inputs are cast to the compute dtype.
        name: by default the class name in snake case, numbered.

    Raises:
        TypeError: an argument that no layer has.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        layer = object.__new__(cls)
        layer.__dict__.update(
            _facts=_facts_of(cls),
            _init_arguments=(args, kwargs),
            _own=[],
            _losses=[],
            _losses_held=False,
            _found=None,
            _symbolic_call=None,
            _ready_shape=None,
            _ready_dtype=None,
            built=False,
        )
        return layer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = marking_built(cls.__dict__["build"])  # type: ignore[method-assign]
        if cls.__module__.startswith("trainkit.") and not cls.__name__.startswith("_"):
            LAYERS.add(cls)

    def __init__(
        self,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        input_shape = _input_shape_in(kwargs)
        if kwargs:
            raise TypeError(
                f"{type(self).__name__} got arguments that it does not have: "
                f"{', '.join(sorted(kwargs))}"
            )
        if name is not None and (not isinstance(name, str) or "/" in name):
            raise ValueError(
                f"{type(self).__name__}: name must be a string without '/', got {name!r}"
            )
        self.name = name_for(type(self)) if name is None else name
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.dtype_policy = policy_of(dtype)
        self.autocast = autocast
        self.supports_masking = self._facts.makes_masks
        self.input_spec: Any = None
        self._trainable = bool(trainable)
        if input_shape is not None:
            self._input_shape_argument = input_shape

    # ------------------------------------------------------------------ for subclasses

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of this shape (`None` for the batch size).

        A layer made of other layers needs none of its own: those are built by running `call` on
        shapes.
        """
        if tracking.sublayers(self, Layer) and not all_built(self):
            abstract.result_specs(self.call, specs_of(input_shape, self.compute_dtype))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output from the inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no method call(self, inputs)")

    def add_weight(
        self,
        name: Any = None,
        shape: Any = None,
        initializer: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
    ) -> Variable:
        """Make a weight of this layer.

        Args:
            name: such as `"kernel"`. A shape may stand here too, as the first argument in Keras 3.
            shape: sizes; a scalar by default.
            initializer: object or name; by default `"glorot_uniform"` for floats, else `"zeros"`.
            dtype: by default that in which the layer keeps weights.
            trainable: whether optimizers train it.
            autocast: whether calls of a mixed-precision layer see it in the compute dtype.
            regularizer: function of the weight whose result counts as a loss.
            constraint: function that puts the weight back into bounds after each optimizer step.

        Raises:
            ValueError: a size is not known, or a name is that of no initializer, regularizer,
            constraint.
        """
        if name is not None and not isinstance(name, str):
            name, shape, initializer = None, name, initializer if shape is None else shape
        wanted = dtypes.as_dtype(dtype or self.variable_dtype)
        label = name or "variable"
        sizes = known_sizes(self, label, () if shape is None else shape)
        default = "glorot_uniform" if wanted.is_floating else "zeros"
        make = initializers.get(default if initializer is None else initializer)
        variable = self._new_variable(make(sizes, dtype=wanted.name), label, wanted, autocast)
        variable.path = f"{self.name}/{label}"
        variable.trainable = bool(trainable)
        variable.regularizer = regularizers.get(regularizer)
        variable.constraint = constraints.get(constraint)
        if not self._trainable:
            tracking.set_trainable(variable, False)
        self._own.append(variable)
        self.__dict__["_found"] = None
        return variable

    def _new_variable(self, value: Any, name: str, dtype: Any, autocast: bool) -> Variable:
        mixed = self.compute_dtype != self.variable_dtype
        if not (mixed and autocast and self.autocast and dtype.is_floating):
            return Variable(value, name=name, dtype=dtype)
        variable = AutocastVariable(value, name=name, dtype=dtype)
        variable.compute_dtype = dtypes.as_dtype(self.compute_dtype)
        return variable

    def add_loss(self, loss: Any) -> None:
        """Count the scalar tensor `loss`, or each of a list of them, as a loss of the current call.

        Raises:
            InvalidArgumentError: it is no scalar tensor.
        """
        for one in nest.flatten(loss):
            if not is_tensor(one) or len(one.shape) > 0:
                raise InvalidArgumentError(
                    f"layer {self.name!r}: add_loss takes scalar tensors, got {short_text(one)}; "
                    "reduce it with ops.mean or ops.sum"
                )
            self._losses.append(one)
        self.__dict__["_losses_held"] = True
        if FRAME.entry is not None:
            FRAME.entry.__dict__["_losses_held"] = True

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The mask of the output; by default that of the inputs."""
        return previous_mask

    # ------------------------------------------------------------------ calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame, facts, told = FRAME, self._facts, False
        if not (
            len(args) == 1
            and not _HELD
            and type(x := args[0]) is Tensor
            and x._array.shape == self._ready_shape
            and x._array.dtype is self._ready_dtype
            and (not kwargs or (len(kwargs) == 1 and "training" in kwargs))
        ):
            symbol = symbol_in(args, kwargs)
            if symbol is not None:
                return symbol.apply_layer(self, args, kwargs)
            if not self.built:
                return self._first_call(args, kwargs)
            args, kwargs = self._prepare(args, kwargs)
            told = masks.any_held() or "mask" in kwargs
        entry, outer = frame.entry, frame.training
        training = outer
        if kwargs and "training" in kwargs:
            training = outer if kwargs["training"] is None else kwargs["training"]
            if not facts.takes_training:
                del kwargs["training"]
        elif len(args) > facts.training_position and args[facts.training_position] is not None:
            training = args[facts.training_position]
        if facts.takes_training:
            if training is None:
                training = facts.training_default
            if len(args) > (place := facts.training_position):
                args = (*args[:place], training, *args[place + 1 :])
            else:
                kwargs["training"] = training
        frame.training = training
        if entry is None:
            frame.entry = self
            if self._losses_held:
                self._clear_losses()
        try:
            y = self.call(*args, **kwargs)
            if self.activity_regularizer is not None:
                self._regularize_activity(y)
        except Exception as error:
            explain(self, error, args)
            raise
        finally:
            frame.entry, frame.training = entry, outer
        if told or _HELD or (facts.makes_masks and self.supports_masking):
            masks.pass_on(self, args, kwargs, y)
        return y

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Build and call; a failure leaves this layer and those inside as they were."""
        kept = state_of_all(self) if FRAME.entry is None else []
        try:
            args, kwargs = self._prepare(args, kwargs)
            self.built = True
            return self(*args, **kwargs)
        except BaseException:
            put_back(kept)
            raise

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments converted, checked and completed; the layer built."""
        if "dtype_policy" not in self.__dict__:
            raise RuntimeError(
                f"{type(self).__name__} is not set up: call super().__init__() first in its "
                "__init__"
            )
        dtype = dtypes.as_dtype(self.compute_dtype) if self.autocast else None
        if args:
            args = (first_input(args[0]), *args[1:])
        args = tuple(nest.map_structure(lambda x: to_input(x, dtype), a) for a in args)
        kwargs = {k: nest.map_structure(lambda x: to_input(x, dtype), v) for k, v in kwargs.items()}
        if self.input_spec is not None and (args or kwargs):
            check_inputs(self, self.input_spec, args[0] if args else next(iter(kwargs.values())))
        if not self.built:
            self._build_for(args, kwargs)
        if masks.any_held() and self._facts.mask_names:
            kwargs = masks.filled_in(self._facts, args, kwargs)
        if len(args) == 1 and type(args[0]) is Tensor:
            array = args[0]._array
            self.__dict__.update(_ready_shape=array.shape, _ready_dtype=array.dtype)
        return args, kwargs

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Build for the shapes of these arguments."""
        names = self._facts.build_names
        given = self._facts.by_name(args, kwargs)
        shapes = {name: shapes_of(value) for name, value in given.items()}
        first = shapes_of(args[0]) if args else next(iter(shapes.values()), None)
        if type(self).build is _BASE_BUILD:
            return  # the call that follows builds the layers inside
        more = {n: shapes[n[: -len("_shape")]] for n in names[1:] if n[: -len("_shape")] in shapes}
        if names:
            self.build(first, **more)
        else:
            self.build()  # type: ignore[call-arg]

    def _regularize_activity(self, y: Any) -> None:
        for out in nest.flatten(y):
            if is_tensor(out):
                penalty = convert_to_tensor(self.activity_regularizer(out))
                batch = ops.shape(out)[0] if len(out.shape) else 1
                self.add_loss(ops.divide(penalty, ops.cast(batch, penalty.dtype)))

    # ------------------------------------------------------------------ shapes without values

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """`Spec`s of the result of a call, found without computing it; the layer gets built.

        Args:
            *args: arguments of the call, with `Spec`s or symbolic tensors for tensors.
            **kwargs: those given by keyword.
        """

        def spec(x: Any) -> Any:
            return Spec(x.shape, x.dtype) if isinstance(x, SymbolicTensor) else x

        args, kwargs = nest.map_structure(spec, args), nest.map_structure(spec, kwargs)
        try:
            return abstract.result_specs(self, *args, **kwargs)
        finally:
            if self._losses_held:
                self._clear_losses()

    def compute_output_shape(self, *input_shapes: Any, **more: Any) -> Any:
        """The shape of the output for inputs of these shapes; nothing is built or changed.

        Args:
            *input_shapes: one for each argument of `call`; a tuple with `None` for sizes that are
                not known, or a list or dict of them.
            **more: shapes by keyword, counted after the others.
        """
        shapes = list(input_shapes) + list(more.values())
        specs = [specs_of(shape, self.compute_dtype) for shape in shapes]
        kept = state_of_all(self)
        try:
            result = self.compute_output_spec(*specs)
        finally:
            put_back(kept)
        return nest.map_structure(lambda y: tuple(y.shape) if isinstance(y, Spec) else y, result)

    def _call_on_specs(self, *args: Any, **kwargs: Any) -> Any:
        return self.compute_output_spec(*args, **kwargs)

    def _note_symbolic_call(self, inputs: Any, outputs: Any) -> None:
        """Remember the symbolic tensors of the first call while a model was drawn up."""
        if self._symbolic_call is None:
            object.__setattr__(self, "_symbolic_call", (inputs, outputs))

    @property
    def input(self) -> Any:
        """The symbolic input of the layer's first call in a functional model.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._symbolic(0)

    @property
    def output(self) -> Any:
        """The symbolic output of the layer's first call in a functional model.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._symbolic(1)

    def _symbolic(self, which: int) -> Any:
        if self._symbolic_call is None:
            raise AttributeError(
                f"layer {self.name!r} has no input or output yet: it was never called on the "
                "symbolic tensors of a functional model"
            )
        return self._symbolic_call[which]

    # ------------------------------------------------------------------ dtypes

    @property
    def dtype(self) -> str:
        """Name of the dtype in which weights are kept."""
        return self.dtype_policy.variable_dtype

    @property
    def variable_dtype(self) -> str:
        """Name of the dtype in which weights are kept."""
        return self.dtype_policy.variable_dtype

    @property
    def compute_dtype(self) -> str:
        """Name of the dtype of the arithmetic, to which floating inputs are cast."""
        return self.dtype_policy.compute_dtype

    # ------------------------------------------------------------------ config

    def get_config(self) -> dict[str, Any]:
        """The arguments that make a layer like this one, as plain values."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        config["dtype"] = self.dtype_policy.name
        if self.activity_regularizer is not None:
            config["activity_regularizer"] = serialize_object(self.activity_regularizer)
        return {**config, **arguments_of(self, self._init_arguments)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A new layer made by what `get_config` gave."""
        return cls(**{key: _argument(key, value) for key, value in config.items()})

    def get_build_config(self) -> dict[str, Any]:
        """The shapes that the layer was built with, empty before."""
        shapes: dict[str, Any] = self.__dict__.get("_build_shapes", {})
        return dict(shapes)

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build with the shapes that `get_build_config` gave."""
        if config and not self.built:
            self.build(**{name: tuples_of(shape) for name, shape in config.items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"


def _input_shape_in(kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """The shape of a batch that the old arguments `input_shape` or `input_dim` give."""
    if "input_dim" in kwargs:
        return (None, kwargs.pop("input_dim"))
    if "batch_input_shape" in kwargs:
        return tuple(kwargs.pop("batch_input_shape"))
    if "input_shape" in kwargs:
        return (None, *kwargs.pop("input_shape"))
    return None


def _facts_of(kind: type) -> CallFacts:
    facts = kind.__dict__.get("_call_facts")
    if facts is None:
        facts = CallFacts(kind, Layer)
        kind._call_facts = facts  # type: ignore[attr-defined]
    return facts


_BASE_BUILD = Layer.build = marking_built(Layer.build)  # type: ignore[method-assign]


def _argument(key: str, value: Any) -> Any:
    """An argument from a config: a layer or policy where a dict describes one."""
    if key == "dtype":
        return policy_of(value) if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        return deserialize_object(value)
    return value


def get(identifier: Any) -> Any:
    """A layer from its config, class, name, or itself."""
    return LAYERS.get(identifier)


def serialize(layer: Any) -> dict[str, Any]:
    """A layer as a dict that `deserialize` reads."""
    described: dict[str, Any] = serialize_object(layer)
    return described


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The layer that `serialize` described, with new weights.

    Raises:
        ValueError: the config names an unknown class.
    """
    return LAYERS.deserialize(config, custom_objects)


__all__ = ["DTypePolicy", "InputSpec", "Layer", "deserialize", "get", "serialize"]
