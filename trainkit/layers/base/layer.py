"""`Layer`: weights made at the first call, a `call` made of operations, and a config."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from trainkit import constraints, initializers, ops, regularizers
from trainkit.core import dtypes, masks, nest
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import (
    ConfigError,
    InvalidArgumentError,
    UnimplementedError,
    UnknownArgumentError,
)
from trainkit.core.names import name_for
from trainkit.core.registry import Registry, deserialize_object, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.python_values import short_text
from trainkit.core.variable import OVERWRITTEN, Variable
from trainkit.layers.base import mask_propagation, tracking, weight_budget
from trainkit.layers.base.autocast import first_input, symbol_in, to_input
from trainkit.layers.base.building import (
    all_built,
    marking_built,
    put_back,
    state_of_all,
)
from trainkit.layers.base.call_spec import FRAME, CallSpec
from trainkit.layers.base.config import (
    accepted,
    arguments_of,
    own_get_config,
    written_by_users,
)
from trainkit.layers.base.dtype_policy import DTypePolicy, described_policy, policy_of
from trainkit.layers.base.error_context import called_on_none, explain, nearest_argument
from trainkit.layers.base.input_spec import InputSpec, check_inputs, check_positional
from trainkit.layers.base.nested_shapes import known_sizes, specs_of, tuples_of
from trainkit.layers.base.paths import current_path, path_in, scope
from trainkit.layers.base.rematerialization import SCOPES, rematerialize
from trainkit.layers.base.stateless_call import StatelessCalls
from trainkit.layers.base.weight_arguments import check_options, memory_for, placed, set_autocast
from trainkit.layers.base.weights import check_unlocked
from trainkit.layers.quantized.quantizable import Quantizable, read_config

LAYERS = Registry("layers", "layer")
_HELD = masks.HELD


class Layer(Quantizable, StatelessCalls):
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
        UnknownArgumentError: an argument that no layer has; a `TypeError` and a `ValueError`.
        ValueError: `trainable` is no bool, or `name` no name.

    Example:
        >>> class Scale(tk.layers.Layer):
        ...     def build(self, input_shape):
        ...         self.factor = self.add_weight((input_shape[-1],), initializer="ones")
        ...     def call(self, x):
        ...         return x * self.factor
        >>> layer = Scale()
        >>> layer(tk.ones((2, 3))).shape
        TensorShape([2, 3])
        >>> len(layer.trainable_variables)
        1
    """

    _init_arguments: Any
    _losses_held: Any
    _ready_dtype: Any
    _ready_shape: Any

    _without_state = False  # whether objects count as built from the start
    _allow_non_tensor_positional_args = False
    _warns_of_lost_masks = True
    _built_by_running = False  # by `super().build()`, too
    _rematerialized_by_scopes = True  # unless a scope names its layers

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Made here, as subclasses set attributes before they call super().__init__(), and setting
        # one reads `_own` and `_found`. Into `__dict__` at once: none of this is a part or a
        # setting.
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
            _path=None,
            _locked=False,
            built=cls._without_state and cls.build is _BASE_BUILD,
        )
        return layer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Wrapped once for each class that writes one, so that super().build() is a whole build as
        # well.
        if "build" in cls.__dict__:
            cls.build = marking_built(cls.__dict__["build"])  # type: ignore[method-assign]
        LAYERS.add_built_in(cls)

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
            raise UnknownArgumentError(
                f"{type(self).__name__} got arguments that it does not have: "
                + ", ".join(name + nearest_argument(type(self), name) for name in sorted(kwargs))
            )
        if not isinstance(trainable, bool | np.bool_):
            raise ValueError(f"{type(self).__name__}: trainable must be a bool, got {trainable!r}")
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
        # Where a layer is made decides, not where it is called, so calls need not look for scopes.
        if SCOPES.active:
            rematerialize(self, SCOPES.active[-1])
        if input_shape is not None:
            self._input_shape_argument = input_shape

    # ------------------------------------------------------------------ for subclasses

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of this shape (`None` for the batch size).

        A layer made of other layers needs none of its own: those are built by running `call` on
        shapes. `super().build(input_shape)` in a `build` of one's own leaves them to the call.
        """
        runs = type(self).call is not Layer.call and input_shape is not None
        # A build of the class's own that ends in super().build() leaves the layers inside to the
        # call, which may have masks and further arguments that a run on shapes alone would lack.
        runs = runs and (type(self).build is _BASE_BUILD or self._built_by_running)
        if runs and tracking.sublayers(self, Layer) and not all_built(self):
            eval_shape.result_specs(self.call, specs_of(input_shape, self.compute_dtype))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output from the inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no method call(self, inputs)")

    def add_weight(
        self,
        *args: Any,
        shape: Any = None,
        initializer: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
        aggregation: str | None = "none",
        overwrite_with_gradient: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Make a weight of this layer.

        Args:
            *args: shape, initializer and dtype may be given by position. A name may stand before
                them, as in TensorFlow 2.
            shape: sizes; a scalar by default.
            initializer: object or name; by default `"glorot_uniform"` for floats, else `"zeros"`.
            dtype: by default that in which the layer keeps weights.
            trainable: whether optimizers train it.
            autocast: whether calls of a mixed-precision layer see it in the compute dtype.
            regularizer: function of the weight whose result counts as a loss.
            constraint: function that puts the weight back into bounds after each optimizer step.
            aggregation: how replicas of it would be joined; kept as its attribute.
            overwrite_with_gradient: whether optimizers put the gradient in the place of its value.
            name: such as `"kernel"`.

        Raises:
            TypeError: too many arguments by position.
            ValueError: an argument is given twice, a size is not known, a name is that of no
                initializer, regularizer, constraint, or the layer is built already.
        """
        name, shape, initializer, dtype = placed(args, name, shape, initializer, dtype)
        check_unlocked(self)
        weight_dtype = dtypes.as_dtype(dtype or self.variable_dtype)
        label = name or "variable"
        sizes = known_sizes(self, label, () if shape is None else shape)
        # Before any memory is asked for: a file of a few bytes can name a weight of any size.
        weight_budget.spend(self, label, sizes, weight_dtype)
        default = "glorot_uniform" if weight_dtype.is_floating else "zeros"
        make = initializers.get(default if initializer is None else initializer)
        check_options(self, aggregation)
        with memory_for(self, label, sizes, weight_dtype):
            start = make(sizes, dtype=weight_dtype.name)
            variable = Variable(start, bool(trainable), label, weight_dtype)
        set_autocast(variable, self if autocast else None)
        if overwrite_with_gradient:
            OVERWRITTEN[id(variable)] = variable
        # Fixed now: only while layers are being built it is known which ones are around this one.
        variable.path = path_in(self, label)
        # Programs of TensorFlow see "kernel:0"; weights of layers have the names that Keras gives.
        variable._numbered = False
        variable.aggregation = "none" if aggregation is None else aggregation
        variable.regularizer = regularizers.get(regularizer)
        variable.constraint = constraints.get(constraint)
        if not self._trainable:
            # Frozen by its layer, not by itself: thawing the layer is to thaw it.
            tracking.set_trainable(variable, False)
        # A weight counts although no attribute may ever hold it.
        self._own.append(variable)
        self.__dict__["_found"] = None
        return variable

    add_variable = add_weight

    def add_loss(self, loss: Any) -> None:
        """Count the tensor `loss`, or each of a list of them, as a loss of the current call.

        Args:
            loss: scalar tensors; one of another shape, as with a loss for each sample, counts as
                the sum of its elements.

        Raises:
            InvalidArgumentError: it is no tensor.
        """
        for one in nest.flatten(loss):
            if not is_tensor(one):
                raise InvalidArgumentError(
                    f"layer {self.name!r}: add_loss takes tensors, got {short_text(one)}"
                )
            if len(one.shape):
                one = ops.sum(one)
            self._losses.append(one)
            if FRAME.noted is not None:
                FRAME.noted.append((self, one))
        # The next outermost call clears the losses of all layers inside, and looks at one flag for
        # it: its own. So a loss raises the flag here and at the layer whose call is under way.
        self.__dict__["_losses_held"] = True
        if FRAME.entry is not None:
            FRAME.entry.__dict__["_losses_held"] = True

    def add_metric(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: metrics are attributes of layers, which `fit` finds and reports.

        Raises:
            UnimplementedError: always, as in Keras 3.
        """
        raise UnimplementedError(
            f"layer {self.name!r}: add_metric is gone; make a metric in __init__, as in self.size "
            "= tk.metrics.Mean(name='size'), and call self.size.update_state(value) in call(), and "
            "fit() reports it; or give metrics to compile()"
        )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The mask of the output; by default that of the inputs."""
        return previous_mask

    # ------------------------------------------------------------------ calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A call like the last one that was checked, on a tensor of that shape and dtype without any
        # mask about, needs no conversion, no check and no search for symbols, which cost more than
        # a small layer computes. `_array` is asked, since the shape of a Tensor is an object of its
        # own.
        frame, facts, has_masks = FRAME, self._facts, False
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
            has_masks = masks.any_held() or "mask" in kwargs
        entry, outer = frame.entry, frame.training
        training = outer
        if kwargs and "training" in kwargs:
            # An explicit None asks for what the call around runs for. What a caller says holds for
            # the layers inside even if this `call` has no such argument, which then must not get
            # it.
            training = outer if kwargs["training"] is None else kwargs["training"]
            if not facts.takes_training:
                del kwargs["training"]
        elif len(args) > facts.training_position and args[facts.training_position] is not None:
            training = args[facts.training_position]
        if facts.takes_training:
            if training is None:
                training = facts.training_default
                if training and entry is not None:
                    training = self._default_training_within(entry)
            if len(args) > (position := facts.training_position):
                args = (*args[:position], training, *args[position + 1 :])
            else:
                kwargs["training"] = training
        frame.training = training
        # Losses outlive the call that added them, as `losses` is read after it; the next call from
        # outside ends them. A call from within must not: those of its siblings are there.
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
        # `_HELD` is asked again, as the call itself may have set the first mask.
        if has_masks or _HELD or (facts.makes_masks and self.supports_masking):
            mask_propagation.pass_on(self, args, kwargs, y)
        return y

    def _default_training_within(self, entry: Layer) -> Any:
        """What `training` is, where its default holds and nobody says, in a call of `entry`."""
        return self._facts.training_default

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Build and call; a failure leaves this layer and those inside as they were."""
        # The outermost first call notes the whole tree. One inside need not: each layer would be
        # noted once for each layer around it.
        outermost = not FRAME.builds
        states = state_of_all(self) if outermost else []
        FRAME.builds = True
        try:
            with scope(self):
                if "name" in self.__dict__:  # else `_prepare` says what is wrong
                    self.__dict__["_path"] = current_path()  # a map of dtype policies asks for it
                args, kwargs = self._prepare(args, kwargs)
                # Before the call: it comes back through `__call__`, which would build once more.
                self.__dict__.update(built=True, _locked=self._locks)
                y = self(*args, **kwargs)
                if y is None:
                    self.__dict__["_gave_none"] = True
                return y
        except BaseException as error:
            missing = (
                called_on_none(self, FRAME.entry, args) if isinstance(error, Exception) else ""
            )
            put_back(states)
            if missing:
                raise ValueError(missing) from error
            raise
        finally:
            if outermost:
                FRAME.builds = False

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments converted, checked and completed; the layer built."""
        # Set by __init__ of this class, so a subclass has left that call out.
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
        if len(args) > 1 and not self._allow_non_tensor_positional_args:
            check_positional(self, args[1:])
        # Checked after the casts, as a spec may name a dtype, and before the build, so that an
        # input that does not fit makes no weights of its sizes.
        if self.input_spec is not None and (args or kwargs):
            check_inputs(self, self.input_spec, args[0] if args else next(iter(kwargs.values())))
        if not self.built:
            self._build_for(args, kwargs)
        # After the casts, which move masks to the tensors that they make.
        if masks.any_held() and self._facts.mask_names:
            kwargs = mask_propagation.filled_in(self._facts, args, kwargs)
        # Last, so that a call that failed above does not spare the next one its checks.
        if len(args) == 1 and type(args[0]) is Tensor:
            array = args[0]._array
            self.__dict__.update(_ready_shape=array.shape, _ready_dtype=array.dtype)
        return args, kwargs

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Build for the shapes of these arguments."""
        if type(self).build is _BASE_BUILD:
            return  # the call that follows builds the layers inside
        self.build(**self._facts.shapes_for("build", self, args, kwargs))

    def _get_ready(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Check and build for arguments with `Spec`s, for a class that says its output shape."""
        states = [] if self.built else state_of_all(self)
        try:
            with scope(self):
                args, kwargs = self._prepare(args, kwargs)
                # A class without a build of its own was left to its call, which shapes do not reach
                # where the class says its output itself; it is built as far as shapes can.
                if not self.built:
                    shapes = self._facts.shapes_for("build", self, args, kwargs)
                    self.build(*list(shapes.values())[:1])
        except BaseException:
            put_back(states)
            raise

    def _regularize_activity(self, y: Any) -> None:
        for out in nest.flatten(y):
            if is_tensor(out):
                # Divided by the batch size, as in Keras, so that the strength does not depend on
                # it.
                penalty = convert_to_tensor(self.activity_regularizer(out))
                batch = ops.shape(out)[0] if len(out.shape) else 1
                self.add_loss(ops.divide_no_nan(penalty, ops.cast(batch, penalty.dtype)))

    # ------------------------------------------------------------------ dtypes

    @property
    def dtype(self) -> str:
        """Name of the dtype in which weights are kept."""
        return self.variable_dtype

    @property
    def variable_dtype(self) -> str:
        """Name of the dtype in which weights are kept."""
        return self.dtype_policy.at(self._path).variable_dtype

    @property
    def compute_dtype(self) -> str:
        """Name of the dtype of the arithmetic, to which floating inputs are cast."""
        return self.dtype_policy.at(self._path).compute_dtype

    @property
    def input_dtype(self) -> str:
        """Name of the dtype to which floating inputs are cast."""
        return self.compute_dtype

    @property
    def path(self) -> str | None:
        """Names of the layers around it while it was built and its own; `None` before."""
        path: str | None = self._path
        return path

    # ------------------------------------------------------------------ config

    def get_config(self) -> dict[str, Any]:
        """The arguments that make a layer like this one, as plain values."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        config["dtype"] = described_policy(self.dtype_policy)
        if self.activity_regularizer is not None:
            config["activity_regularizer"] = serialize_object(self.activity_regularizer)
        kind: Any = type(self)
        # A class of the user's may take neither `trainable` nor `dtype`, and from_config is to make
        # it from what stands here. One with a get_config of its own drops what it does not want
        # there.
        if not own_get_config(kind):
            argument_names = accepted(kind)
            config = {name: value for name, value in config.items() if name in argument_names}
        return {**config, **arguments_of(self, self._init_arguments)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A new layer made by what `get_config` gave.

        Dicts among the arguments that describe objects are read for layers of this package, and
        for classes that leave `get_config` to it. A class with a `get_config` of its own is given
        its arguments as they stand in the config.
        """
        raw = written_by_users(cls)  # type: ignore[arg-type]
        arguments = {k: v if k in raw else _argument(k, v) for k, v in config.items()}
        if arguments.get("quantization_config", 0) is None:  # Keras notes that it has none
            del arguments["quantization_config"]
        try:
            return cls(**arguments)
        except ValueError as error:
            raise ConfigError(
                f"{cls.__name__} can't be made from its config: {error}\n  config  {config}"
            ) from error

    def get_build_config(self) -> dict[str, Any] | None:
        """What the layer was built for, `None` before.

        Returns:
            `{"input_shape": shape}`, or `{"shapes_dict": shapes}` by the names of `build`'s
            arguments where it takes several; with `frozen_weights`, numbers in `weights`, where
            some are frozen by themselves: an optimizer in the same file has no slots for them.
        """
        shapes: dict[str, Any] | None = self.__dict__.get("_build_shapes")
        if shapes is None:
            return None
        frozen = tracking.frozen_alone(self.weights)
        config = {"frozen_weights": frozen} if frozen else {}
        if len(shapes) == 1:
            return {"input_shape": next(iter(shapes.values())), **config}
        return {"shapes_dict": dict(shapes), **config}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build with the shapes that `get_build_config` gave, and freeze what it names."""
        if not config or self.built:
            return
        config = dict(config)
        frozen = config.pop("frozen_weights", ())
        self._build_with(config.get("shapes_dict", config))
        # The numbers count weights, which the build has made just now.
        tracking.freeze_alone(self, frozen)

    def _build_with(self, shapes: dict[str, Any]) -> None:
        if list(shapes) == ["input_shape"]:
            self.build(tuples_of(shapes["input_shape"]))
        else:
            self.build(**{name: tuples_of(shape) for name, shape in shapes.items()})

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


def _facts_of(kind: type) -> CallSpec:
    # Of this very class: a base's would be inherited, and its `call` may have other arguments.
    facts = kind.__dict__.get("_call_spec")
    if facts is None:
        facts = CallSpec(kind, Layer)
        kind._call_spec = facts  # type: ignore[attr-defined]
    return facts


# `__init_subclass__` does not run for Layer itself.
_BASE_BUILD = Layer.build = marking_built(Layer.build)  # type: ignore[method-assign]


def _argument(key: str, value: Any) -> Any:
    """An argument from a config: a layer or policy where a dict describes one."""
    if key == "dtype":
        return policy_of(value) if isinstance(value, dict) else value
    if key == "quantization_config":
        return read_config(value)
    if isinstance(value, dict | list):
        return deserialize_object(value)
    return value


def get(identifier: Any) -> Any:
    """A layer from its config, class, name, or itself.

    Args:
        identifier: a name, a config, a class, or what is to be given back.

    Example:
        >>> type(tk.layers.get({"class_name": "Dense", "config": {"units": 3}})).__name__
        'Dense'
    """
    return LAYERS.get(identifier)


def serialize(layer: Any) -> dict[str, Any]:
    """A layer as a dict that `deserialize` reads.

    Args:
        layer: the layer.

    Example:
        >>> tk.layers.serialize(tk.layers.Dense(3))["config"]["units"]
        3
    """
    described: dict[str, Any] = serialize_object(layer)
    return described


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The layer that `serialize` described, with new weights.

    Args:
        config: what `serialize` gave, or a name.
        custom_objects: classes and functions by name, besides those that are registered.

    Raises:
        ValueError: the config names an unknown class.

    Example:
        >>> config = tk.layers.serialize(tk.layers.Dense(3))
        >>> tk.layers.deserialize(config).units
        3
    """
    return LAYERS.deserialize(config, custom_objects)


__all__ = ["DTypePolicy", "InputSpec", "Layer", "deserialize", "get", "serialize"]
