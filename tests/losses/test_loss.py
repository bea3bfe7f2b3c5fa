import numpy as np
import pytest

import trainkit as tk
from trainkit import losses
from trainkit.losses.alignment import aligned, same_rank


def shapes_of(*tensors):
    return [tuple(t.shape) for t in tensors]


# ------------------------------------------------------------------ shapes


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((3,), (3,), [(3,), (3,)]),
        ((3,), (3, 1), [(3, 1), (3, 1)]),
        ((3, 1), (3,), [(3, 1), (3, 1)]),
        ((3, 2), (3, 2, 1), [(3, 2), (3, 2)]),
        ((3, 2, 1), (3, 2), [(3, 2), (3, 2)]),
        ((), (3,), [(), (3,)]),
        ((3, 1), (3, 2), [(3, 1), (3, 2)]),
    ],
)
def test_shapes_that_fit(a, b, wanted):
    assert shapes_of(*aligned("x", np.zeros(a), np.zeros(b))) == wanted


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3, 3)), ((3, 3), (3,)), ((3, 1), (1, 3)), ((3,), (4,)), ((2, 3), (2, 3, 3))],
)
def test_shapes_that_would_broadcast_unseen_are_errors(a, b):
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"(?s)mean_squared_error: the shapes.*y_true.*y_pred"
    ):
        losses.mean_squared_error(np.zeros(a), np.zeros(b))


def test_the_error_of_class_numbers_says_what_to_use():
    with pytest.raises(ValueError, match="SparseCategoricalCrossentropy"):
        losses.MeanSquaredError()(np.zeros(3), np.zeros((3, 5)))
    with pytest.raises(ValueError, match="For integer labels use SparseCategoricalCrossentropy"):
        losses.CategoricalCrossentropy()(np.zeros(3, int), np.ones((3, 5)))


def test_same_rank_can_squeeze_in_place_of_expanding():
    a, b = same_rank(tk.ops.zeros((3, 1)), tk.ops.zeros((3,)), expand_rank_1=False)
    assert shapes_of(a, b) == [(3,), (3,)]


def test_integers_become_floats():
    loss = losses.mean_absolute_error([1, 2], [2, 4])
    assert loss.dtype == "float32"
    assert float(loss) == 1.5


# ------------------------------------------------------------------ weights, masks, reductions

Y, P = np.array([[0.0], [0.0], [0.0]]), np.array([[1.0], [2.0], [3.0]])


@pytest.mark.parametrize(
    ("reduction", "weights", "wanted"),
    [
        ("sum_over_batch_size", [1.0, 0.0, 2.0], (1 + 0 + 6) / 3),
        ("mean", [1.0, 0.0, 2.0], 7 / 3),
        ("sum", [1.0, 0.0, 2.0], 7.0),
        ("mean_with_sample_weight", [1.0, 0.0, 2.0], 7 / 3),
        ("mean_with_sample_weight", [1.0, 0.0, 3.0], 10 / 4),
        ("mean_with_sample_weight", [0.0, 0.0, 0.0], 0.0),
        ("mean_with_sample_weight", None, 2.0),
        ("sum", [[1.0], [0.0], [2.0]], 7.0),
        ("sum", 2.0, 12.0),
    ],
)
def test_weights(reduction, weights, wanted):
    loss = losses.MeanAbsoluteError(reduction=reduction)
    assert float(loss(Y, P, sample_weight=weights)) == pytest.approx(wanted)


def test_weights_without_reduction_and_with_more_axes():
    loss = losses.MeanAbsoluteError(reduction=None)
    values = loss(np.zeros((2, 2, 3)), np.ones((2, 2, 3)), sample_weight=[1.0, 3.0])
    np.testing.assert_array_equal(values.numpy(), [[1.0, 1.0], [3.0, 3.0]])


def test_weights_that_do_not_fit_are_an_error():
    with pytest.raises(ValueError, match=r"(?s)sample_weight does not fit.*\(3,\).*\(2,\)"):
        losses.MeanSquaredError()(Y, P, sample_weight=[1.0, 2.0])


def test_a_mask_leaves_values_out_of_the_mean():
    loss = losses.MeanAbsoluteError()
    mask = np.array([True, False, True])
    assert float(loss(Y, P, mask=mask)) == pytest.approx(2.0)
    assert float(loss(Y, P, sample_weight=[1.0, 9.0, 2.0], mask=mask)) == pytest.approx(3.5)
    assert float(losses.MeanAbsoluteError(reduction="sum")(Y, P, mask=mask)) == 4.0
    assert float(loss(Y, P, mask=np.zeros(3, bool))) == 0.0


def test_unknown_reductions_are_errors():
    with pytest.raises(ValueError, match=r"one of sum_over_batch_size.*'avg'"):
        losses.MeanSquaredError(reduction="avg")


def test_half_precision_is_summed_in_the_default_float():
    loss = losses.MeanSquaredError()(np.zeros(3, "float16"), np.ones(3, "float16"))
    assert loss.dtype == "float32"


