"""PyTorch.

Modes: `eager` as most people write it; `tuned` with the fused optimizer and, for images,
channels_last; `compiled` by torch.compile besides.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timing import Step
from torch import nn

from workloads import inputs
from workloads.terminal import Terminal
from workloads.tf2 import HISTOGRAMS, SCALARS


def tensor(array: Any) -> Any:
    """A tensor of its own."""
    return torch.from_numpy(np.array(array))


def put(parameter: Any, array: Any) -> None:
    """Give a parameter its value."""
    with torch.no_grad():
        parameter.copy_(tensor(array))


def dense(kernel: Any, bias: Any) -> Any:
    """A linear layer from Keras's weights."""
    layer = nn.Linear(*kernel.shape)
    put(layer.weight, kernel.T)
    put(layer.bias, bias)
    return layer


def conv(kernel: Any, bias: Any = None, stride: int = 1, padding: int = 0) -> Any:
    """A convolution from Keras's weights."""
    size, _, have, filters = kernel.shape
    layer = nn.Conv2d(have, filters, size, stride, padding, bias=bias is not None)
    put(layer.weight, kernel.transpose(3, 2, 0, 1))
    if bias is not None:
        put(layer.bias, bias)
    return layer


def norm(scale: Any, offset: Any) -> Any:
    """A layer normalization."""
    layer = nn.LayerNorm(len(scale), eps=1e-5)
    put(layer.weight, scale)
    put(layer.bias, offset)
    return layer


class Mean(nn.Module):
    """The mean over an image."""

    def forward(self, x: Any) -> Any:
        return x.mean((2, 3))


def mlp() -> Any:
    """784-128-10."""
    w1, b1, w2, b2 = inputs.mlp()
    return nn.Sequential(dense(w1, b1), nn.ReLU(), dense(w2, b2))


def cnn() -> Any:
    """Two convolutions and a mean."""
    k1, b1, k2, b2, w, b = inputs.cnn()
    layers = [conv(k1, b1), nn.ReLU(), conv(k2, b2), nn.ReLU(), Mean(), dense(w, b)]
    return nn.Sequential(*layers)


