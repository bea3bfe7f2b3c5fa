"""PyTorch's side of `gpu.py`: the same networks, compiled where that is the usual way."""

from collections.abc import Callable
from typing import Any

import numpy as np

Work = tuple[Callable[[], Any], Callable[[], Any]]


def _random(*shape: int) -> Any:
    import torch

    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(values).cuda()


def _wait() -> None:
    import torch

    torch.cuda.synchronize()


def _matmul(size: Any) -> Work:
    n = size["n"]
    a, b = _random(n, n), _random(n, n) / n**0.5

    def run() -> Any:
        x = a
        for _ in range(200):
            x = x @ b
        return x

    return run, _wait


def _step(model: Any, x: Any, classes: int) -> Work:
    import torch

    model = model.cuda().train()
    rule = torch.optim.Adam(model.parameters(), 1e-5, fused=True)
    y = torch.arange(len(x), device="cuda") % classes
    called = torch.compile(model)

    def step() -> Any:
        rule.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(called(x), y)
        loss.backward()
        rule.step()
        return loss

    return step, _wait


def _mlp(size: Any) -> Work:
    from torch import nn

    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    return _step(model, _random(size["batch"], 784), 10)


def _cnn(size: Any) -> Work:
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
    return _step(model, _random(size["batch"], 1, 28, 28), 10)


def _resnet50(size: Any) -> Work:
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
    for stage, blocks in enumerate((3, 4, 6, 3)):
        filters = 64 * 2**stage
        for block in range(blocks):
            parts.append(Block(have, filters, 2 if stage and not block else 1, not block))
            have = 4 * filters
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(have, 1000))
    return _step(model, _random(size["images"], 3, size["pixels"], size["pixels"]), 1000)


def _adam(size: Any) -> Work:
    import torch

    weight = torch.nn.Parameter(_random(size["weights"]))
    weight.grad = _random(size["weights"])
    return torch.optim.Adam([weight], 1e-5, fused=True).step, _wait


def _update(size: Any) -> Work:
    import torch

    count = size["updated"] // 160
    weights = [torch.nn.Parameter(_random(count)) for _ in range(160)]
    for weight in weights:
        weight.grad = _random(count)
    return torch.optim.Adam(weights, 1e-5, fused=True).step, _wait


TORCH: dict[str, Callable[[Any], Work]] = {
    "matmul": _matmul,
    "mlp": _mlp,
    "cnn": _cnn,
    "resnet50": _resnet50,
    "adam": _adam,
    "update": _update,
}
"""Makes the work of each case; raises ImportError where PyTorch is not installed."""
