"""What PyTorch has written reads here as PyTorch itself reads it; networks compute the same."""

import collections
import json

import numpy as np
import pytest

import trainkit as tk

torch = pytest.importorskip("torch")
nn = torch.nn
layers = tk.layers
pytestmark = pytest.mark.filterwarnings("ignore")


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)
    )


def nested():
    module = network()
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    state = {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    return {**state, "best": np.float64(0.5), "device": torch.device("cpu")}, state["model"]


def narrow():
    state = {name: value.bfloat16() for name, value in nn.Linear(5, 7).state_dict().items()}
    state |= {"half": torch.randn(3).half(), "e4": torch.randn(9).to(torch.float8_e4m3fn)}
    state |= {"e5": torch.randn(2, 2).to(torch.float8_e5m2), "u16": torch.ones(3).to(torch.uint16)}
    state |= {"complex": torch.randn(3, dtype=torch.complex64), "mask": torch.tensor([True, False])}
    state |= {"number": torch.tensor(7), "double": torch.randn(2).double()}
    return state | {"empty": torch.zeros(0, 3)}


def shared():
    table = torch.randn(11, 4)
    return {"emb": table, "head": table, "row": table[3], "rows": table[2:5]}


def strided():
    x = torch.randn(6, 8)
    state = {"turned": x.t(), "steps": x[::2, 1::3], "inner": x[3:, 2:5], "number": x[2, 2]}
    state |= {
        "moved": torch.randn(2, 3, 4).permute(2, 0, 1),
        "wide": torch.randn(3, 1).expand(3, 5),
    }
    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    return state | {"channels_last": images}


def quantized():
    x, scales = torch.randn(3, 4, 2), torch.tensor([0.1, 0.2, 0.3, 0.05])
    each = torch.quantize_per_channel(x, scales, torch.tensor([0, 1, 2, -4]), 1, torch.qint8)
    return {
        "tensor": torch.quantize_per_tensor(x, 0.1, 3, torch.quint8),
        "channel": each,
        "wide": torch.quantize_per_tensor(x, 1e-5, 3, torch.qint32),
    }


def wrapped():
    tagged = nn.Parameter(torch.randn(2))
    tagged.tag = "x"
    return {"parameter": nn.Parameter(torch.randn(3)), "tagged": tagged}


def ordered():
    state = collections.OrderedDict(w=torch.randn(2, 2))
    state._metadata = {"": {"version": 1}}
    return state


def modules():
    state = {}
    for name, module in (
        ("lstm", nn.LSTM(4, 6, 2, bidirectional=True)),
        ("gru", nn.GRU(4, 6)),
        ("mha", nn.MultiheadAttention(8, 2)),
        ("encoder", nn.TransformerEncoderLayer(8, 2, 16)),
    ):
        state |= {f"{name}.{key}": value for key, value in module.state_dict().items()}
    return state


LAYOUTS = [lambda: network().state_dict(), nested, narrow, shared, strided, quantized, wrapped,
           ordered, modules]  # fmt: skip
NAMES = ["state_dict", "nested", "narrow", "shared", "strided", "quantized", "wrapped", "ordered",
         "modules"]  # fmt: skip


def assert_same(arrays, tensors):
    assert list(arrays) == list(tensors)
    for name, tensor in tensors.items():
        tensor = tensor.detach()
        tensor = (tensor.dequantize() if tensor.is_quantized else tensor).contiguous()
        array = np.array(arrays[name], order="C")
        assert array.shape == tuple(tensor.shape), name
        assert array.dtype.name == str(tensor.dtype).removeprefix("torch."), name
        stored = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.array([])
        assert array.tobytes() == stored.tobytes(), name


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_files_read_as_torch_reads_them(layout, protocol, tmp_path):
    torch.manual_seed(0)
    value = layout()
    value, tensors = value if isinstance(value, tuple) else (value, value)
    torch.save(value, tmp_path / "w.pt", pickle_protocol=protocol)
    assert_same(tk.weights.load(tmp_path / "w.pt"), tensors)
    assert_same(tk.weights.load(tmp_path / "w.pt", mapped=True), tensors)


def test_files_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.ones(3)}, tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert tk.weights.load(tmp_path / "w.pt")["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("value", [[torch.ones(2), torch.arange(3)], torch.ones(4)])
def test_lists_and_single_tensors(value, tmp_path):
    torch.save(value, tmp_path / "w.pt")
    tensors = value if isinstance(value, list) else [value]
    for array, tensor in zip(tk.weights.load(tmp_path / "w.pt").values(), tensors, strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())


def test_safetensors_of_torch_in_several_files(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    tensors = {f"layers.{i}.w": torch.randn(64, 64) for i in range(12)}
    weight_map = {}
    for number in range(4):
        part = {name: tensors[name] for name in list(tensors)[number::4]}
        base = f"model-{number + 1:05}-of-00004.safetensors"
        library.save_file(part, tmp_path / base, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, base)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    arrays = tk.weights.load(tmp_path)
    assert_same({name: arrays[name] for name in tensors}, tensors)


def test_whole_modules_and_earlier_formats_are_refused(tmp_path):
    path = tmp_path / "w.pt"
    torch.save(network(), path)
    with pytest.raises(ValueError, match=r"asks for torch\.nn\.modules.*model\.state_dict\(\)"):
        tk.weights.load(path)
    torch.save(network().state_dict(), path, _use_new_zipfile_serialization=False)
    with pytest.raises(NotImplementedError, match=r"before PyTorch 1\.6 \(pickles\)"):
        tk.weights.load(path)
    torch.jit.script(network()).save(str(path))
    with pytest.raises(NotImplementedError, match=r"TorchScript.*torch\.jit\.load"):
        tk.weights.load(path)
    torch.save({"s": torch.eye(3).to_sparse()}, path)
    with pytest.raises(NotImplementedError, match="sparse"):
        tk.weights.load(path)
    torch.save({"s": torch.empty(3, device="meta")}, path)
    with pytest.raises(NotImplementedError, match="meta"):
        tk.weights.load(path)


# ---------------------------------------------------------------------- networks


def mlp():
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 3))
    units = [layers.Dense(16, "relu"), layers.Dense(16), layers.Dense(3)]
    return module, tk.Sequential([tk.Input((8,)), *units]), (5, 8), False


