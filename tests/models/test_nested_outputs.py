"""Losses, metrics, weights and targets of models with outputs of every nesting.

The expected numbers come from NumPy, output by output; the names are Keras's.
"""

import collections

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 2)).astype("float32")
TARGETS = {
    n: (RNG.standard_normal((6, 1)) * (i + 1) + i).astype("float32") for i, n in enumerate("pqr")
}
WEIGHTS = {n: RNG.uniform(0.1, 2, 6).astype("float32") for n in "pqr"}
SLOPES = {"p": 0.1, "q": 0.2, "r": 0.3}
GUESS = {n: X.sum(axis=1, keepdims=True) * slope for n, slope in SLOPES.items()}
Pair = collections.namedtuple("Pair", "q p")

FORMS = {
    "one": lambda p, q, r: p,
    "list of one": lambda p, q, r: [p],
    "dict of one": lambda p, q, r: {"p": p},
    "list": lambda p, q, r: [p, q],
    "tuple": lambda p, q, r: (p, q),
    "unsorted dict": lambda p, q, r: {"q": q, "p": p},
    "named tuple": lambda p, q, r: Pair(q, p),
    "nested": lambda p, q, r: {"k": [p, q], "a": r},
    "dicts in a dict": lambda p, q, r: {"k": {"z": p, "b": q}, "a": r},
    "tuple in a list": lambda p, q, r: [(r, p), q],
}
NESTED = [f for f in FORMS if f not in ("one", "list of one", "dict of one")]


def of(form, values):
    return FORMS[form](*(values[n] for n in "pqr"))


def used(form):
    """The names of the outputs that there are."""
    return sorted(keras.tree.flatten(FORMS[form]("p", "q", "r")))


class Sub(tk.Model):
    def __init__(self, form):
        super().__init__()
        self.form = form
        for name in used(form):
            setattr(self, name, layer(name))

    def call(self, x):
        names = used(self.form)
        return FORMS[self.form](*(getattr(self, n)(x) if n in names else None for n in "pqr"))


def layer(name):
    start = tk.keras.initializers.Constant(SLOPES[name])
    return tk.layers.Dense(1, kernel_initializer=start, use_bias=False, name=f"d{name}")


def model_of(kind, form, **arguments):
    if kind == "sub":
        model = Sub(form)
    else:
        x = tk.Input((2,))
        model = tk.Model(x, FORMS[form](*(layer(n)(x) if n in used(form) else None for n in "pqr")))
    model.compile(tk.optimizers.SGD(0.05), **arguments)
    return model


def mse(name, weight=1.0):
    return np.mean((GUESS[name] - TARGETS[name])[:, 0] ** 2 * weight)


def mae(name, weight=1.0):
    return np.mean(np.abs(GUESS[name] - TARGETS[name])[:, 0] * weight)


def logs(model, y, **more):
    return model.evaluate(X, y, return_dict=True, verbose=0, **more)


KINDS = pytest.mark.parametrize("kind", ["sub", "functional"])


@KINDS
@pytest.mark.parametrize("form", FORMS)
def test_one_loss_for_all_outputs(kind, form):
    found = logs(model_of(kind, form, loss="mse"), of(form, TARGETS))
    assert found["loss"] == pytest.approx(sum(mse(n) for n in used(form)), rel=1e-5)
    if len(used(form)) > 1:
        parts = sorted(v for k, v in found.items() if k != "loss")
        assert parts == pytest.approx(sorted(mse(n) for n in used(form)), rel=1e-5)


@KINDS
@pytest.mark.parametrize("form", FORMS)
def test_losses_and_weights_nested_as_the_outputs(kind, form):
    losses = of(form, {"p": "mse", "q": "mae", "r": "mse"})
    factors = of(form, {"p": 2.0, "q": 0.5, "r": 3.0})
    model = model_of(kind, form, loss=losses, loss_weights=factors)
    value = {"p": 2.0 * mse("p"), "q": 0.5 * mae("q"), "r": 3.0 * mse("r")}
    found = logs(model, of(form, TARGETS))
    assert found["loss"] == pytest.approx(sum(value[n] for n in used(form)), rel=1e-5)


@KINDS
@pytest.mark.parametrize("form", FORMS)
def test_sample_weights_nested_as_the_outputs(kind, form):
    model = model_of(kind, form, loss="mse")
    found = logs(model, of(form, TARGETS), sample_weight=of(form, WEIGHTS))
    assert found["loss"] == pytest.approx(sum(mse(n, WEIGHTS[n]) for n in used(form)), rel=1e-5)
    found = logs(model, of(form, TARGETS), sample_weight=WEIGHTS["p"])
    assert found["loss"] == pytest.approx(sum(mse(n, WEIGHTS["p"]) for n in used(form)), rel=1e-5)


