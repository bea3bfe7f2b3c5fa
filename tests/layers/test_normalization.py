"""Normalization layers: what they keep, and in which mode."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.graph.tracing.function import function

X = np.random.default_rng(1).normal(3, 2, size=(64, 5)).astype("float32")


def test_batch_normalization_learns_the_moments_while_training():
    layer = layers.BatchNormalization(momentum=0.5)
    y = layer(X, training=True).numpy()
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(0), 1, atol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.5 * X.mean(0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.5 + 0.5 * X.var(0), rtol=1e-4)
    kept = layer.moving_mean.numpy().copy()
    layer(X)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), kept)


def test_batch_normalization_in_a_trace_updates_at_each_run():
    layer = layers.BatchNormalization(momentum=0.5)
    traced = function(lambda x: layer(x, training=True))
    for _ in range(3):
        traced(X)
    np.testing.assert_allclose(layer.moving_mean.numpy(), X.mean(0) * (1 - 0.5**3), rtol=1e-4)


def test_a_frozen_batch_normalization_uses_what_it_has_learned():
    layer = layers.BatchNormalization()
    layer(X)
    layer.trainable = False
    np.testing.assert_allclose(layer(X, training=True).numpy(), X / np.sqrt(1.001), rtol=1e-5)
    assert layer.moving_mean.numpy().sum() == 0
    assert layer.trainable_weights == []


def test_masked_steps_do_not_count():
    layer = layers.BatchNormalization(momentum=0.0)
    x = np.stack([X[:4, :2], 1000 * np.ones((4, 2), "float32")], axis=1)
    mask = np.array([[True, False]] * 4)
    layer(x, training=True, mask=mask)
    np.testing.assert_allclose(layer.moving_mean.numpy(), X[:4, :2].mean(0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), X[:4, :2].var(0), rtol=1e-4)


def test_moving_moments_get_no_gradient():
    layer = layers.BatchNormalization()
    x = convert_to_tensor(X)
    with GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
        loss = y * y
    assert len(layer.trainable_variables) == 2
    assert tape.gradient(loss, x) is not None


def test_half_precision_sums_in_single():
    layer = layers.BatchNormalization(dtype="mixed_float16")
    big = np.full((8, 3), 60000.0, "float16")
    y = layer(big, training=True)
    assert y.dtype.name == "float16"
    assert np.isfinite(layer.moving_mean.numpy()).all()
    assert layer.moving_mean.dtype.name == "float32"


@pytest.mark.parametrize(
    "layer",
    [
        layers.LayerNormalization(),
        layers.RMSNormalization(),
        layers.UnitNormalization(),
        layers.GroupNormalization(1),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_samples_do_not_see_each_other(layer):
    whole = layer(X).numpy()
    np.testing.assert_allclose(layer(X[:1]).numpy(), whole[:1], rtol=1e-5)


def test_group_normalization_wants_groups_that_fit():
    with pytest.raises(ShapeError, match=r"5 features.*do not fall into 2 groups"):
        layers.GroupNormalization(2)(X)
    with pytest.raises(ShapeError, match="must have known sizes"):
        layers.LayerNormalization().build((None, None))


def renormalized(x, state, bounds, epsilon=1e-3):
    """What Ioffe 2017 computes of a batch, by hand, and the mean and deviation of the batch."""
    mean, stddev = x.mean(axis=0), np.sqrt(x.var(axis=0) + epsilon)
    r = np.clip(stddev / state["renorm_stddev"], bounds.get("rmin"), bounds.get("rmax"))
    d = (mean - state["renorm_mean"]) / state["renorm_stddev"]
    if "dmax" in bounds:
        d = np.clip(d, -bounds["dmax"], bounds["dmax"])
    return (x - mean) / stddev * r + d, mean, stddev


@pytest.mark.parametrize("bounds", [{}, {"rmin": 0.8, "rmax": 1.1, "dmax": 0.2}])
def test_renormalization_is_that_of_its_paper(bounds):
    rng = np.random.default_rng(0)
    layer = layers.BatchNormalization(
        renorm=True, renorm_clipping=bounds, renorm_momentum=0.8, momentum=0.9
    )
    layer.build((None, 3))
    names = ("moving_mean", "moving_stddev", "renorm_mean", "renorm_stddev")
    state = {name: np.abs(rng.normal(1.0, 0.3, 3)).astype("float32") for name in names}
    for name, value in state.items():
        getattr(layer, name).assign(value)
    x = rng.normal(2.0, 3.0, (5, 3)).astype("float32")
    want, mean, stddev = renormalized(x, state, bounds)
    np.testing.assert_allclose(layer(x, training=True), want, rtol=1e-4, atol=1e-5)
    for name, new, momentum in zip(names, (mean, stddev) * 2, (0.9, 0.9, 0.8, 0.8), strict=True):
        moved = state[name] * momentum + new * (1 - momentum)
        np.testing.assert_allclose(getattr(layer, name), moved, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, layer.moving_stddev**2 - 1e-3, rtol=1e-5)
    assert len(layer.trainable_weights) == 2
    again = layers.BatchNormalization.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_renormalization_sends_no_gradient_through_its_corrections():
    x = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
    layers_ = [layers.BatchNormalization(renorm=renorm) for renorm in (False, True)]
    gradients = []
    for layer in layers_:
        layer.build((None, 2))
        v = tk.constant(x)
        with tk.GradientTape() as tape:
            tape.watch(v)
            loss = tk.reduce_sum(layer(v, training=True) ** 3)
        gradients.append(tape.gradient(loss, v))
    # r and d are constants: the gradient stays orthogonal to a shift of the batch
    for gradient in gradients:
        np.testing.assert_allclose(tk.reduce_sum(gradient, axis=0), [0, 0], atol=1e-3)


@pytest.mark.parametrize("bounds", [{"random": 1.0}, {"rmax": 0.0, "rmin": 1.0}, {"dmax": -1.0}])
def test_bounds_of_renormalization_are_checked(bounds):
    with pytest.raises(ValueError, match="renorm_clipping"):
        layers.BatchNormalization(renorm=True, renorm_clipping=bounds)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_what_short_floats_can_not_hold_is_normalized_all_the_same(policy):
    x = np.full((2, 4, 8), 70000.0, "float32")
    x[:, ::2] = -70000.0
    for layer in (
        layers.GroupNormalization(groups=2, dtype=policy),
        layers.LayerNormalization(axis=1, dtype=policy),
    ):
        y = layer(x)
        assert y.dtype.name == policy.removeprefix("mixed_")
        np.testing.assert_allclose(np.abs(np.asarray(y, "float32")), 1.0, rtol=1e-2)
    half = ops.rms_normalization(np.full((2, 3), 600.0, "float16"), scale=np.ones(3, "float32"))
    assert half.dtype.name == "float16"
    np.testing.assert_allclose(half, 1.0)


def test_axes_of_normalizations_are_ints_or_lists_of_them():
    for kind in (layers.LayerNormalization, layers.RMSNormalization, layers.UnitNormalization):
        with pytest.raises(TypeError, match="axis must be an int"):
            kind(axis={"axis": -1})
    layer = layers.LayerNormalization(axis=-1)
    layer.build((2, 4))
    assert layer.axis == [-1]


@pytest.mark.parametrize("rms_scaling", [False, True])
@pytest.mark.parametrize(
    ("axis", "order", "sizes"),
    [
        ([1, -1], [-1, 1], (5, 3)),
        ([-1, 1], [-1, 1], (5, 3)),
        ([2, -1, 1], [-1, 1, 2], (5, 3, 4)),
        ([3, 1], [1, 3], (3, 5)),
        ([-1, -3], [-3, -1], (3, 5)),
        ((1, 2), [1, 2], (3, 4)),
        (2, [2], (4,)),
    ],
)
@pytest.mark.filterwarnings("ignore:LayerNormalization. rms_scaling:UserWarning")
def test_weights_of_several_axes_have_the_sizes_of_keras_files(
    axis, order, sizes, rms_scaling, rng
):
    x = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    layer = layers.LayerNormalization(axis, rms_scaling=rms_scaling)
    layer.build(x.shape)
    assert layer.axis == layer.get_config()["axis"] == order
    layer.set_weights([rng.normal(size=sizes).astype("float32") for _ in layer.weights])

    # Keras reads the numbers of a weight in the order in which they lie, along rising axes.
    along = tuple(sorted(i % 4 for i in order))
    gamma, beta = (
        np.reshape(weight, [n if i in along else 1 for i, n in enumerate(x.shape)])
        for weight in (layer.gamma, 0 * layer.gamma if rms_scaling else layer.beta)
    )
    centred = x if rms_scaling else x - x.mean(along, keepdims=True)
    expected = centred / np.sqrt(x.var(along, keepdims=True) + 1e-3) * gamma + beta
    for call in (layer, tk.function(layer)):
        np.testing.assert_allclose(call(x), expected, rtol=2e-5, atol=1e-5)
    copy = layers.LayerNormalization.from_config(layer.get_config())
    copy.build(x.shape)
    assert [weight.shape for weight in copy.weights] == [sizes] * len(layer.weights)


def test_a_last_axis_stays_the_last_one_of_inputs_of_another_rank():
    layer = layers.LayerNormalization()
    layer.build((2, 3, 4))
    np.testing.assert_allclose(layer(X[:, :4]), layer(X[:, None, :4])[:, 0], rtol=1e-5, atol=1e-6)


def test_rms_scaling_divides_by_the_root_of_the_variance_and_warns():
    with pytest.warns(UserWarning, match="RMSNormalization"):
        layer = layers.LayerNormalization(rms_scaling=True)
    y = layer(np.arange(5, dtype="float32")[None])
    np.testing.assert_allclose(y, [[0.0, 0.70693, 1.41386, 2.12079, 2.82772]], rtol=1e-4)
    assert len(layer.weights) == 1


def test_a_mask_of_a_batch_normalization_has_one_axis_less():
    with pytest.raises(ValueError, match="one axis less"):
        layers.BatchNormalization()(np.ones((2, 3, 4), "float32"), mask=np.ones((2,), bool))


@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 3, 2)])
def test_one_mean_of_all_serves_inputs_of_any_rank(shape):
    x = np.random.default_rng(0).normal(3.0, 2.0, shape).astype("float32")
    layer = layers.Normalization(axis=None)
    layer.adapt(x)
    np.testing.assert_allclose(layer(x), (x - x.mean()) / x.std(), rtol=1e-4, atol=1e-5)
    other = np.ones((4, 1), "float32")
    np.testing.assert_allclose(layer(other), (other - x.mean()) / x.std(), rtol=1e-4, atol=1e-5)


def test_synchronized_moments_alone_are_the_others(rng):
    x = rng.normal(size=(6, 4)).astype("float32")
    mask = tk.constant(rng.random(6) < 0.6)
    for settings in ({}, {"mask": mask}):
        plain, synchronized = (layers.BatchNormalization(synchronized=how) for how in (False, True))
        given = x
        np.testing.assert_array_equal(
            plain(given, training=True, **settings).numpy(),
            synchronized(given, training=True, **settings).numpy(),
        )
        np.testing.assert_array_equal(
            plain.moving_variance.numpy(), synchronized.moving_variance.numpy()
        )
    assert synchronized.get_config()["synchronized"] is True


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", [layers.BatchNormalization, layers.LayerNormalization])
def test_gradients_of_an_offset_without_a_scale_have_its_dtype(kind, dtype):
    layer = kind(scale=False, dtype=dtype)
    layer.build((None, 5))
    with GradientTape() as tape:
        y = layer(X, training=True)
    (slope,) = tape.gradient(y, layer.trainable_variables)
    assert slope.dtype == layer.beta.dtype == dtype
    assert slope.numpy().tolist() == [64.0] * 5


@pytest.mark.parametrize("settings", [{"momentum": None}, {"momentum": "most"}, {"epsilon": (2,)}])
def test_numbers_of_batch_normalization_are_read_when_it_is_made(settings):
    name = next(iter(settings))
    with pytest.raises(
        InvalidArgumentError, match=f"BatchNormalization.*: {name} must be a number"
    ):
        layers.BatchNormalization(**settings)
