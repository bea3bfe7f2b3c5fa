"""Every layer goes through build, call, config, copy, shapes, traces, gradients; none may miss."""

import copy
import inspect
import json

import numpy as np
import pytest

from tests.conformance.layer_table import ROWS, double
from trainkit import layers, ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core import config_values, nest
from trainkit.core.registry import CustomObjectScope
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.graph.tracing.function import function

by_name = pytest.mark.parametrize(
    "row", ROWS, ids=[f"{i}-{row.name}" for i, row in enumerate(ROWS)]
)

# Bases whose `call` is for subclasses to write.
ABSTRACT = {"Wrapper"}
# What wraps PyTorch and JAX, which need not be installed: tests/interop.
OUTSIDE = {"FlaxLayer", "JaxLayer", "TorchModuleWrapper"}
by_called = pytest.mark.parametrize(
    "row", [row for row in ROWS if row.name not in ABSTRACT], ids=lambda row: row.name
)


@pytest.fixture(autouse=True)
def _known_functions():
    with CustomObjectScope({"double": double}):
        yield


DIFFERENTIABLE = [
    (row, training)
    for row in ROWS
    for training in (False, True)
    if row.gradient and row.name not in ABSTRACT and (row.training or not training)
]


def arguments(row, dtype="float32"):
    rng = np.random.default_rng(7)

    def cast(x):
        return x.astype(dtype) if x.dtype.kind == "f" else x

    draws = [row.inputs, *row.more]
    return [nest.map_structure(lambda x: convert_to_tensor(cast(x)), d(rng)) for d in draws]


def weighted_sum(y):
    """A scalar to which every element of the output counts differently."""
    total = 0.0
    for k, leaf in enumerate(leaf for leaf in nest.flatten(y) if is_tensor(leaf)):
        weights = np.cos(1.7 * np.arange(leaf.size) + 0.5 + k).reshape(leaf.shape)
        total = total + ops.sum(leaf * weights.astype(leaf.dtype.name))
    return total


def arrays(y):
    return [np.array(leaf.numpy()) for leaf in nest.flatten(y) if is_tensor(leaf)]


@by_called
def test_a_call_builds_and_gives_the_shape_that_was_promised(row):
    layer = row.make()
    args = arguments(row)
    if row.shape:
        promised = layer.compute_output_shape(nest.map_structure(lambda x: tuple(x.shape), args[0]))
        unbatched = layer.compute_output_shape(
            nest.map_structure(lambda x: (None, *x.shape[1:]), args[0])
        )
        assert not layer.weights
    y = layer(*args, **row.call)
    assert layer.built
    if row.shape:
        have = nest.map_structure(lambda t: tuple(t.shape), y)
        if row.name != "EinsumDense":  # which knows only what its argument output_shape says
            assert promised == have
        for loose, exact in zip(shapes_in(unbatched), shapes_in(have), strict=True):
            assert len(loose) == len(exact)
            assert all(a is None or a == b for a, b in zip(loose, exact, strict=True))
            assert loose[0] is None


def shapes_in(x):
    """The shapes in a nest of them."""
    if isinstance(x, tuple) and all(n is None or isinstance(n, int) for n in x):
        return [x]
    return [shape for item in x for shape in shapes_in(item)]


@by_name
def test_a_config_makes_a_like_layer(row, monkeypatch):
    if row.name == "TFSMLayer":  # its config names a folder
        monkeypatch.setattr(config_values._MODE, "chosen", False)
    layer = row.make(name="mine")
    config = json.loads(json.dumps(layer.get_config()))
    again = type(layer).from_config(config)
    assert json.loads(json.dumps(again.get_config())) == config
    assert again.name == "mine"
    if row.name in ABSTRACT:
        return
    args = arguments(row)
    expected = arrays(layer(*args, **row.call))
    again(*args, **row.call)
    again.set_weights(layer.get_weights())
    read = layers.deserialize(json.loads(json.dumps(layers.serialize(layer))))
    read(*args, **row.call)
    read.set_weights(layer.get_weights())
    for other in (again, read):
        for a, b in zip(expected, arrays(other(*args, **row.call)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@by_called
def test_a_copy_computes_the_same_and_shares_no_weight(row):
    layer = row.make()
    args = arguments(row)
    expected = arrays(layer(*args, **row.call))
    twin = copy.deepcopy(layer)
    for a, b in zip(expected, arrays(twin(*args, **row.call)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not {id(w) for w in layer.variables} & {id(w) for w in twin.variables}
    assert [w.path for w in twin.weights] == [w.path for w in layer.weights]


@pytest.mark.parametrize(("row", "training"), DIFFERENTIABLE, ids=lambda x: getattr(x, "name", x))
def test_gradients_match_central_differences(row, training):
    layer = row.make(dtype="float64")
    args = arguments(row, "float64")
    call = dict(row.call)
    if training:
        call["training"] = True
    layer(*args, **call)
    rng = np.random.default_rng(11)
    for w in layer.trainable_weights:  # zeros and ones would hide terms
        w.assign(w.numpy() + 0.3 * rng.normal(size=w.shape))
    sources = [x for x in nest.flatten(args) if x.dtype.is_floating]
    weights = layer.trainable_weights
    with GradientTape() as tape:
        for x in sources:
            tape.watch(x)
        loss = weighted_sum(layer(*args, **call))
    grads = tape.gradient(loss, [*sources, *weights])
    step, directional = 1e-6, 0.0
    directions = [rng.normal(size=x.shape) for x in [*sources, *weights]]
    for g, d in zip(grads, directions, strict=True):
        if g is not None:
            directional += float(np.sum(np.asarray(g.numpy()) * d))
    kept = [w.numpy().copy() for w in weights]

    def at(t):
        moved = iter(directions)
        shifted = [
            nest.map_structure(
                lambda x: (
                    convert_to_tensor(x.numpy() + t * next(moved)) if x.dtype.is_floating else x
                ),
                a,
            )
            for a in args
        ]
        for w, start in zip(weights, kept, strict=True):
            w.assign(start + t * next(moved))
        return float(weighted_sum(layer(*shifted, **call)))

    difference = (at(step) - at(-step)) / (2 * step)
    np.testing.assert_allclose(directional, difference, rtol=1e-6, atol=1e-7)


@by_called
def test_a_traced_call_with_any_batch_size_gives_the_same(row):
    layer = row.make()
    args = arguments(row)
    expected = arrays(layer(*args, **row.call))
    signature = nest.map_structure(lambda x: TensorSpec((None, *x.shape[1:]), x.dtype), args)
    traced = function(lambda *args: layer(*args, **row.call), input_signature=signature)
    for a, b in zip(expected, arrays(traced(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@by_name
def test_an_unknown_argument_is_named(row):
    with pytest.raises(TypeError, match="no_such_argument"):
        row.make(no_such_argument=1)


def test_every_layer_has_a_row():
    public = {
        kind.__name__
        for name, kind in vars(layers).items()
        if inspect.isclass(kind) and issubclass(kind, layers.Layer) and kind is not layers.Layer
    }
    rows = {row.name for row in ROWS} | OUTSIDE
    assert not public - rows, f"add rows to tests/conformance/layer_table.py for {public - rows}"
    assert not rows - public, f"add to trainkit/layers/__init__.py: {rows - public}"


def test_every_public_layer_is_found_by_name():
    for row in ROWS:
        assert isinstance(getattr(layers, row.name), type)
        assert layers.base.layer.LAYERS.find(row.name) is getattr(layers, row.name)
