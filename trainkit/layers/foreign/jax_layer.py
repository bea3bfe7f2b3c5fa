"""`JaxLayer`: a function of JAX as a layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.errors import ConfigError, InvalidArgumentError
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.trackable import set_silently
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable
from trainkit.interop.jax_arrays import dtype_of, tensor_of
from trainkit.interop.packages import jax_for
from trainkit.layers.base.layer import Layer
from trainkit.layers.foreign.outside_call import call_outside, probe_specs, results_before
from trainkit.ops.sampling.generators import SeedGenerator

_CALL = ("params", "state", "rng", "inputs", "training")
_INIT = ("rng", "inputs", "training")


class JaxLayer(Layer):
    """A function of JAX as a layer, which trains with others in `fit` and in loops of one's own.

    `call_fn` has the arguments `params` and `inputs`, and `state`, `rng` and `training` where it
    wants them, by these names and in any order; with `state` it returns `(outputs, new_state)`. The
    floats in the nest `params` become trainable variables, everything else in it and in `state`
    non-trainable ones. `init_fn` has the argument `inputs`, and `rng` and `training` where it wants
    them; it returns `params`, or `(params, state)` where `call_fn` has a state. It is called when
    the layer is built, on ones of the inputs' shapes with 1 for the sizes that are not known.

    The functions run compiled, by `jax.jit`, once for each value of `training`; in graphs, as `fit`
    makes them, that is a call of Python. The gradient runs `call_fn` a second time, with the same
    `rng`. JAX has types of 64 bits only where its option `jax_enable_x64` is on.

    Args:
        call_fn: the function.
        init_fn: makes `params` and the state; not needed where these are given.
        params: nest of arrays to start from.
        state: nest of arrays to start from.
        seed: of the keys `rng`; by default the next that `tk.random.set_seed` derives.
        **kwargs: `name`, `trainable`, `dtype` and the other arguments of layers.

    Raises:
        ImportError: JAX is not installed.
        ValueError: a function has arguments other than these or lacks one; neither `init_fn` nor
            `params` is given; there is no `state` for a `call_fn` that has one, or one for a
            `call_fn` that has none.
        TypeError: a function is not callable; in a call, `call_fn` has a state and returns no pair.
        InvalidArgumentError: a dtype is one that JAX or trainkit has not; in a call, the state has
            come back with other shapes.
        ConfigError: a config is asked for, and there is no `init_fn`.
        UnimplementedError: a second derivative is asked for.

    Example:
        >>> import jax
        >>> def call(params, inputs):
        ...     return jax.numpy.tanh(inputs @ params["kernel"])
        >>> def init(rng, inputs):
        ...     return {"kernel": jax.random.normal(rng, (inputs.shape[-1], 2))}
        >>> layer = tk.layers.JaxLayer(call, init)
        >>> layer(tk.ones((4, 3))).shape
        TensorShape([4, 2])
    """

    _compiled: dict[Any, _CompiledCall]
    _given_params: Any

    def __init__(
        self,
        call_fn: Callable[..., Any],
        init_fn: Callable[..., Any] | None = None,
        params: Any = None,
        state: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        jax_for("JaxLayer")
        call_names = _names(call_fn, "call_fn", _CALL, ("params", "inputs"))
        if init_fn is not None:
            _names(init_fn, "init_fn", _INIT, ("inputs",))
        takes_state = "state" in call_names
        if state is not None and not takes_state:
            raise ValueError("JaxLayer: call_fn has no argument `state`, and a state is given")
        if init_fn is None and (params is None or (takes_state and state is None)):
            lacks = "params" if params is None else "state, which call_fn has,"
            raise ValueError(f"JaxLayer: give init_fn, or {lacks} to start from")
        if (params is None) and state is not None:
            raise ValueError("JaxLayer: state is given without params; give both, or init_fn alone")
        super().__init__(**kwargs)
        self.call_fn, self.init_fn, self.seed = call_fn, init_fn, seed
        self._call_names, self._takes_state = call_names, takes_state
        self.seed_generator = SeedGenerator(seed) if "rng" in call_names else None
        self._params_tree: Any = None
        self._state_tree: Any = None
        self.jax_params: dict[str, Variable] = {}
        self.jax_state: dict[str, Variable] = {}
        set_silently(self, _compiled={})  # no part of the layer
        if params is not None and (state is not None or not takes_state):
            self._make_variables(params, state)
            self.built = True
        else:
            self._given_params = params

    def build(self, input_shape: Any) -> None:
        """Make the variables by `init_fn`, if they are not there."""
        if self._params_tree is not None:
            return
        jax = jax_for("JaxLayer")
        assert self.init_fn is not None

        def ones(shape: Any) -> Any:
            return jax.numpy.ones([1 if n is None else n for n in shape], self.compute_dtype)

        values = {
            "inputs": _shapes_mapped(ones, input_shape),
            "rng": jax.random.key(self._draw_seed()),
            "training": True,
        }
        names = _names(self.init_fn, "init_fn", _INIT, ("inputs",))
        result = self.init_fn(**{name: values[name] for name in names})
        params, state = result, None
        if self._takes_state:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    "JaxLayer: call_fn has a state, so init_fn must return (params, state), it "
                    f"returned {type(result).__name__}"
                )
            params, state = result
        self._make_variables(params if self._given_params is None else self._given_params, state)

    def _draw_seed(self) -> Any:
        generator = self.seed_generator or SeedGenerator(self.seed)
        return int(generator.next().numpy()[0])

    def _make_variables(self, params: Any, state: Any) -> None:
        tree = jax_for("JaxLayer").tree_util

        def add_all(values: Any, trainable: bool) -> tuple[Any, dict[str, Variable]]:
            pairs, structure = tree.tree_flatten_with_path(values)
            variables: dict[str, Variable] = {}
            for path, x in pairs:
                label = _label(path)
                while label in variables:  # keys may have dots of their own
                    label += "_"
                variables[label] = self._add_leaf(label, x, trainable)
            return structure, variables

        self._params_tree, self.jax_params = add_all(params, True)
        self._state_tree, self.jax_state = add_all(state, False)

    def _add_leaf(self, label: str, x: Any, trainable: bool) -> Variable:
        value = tensor_of(jax_for("JaxLayer").numpy.asarray(x), self._label())
        return self.add_weight(
            label,
            shape=tuple(value.shape),
            dtype=value.dtype,
            initializer=lambda shape, dtype=None: value,
            trainable=trainable and value.dtype.is_floating,
            autocast=False,
        )

    def call(self, inputs: Any, training: Any = False) -> Any:
        """The result of `call_fn`.

        Args:
            inputs: nest of tensors.
            training: what `call_fn` gets under that name.
        """
        leaves = [_read(x) for x in nest.flatten(inputs)]
        tensors = [*leaves, *[v._read() for v in self._variables()]]
        if self.seed_generator is not None:
            tensors.append(self.seed_generator.next())
        run = self._run_for(inputs, len(leaves), bool(training))
        specs = probe_specs([Spec(x.shape, x.dtype) for x in tensors], run.specs)
        results = call_outside(self.name, run.forward, run.backward, tensors, specs)
        count = len(self.jax_state)
        for variable, value in zip(self.jax_state.values(), results[:count], strict=True):
            variable.assign(value)
        tree = jax_for("JaxLayer").tree_util
        return tree.tree_unflatten(run.structure, results[count:])

    def _label(self) -> str:
        return f"JaxLayer {self.name!r}"

    def _variables(self) -> list[Variable]:
        return [*self.jax_params.values(), *self.jax_state.values()]

    def _run_for(self, inputs: Any, count: int, training: bool) -> _CompiledCall:
        """The compiled functions for inputs of this structure."""
        tree = jax_for("JaxLayer").tree_util
        structure = tree.tree_structure(nest.map_structure(lambda _: 0, inputs))
        key = (structure, training)
        if key not in self._compiled:
            self._compiled[key] = _CompiledCall(self, inputs, count, training)
        return self._compiled[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxLayer:
        """A layer with variables of its own around the same functions."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        shared = ("call_fn", "init_fn", "module", "method", "_params_tree", "_state_tree")
        for name, value in vars(self).items():
            if name == "_compiled":
                twin.__dict__[name] = {}
            else:
                twin.__dict__[name] = value if name in shared else copy.deepcopy(value, memo)
        return twin

    def get_config(self) -> dict[str, Any]:
        """The settings, with the names of the functions, which have to be registered.

        Raises:
            ConfigError: there is no `init_fn`, by which the variables could be made again.
        """
        if self.init_fn is None:
            raise ConfigError(
                f"JaxLayer {self.name!r}: its params were given as arrays, which no config holds; "
                "give init_fn as well, or save weights alone, by save_weights or "
                "tk.train.Checkpoint"
            )
        return {
            **super().get_config(),
            "call_fn": serialize_object(self.call_fn),
            "init_fn": serialize_object(self.init_fn),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> JaxLayer:
        """A layer made by what `get_config` gave, with the functions of the names in it."""
        functions = {
            name: deserialize_object(config[name], custom_objects=custom_objects)
            for name in ("call_fn", "init_fn")
        }
        return cls(**{**config, **functions})


class _CompiledCall:
    """`call_fn` on inputs of one structure, compiled.

    Attributes:
        structure: of the outputs, after `specs`.
    """

    def __init__(self, layer: JaxLayer, inputs: Any, count: int, training: bool) -> None:
        self.jax = jax_for("JaxLayer")
        self.label = layer._label()
        self.call_fn = layer.call_fn
        self.call_names, self.takes_state = layer._call_names, layer._takes_state
        self.inputs = nest.map_structure(lambda _: None, inputs)
        self.trees = (layer._params_tree, layer._state_tree)
        self.counts = (count, len(layer.jax_params), len(layer.jax_state))
        self.state_specs = [Spec(v.shape, v.dtype) for v in layer.jax_state.values()]
        self.training = training
        self.structure: Any = None
        self.known_specs: dict[tuple[Spec, ...], list[Spec]] = {}
        self.compiled = self.jax.jit(self.flat)
        self.compiled_gradients = self.jax.jit(self.gradients, static_argnums=(0, 1))

    def flat(self, *arrays: Any) -> list[Any]:
        """The leaves of the new state and of the outputs."""
        tree = self.jax.tree_util
        i, j, k = np.cumsum(self.counts)
        values = {
            "inputs": nest.pack(self.inputs, list(arrays[:i])),
            "params": tree.tree_unflatten(self.trees[0], arrays[i:j]),
            "state": tree.tree_unflatten(self.trees[1], arrays[j:k]),
            "training": self.training,
        }
        if "rng" in self.call_names:
            values["rng"] = self.jax.random.wrap_key_data(arrays[-1], impl="threefry2x32")
        result = self.call_fn(**{name: values[name] for name in self.call_names})
        state = None
        if self.takes_state:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    f"{self.label}: call_fn has a state, so it must return (outputs, "
                    f"state), it returned {type(result).__name__}"
                )
            result, state = result
        outputs, self.structure = tree.tree_flatten(result)
        return [*self._checked_state(tree, state), *[self.jax.numpy.asarray(y) for y in outputs]]

    def _checked_state(self, tree: Any, state: Any) -> list[Any]:
        leaves, structure = tree.tree_flatten(state)
        if not self.takes_state:
            return []
        leaves_after = [(tuple(x.shape), str(x.dtype)) for x in map(self.jax.numpy.asarray, leaves)]
        expected = [(s.shape, s.dtype.name) for s in self.state_specs]
        if structure != self.trees[1] or leaves_after != expected:
            raise InvalidArgumentError(
                f"{self.label}: call_fn gave back another state than it got\n"
                f"  before  {self.trees[1]} {expected}\n  after   {structure} {leaves_after}"
            )
        return leaves

    def gradients(self, smooth: Any, used: Any, arrays: Any, upstream: Any) -> Any:
        """Gradients of the results `used` by the arrays `smooth`."""

        def part(*differentiated: Any) -> Any:
            items = list(arrays)
            for i, x in zip(smooth, differentiated, strict=True):
                items[i] = x
            results = self.flat(*items)
            return [results[i] for i in used]

        _, vjp = self.jax.vjp(part, *[arrays[i] for i in smooth])
        # JAX's cotangents of complex numbers are the conjugates of a tape's gradients.
        return [g.conj() for g in vjp([g.conj() for g in upstream])]

    def specs(self, specs: list[Spec]) -> list[Spec]:
        """What `forward` gives for inputs like these."""
        key = tuple(specs)
        if key not in self.known_specs:
            self.known_specs[key] = self._traced_specs(specs)
        return self.known_specs[key]

    def _traced_specs(self, specs: list[Spec]) -> list[Spec]:
        jax = self.jax
        like = [
            jax.ShapeDtypeStruct(s.shape, jax.dtypes.canonicalize_dtype(s.dtype.dtype))
            for s in specs
        ]
        return [Spec(y.shape, dtype_of(y, self.label)) for y in jax.eval_shape(self.flat, *like)]

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        """The leaves of the new state and of the outputs."""
        return [tensor_of(y, self.label) for y in self.compiled(*self._arrays(tensors))]

    def backward(self, *tensors: Tensor) -> list[Tensor]:
        """Gradients of the smooth inputs."""
        count = len(tensors) - sum(self.counts) - ("rng" in self.call_names)
        results = results_before(tensors, count)
        used = tuple(i for i, y in enumerate(results) if y.dtype.is_differentiable)
        upstream = self._arrays(tensors[len(results) : count])
        arrays = self._arrays(tensors[count:])
        smooth = tuple(i for i, x in enumerate(tensors[count:]) if x.dtype.is_differentiable)
        gradients = self.compiled_gradients(smooth, used, tuple(arrays), upstream)
        return [tensor_of(g, self.label) for g in gradients]

    def _arrays(self, tensors: Any) -> list[Any]:
        return [_array(self.jax, x, self.label) for x in tensors]


