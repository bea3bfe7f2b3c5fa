"""Attention beside the plain NumPy version and PyTorch's, forward and backward.

`trainkit` and `plain` are the bodies alone, on arrays; `torch` is the function that does the same.
"""

from typing import Any

import numpy as np
from bench_kernels import compiled, normal, plain, torch_step
from timing import Benchmark, Step

SHARED_PROCESS = True


def attention(batch: int, length: int, heads: int, size: int, causal: bool) -> list[Benchmark]:
    """Attention of each position to all, or to those before it, and its gradients."""
    from trainkit.kernels.attention import attention_reference, attention_tuned

    q = normal(batch, length, heads, size)
    scale = size**-0.5
    settings = (None, scale, causal)

    def by_head(torch: Any) -> Any:
        return torch.from_numpy(q).transpose(1, 2).detach()

    def forward(torch: Any) -> Step:
        x = by_head(torch)
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda: attend(x, x, x, is_causal=causal)

    def gradient(torch: Any) -> Step:
        x, g = (by_head(torch) for _ in range(2))
        inputs = tuple(x.clone().requires_grad_() for _ in range(3))
        with torch.enable_grad():
            y = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
        return lambda: torch.autograd.grad(y, inputs, g, retain_graph=True)

    name = f"{batch}x{length}, {heads} heads of {size}{', causal' if causal else ''}"
    return [
        Benchmark(
            f"attention {name} forward",
            "ms",
            1e3,
            {
                "trainkit": compiled(lambda: attention_tuned.attention(q, q, q, *settings)),
                "trainkit, plain": plain(
                    lambda: attention_reference.attention(np, q, q, q, *settings)
                ),
                "torch": torch_step(forward),
            },
        ),
        Benchmark(
            f"attention {name} gradient",
            "ms",
            1e3,
            {
                "trainkit": compiled(
                    lambda: attention_tuned.attention_gradient(q, q, q, q, *settings)
                ),
                "trainkit, plain": plain(
                    lambda: attention_reference.attention_gradient(np, q, q, q, q, *settings)
                ),
                "torch": torch_step(gradient),
            },
        ),
    ]


BENCHMARKS = [
    *attention(16, 64, 4, 32, causal=True),
    *attention(4, 512, 8, 64, causal=False),
    *attention(2, 1024, 8, 64, causal=True),
]
