"""`jax_function`: a function of trainkit as one of JAX, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.eval_shape import eagerly, result_specs
from trainkit.core.dtypes import BY_NUMPY
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.interop.jax_arrays import dtype_of, tensor_of
from trainkit.interop.packages import jax_for


def jax_function(fn: Callable[..., Any]) -> Any:
    """A function, layer or model of trainkit as one that JAX calls, traces and differentiates.

    Arrays and numbers in the arguments, which may be nested, come to `fn` as tensors, and tensors
    in what it returns go back as arrays; other Python values, bools and strings among them, pass as
    they are. `fn` runs in a callback on the CPU, so the result can be used under `jax.jit`,
    `jax.grad`, `jax.vmap` (item after item), and in reverse mode again and again, as in
    `jax.jacrev(jax.grad(f))`; forward mode, `jax.jvp`, is refused by JAX. Arrays are read where
    they lie, without a copy; JAX copies the results.

    `fn` has to be pure, since JAX may call it more or less often than it is written: the gradient
    calls it once more, under a tape. Before it runs it is called on tensors without values, which
    give the shapes of its results. Where JAX has no 64-bit types on, results have 32 bits, as its
    own have.

    A layer or model, which must be built, becomes `f(trainable, non_trainable, *args, **kwargs)`,
    which returns `(outputs, non_trainable)`: its `stateless_call`. `f.trainable_variables()` and
    `f.non_trainable_variables()` give the two lists of arrays to start from; gradients come for
    both lists of floats.

    Args:
        fn: function of tensors, or a layer or model that is built.

    Returns:
        A function of arrays of JAX.

    Raises:
        ImportError: JAX is not installed.
        TypeError: `fn` is not callable.
        ValueError: a layer is not built; in a call, `fn` reads trainable variables, whose gradients
            would be lost.
        InvalidArgumentError: in a call, a dtype has no counterpart, or the size of a result depends
            on values.

    Example:
        >>> import jax
        >>> square = tk.interop.jax_function(lambda x: x * x)
        >>> float(jax.jit(jax.grad(square))(3.0))
        6.0
    """
    jax = jax_for("tk.interop.jax_function")
    if not callable(fn):
        raise TypeError(f"jax_function: give a function, layer or model, got {fn!r}")
    layer: Any = fn
    if not (hasattr(layer, "trainable_variables") and hasattr(layer, "built")):
        name = f"jax_function of {getattr(fn, '__name__', type(fn).__name__)!r}"
        return functools.update_wrapper(_on_nests(jax, fn, name), fn)
    if not layer.built:
        raise ValueError(
            f"jax_function of {layer.name!r}: the layer is not built, so it has no variables yet; "
            "call it once or layer.build(input_shape) first"
        )
    name = f"jax_function of {layer.name!r}"
    function: Any = _on_nests(jax, layer.stateless_call, name, layer.variables)

    def arrays(variables: Any) -> list[Any]:
        return [jax.numpy.array(np.asarray(v.numpy())) for v in variables]

    function.trainable_variables = lambda: arrays(layer.trainable_variables)
    function.non_trainable_variables = lambda: arrays(layer.non_trainable_variables)
    return function


def _on_nests(
    jax: Any, fn: Callable[..., Any], name: str, arguments: Any = ()
) -> Callable[..., Any]:
    """`fn` on nests of arrays: one flat function for each nest and set of Python values in it.

    Args:
        jax: the module.
        fn: takes and gives nests of tensors.
        name: for errors.
        arguments: the variables for whose values arguments stand.
    """
    functions: dict[Any, Callable[..., Any]] = {}
    tree = jax.tree_util

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.tree_flatten((args, kwargs))
        positions = tuple(i for i, x in enumerate(leaves) if _is_numeric(x))
        constants = tuple((i, x) for i, x in enumerate(leaves) if not _is_numeric(x))
        key = (structure, positions, constants)
        if key not in functions:

            def on_tensors(*tensors: Tensor) -> Any:
                items = dict(zip(positions, tensors, strict=True)) | dict(constants)
                inner, named = tree.tree_unflatten(structure, [items[i] for i in range(len(items))])
                return fn(*inner, **named)

            results = functools.partial(_results, jax, on_tensors, name, arguments)
            functions[key] = _flat(jax, on_tensors, name, results)
        return functions[key](*[jax.numpy.asarray(leaves[i]) for i in positions])

    return call


def _is_numeric(x: Any) -> bool:
    is_number = isinstance(x, int | float | complex) and not isinstance(x, bool)
    return is_number or hasattr(x, "dtype")


class _Results(NamedTuple):
    """What a function gives: the nest, and shape and dtype of each leaf."""

    structure: Any
    leaves: tuple[Any, ...]


def _flat(jax: Any, fn: Callable[..., Any], name: str, results_of: Callable[..., _Results]) -> Any:
    """`fn`, of tensors one by one, as a function of arrays with a gradient.

    Args:
        jax: the module.
        fn: takes tensors, gives a nest of them.
        name: for errors.
        results_of: function of the arrays that gives the `_Results`.
    """
    tree = jax.tree_util
    gradient: list[Any] = []  # made when it is first asked for: it has one of its own

    def on_arrays(dtypes: tuple[Any, ...], *arrays: Any) -> tuple[Any, ...]:
        with eagerly(), trace_state.silence():
            leaves = tree.tree_leaves(fn(*[tensor_of(x, name) for x in arrays]))
            values = [convert_to_tensor(y)._array for y in leaves]
        return tuple(
            np.asarray(y).astype(t, copy=False) for y, t in zip(values, dtypes, strict=True)
        )

    @functools.cache
    def host(dtypes: tuple[Any, ...]) -> Callable[..., tuple[Any, ...]]:
        return functools.partial(on_arrays, dtypes)  # the same one each time, or JAX compiles anew

    @jax.custom_vjp
    def call(*arrays: Any) -> Any:
        structure, leaves = results_of(*arrays)
        dtypes = tuple(y.dtype for y in leaves)
        outputs = jax.pure_callback(host(dtypes), leaves, *arrays, vmap_method="sequential")
        return tree.tree_unflatten(structure, outputs)

    def forward(*arrays: Any) -> Any:
        return call(*arrays), arrays

    def backward(arrays: Any, upstream: Any) -> tuple[Any, ...]:
        cotangents = tree.tree_leaves(upstream)
        smooth = [i for i, x in enumerate(arrays) if _is_smooth(x.dtype)]
        used = tuple(i for i, g in enumerate(cotangents) if _is_smooth(g.dtype))
        if not gradient:
            gradient.append(_gradient(jax, fn, name))
        zeros = [
            None if i in smooth else np.zeros(x.shape, jax.dtypes.float0)
            for i, x in enumerate(arrays)
        ]
        if not smooth:
            return tuple(zeros)
        # JAX's cotangents of complex numbers are the conjugates of a tape's gradients.
        gradients = gradient[0](used, tuple(smooth), arrays, [cotangents[i].conj() for i in used])
        for i, g in zip(smooth, gradients, strict=True):
            zeros[i] = g.conj()
        return tuple(zeros)

    call.defvjp(forward, backward)
    return call


def _gradient(jax: Any, fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Gradients of `fn` by its smooth arguments, as a function of arrays with a gradient again."""

    @functools.cache
    def function_for(used: tuple[int, ...], smooth: tuple[int, ...], count: int) -> Any:
        def gradients(*tensors: Tensor) -> Any:
            inputs, upstream = tensors[:count], list(tensors[count:])
            sources = [inputs[i] for i in smooth]
            with GradientTape() as tape:
                tape.watch(sources)
                leaves = jax.tree_util.tree_leaves(fn(*inputs))
            targets = [leaves[i] for i in used]
            pairs = [
                (y, g) for y, g in zip(targets, upstream, strict=True) if isinstance(y, Tensor)
            ]
            if not pairs:
                return [0 * x for x in sources]
            by_source = tape.gradient(
                [y for y, _ in pairs],
                sources,
                [
                    g if g.dtype == y.dtype else late_ops.cast(g, dtype=y.dtype.name)
                    for y, g in pairs
                ],
                unconnected_gradients="zero",
            )
            return [convert_to_tensor(g) for g in by_source]

        def results(*arrays: Any) -> _Results:
            like = tuple(jax.ShapeDtypeStruct(arrays[i].shape, arrays[i].dtype) for i in smooth)
            return _Results(jax.tree_util.tree_structure([0] * len(like)), like)

        return _flat(jax, gradients, f"the gradient in {name}", results)

    def call(used: Any, smooth: Any, arrays: Any, upstream: Any) -> Any:
        return function_for(used, smooth, len(arrays))(*arrays, *upstream)

    return call


