"""Compiled element-wise kernels, and what they and the plain formulas cost."""

from __future__ import annotations

from typing import Any

from trainkit.kernels.jit.array_kernel import ArrayKernel

FEWEST = 1 << 16
"""Smaller arrays are left to NumPy without a further look: waking a thread takes that long."""


def _kernel(name: str, takes: str, plain: float, exact: bool = False) -> ArrayKernel:
    compiled = 0.1 if exact else plain / 8
    facts: dict[str, Any] = {"plain": plain, "compiled": compiled, "exact": exact}
    return ArrayKernel(
        name, "elementwise.elementwise_compiled", name, takes, fewest=FEWEST, **facts
    )


relu = _kernel("relu", "flat", 0.3, exact=True)
relu_gradient = _kernel("relu_gradient", "flat flat", 0.25, exact=True)
clip = _kernel("clip", "flat number number", 0.6, exact=True)
where = _kernel("where", "mask flat flat", 3.7, exact=True)
keep_where = _kernel("keep_where", "mask flat", 3.0, exact=True)
sigmoid = _kernel("sigmoid", "flat", 0.55)
softplus = _kernel("softplus", "flat", 1.5)
silu = _kernel("silu", "flat", 0.6)
erf = _kernel("erf", "flat", 1.5)
gelu_erf = _kernel("gelu_erf", "flat", 1.8)
gelu_tanh = _kernel("gelu_tanh", "flat", 1.0)
silu_gradient = _kernel("silu_gradient", "flat flat", 1.2)
gelu_erf_gradient = _kernel("gelu_erf_gradient", "flat flat", 3.0)
gelu_tanh_gradient = _kernel("gelu_tanh_gradient", "flat flat", 2.5)
