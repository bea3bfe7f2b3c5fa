"""Operators of `ai.onnx.ml` for linear models, as scikit-learn's converter writes them."""

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import onnx_model
from trainkit.core.errors import InvalidArgumentError, UnimplementedError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(7, 3)).astype("float32")
ML = "ai.onnx.ml:"
COEFFICIENTS = [0.5, -1.0, 2.0, 1.5, 0.25, -0.5]
INTERCEPTS = [0.1, -0.3]
KERNEL = np.reshape(COEFFICIENTS, (2, 3)).T.astype("float32")


def write(folder, nodes, outputs="y", inputs=(("x", [None, 3]),), constants=None):
    model = onnx_model(nodes, inputs, outputs, constants)
    for node in model.graph.node:  # texts are in no other list
        for attribute in [a for a in node.attribute if a.name == "classlabels_strings"]:
            words = attribute.s.split()
            attribute.ClearField("s")
            attribute.type = 8
            attribute.strings.extend(words)
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def linear(**settings):
    return {"coefficients": COEFFICIENTS, "intercepts": INTERCEPTS, **settings}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("post", "transform"),
    [("NONE", lambda y: y), ("SOFTMAX", softmax), ("LOGISTIC", lambda y: 1 / (1 + np.exp(-y)))],
)
def test_a_regressor_is_a_product_that_trains_and_goes_out_again(post, transform, tmp_path):
    settings = linear(targets=2, post_transform=post)
    model = tk.onnx.load(write(tmp_path, [(ML + "LinearRegressor", "x", "y", settings)]))
    expected = transform(X @ KERNEL + np.float32(INTERCEPTS))
    np.testing.assert_allclose(model(X), expected, rtol=1e-5)
    assert [v.path for v in model.trainable_variables] == ["y.coefficients", "y.intercepts"]
    model.compile(tk.optimizers.SGD(0.1), "mse")
    history = model.fit(X, np.zeros((7, 2)), epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.export(tmp_path / "again.onnx", verbose=False)
    np.testing.assert_allclose(tk.onnx.load(tmp_path / "again.onnx")(X), model(X), rtol=1e-6)


@pytest.mark.parametrize(
    "labels", [{"classlabels_ints": [4, 9]}, {"classlabels_strings": "no yes"}]
)
def test_a_classifier_gives_labels_and_scores(labels, tmp_path):
    settings = linear(post_transform="SOFTMAX", **labels)
    nodes = [(ML + "LinearClassifier", "x", "label scores", settings)]
    model = tk.onnx.load(write(tmp_path, nodes, "label scores"))
    result = model(X)
    scores = X @ KERNEL + np.float32(INTERCEPTS)
    np.testing.assert_allclose(result["scores"], softmax(scores), rtol=1e-5)
    names = [4, 9] if "classlabels_ints" in labels else ["no", "yes"]
    expected = [names[i] for i in scores.argmax(-1)]
    values = result["label"].numpy().tolist()
    assert [v.decode() if isinstance(v, bytes) else v for v in values] == expected


def test_preparation_of_columns(tmp_path):
    nodes = [
        (ML + "Imputer", "x", "i", {"imputed_value_floats": [1.0, 2.0, 3.0],
                                    "replaced_value_float": float("nan")}),
        (ML + "Scaler", "i", "s", {"offset": [1.0, 0.0, 2.0], "scale": [2.0, 1.0, 0.5]}),
        (ML + "Normalizer", "s", "l1", {"norm": "L1"}),
        (ML + "Normalizer", "s", "l2", {"norm": "L2"}),
        (ML + "Normalizer", "s", "max", {"norm": "MAX"}),
        (ML + "Binarizer", "s", "b", {"threshold": 0.5}),
        (ML + "ArrayFeatureExtractor", "s k", "columns", {}),
        (ML + "ZipMap", "s", "maps", {"classlabels_int64s": [0, 1, 2]}),
    ]  # fmt: skip
    outputs = "l1 l2 max b columns maps"
    path = write(tmp_path, nodes, outputs, constants={"k": np.array([2, 0])})
    model = tk.onnx.load(path)
    assert not any(v.trainable for v in model.variables)
    x = X.copy()
    x[1, 1] = np.nan
    result = {name: y.numpy() for name, y in model(x).items()}
    filled = np.where(np.isnan(x), [1.0, 2.0, 3.0], x)
    scaled = ((filled - [1, 0, 2]) * [2, 1, 0.5]).astype("float32")
    expected = {
        "l1": scaled / np.abs(scaled).sum(-1, keepdims=True),
        "l2": scaled / np.sqrt((scaled**2).sum(-1, keepdims=True)),
        "max": scaled / scaled.max(-1, keepdims=True),
        "b": (scaled > 0.5).astype("float32"),
        "columns": scaled[:, [2, 0]],
        "maps": scaled,
    }
    for name, array in expected.items():
        np.testing.assert_allclose(result[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_rows_of_zeros_stay(tmp_path):
    nodes = [(ML + "Normalizer", "x", "y", {"norm": "L2"})]
    assert not tk.onnx.load(write(tmp_path, nodes))(X * 0).numpy().any()


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (("LinearRegressor", "x", "y", {}), InvalidArgumentError, "'coefficients' is missing"),
        (("LinearRegressor", "x", "y", {"coefficients": "a"}), InvalidArgumentError, "is no list"),
        (
            ("LinearRegressor", "x", "y", linear(targets=2, post_transform="PROBIT")),
            UnimplementedError,
            "post_transform 'PROBIT'",
        ),
        (
            ("LinearClassifier", "x", "y", linear(classlabels_ints=[1])),
            UnimplementedError,
            "fewer than two labels",
        ),
        (("Normalizer", "x", "y", {"norm": "L3"}), InvalidArgumentError, "not one of MAX, L1, L2"),
        (("Imputer", "x", "y", {}), InvalidArgumentError, "'imputed_value_floats' is missing"),
        (("TreeEnsembleRegressor", "x", "y", {}), UnimplementedError, "TreeEnsembleRegressor"),
    ],
)
def test_what_does_not_fit_is_named(node, error, message, tmp_path):
    kind, *others = node
    with pytest.raises(error, match=message):
        tk.onnx.load(write(tmp_path, [(ML + kind, *others)]))


def test_scikit_learn_s_own_files(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = RNG.normal(size=(60, 3)).astype("float32")
    labels = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    for last in (LogisticRegression(), MLPClassifier((8,), max_iter=2000)):
        pipeline = make_pipeline(StandardScaler(), last).fit(x, labels)
        proto = skl2onnx.to_onnx(pipeline, x[:1], options={"zipmap": False})
        path = tmp_path / "s.onnx"
        path.write_bytes(proto.SerializeToString())
        session = onnxruntime.InferenceSession(path)
        expected = session.run(None, {session.get_inputs()[0].name: x})
        for y, array in zip(tk.onnx.load(path)(x).values(), expected, strict=True):
            np.testing.assert_allclose(y, array, rtol=1e-5, atol=1e-6)