def convolutional():
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, groups=2), nn.Flatten(), nn.Linear(16 * 36, 10),
    )  # fmt: skip
    for moment in (module[1].running_mean, module[1].running_var, module[1].weight):
        nn.init.uniform_(moment, 0.5, 2)
    model = tk.Sequential(
        [
            tk.Input((16, 16, 3)),
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(epsilon=1e-5),
            layers.ReLU(),
            layers.MaxPooling2D(2),
            layers.Conv2D(16, 3, groups=2),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    return module, model, (2, 3, 16, 16), True


def transposed():
    module = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.Flatten())
    layer = layers.Conv2DTranspose(6, 3, strides=2)
    model = tk.Sequential([tk.Input((5, 5, 4)), layer, layers.Permute((3, 1, 2)), layers.Flatten()])
    return module, model, (2, 4, 5, 5), True


def recurrent(kind, layer, count=1):
    def build():
        module = kind(4, 4, count, batch_first=True)
        stack = [layer(4, return_sequences=True) for _ in range(count)]
        return module, tk.Sequential([tk.Input((7, 4)), *stack]), (3, 7, 4), False

    return build


def encoder():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    module = nn.TransformerEncoder(layer, 2)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    h = inputs = tk.Input((None, 16))
    for _ in range(2):
        a = layers.MultiHeadAttention(4, 4)(h, h)
        h = layers.LayerNormalization(epsilon=1e-5)(h + a)
        f = layers.Dense(16)(layers.Dense(32, "relu")(h))
        h = layers.LayerNormalization(epsilon=1e-5)(h + f)
    return module, tk.Model(inputs, h), (2, 5, 16), False


NETWORKS = {
    "mlp": mlp,
    "convolutional": convolutional,
    "transposed": transposed,
    "lstm": recurrent(nn.LSTM, layers.LSTM),
    "gru": recurrent(nn.GRU, layers.GRU, 2),
    "rnn": recurrent(nn.RNN, layers.SimpleRNN),
    "encoder": encoder,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_the_same_and_go_back(name, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    torch.manual_seed(1)
    module, model, shape, is_image = NETWORKS[name]()
    module.eval()
    torch.save(module.state_dict(), tmp_path / "w.pt")
    report = tk.weights.load_into(model, tmp_path / "w.pt")
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    with torch.no_grad():
        y = module(torch.tensor(x))
    y = (y[0] if isinstance(y, tuple) else y).numpy()
    ours = model(np.moveaxis(x, 1, -1) if is_image else x, training=False).numpy()
    np.testing.assert_allclose(ours, y, rtol=1e-4, atol=2e-6)
    if name == "gru":  # one module of two layers here, two there
        return
    table = {}
    for transfer in report.transfers:
        module_name = transfer.sources[0].rpartition(".")[0].removesuffix(".out_proj")
        layer = transfer.path.rpartition("/")[0].removesuffix("/cell")
        if layer.endswith("_dense"):
            layer = layer.rpartition("/")[0]
        table[module_name] = layer
    tk.weights.save(model, tmp_path / "b.safetensors", layout="torch", names=table)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    module.load_state_dict(library.load_file(tmp_path / "b.safetensors"))
    biases = ("bias_ih_l0", "bias_hh_l0")  # two biases are one sum here
    for key, value in module.state_dict().items():
        if key not in biases and not key.endswith("num_batches_tracked"):
            assert torch.equal(value, before[key]), key