# ------------------------------------------------------------------ labels


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("label", [-1, 3])
@pytest.mark.parametrize("from_logits", [False, True])
def test_labels_out_of_range_are_named(label, from_logits):
    loss = losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    with pytest.raises(tk.errors.InvalidArgumentError, match=rf"= {label} is not in \[0, 3\)"):
        loss([0, label], np.full((2, 3), 1 / 3))
    with pytest.raises(tk.errors.InvalidArgumentError, match=rf"= {label} is not in \[0, 3\)"):
        losses.categorical_generalized_cross_entropy([0, label], np.full((2, 3), 1 / 3))


def test_ignored_labels_do_not_count():
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [5.0, 5.0]])
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    kept = losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss([0, 0, -1], logits)) == pytest.approx(float(kept([0, 0], logits[:2])))
    values = losses.sparse_categorical_crossentropy([0, -1], logits[:2], True, ignore_class=-1)
    assert float(values[1]) == 0.0


def test_column_labels_and_float_labels_are_class_numbers():
    p = np.array([[0.2, 0.8], [0.5, 0.5]])
    loss = losses.SparseCategoricalCrossentropy()
    wanted = -(np.log(0.8) + np.log(0.5)) / 2
    for labels in ([1, 0], [[1], [0]], [1.0, 0.0]):
        assert float(loss(labels, p)) == pytest.approx(wanted, rel=1e-5)


def test_hinge_takes_zero_and_one():
    zero_one = losses.hinge([[0.0, 1.0]], [[0.3, 0.4]])
    signs = losses.hinge([[-1.0, 1.0]], [[0.3, 0.4]])
    np.testing.assert_array_equal(zero_one.numpy(), signs.numpy())


def test_ctc_leaves_out_the_filling_of_short_sequences(rng):
    logits = rng.normal(size=(1, 4, 3))
    short, filled = losses.ctc([[2]], logits), losses.ctc([[2, 0, 0]], logits)
    np.testing.assert_allclose(short.numpy(), filled.numpy(), rtol=1e-6)


def test_tversky_weighs_false_positives_by_alpha():
    # Half a false positive, nothing missed.
    value = losses.tversky([1.0, 0.0], [1.0, 0.5], alpha=0.2, beta=0.9)
    assert float(value) == pytest.approx(1 - 1 / (1 + 0.2 * 0.5), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: losses.Huber(delta=0.0), "delta"),
        (lambda: losses.BinaryCrossentropy(label_smoothing=2.0), "label_smoothing"),
        (lambda: losses.CategoricalCrossentropy(label_smoothing=-0.1), "label_smoothing"),
        (lambda: losses.CategoricalGeneralizedCrossEntropy(q=1.0), "q must be"),
        (lambda: losses.circle([1, 2, 3], np.zeros((2, 4))), "embeddings are"),
        (lambda: losses.ctc([1, 2], np.zeros((2, 4, 3))), "labels are"),
    ],
)
def test_settings_out_of_range_are_errors(make, word):
    with pytest.raises(ValueError, match=word):
        make()


# ------------------------------------------------------------------ own losses, names


def test_a_subclass_gives_call():
    class Quartic(losses.Loss):
        def call(self, y_true, y_pred):
            return tk.ops.mean((y_true - y_pred) ** 4, axis=-1)

    tk.utils.clear_session()
    assert float(Quartic()([[0.0]], [[2.0]])) == 16.0
    assert [Quartic().name, Quartic().name] == ["quartic_1", "quartic_2"]
    with pytest.raises(NotImplementedError, match="call"):
        losses.Loss()([0.0], [0.0])


@pytest.mark.parametrize("given", [("sum", "quartic"), ("quartic", "sum")])
def test_a_subclass_may_hand_on_the_reduction_before_the_name(given):
    class Quartic(losses.Loss):
        def __init__(self, *given):
            super().__init__(*given)

        def call(self, y_true, y_pred):
            return tk.ops.mean((y_true - y_pred) ** 4, axis=-1)

    loss = Quartic(*given)
    assert (loss.name, loss.reduction) == ("quartic", "sum")
    assert float(loss([[0.0], [0.0]], [[2.0], [2.0]])) == 32.0
    assert Quartic("auto", "mine").reduction == "sum_over_batch_size"
    assert Quartic("auto", None).name.startswith("quartic")
    with pytest.raises(ValueError, match="reduction must be one of"):
        Quartic("mine", "yours")


def test_a_function_can_be_wrapped_and_written_to_a_config():
    wrapped = losses.LossFunctionWrapper(losses.huber, delta=0.5)
    assert wrapped.name == "huber"
    again = losses.deserialize(losses.serialize(wrapped))
    assert float(again([0.0], [2.0])) == float(wrapped([0.0], [2.0])) == 0.875