def _is_smooth(dtype: Any) -> bool:
    own = BY_NUMPY.get(np.dtype(dtype))
    return own is not None and own.is_differentiable


def _results(jax: Any, fn: Callable[..., Any], name: str, arguments: Any, *arrays: Any) -> _Results:
    """What `fn` would give, by running it on tensors without values."""
    names: list[str] = []
    argument_ids = {id(v) for v in arguments}

    def call_watching(*tensors: Tensor) -> Any:
        with GradientTape() as tape:
            result = fn(*tensors)
        names.extend(v.name for v in tape.watched_variables() if id(v) not in argument_ids)
        return result

    specs = [Spec(x.shape, dtype_of(x, name)) for x in arrays]
    try:
        result = result_specs(call_watching, *specs)
    except Exception as error:
        error.add_note(
            f"{name}: the function was run on tensors without values, for the shapes of its results"
        )
        raise
    if names:
        raise ValueError(
            f"{name} reads the trainable variables {names}, whose gradients JAX would not see; "
            "give jax_function the layer or model itself, whose variables become arguments, or set "
            "trainable=False for them"
        )
    leaves, structure = jax.tree_util.tree_flatten(
        nest.map_structure(functools.partial(_spec_for_jax, jax, name), result)
    )
    return _Results(structure, tuple(leaves))


def _spec_for_jax(jax: Any, name: str, y: Any) -> Any:
    """Shape and dtype of a result; `None` stays."""
    if y is None:
        return None
    if not isinstance(y, Spec):
        tensor = convert_to_tensor(y)
        y = Spec(tensor.shape, tensor.dtype)
    if None in tuple(y.shape):
        raise InvalidArgumentError(
            f"{name}: a result has shape {tuple(y.shape)}, whose sizes depend on values; JAX "
            "has to know them before"
        )
    return jax.ShapeDtypeStruct(tuple(y.shape), jax.dtypes.canonicalize_dtype(y.dtype.dtype))
