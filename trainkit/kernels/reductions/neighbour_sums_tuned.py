"""When compiled sums over neighbours along the last axis pay."""

from __future__ import annotations

from trainkit.kernels.jit.array_kernel import ArrayKernel

neighbour_sums = ArrayKernel(
    "neighbour_sums", "reductions.neighbour_sums_compiled", "neighbour_sums", "rows number",
    exact=True,
)  # fmt: skip
"""Of rows and a radius, at most the length of a row."""