def _names(
    fn: Any, role: str, allowed: tuple[str, ...], needed: tuple[str, ...]
) -> tuple[str, ...]:
    """The names of a function's arguments.

    Raises:
        TypeError: it is no function.
        ValueError: it has others than `allowed`, or lacks one of `needed`.
    """
    if not callable(fn):
        raise TypeError(f"JaxLayer: {role} must be a function, got {fn!r}")
    names = tuple(signature_of(fn).parameters)
    wrong = [name for name in names if name not in allowed]
    missing = [name for name in needed if name not in names]
    if wrong or missing:
        raise ValueError(
            f"JaxLayer: {role} has the arguments {', '.join(names) or 'none'}; it must have "
            f"{' and '.join(needed)}, and may have "
            f"{', '.join(name for name in allowed if name not in needed)}"
        )
    return names


def _label(path: Any) -> str:
    """The name of a leaf: its keys, as in `dense.kernel`."""
    keys = [
        getattr(part, "key", getattr(part, "idx", getattr(part, "name", part))) for part in path
    ]
    return ".".join(str(key).replace("/", "_") for key in keys) or "value"


def _shapes_mapped(function: Callable[[Any], Any], shape: Any) -> Any:
    """`function` of each shape in a nest of them."""
    if isinstance(shape, dict):
        return {key: _shapes_mapped(function, item) for key, item in shape.items()}
    if isinstance(shape, list | tuple) and any(isinstance(n, list | tuple | dict) for n in shape):
        items = [_shapes_mapped(function, item) for item in shape]
        return items if isinstance(shape, list) else tuple(items)
    return function(shape)


def _read(x: Any) -> Tensor:
    if isinstance(x, Variable):
        return x._read()
    return x if is_tensor(x) else convert_to_tensor(x)


def _array(jax: Any, x: Tensor, name: str) -> Any:
    """An array of JAX, on the same memory where JAX takes it: neither side writes to it."""
    array = jax.numpy.asarray(np.asarray(x))
    if array.dtype != np.asarray(x).dtype and x.dtype.is_differentiable:
        raise InvalidArgumentError(
            f"{name}: JAX has {x.dtype.name} switched off; cast to {array.dtype}, or "
            "jax.config.update('jax_enable_x64', True)"
        )
    return array