def test_get_finds_functions_classes_and_configs():
    assert losses.get("mse") is losses.mean_squared_error
    assert losses.get("KLD") is losses.kl_divergence
    assert type(losses.get("Huber")) is losses.Huber
    assert type(losses.get(losses.Huber)) is losses.Huber
    own = losses.get(len)
    assert own is len
    assert losses.get(None) is None
    assert losses.deserialize("mae") is losses.mean_absolute_error
    for unknown in ("logcosh", "no_such_thing"):
        with pytest.raises(ValueError, match=unknown):
            losses.get(unknown)


@pytest.mark.parametrize(
    ("loss", "setting", "value", "message"),
    [
        (tk.losses.Huber, "delta", -1.0, "huber: delta must be above 0, got -1.0"),
        (tk.losses.Huber, "delta", float("nan"), "huber: delta must be above 0, got nan"),
        (tk.losses.BinaryCrossentropy, "label_smoothing", 2.0, "label_smoothing must be in"),
        (tk.losses.CategoricalGeneralizedCrossEntropy, "q", 1.5, "q must be in"),
    ],
)
def test_a_setting_that_is_changed_later_is_checked(loss, setting, value, message):
    loss = loss()
    setattr(loss, setting, value)
    with pytest.raises(ValueError, match=message):
        loss([[0.0, 1.0]], [[0.25, 0.75]])


def test_a_reduction_that_is_changed_later_is_checked_at_once():
    loss = tk.losses.MeanSquaredError(reduction="sum")
    with pytest.raises(ValueError, match=r"reduction must be one of .* 'avg'"):
        loss.reduction = "avg"
    assert loss.reduction == "sum"


def test_a_reduction_that_is_changed_later_may_be_that_of_tensorflow():
    loss = tk.losses.MeanSquaredError(reduction="sum")
    loss.reduction = "auto"
    assert loss.reduction == "sum_over_batch_size"


def test_huber_is_curved_where_nothing_is_wrong():
    y = tk.constant([[1.0, 0.5, 3.0]])
    with tk.GradientTape() as outer:
        outer.watch(y)
        with tk.GradientTape() as inner:
            inner.watch(y)
            loss = tk.losses.huber([[1.0, 0.0, 0.0]], y)
        slope = inner.gradient(loss, y)
    np.testing.assert_allclose(slope, [[0.0, 0.5 / 3, 1.0 / 3]], rtol=1e-6)
    np.testing.assert_allclose(outer.gradient(slope, y), [[1 / 3, 1 / 3, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("size", [6, 5000])
@pytest.mark.parametrize("name", ["huber", "hinge", "squared_hinge"])
def test_losses_of_many_numbers_are_the_same_in_graphs(rng, name, size):
    y_true, y_pred = (rng.normal(size=(3, size)).astype("float32") * 2 for _ in range(2))
    loss = getattr(tk.losses, name)
    for labels in (y_true, np.sign(y_true), (y_true > 0).astype("float32")):
        expected = loss(labels, y_pred).numpy()
        compiled = tk.function(loss)
        for _ in range(3):
            assert compiled(labels, y_pred).numpy().tobytes() == expected.tobytes()


def test_the_delta_of_huber_may_be_a_tensor(rng):
    y_true, y_pred = tk.constant(rng.normal(size=(2, 3, 7)) * 2)
    for delta in (1, 0.7):
        results = []
        for delta_like in (delta, tk.constant(delta, "float64"), tk.Variable(float(delta))):
            with tk.GradientTape() as tape:
                tape.watch(y_pred)
                loss = tk.losses.huber(y_true, y_pred, delta_like)
            results.append((loss.numpy(), tape.gradient(loss, y_pred).numpy()))
        for loss, gradient in results[1:]:
            np.testing.assert_allclose(loss, results[0][0], rtol=1e-6)
            np.testing.assert_allclose(gradient, results[0][1], rtol=1e-6)
        error = np.abs(y_pred.numpy() - y_true.numpy())
        curve = np.where(error <= delta, error**2 / 2, delta * error - delta**2 / 2)
        np.testing.assert_allclose(results[0][0], curve.mean(-1), rtol=1e-12)


@pytest.mark.parametrize("delta", [0, -1.0, float("nan")])
def test_huber_asks_for_a_delta_above_0(delta):
    with pytest.raises(ValueError, match="huber: delta must be above 0"):
        tk.losses.huber([[0.0]], [[1.0]], delta)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_logarithmic_errors_of_16_bits_are_float32(dtype):
    y_true = tk.constant([[0.0, 1.0]], dtype)
    y_pred = tk.Variable([[0.2, 0.8]], dtype=dtype)
    with tk.GradientTape() as tape:
        loss = tk.losses.mean_squared_logarithmic_error(y_true, y_pred)
    assert loss.dtype == ("float64" if dtype == "float64" else "float32")
    exact = np.square(np.log1p([0.0, 1.0]) - np.log1p(y_pred.numpy().astype("float64"))).mean()
    np.testing.assert_allclose(loss, [exact], rtol=1e-5)
    assert tape.gradient(loss, y_pred).dtype == dtype
