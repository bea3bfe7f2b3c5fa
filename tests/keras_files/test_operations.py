"""Operations in models that go to Keras and back, and the names under which they are written."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.keras_files.interpreter import PYTHON, needs_keras
from trainkit import keras, ops

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import exchanging  # noqa: E402  Keras's process finds it in the folder of its script
import operation_cases  # noqa: E402

# Facts of Keras 3.15: the classes of keras.src.ops that models here may name.
KERAS_CLASSES = {
    "numpy": """Absolute Add All Angle Any Arccos Arccosh Arcsin Arcsinh Arctan Arctan2
        Arctanh Argmax Argmin Argpartition Argsort Bincount BitwiseAnd BitwiseNot
        BitwiseOr BitwiseXor BroadcastTo Cbrt Ceil Clip Concatenate Conj Copy Correlate
        Cos Cosh Cumprod Cumsum Deg2rad Diag Diagonal Divide DivideNoNan Einsum Equal Exp
        Exp2 ExpandDims Expm1 Flip Floor FloorDivide Fmax Fmin Fmod FullLike Gcd GetItem
        Greater GreaterEqual Heaviside Histogram Hypot I0 Imag IsIn Isclose Isfinite Isinf
        Isnan Isneginf Isposinf Lcm LeftShift Less LessEqual Linspace Log Log10 Log1p Log2
        Logaddexp Logaddexp2 LogicalAnd LogicalNot LogicalOr LogicalXor Matmul Max Maximum
        Mean Median Min Minimum Mod Multiply NanToNum Nanmedian Nanquantile Negative Nextafter
        Nonzero NotEqual OnesLike Pad Power Prod Quantile Rad2deg Real Reciprocal Repeat
        Reshape RightShift Roll Round SearchSorted Sign Signbit Sin Sinc Sinh Slogdet Sort
        Split Sqrt Square Squeeze Stack Subtract Sum Take TakeAlongAxis Tan Tanh Tile
        Transpose Tril Triu Trunc Unique UnravelIndex Var View Where ZerosLike""",
    "nn": """AveragePool BinaryCrossentropy CTCDecode CTCLoss CategoricalCrossentropy
        Celu Conv ConvTranspose DepthwiseConv DotProductAttention Elu Fold Gelu HardShrink
        HardSigmoid HardSilu HardTanh LayerNorm LeakyRelu LogSigmoid LogSoftmax MaxPool
        OneHot Polar Relu Relu6 Selu Sigmoid Silu SoftShrink Softmax Softplus Softsign
        SparseCategoricalCrossentropy SparsePlus SparseSigmoid Sparsemax Squareplus
        TanhShrink Unfold""",
    "math": """Erf Erfc Erfinv ExtractSequences FFT FFT2 IFFT2 IRFFT ISTFT InTopK
        Logsumexp RFFT Rsqrt STFT SegmentMax SegmentMin SegmentProd SegmentSum TopK
        ViewAsComplex ViewAsReal""",
    "core": "Cast SaturateCast ScatterUpdate Slice SliceUpdate StopGradient Unstack",
    "linalg": "Cholesky Det Eig Eigh Inv LuFactor Pinv Qr SVD Solve SolveTriangular",
    "image": "ExtractPatches Resize",
}
NAMES = {
    f"keras.src.ops.{m}.{name}" for m, names in KERAS_CLASSES.items() for name in names.split()
}


def operations(model):
    """The configs of the operations of a model."""
    layers = json.loads(model.to_json())["config"]["layers"]
    return [layer for layer in layers if layer["class_name"] != "InputLayer"]


def test_every_operation_is_written_as_a_class_of_keras():
    unknown = {}
    for name in operation_cases.CASES:
        if any(part in name for part in (" of axes", " of a number", " after a number")):
            continue
        for item in operations(operation_cases.model_of(keras, name)):
            full = f"{item['module']}.{item['class_name']}"
            if full not in NAMES or "build_config" in item:
                unknown[name] = full
    assert not unknown


@pytest.mark.parametrize(
    ("make", "kind", "config", "args"),
    [
        (lambda x: ops.pad(x, ((0, 0), (1, 2))), "Pad", {"mode": "constant"}, [0]),
        (lambda x: ops.max_pool(x[..., None], 2), "MaxPool", {"pool_size": 2, "strides": 2}, []),
        (lambda x: ops.einsum("Bq,Bq->B", x, x), "Einsum", {"subscripts": "ab,ab->a"}, None),
        (lambda x: ops.median(x, axis=1), "Median", {"axis": [1], "keepdims": False}, []),
        (lambda x: ops.nanquantile(x, 0.3, axis=1), "Nanquantile", {"axis": [1]}, [0.3]),
        (lambda x: ops.split(x, [1, 3], 1), "Split", {"indices_or_sections": [1, 3]}, []),
        (lambda x: ops.gelu(x), "Gelu", {"approximate": True}, []),
        (lambda x: ops.full_like(x, 3, dtype="int32"), "FullLike", {"dtype": "int32"}, None),
        (lambda x: ops.slice(x, (0, 1), (2, 2)), "Slice", {"shape": [2, 2]}, [[0, 1]]),
        (lambda x: ops.rfft(x, 8)[0], "RFFT", {"fft_length": 8}, []),
    ],
)
def test_settings_and_arguments_are_those_of_keras(make, kind, config, args):
    x = keras.Input((4,), batch_size=2)
    model = keras.Model(x, make(x))
    written = operations(model)[-1]
    assert written["class_name"] == kind
    for key, value in config.items():
        assert written["config"][key] in (value, value[0] if isinstance(value, list) else value)
    if args is not None:
        assert written["inbound_nodes"][0]["args"][1:] == args
    again = keras.models.model_from_json(model.to_json())
    values = np.arange(8, dtype="float32").reshape(2, 4)
    for a, b in zip(
        exchanging.flat(keras, model(values)), exchanging.flat(keras, again(values)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_what_keras_calls_otherwise_is_read():
    """Normalizations, a product by letters and a size, as Keras's files have them."""
    symbol = {
        "class_name": "__keras_tensor__",
        "config": {"shape": [2, 4], "dtype": "float32", "keras_history": ["x", 0, 0]},
    }
    x = keras.Input((4,), batch_size=2, name="x")
    plain = json.loads(keras.Model(x, x + 1).to_json())
    values = np.arange(8, dtype="float32").reshape(2, 4)
    deviations = values - values.mean(-1, keepdims=True)
    cases = [
        ("nn", "LayerNorm", {"axis": -1}, [symbol], deviations / values.std(-1, keepdims=True)),
        ("nn", "RMSNorm", {}, [symbol], values / np.sqrt((values**2).mean(-1, keepdims=True))),
        ("numpy", "Einsum", {"subscripts": "ij,ij->i"}, [symbol, symbol], (values**2).sum(-1)),
        ("numpy", "ZerosLike", {"dtype": None}, [symbol], np.zeros_like(values)),
        (
            "nn",
            "BatchNorm",
            {"axis": -1, "epsilon": 0.0},
            [symbol, *([float(i)] * 4 for i in (1, 4, 3, 2))],
            values - 1 + 3,
        ),
    ]
    for module, kind, settings, args, expected in cases:
        layer = plain["config"]["layers"][-1]
        layer["module"], layer["class_name"] = f"keras.src.ops.{module}", kind
        layer["config"] = {"name": layer["name"], **settings}
        layer["inbound_nodes"] = [{"args": args, "kwargs": {}}]
        model = keras.models.model_from_json(json.dumps(plain))
        np.testing.assert_allclose(model(values), expected, rtol=1e-4, atol=1e-5)