@KINDS
def test_sample_weights_may_name_some_of_the_outputs(kind):
    model = model_of(kind, "unsorted dict", loss="mse")
    loss = logs(model, of("unsorted dict", TARGETS), sample_weight={"q": WEIGHTS["q"]})["loss"]
    parts = [mse(n, WEIGHTS[n] if n == "q" else 1.0) for n in used("unsorted dict")]
    assert loss == pytest.approx(sum(parts), rel=1e-5)
    with pytest.raises(ValueError, match="sample weights are not nested as the outputs are"):
        logs(model, of("unsorted dict", TARGETS), sample_weight={"other": WEIGHTS["q"]})


@KINDS
@pytest.mark.parametrize("form", FORMS)
def test_metrics_nested_as_the_outputs(kind, form):
    given = of(form, {"p": ["mae"], "q": "mse", "r": ["mae", "mse"]})
    given = [given] if form == "one" else given
    model = model_of(kind, form, loss="mse", metrics=given, weighted_metrics=given)
    found = logs(model, of(form, TARGETS), sample_weight=of(form, WEIGHTS))
    plain = {"p": [mae("p")], "q": [mse("q")], "r": [mae("r"), mse("r")]}

    def share(of_one, name):
        return of_one(name, WEIGHTS[name]) * 6 / WEIGHTS[name].sum()

    heavy = {
        "p": [share(mae, "p")],
        "q": [share(mse, "q")],
        "r": [share(mae, "r"), share(mse, "r")],
    }
    metrics = [v for k, v in found.items() if "loss" not in k]
    wanted = [v for n in used(form) for v in plain[n] + heavy[n]]
    assert sorted(metrics) == pytest.approx(sorted(wanted), rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["sub", "functional"])
def test_compiled_steps_train_each_output_on_its_target(kind, form):
    losses = of(form, {"p": "mse", "q": "mae", "r": "mse"})

    def trained(eagerly):
        model = model_of(kind, form, loss=losses, run_eagerly=eagerly)
        history = model.fit(
            X,
            of(form, TARGETS),
            sample_weight=of(form, WEIGHTS),
            batch_size=1,
            epochs=2,
            shuffle=False,
            verbose=0,
        ).history
        return history, model.get_weights()

    (eager, eager_weights), (graph, graph_weights) = trained(True), trained(False)
    assert eager.keys() == graph.keys()
    for name in eager:
        np.testing.assert_allclose(graph[name], eager[name], rtol=1e-5, err_msg=name)
    for a, b in zip(eager_weights, graph_weights, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)
    kernel = eager_weights[0]
    assert not np.allclose(kernel, SLOPES["p"])


TARGET_FORMS = {
    ("list", "tuple"): lambda t: (t["p"], t["q"]),
    ("tuple", "list"): lambda t: [t["p"], t["q"]],
    ("unsorted dict", "sorted dict"): lambda t: {"p": t["p"], "q": t["q"]},
    ("unsorted dict", "list by sorted keys"): lambda t: [t["p"], t["q"]],
    ("nested", "tuple inside"): lambda t: {"a": t["r"], "k": (t["p"], t["q"])},
    ("nested", "flat list"): lambda t: [t["r"], t["p"], t["q"]],
    ("list of one", "bare"): lambda t: t["p"],
    ("dict of one", "bare"): lambda t: t["p"],
    ("one", "list"): lambda t: [t["p"]],
    ("one", "dict"): lambda t: {"p": t["p"]},
}


@KINDS
@pytest.mark.parametrize("case", TARGET_FORMS)
def test_targets_in_other_forms(kind, case):
    form = case[0]
    model = model_of(kind, form, loss="mse")
    found = logs(model, TARGET_FORMS[case](TARGETS))
    assert found["loss"] == pytest.approx(sum(mse(n) for n in used(form)), rel=1e-5)


def test_names_of_outputs_stand_for_a_list():
    model = model_of(
        "functional",
        "list",
        loss={"dq": "mae", "dp": "mse"},
        loss_weights={"dq": 3.0},
        metrics={"dq": ["mse"]},
    )
    found = logs(model, {"dq": TARGETS["q"], "dp": TARGETS["p"]})
    assert found == pytest.approx(
        {
            "loss": mse("p") + 3.0 * mae("q"),
            "dp_loss": mse("p"),
            "dq_loss": mae("q"),
            "dq_mse": mse("q"),
        },
        rel=1e-5,
    )


