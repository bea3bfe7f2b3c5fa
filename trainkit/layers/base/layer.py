"""`Layer`: weights made at the first call, a `call` made of operations, and a config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from trainkit import constraints, ops, regularizers
from trainkit.core import dtypes, masks, nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import (
    ConfigError,
    InvalidArgumentError,
    UnimplementedError,
    UnknownArgumentError,
)
from trainkit.core.names import name_for
from trainkit.core.process.garbage import LARGE_BYTES
from trainkit.core.registry import serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.python_values import short_text
from trainkit.core.values.type_aliases import RegularizerLike
from trainkit.core.variable import OVERWRITTEN, Variable
from trainkit.layers.base import mask_propagation, output_specs, tracking
from trainkit.layers.base.autocast import first_input, symbol_in, to_inputs
from trainkit.layers.base.building import all_built, first_call, marking_built
from trainkit.layers.base.call_spec import FRAME, CallSpec, call_spec_of
from trainkit.layers.base.config import (
    LAYERS,
    accepted,
    arguments_of,
    own_get_config,
    read_argument,
    written_by_users,
)
from trainkit.layers.base.dtype_policy import DTypePolicy, described_policy, policy_of
from trainkit.layers.base.error_context import explain, explain_none, nearest_argument
from trainkit.layers.base.input_spec import InputSpec, check_inputs, check_positional
from trainkit.layers.base.nested_shapes import shapes_of, specs_of, tuples_of
from trainkit.layers.base.output_specs import Replaceable
from trainkit.layers.base.rematerialization import SCOPES, rematerialize
from trainkit.layers.base.stateless_call import stateless_call
from trainkit.layers.base.tracking import forget_parts
from trainkit.layers.base.weight_arguments import make_weight, placed, set_autocast
from trainkit.layers.base.weights import WeightHolder, check_unlocked
from trainkit.layers.quantized.forms_inside import NOTES, notes_of, restore_notes
from trainkit.layers.quantized.quantization import LayerQuantization, is_quantized, refuse_mode

_HELD = masks.HELD
_TAPES = trace_state.TAPES


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

    activity_regularizer: Any
    _init_arguments: Any
    _losses_held: Any
    _ready_dtype: Any
    _ready_shape: Any
    _symbolic_call: Any
    _facts: CallSpec
    _path: str | None
    quantization_config: Any

    _quantization: ClassVar[LayerQuantization] = LayerQuantization()  # of no forms but floats
    _without_state = False  # whether objects count as built from the start
    _allow_non_tensor_positional_args = False
    _warns_of_lost_masks = True
    _built_by_running = False  # by `super().build()`, too
    _rematerialized_by_scopes = True  # unless a scope names its layers

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Made here, as subclasses set attributes before they call super().__init__(), and setting
        # one reads `_own` and `_parts_of`. Into `__dict__` at once: none of this is a part or a
        # setting.
        layer = object.__new__(cls)
        layer.__dict__.update(
            _facts=call_spec_of(cls, Layer),
            _init_arguments=(args, kwargs),
            _own=[],
            _losses=[],
            _losses_held=False,
            _parts_of=None,
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
        activity_regularizer: RegularizerLike | None = None,
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
        variable = make_weight(
            self, name or "variable", shape, initializer, dtype, bool(trainable), aggregation
        )
        if autocast:
            set_autocast(variable, self)
        if overwrite_with_gradient:
            OVERWRITTEN[id(variable)] = variable
        variable.regularizer = regularizers.get(regularizer)
        variable.constraint = constraints.get(constraint)
        if not self._trainable:
            # Frozen by its layer, not by itself: thawing the layer is to thaw it.
            tracking.set_trainable(variable, False)
        # A weight counts although no attribute may ever hold it.
        self._own.append(variable)
        forget_parts(self)
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
        # In plain words, without what makes it fast:
        #
        #     args, kwargs = self._prepare(args, kwargs)  # cast, checked; the layer built
        #     kwargs["training"] = what the caller says, else the call around, else the default
        #     y = self.call(*args, **kwargs)
        #     mask_propagation.pass_on(self, args, kwargs, y)
        #
        frame, facts, has_masks = FRAME, self._facts, False

        # 1. The arguments. A call like the last one that was checked, on a tensor of that shape and
        # dtype without any mask about, needs no conversion, no check and no search for symbols,
        # which cost more than a small layer computes. `_array` is asked, since the shape of a
        # Tensor is an object of its own.
        if not (
            len(args) == 1
            and not _HELD
            and type(x := args[0]) is Tensor
            and x._array.shape == self._ready_shape
            and x._array.dtype is self._ready_dtype
            and (not kwargs or (len(kwargs) == 1 and "training" in kwargs))
        ):
            # A symbol of a functional model makes a node of that model in place of a result.
            symbol = symbol_in(args, kwargs)
            if symbol is not None:
                return symbol.apply_layer(self, args, kwargs)
            # The layer is built, and called once more, by a call that can be undone as a whole.
            if not self.built:
                return first_call(self, args, kwargs)
            args, kwargs = self._prepare(args, kwargs)
            has_masks = masks.any_held() or "mask" in kwargs

        # What the layers before have left is freed as they are called, not when all are.
        if _TAPES and len(_TAPES) == 1 and args and type(x := args[0]) is Tensor:
            if x._array.nbytes >= LARGE_BYTES:
                _TAPES[0].free_unread_values()

        # 2. What the call is for. In order of priority: what the caller says, by keyword or by
        # position; what the call around runs for; the default of `call`'s argument. A None from the
        # caller says nothing. What is said holds for the layers inside even if this `call` has no
        # such argument, which then must not get it.
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
                if training and entry is not None:
                    training = self._default_training_within(entry)
            if len(args) > (position := facts.training_position):
                args = (*args[:position], training, *args[position + 1 :])
            else:
                kwargs["training"] = training

        # 3. The frame, which calls inside read. Losses outlive the call that added them, as
        # `losses` is read after it; the next call from outside ends them. A call from within must
        # not: those of its siblings are there.
        frame.training = training
        if entry is None:
            frame.entry = self
            if self._losses_held:
                self._clear_losses()

        # 4. The call itself, whose errors get the name of the layer.
        try:
            y = self.call(*args, **kwargs)
            if self.activity_regularizer is not None:
                self._regularize_activity(y)
        except Exception as error:
            explain(self, error, args)
            if text := explain_none(error, self, entry, args, kwargs):
                raise ValueError(text) from error
            raise
        finally:
            frame.entry, frame.training = entry, outer

        # 5. The masks of the result. `_HELD` is asked again, as the call itself may have set the
        # first one.
        if has_masks or _HELD or (facts.makes_masks and self.supports_masking):
            mask_propagation.pass_on(self, args, kwargs, y)
        return y

    def _default_training_within(self, entry: Layer) -> Any:
        """What `training` is, where its default holds and nobody says, in a call of `entry`."""
        return self._facts.training_default

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
        args, kwargs = to_inputs(args, kwargs, dtype)
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

    def _regularize_activity(self, y: Any) -> None:
        for out in nest.flatten(y):
            if is_tensor(out):
                # Divided by the batch size, as in Keras, so that the strength does not depend on
                # it.
                penalty = convert_to_tensor(self.activity_regularizer(out))
                batch = ops.shape(out)[0] if len(out.shape) else 1
                self.add_loss(ops.divide_no_nan(penalty, ops.cast(batch, penalty.dtype)))

    def stateless_call(
        self,
        trainable_variables: Sequence[Any],
        non_trainable_variables: Sequence[Any],
        *args: Any,
        return_losses: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Call the layer with other values of its variables; its own stay as they are.

        Args:
            trainable_variables: a value for each of `trainable_variables`.
            non_trainable_variables: a value for each of `non_trainable_variables`; seeds of
                random layers are among them.
            *args: of the call.
            return_losses: give back the losses of the call, too.
            **kwargs: of the call.

        Returns:
            The outputs and the values of `non_trainable_variables` after the call, as a tuple; with
            `return_losses` the list of losses that layers added comes third.

        Raises:
            NotBuiltError: the layer has no weights yet.
            ValueError: there is not one value for each variable, or one of another shape.

        Example:
            >>> layer = tk.layers.Dense(1, kernel_initializer="ones")
            >>> layer.build((None, 2))
            >>> x, others = tk.ones((1, 2)), [tk.ones((2, 1)) * 3.0, tk.zeros(1)]
            >>> y, _ = layer.stateless_call(others, [], x)
            >>> float(y[0, 0]), float(layer(x)[0, 0])
            (6.0, 2.0)
        """
        return stateless_call(
            self, trainable_variables, non_trainable_variables, args, kwargs, return_losses
        )

    # ------------------------------------------------------------------ shapes without values

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """`Spec`s of the result of a call, found without computing it.

        They are what `compute_output_shape` says, in the compute dtype, if a class of the user
        defines it; else `call` is run on shapes, for which the layer gets built.

        Args:
            *args: arguments of the call, with `Spec`s or symbolic tensors for tensors.
            **kwargs: those given by keyword.
        """
        return output_specs.specs_of_call(self, args, kwargs)

    def compute_output_shape(self, *input_shapes: Any, **more: Any) -> Any:
        """The shape of the output for inputs of these shapes; nothing is built or changed.

        Args:
            *input_shapes: one for each argument of `call`; a tuple with `None` for sizes that are
                not known, or a list or dict of them.
            **more: shapes by keyword, counted after the others.
        """
        return output_specs.shapes_of_call(self, [*input_shapes, *more.values()])

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """`compute_output_spec`, under Keras's other name."""
        return self.compute_output_spec(*args, **kwargs)

    @property
    def input(self) -> Any:
        """The symbolic input of the layer's first call in a functional model; a list of several.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return output_specs.symbols_of_call(self, 0)

    @property
    def output(self) -> Any:
        """The symbolic output of the layer's first call in a functional model; a list of several.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return output_specs.symbols_of_call(self, 1)

    @Replaceable
    def input_shape(self) -> Any:
        """The shape of the input of the layer's first call in a functional model.

        A tuple, with `None` for sizes that are not known; a list of them for several inputs, and
        for an `InputLayer`, as in TensorFlow 2.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return shapes_of(self.input)

    @Replaceable
    def output_shape(self) -> Any:
        """The shape of the output of the layer's first call in a functional model.

        A tuple, or a list of them, as `input_shape` is.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return shapes_of(self.output)

    # ------------------------------------------------------------------ quantization

    @property
    def quantization_mode(self) -> str | None:
        """The mode in which the layer is quantized, or will be built; `None` for none."""
        mode: str | None = self.dtype_policy.at(self._path).quantization_mode
        return mode

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Keep the weights in few bits from now on.

        Args:
            mode: `"int8"`, `"int4"`, `"float8"`, `"ternary"`, `"gptq"` or `"awq"`.
            type_check: whether a class derived from a layer that can be quantized is refused.
            config: a `QuantizationConfig` in place of the mode's own, or its mode.

        Raises:
            ValueError: the layer is not built, or quantized already, or the mode does not exist or
                does not fit.
            NotImplementedError: the layer can't be quantized, or not in this mode. It stays as it
                was.
        """
        self._quantization.quantize(self, mode, type_check, config)

    def quantized_build(self, input_shape: Any, mode: str, config: Any = None) -> None:
        """Make the weights of a quantized layer, without values yet.

        Args:
            input_shape: the shape of the kernel or table before it is quantized.
            mode: how.
            config: a `QuantizationConfig`; by default the dtype policy says the rest.

        Raises:
            NotImplementedError: the layer can't be quantized, or not in this mode.
        """
        self._quantization.build(self, input_shape, mode, config)

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """The call of a quantized layer, which `call` is once it is quantized.

        Raises:
            NotImplementedError: it is not quantized.
        """
        if not is_quantized(self):
            refuse_mode(self, self.quantization_mode)
        return self.call(*args, **kwargs)

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
        arguments = {k: v if k in raw else read_argument(k, v) for k, v in config.items()}
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
            some are frozen by themselves: an optimizer in the same file has no slots for them;
            with `layer_forms`, by their numbers, which layers inside are quantized, have LoRA or
            are frozen.
        """
        shapes: dict[str, Any] | None = self.__dict__.get("_build_shapes")
        if shapes is None and not self.built:
            return None
        notes = notes_of(self)
        if shapes is None:  # the constructor has built it
            return notes or None
        if len(shapes) == 1:
            return {"input_shape": next(iter(shapes.values())), **notes}
        return {"shapes_dict": dict(shapes), **notes}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build with the shapes that `get_build_config` gave, and freeze what it names."""
        if not config or self.built:
            return
        shapes = {name: value for name, value in config.items() if name not in NOTES}
        if shapes:
            self._build_with(config.get("shapes_dict", shapes))
            self._restore_built(config)

    def _restore_built(self, config: dict[str, Any]) -> None:
        restore_notes(self, config)

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


# `__init_subclass__` does not run for Layer itself.
_BASE_BUILD = Layer.build = marking_built(Layer.build)  # type: ignore[method-assign]


__all__ = ["DTypePolicy", "InputSpec", "Layer"]
