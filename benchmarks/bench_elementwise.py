"""Compiled element-wise kernels on large arrays beside PyTorch's; `TRAINKIT_JIT=0` for the plain.

The mode holds for a whole process, so compiled and plain kernels can't take turns in one run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Benchmark, Step

SHAPE = (512, 512)
ONE_ARRAY = ("relu", "sigmoid", "softplus", "silu", "erf", "gelu_erf", "gelu_tanh")
TWO_ARRAYS = ("relu_gradient", "silu_gradient", "gelu_erf_gradient", "gelu_tanh_gradient")


def arrays_of(name: str) -> list[Any]:
    """The arguments of the operation `name`."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(SHAPE, dtype=np.float32) for _ in range(2))
    if name == "where":
        return [x > 0, x, y]
    if name == "keep_where":
        return [x, x > 0]
    return [x] if name in (*ONE_ARRAY, "clip") else [x, y]


def by_trainkit(name: str) -> Callable[[], Step]:
    """The kernel of the primitive `name`, compiled at once unless that is switched off."""

    def contestant() -> Step:
        import trainkit as tk  # noqa: F401  (fills the table of primitives)
        from trainkit.core.tensor import PRIMITIVES
        from trainkit.kernels.jit import kernel_family

        if kernel_family.mode() == "hot":
            kernel_family.set_mode("eager")
        arrays, run = arrays_of(name), PRIMITIVES[name].run
        settings = {"x_min": -0.5, "x_max": 0.5} if name == "clip" else {}
        return lambda: run(arrays, settings)

    return contestant


def by_torch(name: str) -> Callable[[], Step]:
    """PyTorch's function of that kind."""

    def contestant() -> Step:
        import torch

        f, given = torch.nn.functional, [torch.from_numpy(a) for a in arrays_of(name)]
        calls: dict[str, Callable[..., Any]] = {
            "relu": f.relu,
            "sigmoid": torch.sigmoid,
            "softplus": f.softplus,
            "silu": f.silu,
            "erf": torch.erf,
            "gelu_erf": f.gelu,
            "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"),
            "relu_gradient": lambda g, y: torch.ops.aten.threshold_backward(g, y, 0),
            "silu_gradient": torch.ops.aten.silu_backward,
            "gelu_erf_gradient": torch.ops.aten.gelu_backward,
            "gelu_tanh_gradient": lambda g, x: torch.ops.aten.gelu_backward(
                g, x, approximate="tanh"
            ),
            "clip": lambda x: torch.clamp(x, -0.5, 0.5),
            "where": torch.where,
            "keep_where": lambda x, mask: torch.where(mask, x, 0.0),
        }
        call = calls[name]

        def step() -> object:
            with torch.no_grad():
                return call(*given)

        return step

    return contestant


BENCHMARKS = [
    Benchmark(
        f"{name}, 512 x 512", "us", 1e6, {"trainkit": by_trainkit(name), "torch": by_torch(name)}
    )
    for name in (*ONE_ARRAY, *TWO_ARRAYS, "clip", "where", "keep_where")
]