def convnet() -> Any:
    """With dropout; the rows of the first dense kernel follow PyTorch's order of channels."""
    k1, b1, k2, b2, w1, c1, w2, c2 = inputs.convnet()
    rows = w1.reshape(12, 12, 64, 128).transpose(2, 0, 1, 3).reshape(-1, 128)
    head = [nn.Dropout(0.25), nn.Flatten(), dense(rows, c1), nn.ReLU(), nn.Dropout(0.5)]
    body = [conv(k1, b1), nn.ReLU(), conv(k2, b2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*body, *head, dense(w2, c2))


class Recurrent(nn.Module):
    """Words to one number."""

    def __init__(self) -> None:
        super().__init__()
        table, kernel, recurrent, bias, w, b = inputs.lstm()
        self.table = nn.Embedding(*table.shape)
        put(self.table.weight, table)
        self.lstm = nn.LSTM(inputs.UNITS, inputs.UNITS, batch_first=True)
        put(self.lstm.weight_ih_l0, kernel.T)
        put(self.lstm.weight_hh_l0, recurrent.T)
        put(self.lstm.bias_ih_l0, bias)
        put(self.lstm.bias_hh_l0, np.zeros_like(bias))
        self.out = dense(w, b)

    def forward(self, words: Any) -> Any:
        return self.out(self.lstm(self.table(words))[0][:, -1])


class Block(nn.Module):
    """One block of the transformer."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        d = inputs.WIDTH
        q, qb, k, kb, v, vb, out, ob = values["attention"]
        kernel = np.concatenate([a.reshape(d, d) for a in (q, k, v)], 1)
        self.heads = dense(kernel, np.concatenate([a.reshape(d) for a in (qb, kb, vb)]))
        self.out = dense(out.reshape(d, d), ob)
        self.norm1, self.norm2 = norm(*values["norm1"]), norm(*values["norm2"])
        self.up, self.down = dense(*values["up"]), dense(*values["down"])

    def forward(self, x: Any) -> Any:
        n, length, d = x.shape
        parts = self.heads(self.norm1(x)).split(d, 2)
        q, k, v = (p.view(n, length, inputs.HEADS, -1).transpose(1, 2) for p in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(n, length, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Letters to the letters behind them."""

    def __init__(self) -> None:
        super().__init__()
        values = inputs.transformer()
        self.letters = nn.Embedding(inputs.VOCABULARY, inputs.WIDTH)
        put(self.letters.weight, values["letters"])
        self.places = nn.Parameter(tensor(values["places"]))
        self.blocks = nn.Sequential(*map(Block, values["blocks"]))
        self.norm, self.out = norm(*values["norm"]), dense(*values["out"])

    def forward(self, letters: Any) -> Any:
        x = self.blocks(self.letters(letters) + self.places)
        return self.out(self.norm(x)).flatten(0, 1)


class Unit(nn.Module):
    """A convolution with its batch normalization."""

    def __init__(self, kernel: Any, stride: int) -> None:
        super().__init__()
        self.conv = conv(kernel, stride=stride, padding=kernel.shape[0] // 2)
        self.norm = nn.BatchNorm2d(kernel.shape[3], eps=1e-5, momentum=0.1)

    def forward(self, x: Any) -> Any:
        return self.norm(self.conv(x))


class ResNet(nn.Module):
    """ResNet-18 for images of 32 x 32.

    Strided convolutions pad both sides, as PyTorch's users do; Keras pads the far side, so its loss
    is another.
    """

    def __init__(self) -> None:
        super().__init__()
        kernels, last = inputs.resnet()
        units = {p[0]: Unit(kernels[p[0]], p[3]) for p in inputs.resnet_parts()}
        self.units, self.head = nn.ModuleDict(units), dense(*last)

    def forward(self, x: Any) -> Any:
        units = self.units
        x = F.relu(units["first"](x))
        for name in [f"{stage}{half}" for stage in range(4) for half in range(2)]:
            y = units[f"{name}b"](F.relu(units[f"{name}a"](x)))
            x = F.relu(y + (units[f"{name}c"](x) if f"{name}c" in units else x))
        return self.head(x.mean((2, 3)))


def classes(logits: Any, labels: Any) -> Any:
    """The loss of a classifier."""
    return F.cross_entropy(logits, labels.flatten())


STEPS: dict[str, tuple[Callable[[], Any], Any, Callable[[], Any]]] = {
    "mlp_step_b32": (mlp, classes, lambda: inputs.flat_batch(32)),
    "mlp_step_b128": (mlp, classes, lambda: inputs.flat_batch(128)),
    "cnn_step": (cnn, classes, lambda: inputs.image_batch(32)),
    "convnet_step": (convnet, classes, lambda: inputs.image_batch(64)),
    "lstm_step": (Recurrent, F.binary_cross_entropy_with_logits, inputs.sentences),
    "transformer_step": (Decoder, classes, inputs.texts),
    "resnet_step": (ResNet, classes, inputs.color_batch),
}


def optimizer_of(parameters: Any, mode: str, momentum: bool) -> Any:
    """Adam, or SGD with momentum."""
    fused = {} if mode == "eager" else {"fused": True}
    if momentum:
        return torch.optim.SGD(parameters, inputs.RATE, momentum=0.9, **fused)
    return torch.optim.Adam(parameters, inputs.RATE, eps=inputs.EPSILON, **fused)


def training_step(workload: str, mode: str) -> Step:
    """A model's step."""
    make, loss_of, batch = STEPS[workload]
    model = make()
    x, y = (tensor(a) for a in batch())
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous()
        if mode == "tuned":
            x = x.contiguous(memory_format=torch.channels_last)
            model = model.to(memory_format=torch.channels_last)
    y = y.long() if y.dtype is torch.int32 else y
    optimizer = optimizer_of(model.parameters(), mode, workload == "resnet_step")

    def forward(x: Any, y: Any) -> Any:
        return loss_of(model(x), y)

    run = torch.compile(forward) if mode == "compiled" else forward

    def step() -> Any:
        optimizer.zero_grad()
        loss = run(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def linreg(mode: str) -> Step:
    """The regression of the eager guide."""
    w, b = nn.Parameter(torch.tensor(5.0)), nn.Parameter(torch.tensor(10.0))
    optimizer = torch.optim.SGD([w, b], 0.01, fused=mode != "eager")
    x, y = (tensor(a) for a in inputs.line())

    def forward(x: Any, y: Any) -> Any:
        return ((x * w + b - y) ** 2).mean()

    run = torch.compile(forward) if mode == "compiled" else forward

    def step() -> Any:
        optimizer.zero_grad()
        loss = run(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def chain(shape: tuple[int, ...], grad: bool) -> Step:
    """10,000 small operations."""
    x, y, first = (tensor(a).requires_grad_(grad) for a in inputs.links(shape))

    def forward() -> Any:
        z = first.detach()
        for _ in range(5000):
            z = x * y + z
        return z

    return (lambda: torch.autograd.grad(forward().sum(), [x, y])[0]) if grad else forward


def power(mode: str) -> Step:
    """A hundred products of integer matrices."""
    x = tensor(inputs.whole_matrix())

    def product(x: Any) -> Any:
        y = torch.eye(10, dtype=torch.int32)
        for _ in range(100):
            y = torch.matmul(x, y)
        return y

    run = torch.compile(product) if mode == "compiled" else product
    return lambda: run(x)


def dynamic() -> Step:
    """A chain whose links the data decides, and its gradient."""
    turns, matrices, row = inputs.decisions()
    w, x = [nn.Parameter(tensor(m)) for m in matrices], tensor(row)

    def step() -> Any:
        h = x
        for i, turn in enumerate(turns):
            h = torch.tanh(torch.matmul(h, w[turn]))
            if i % 8 == 7 and float(h[0, 0].detach()) > 0:
                h = h + x
        return torch.autograd.grad((h * h).sum(), w)[0]

    return step


def adam(workload: str, mode: str) -> Step:
    """The optimizer alone: `forloop`, `foreach`, or `fused`."""
    parameters = []
    for value, grad in inputs.weights_of_adam(workload):
        parameters.append(nn.Parameter(tensor(value)))
        parameters[-1].grad = tensor(grad)
    kinds = {"forloop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    step: Step = torch.optim.Adam(parameters, 1e-3, eps=inputs.EPSILON, **kinds[mode]).step
    return step


def fit_epoch(progress: bool) -> Iterator[Step]:
    """The loop that people write where there is no `fit`."""
    from torch.utils.data import DataLoader, TensorDataset

    x, y = inputs.flat_batch(10_000)
    data = TensorDataset(tensor(x), tensor(y.astype(np.int64)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), 1e-5, eps=inputs.EPSILON)

    def epoch(batches: Any) -> float:
        total, right = 0.0, 0
        for images, labels in batches:
            optimizer.zero_grad()
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            right += (logits.argmax(1) == labels).sum().item()
        return total / len(x)

    if not progress:
        yield lambda: epoch(loader)
        return
    from tqdm import tqdm

    with Terminal():
        yield lambda: epoch(tqdm(loader))


class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """60,000 images, each scaled when it is asked for."""

    def __init__(self) -> None:
        x, y = inputs.images(60_000)
        self.x, self.y = tensor(x), tensor(y.astype(np.int64))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        return self.x[i].to(torch.float32) / 255.0, self.y[i]


def pipeline(workers: int) -> Step:
    """60,000 images through a DataLoader."""
    loader = torch.utils.data.DataLoader(Images(), batch_size=32, shuffle=True, num_workers=workers)

    def step() -> None:
        assert sum(len(x) for x, _ in loader) == 60_000

    return step


def summaries(histograms: bool) -> Iterator[Step]:
    """Scalars or histograms into an event file."""
    from torch.utils.tensorboard import SummaryWriter

    values, numbers = inputs.normal(24, 10_000), itertools.count()

    def step() -> None:
        for _ in range(HISTOGRAMS if histograms else SCALARS):
            if histograms:
                writer.add_histogram("w", values, next(numbers))
            else:
                writer.add_scalar("loss", 0.5, next(numbers))
        writer.flush()

    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        yield step
        writer.close()


def start(workload: str, mode: str) -> Any:
    """The step of a workload, or an iterator that yields it and cleans up."""
    if workload in STEPS:
        return training_step(workload, mode)
    if workload.startswith("scalar_ops"):
        return chain((1,) if "_1_" in workload else (10, 10), workload.endswith("grad"))
    if workload.startswith("optimizer"):
        return adam(workload, mode)
    if workload.startswith("sgemm"):
        a, b = (tensor(m) for m in inputs.factors(workload))
        return lambda: torch.matmul(a, b)
    if workload.startswith("fit_epoch"):
        return fit_epoch(workload.endswith("progress"))
    if workload.startswith("summary"):
        return summaries(workload.endswith("histograms"))
    if workload == "input_pipeline":
        return pipeline({"alone": 0, "2 workers": 2}[mode])
    by_mode = {"linreg_step": linreg, "power_graph": power}
    return dynamic() if workload == "dynamic_small_ops" else by_mode[workload](mode)
