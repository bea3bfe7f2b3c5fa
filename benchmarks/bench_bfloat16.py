"""Products of bfloat16 beside those of float32 and PyTorch's of bfloat16.

`trainkit` and `float32` are the kernels alone, on arrays; `torch` is the function that does the
same. On a processor without AVX512-BF16 both of the former take about as long.
"""

from typing import Any

import ml_dtypes
import numpy as np
from bench_kernels import compiled, normal, torch_step
from timing import Benchmark, Step

SHARED_PROCESS = True


def product(rows: int, depth: int, columns: int) -> Benchmark:
    """A product of two matrices that lie by rows."""
    from trainkit.kernels.matmul import half_product_tuned, product_tuned

    wide = normal(rows, depth), normal(depth, columns)
    x, w = (a.astype(ml_dtypes.bfloat16) for a in wide)

    def by_torch(torch: Any) -> Step:
        a, b = (torch.from_numpy(m).to(torch.bfloat16) for m in wide)
        return lambda: a @ b

    return Benchmark(
        f"product {rows}x{depth}x{columns} of bfloat16",
        "ms",
        1e3,
        {
            "trainkit": compiled(lambda: half_product_tuned.product(x, w)),
            "trainkit, float32": compiled(lambda: product_tuned.product(*wide)),
            "torch": torch_step(by_torch),
        },
    )


def cast(size: int) -> Benchmark:
    """float32 rounded to bfloat16."""
    from trainkit.kernels.elementwise.half_casts_tuned import cast_array

    x = normal(size)
    dtype = np.dtype(ml_dtypes.bfloat16)

    def by_torch(torch: Any) -> Step:
        a = torch.from_numpy(x)
        return lambda: a.to(torch.bfloat16)

    return Benchmark(
        f"{size} numbers rounded to bfloat16",
        "ms",
        1e3,
        {
            "trainkit": compiled(lambda: cast_array(x, dtype)),
            "numpy": lambda: lambda: x.astype(dtype),
            "torch": torch_step(by_torch),
        },
    )


BENCHMARKS = [
    product(32, 784, 128),
    product(256, 2048, 2048),
    product(2048, 512, 2048),
    cast(1 << 22),
]