def test_a_size_that_is_known_is_a_number_for_the_operations_after_it():
    """Of a batch of any size it is a symbol, in Keras always."""

    def called(module, kind, name, *args, **settings):
        inputs = [
            {"class_name": "__keras_tensor__", "config": {"keras_history": [arg, 0, 0]}}
            if isinstance(arg, str)
            else arg
            for arg in args
        ]
        return {
            "module": f"keras.src.ops.{module}",
            "class_name": kind,
            "name": name,
            "config": {"name": name, **settings},
            "inbound_nodes": [{"args": inputs, "kwargs": {}}],
        }

    for batch in (2, None):
        x = keras.Input((4,), batch_size=batch, name="x")
        plain = json.loads(keras.Model(x, x).to_json())
        plain["config"]["layers"] += [
            called("numpy", "Size", "size", "x"),
            called("core", "Cast", "cast", "size", dtype="float32"),
            called("numpy", "Multiply", "half", "cast", 0.5),
            called("numpy", "Add", "sum", "x", "half"),
        ]
        plain["config"]["output_layers"] = ["sum", 0, 0]
        model = keras.models.model_from_json(json.dumps(plain))
        np.testing.assert_array_equal(model(np.ones((2, 4), "float32")), np.full((2, 4), 5.0))
        plain["config"]["layers"][2]["class_name"] = "BroadcastTo"
        plain["config"]["layers"][2]["config"] = {"name": "cast", "shape": [1 << 40]}
        if batch:
            with pytest.raises(ValueError, match="no tensor of the model"):
                keras.models.model_from_json(json.dumps(plain))


def ask_keras(what, folder):
    """What the other process prints."""
    command = [PYTHON, str(HERE / "keras_side.py"), what, str(folder)]
    process = subprocess.run(command, capture_output=True, check=True, text=True)
    return process.stdout.strip().splitlines()[-1] if what == "read" else None


@pytest.mark.slow
@needs_keras
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("writer", ["trainkit", "keras"])
def test_models_of_all_operations_give_the_same_in_keras(tmp_path, writer):
    if writer == "trainkit":
        for number, name in enumerate(operation_cases.CASES):
            if name not in operation_cases.NOT_IN_KERAS:
                exchanging.save_model(keras, name, tmp_path / f"{number}")
        assert json.loads(ask_keras("read", tmp_path)) == {}
    else:
        ask_keras("write", tmp_path)
        assert exchanging.differences(keras, tmp_path) == {}