@KINDS
@pytest.mark.parametrize("form", ["unsorted dict", "list", "nested", "dicts in a dict"])
def test_outputs_without_a_loss_need_no_target(kind, form):
    for_dict = {"unsorted dict": {"p": "mse"}, "dicts in a dict": {"k": {"z": "mse"}}}
    losses = for_dict.get(form, of(form, {"p": "mse", "q": None, "r": None}))
    model = model_of(kind, form, loss=losses)
    assert logs(model, of(form, TARGETS)) == pytest.approx({"loss": mse("p")}, rel=1e-5)
    if form == "unsorted dict":
        found = logs(model, {"p": TARGETS["p"]})
    else:
        found = logs(model, TARGETS["p"])
    assert found == pytest.approx({"loss": mse("p")}, rel=1e-5)


NAMES = {
    ("sub", "list"): ["mae_loss", "mse_loss"],
    ("functional", "list"): ["dp_loss", "dq_loss"],
    ("sub", "unsorted dict"): ["p_loss", "q_loss"],
    ("functional", "unsorted dict"): ["p_loss", "q_loss"],
    ("sub", "nested"): ["a_loss", "k/mae_loss", "k/mse_loss"],
    ("functional", "nested"): ["a_loss", "k/dp_loss", "k/dq_loss"],
    ("functional", "dicts in a dict"): ["a_loss", "k/b_loss", "k/z_loss"],
}


@pytest.mark.parametrize("case", NAMES)
def test_the_loss_of_each_output_has_keras_name(case):
    losses = of(case[1], {"p": "mse", "q": "mae", "r": "mse"})
    found = logs(model_of(*case, loss=losses), of(case[1], TARGETS))
    assert [name for name in sorted(found) if name != "loss"] == NAMES[case]


def test_two_losses_of_one_name_are_both_shown():
    found = logs(model_of("sub", "list", loss="mse"), of("list", TARGETS))
    assert found == pytest.approx(
        {"loss": mse("p") + mse("q"), "mse_loss": mse("p"), "mse_loss_1": mse("q")}, rel=1e-5
    )


def test_names_of_metrics_are_keras_names():
    def MeanGap(y_true, y_pred):
        return tk.ops.abs(y_true - y_pred)

    m = keras.metrics
    model = model_of(
        "sub",
        "one",
        loss="mse",
        metrics=["mse", m.MeanSquaredError(), m.MeanSquaredError(), MeanGap, lambda y, p: y - p],
        weighted_metrics=["mse", m.MeanSquaredError()],
    )
    found = logs(model, TARGETS["p"])
    assert sorted(found) == [
        "lambda",
        "loss",
        "mean_gap",
        "mean_squared_error",
        "mean_squared_error_1",
        "mse",
        "weighted_mean_squared_error",
        "weighted_mse",
    ]


def test_compiling_twice_with_the_same_metrics_names_them_alike():
    metric = keras.metrics.MeanAbsoluteError()
    model = model_of("functional", "list", loss="mse", metrics=[metric, None])
    names = [sorted(logs(model, of("list", TARGETS)))]
    model.compile("sgd", "mse", metrics=[metric, None])
    names.append(sorted(logs(model, of("list", TARGETS))))
    assert names[0] == names[1] == ["dp_loss", "dp_mean_absolute_error", "dq_loss", "loss"]
    assert metric.name == "mean_absolute_error"


def test_evaluate_lists_as_keras_does():
    """The loss, metrics without an output's name, the outputs' losses, then by name."""
    model = model_of("functional", "unsorted dict", loss="mse", metrics={"q": ["mae"], "p": "mse"})
    found = model.evaluate(X, of("unsorted dict", TARGETS), verbose=0)
    wanted = [mse("p") + mse("q"), mse("q"), mse("p"), mse("p"), mae("q")]
    assert found == pytest.approx(wanted, rel=1e-5)
    model = model_of("sub", "list", loss=["mse", "mae"], metrics=[["mae"], None])
    found = model.evaluate(X, of("list", TARGETS), verbose=0)
    wanted = [mse("p") + mae("q"), mae("p"), mse("p"), mae("q")]
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("form", ["one", "list", "unsorted dict"])
@KINDS
def test_several_losses_of_one_output_are_added_up(kind, form):
    losses = of(form, {"p": ["mse", "mae"], "q": "mse", "r": None})
    model = model_of(kind, form, loss=losses)
    found = logs(model, of(form, TARGETS))
    wanted = mse("p") + mae("p") + (0 if form == "one" else mse("q"))
    assert found["loss"] == pytest.approx(wanted, rel=1e-5)
    if form == "unsorted dict":
        assert found["p_loss"] == pytest.approx(mse("p") + mae("p"), rel=1e-5)


