"""PyTorch's side of `gpu.py`: the same networks, compiled where that is the usual way.

Images are `channels_last`, which is what PyTorch recommends for tensor cores, and mixed precision
goes by `autocast`, with a scaler for float16.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from gpu_cases import HEAD, PRODUCTS, WORDS, labels, norm_images, norm_sequences, random, words

Work = tuple[Callable[[], Any], Callable[[], Any]]


class Where:
    """On which device PyTorch runs; "cpu" to see on any machine that a case comes to its end."""

    name = "cuda"


def allow_tf32(allowed: bool) -> None:
    """Let products and convolutions of float32 have 10 bits of mantissa, or not."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _on_device(values: Any) -> Any:
    import torch

    made = torch.from_numpy(np.ascontiguousarray(values)).to(Where.name)
    return made.contiguous(memory_format=torch.channels_last) if made.ndim == 4 else made


def _wait() -> None:
    import torch

    if Where.name == "cuda":
        torch.cuda.synchronize()


def _matmul(size: Any, policy: str) -> Work:
    import torch

    n, dtype = size["n"], getattr(torch, policy.removeprefix("mixed_"))
    a, b = _on_device(random(n, n)).to(dtype), (_on_device(random(n, n)) / n**0.5).to(dtype)

    def run() -> Any:
        x = a
        for _ in range(PRODUCTS):
            x = x @ b
        return x

    return run, _wait


def _step(model: Any, x: Any, classes: int, policy: str, compiled: bool = True) -> Work:
    import torch

    model = model.to(Where.name).train()
    if x.ndim == 4:
        model = model.to(memory_format=torch.channels_last)
    on_gpu = Where.name == "cuda"
    rule = torch.optim.Adam(model.parameters(), 1e-5, fused=on_gpu)
    y = torch.from_numpy(labels(len(x), classes)).long().to(Where.name)
    called = torch.compile(model) if compiled and on_gpu else model
    mixed = policy != "float32"
    scaler = torch.amp.GradScaler(Where.name, enabled=policy == "mixed_float16" and on_gpu)

    def step() -> Any:
        rule.zero_grad(set_to_none=True)
        dtype = getattr(torch, policy.removeprefix("mixed_")) if mixed else None
        short = torch.autocast(Where.name, dtype) if mixed else contextlib.nullcontext()
        with short:
            loss = torch.nn.functional.cross_entropy(called(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(rule)
        scaler.update()
        return loss

    return step, _wait


def _dense_layers() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def _mlp(size: Any, policy: str) -> Work:
    return _step(_dense_layers(), _on_device(random(size["batch"], 784)), 10, policy)


def _eager(size: Any, policy: str) -> Work:
    x = _on_device(random(size["batch"], 784))
    return _step(_dense_layers(), x, 10, policy, compiled=False)


def _cnn(size: Any, policy: str) -> Work:
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 10),
    )
    return _step(model, _on_device(random(size["batch"], 1, 28, 28)), 10, policy)


def _resnet50(size: Any, policy: str) -> Work:
    from torch import nn

    def conv(have: int, filters: int, width: int, stride: int = 1) -> Any:
        made = nn.Conv2d(have, filters, width, stride, width // 2, bias=False)
        return nn.Sequential(made, nn.BatchNorm2d(filters))

    class Block(nn.Module):
        def __init__(self, have: int, filters: int, stride: int, first: bool) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                conv(have, filters, 1),
                nn.ReLU(),
                conv(filters, filters, 3, stride),
                nn.ReLU(),
                conv(filters, 4 * filters, 1),
            )
            self.short = conv(have, 4 * filters, 1, stride) if first else nn.Identity()

        def forward(self, x: Any) -> Any:
            return (self.short(x) + self.inner(x)).relu()

    parts, have = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate(min(size["deepest"], n) for n in (3, 4, 6, 3)):
        filters = 64 * 2**stage
        for block in range(blocks):
            parts.append(Block(have, filters, 2 if stage and not block else 1, not block))
            have = 4 * filters
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(have, 1000))
    images = random(size["images"], 3, size["pixels"], size["pixels"])
    return _step(model, _on_device(images), 1000, policy)


def _lstm(size: Any, policy: str) -> Work:
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(size["units"], size["units"], 2, batch_first=True)
            self.dense = nn.Linear(size["units"], 10)

        def forward(self, x: Any) -> Any:
            return self.dense(self.lstm(x)[0][:, -1])

    x = _on_device(random(size["batch"], size["steps"], size["units"]))
    return _step(Recurrent(), x, 10, policy, compiled=False)  # cuDNN's, which is not compiled


def _transformer(size: Any, policy: str) -> Work:
    from torch import nn

    width = size["width"]

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, width)
            block = nn.TransformerEncoderLayer(
                width, width // min(HEAD, width), 4 * width, 0.0, "gelu",
                batch_first=True, norm_first=True,
            )  # fmt: skip
            self.blocks = nn.TransformerEncoder(block, size["blocks"], enable_nested_tensor=False)
            self.normalize, self.dense = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.dense(self.normalize(self.blocks(self.words(x))).mean(1))

    return _step(Encoder(), _on_device(words(size)).long(), 10, policy)


def _adam(size: Any, policy: str) -> Work:
    import torch

    weight = torch.nn.Parameter(_on_device(random(size["weights"])))
    weight.grad = _on_device(random(size["weights"]))
    return torch.optim.Adam([weight], 1e-5, fused=Where.name == "cuda").step, _wait


def _update(size: Any, policy: str) -> Work:
    import torch

    count = size["updated"] // 160
    weights = [torch.nn.Parameter(_on_device(random(count))) for _ in range(160)]
    for weight in weights:
        weight.grad = _on_device(random(count))
    return torch.optim.Adam(weights, 1e-5, fused=Where.name == "cuda").step, _wait


def _normalized(layer: Any, shape: tuple[int, ...], policy: str) -> Work:
    """A normalization and its gradients."""
    import torch

    layer = layer.to(Where.name).train()
    x, g = (
        _on_device(random(*shape)).to(getattr(torch, policy.removeprefix("mixed_"))) for _ in "xg"
    )
    x.requires_grad_()

    def run() -> Any:
        return torch.autograd.grad(layer(x), (x, *layer.parameters()), g)

    return run, _wait


def _batch_norm(size: Any, policy: str) -> Work:
    from torch import nn

    images, height, width, channels = norm_images(size)
    return _normalized(nn.BatchNorm2d(channels), (images, channels, height, width), policy)


def _layer_norm(size: Any, policy: str) -> Work:
    import torch
    from torch import nn

    layer = nn.LayerNorm(size["width"]).to(getattr(torch, policy.removeprefix("mixed_")))
    return _normalized(layer, norm_sequences(size), policy)


TORCH: dict[str, Callable[[Any, str], Work]] = {
    "matmul": _matmul,
    "mlp": _mlp,
    "eager": _eager,
    "cnn": _cnn,
    "lstm": _lstm,
    "transformer": _transformer,
    "resnet50": _resnet50,
    "adam": _adam,
    "update": _update,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
}
"""Makes the work of each case; raises ImportError where PyTorch is not installed."""