def test_a_list_of_losses_for_a_dict_of_outputs():
    model = model_of("sub", "unsorted dict", loss=[{"p": "mse"}, {"p": "mae", "q": "mse"}])
    found = logs(model, of("unsorted dict", TARGETS))
    assert found["loss"] == pytest.approx(mse("p") + mae("p") + mse("q"), rel=1e-5)


@pytest.mark.parametrize("name", ["crossentropy", "ce"])
def test_crossentropy_is_chosen_by_shapes(name):
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(3, "softmax")])
    model.compile("sgd", name)
    labels = np.array([0, 1, 2, 0, 1, 2])
    sparse = logs(model, labels)["loss"]
    assert sparse == pytest.approx(logs(model, labels[:, None])["loss"])
    model.compile("sgd", name)
    one_hot = logs(model, np.eye(3, dtype="float32")[labels])["loss"]
    assert one_hot == pytest.approx(sparse, rel=1e-5)


BAD = [
    (ValueError, {"loss": ["mse"]}, "1 entries, the model has 2 outputs"),
    (ValueError, {"loss": ["mse"] * 3}, "3 entries, the model has 2 outputs"),
    (ValueError, {"loss": {"c": "mse"}}, "c"),
    (ValueError, {"loss": "mse", "loss_weights": [1.0]}, "loss_weights has 1 entries"),
    (ValueError, {"loss": "mse", "metrics": ["mae"]}, "for a model of 2 outputs"),
    (ValueError, {"loss": "mse", "metrics": {"zz": "mae"}}, "for a model of 2 outputs"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_what_does_not_fit_is_an_error(case):
    error, arguments, words = BAD[case]
    model = model_of("functional", "list", **arguments)
    with pytest.raises(error, match=words):
        model.evaluate(X, of("list", TARGETS), verbose=0)


def test_a_loss_for_an_output_that_there_is_not():
    model = model_of("sub", "unsorted dict", loss={"p": "mse", "zz": "mse"})
    with pytest.raises(KeyError, match="zz"):
        model.evaluate(X, of("unsorted dict", TARGETS), verbose=0)


@pytest.mark.parametrize("form", ["list", "unsorted dict"])
def test_one_target_does_not_stand_for_two_outputs(form):
    with pytest.raises(ValueError, match="targets are not nested as the outputs"):
        model_of("sub", form, loss="mse").evaluate(X, TARGETS["p"], verbose=0)


@pytest.mark.parametrize("form", FORMS)
def test_predict_keeps_the_nesting(form):
    found = model_of("sub", form, loss="mse").predict(X, batch_size=4, verbose=0)
    wanted = of(form, GUESS)
    keras.tree.assert_same_structure(found, wanted)
    for a, b in zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def whole(y_true, y_pred):
    """A loss of a whole nest: one times the squares of the first output, twice the second's."""
    pairs = zip(keras.tree.flatten(y_true), keras.tree.flatten(y_pred), strict=True)
    return sum((i + 1) * keras.ops.mean((a - b) ** 2, -1) for i, (a, b) in enumerate(pairs))


def whole_of(*names):
    return sum((i + 1) * mse(n) for i, n in enumerate(names))


WHOLE = {  # outputs, losses, weights; the loss, and those of its parts by name
    "a list for a tuple": (
        lambda p, q, r: (p, q),
        ([whole, ("mse", "mae")], None),
        (whole_of("p", "q") + mse("p") + mae("q"), {"dp_dq_loss", "dp_loss", "dq_loss"}),
    ),
    "a tuple for a list": (
        lambda p, q, r: [p, q],
        ((whole, ["mse", "mae"]), (0.5, [2.0, 3.0])),
        (
            0.5 * whole_of("p", "q") + 2 * mse("p") + 3 * mae("q"),
            {"dp_dq_loss", "dp_loss", "dq_loss"},
        ),
    ),
    "a named tuple": (
        lambda p, q, r: Pair(q, p),
        ([whole, Pair("mse", "mae")], None),
        (whole_of("q", "p") + mse("q") + mae("p"), {"dq_dp_loss", "dp_loss", "dq_loss"}),
    ),
    "a dict": (
        lambda p, q, r: {"k": p, "a": q},
        ([whole, {"k": "mse", "a": "mae"}], [0.5, {"k": 2.0, "a": 3.0}]),
        (0.5 * whole_of("q", "p") + 2 * mse("p") + 3 * mae("q"), {"k_a_loss", "k_loss", "a_loss"}),
    ),
    "a flat list of weights": (
        lambda p, q, r: {"k": p, "a": q},
        ([whole, {"k": "mse", "a": "mae"}], [0.5, 3.0, 2.0]),
        (0.5 * whole_of("q", "p") + 2 * mse("p") + 3 * mae("q"), {"k_a_loss", "k_loss", "a_loss"}),
    ),
    "alone for a dict": (
        lambda p, q, r: {"k": p, "a": q},
        ([whole], [3.0]),
        (3 * whole_of("q", "p"), set()),
    ),
    "alone for a tuple": (lambda p, q, r: (p, q), ([whole], None), (whole_of("p", "q"), set())),
    "one part of a list": (
        lambda p, q, r: [(p, q), r],
        ([whole, "mse"], [2.0, 3.0]),
        (2 * whole_of("p", "q") + 3 * mse("r"), {"0_loss", "dr_loss"}),
    ),
    "parts of a dict": (
        lambda p, q, r: {"z": (p, q), "b": {"k": r}},
        ({"z": [whole, (None, "mse")], "b": whole}, None),
        (whole_of("p", "q") + mse("q") + mse("r"), {"z_loss", "z/dq_loss", "b_loss"}),
    ),
    "flat lists for parts": (
        lambda p, q, r: {"z": {"y": p, "a": q}, "b": {"k": r}},
        ({"z": ["mae", "mse"], "b": ["mse"]}, None),
        (mae("q") + mse("p") + mse("r"), {"z/a_loss", "z/y_loss", "b/k_loss"}),
    ),
}


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("case", WHOLE)
def test_a_loss_of_a_whole_nest_of_outputs(case, eager):
    nested, (losses, factors), (value, parts) = WHOLE[case]
    x = tk.Input((2,))
    made = [layer(name)(x) for name in "pqr"]
    model = tk.Model(x, nested(*made))
    model.compile("sgd", loss=losses, loss_weights=factors, run_eagerly=eager)
    targets = nested(*(TARGETS[name] for name in "pqr"))
    found = logs(model, targets)
    assert found.pop("loss") == pytest.approx(value, rel=1e-5)
    assert set(found) == parts
    before = [layer.numpy() for layer in model.trainable_variables]
    model.fit(X, targets, batch_size=4, epochs=2, verbose=0)
    assert all(
        (a != b.numpy()).any() for a, b in zip(before, model.trainable_variables, strict=True)
    )


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("other", [list, tuple])
@pytest.mark.parametrize("form", ["list", "tuple", "named tuple", "nested", "tuple in a list"])
def test_a_loss_of_a_whole_nest_sees_the_types_of_the_outputs(form, other, eager):
    wanted = of(form, {"p": 0, "q": 0, "r": 0})

    def typed(y_true, y_pred):
        keras.tree.assert_same_structure(wanted, y_true)
        keras.tree.assert_same_structure(wanted, y_pred)
        return whole(y_true, y_pred)

    model = model_of(
        "sub", form, loss=(typed,) if isinstance(wanted, list) else [typed], run_eagerly=eager
    )
    targets = of(form, TARGETS)
    if isinstance(targets, list | tuple):
        targets = other(targets)  # a plain list or tuple stands for what the outputs are
    names = keras.tree.flatten(of(form, {"p": "p", "q": "q", "r": "r"}))
    assert logs(model, targets)["loss"] == pytest.approx(whole_of(*names), rel=1e-5)


def test_a_list_of_names_belongs_to_the_outputs_of_a_tuple():
    model = model_of("functional", "tuple", loss=[["mse", "mae"], "mae"], loss_weights=[2.0, 3.0])
    found = logs(model, of("tuple", TARGETS))["loss"]
    assert found == pytest.approx(2 * (mse("p") + mae("p")) + 3 * mae("q"), rel=1e-5)


@pytest.mark.parametrize("eager", [True, False])
def test_weights_of_several_losses_of_one_output(eager):
    model = model_of("functional", "one", loss=["mse", "mae"], loss_weights=[2.0, 3.0])
    model.run_eagerly = eager
    found = logs(model, TARGETS["p"])["loss"]
    assert found == pytest.approx(2 * mse("p") + 3 * mae("p"), rel=1e-5)
