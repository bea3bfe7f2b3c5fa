"""Which numbers of the package might depend on a machine, with calls that show it."""

from typing import NamedTuple


class Row(NamedTuple):
    """A number that is varied.

    Attributes:
        file: where it stands; "" for a row in which nothing is changed.
        name: its name; all of a tuple change together.
        calls: names in `constant_calls.CALLS`.
        given: what to take for a quarter and four times of it, where not all numbers will do.
        together: it is about threads, so it is varied on all cores and not on one.
    """

    file: str
    name: str
    calls: tuple[str, ...]
    given: tuple[object, object] | None = None
    together: bool = False


_CONV, _CONV_LARGE = "convolution, 64 filters", "convolution, 256 filters"
_BY_WEIGHTS = "gradient by weights, 64 filters"
_PRODUCTS = "product, 512 x 512 x 512", "product, 128 x 1024 x 1024"
_ROWS = "product, 1 x 784 x 256", "product, 1 x 512 x 2048"
_FROM_NOTHING = (
    "600 steps of LSTM from nothing, 32 units",
    "600 convolutions from nothing, 64 filters",
    "3000 calls of softmax from nothing",
)
_SHARED_OUT = (
    "attention, 64 positions",
    "attention, 128 positions",
    "convolution, 16 filters of 3 channels",
    "convolution, 64 filters",
    "depthwise, 64 channels",
    "depthwise, gradient by weights, 64 channels",
    "pooling, 64 channels",
    "LSTM, 32 units",
    "LSTM, 128 units",
    "batch normalization, 16 images",
    "layer normalization and its gradient, 512 rows",
    "softmax, 512 x 256",
    "max, 512 x 512",
    "sum, 1024 x 512",
    "cumsum, 512 x 512",
    "silu, 200000",
    "softplus, 200000",
    "random numbers, 40000",
    "sums of embeddings' gradients, 2048 ids",
    "Adam, 600 000 weights",
    "product of int8, 4 x 1024 x 1024",
)
_DEPTHWISE = tuple(f"depthwise, gradient by weights, {n} channels" for n in (64, 256, 1024))
_BATCHES = "batch normalization, 16 images", "batch normalization, 64 images"
_IN_CONV = "kernels/convolution/"

ROWS = (
    Row("", "nothing", (_CONV, "softmax, 512 x 256", "LSTM, 32 units", _PRODUCTS[0])),
    # how work is shared out
    Row(
        "", "nothing", (_CONV, "softmax, 512 x 256", "LSTM, 32 units", _PRODUCTS[0]), together=True
    ),
    Row("kernels/threads/thread_pool.py", "PART_NANOSECONDS", _SHARED_OUT, together=True),
    Row("kernels/threads/thread_pool.py", "MOST_PARTS", (_CONV, "LSTM, 128 units"), together=True),
    Row(
        "kernels/threads/pool_code.py",
        "SPINS",
        (_CONV, "softmax, 512 x 256", "LSTM, 32 units"),
        together=True,
    ),
    Row(
        "kernels/threads/thread_pool.py",
        "PARTS_EACH",
        (
            "attention, 128 positions",
            "attention, 512 positions",
            "product, 128 x 128 x 128",
            "stack of 16 products, 128 x 64 x 128",
            *_PRODUCTS,
        ),
        together=True,
    ),
    Row(
        "kernels/random/random_tuned.py",
        "WORD_NANOSECONDS",
        ("random numbers, 8000", "random numbers, 40000", "dropout, 40000", "dropout, 400000"),
        together=True,
    ),
    Row(
        "kernels/threads/thread_pool.py",
        "FEWEST_COPIED",
        ("Adam, 100 000 weights", "Adam, 600 000 weights"),
        together=True,
    ),
    Row(
        "core/tensor.py",
        "LARGE",
        (
            "exp, 40000",
            "exp, 200000",
            "sum of two arrays, 50 000 elements",
            "sum of two arrays, 200 000 elements",
            "exp, 1000000",
            "sum of two arrays, 1 000 000 elements",
        ),
        together=True,
    ),
    Row("kernels/elementwise/parallel_ufuncs.py", "_UNIT", ("exp, 200000",), together=True),
    Row(
        "compiler/schedule/parallel.py",
        "FEWEST_BYTES",
        (
            "fused loop, 512 x 1024",
            "fused loop, 1000 x 2048",
            "fused rows, 1000 x 2048",
            "fused loop, 4000 x 2048",
            "function of Adam, 610 000 weights",
        ),
        together=True,
    ),
    Row(
        "compiler/llvm/entry.py",
        "RELEASE_BYTES",
        ("fused loop, 512 x 1024", "fused loop, 1000 x 2048"),
        together=True,
    ),
    # how work is cut for caches and registers
    Row(_IN_CONV + "conv_layout.py", "CHUNK", (_CONV, _CONV_LARGE, "convolution, 512 filters")),
    Row(_IN_CONV + "conv_layout.py", "PIXELS", (_CONV, _CONV_LARGE)),
    Row(
        _IN_CONV + "conv_layout.py",
        "SHORT_RUN",
        ("convolution, 16 filters of 3 channels", "convolution, 32 filters, small", _CONV),
    ),
    Row(
        _IN_CONV + "conv_tuned.py",
        "_WIDE_PRODUCT",
        tuple(f"gradient by weights of one element, {n} filters" for n in (96, 1024)),
    ),
    Row(_IN_CONV + "conv_compiled.py", "_PACKED", (_CONV, _CONV_LARGE, "convolution, 512 filters")),
    Row(
        _IN_CONV + "conv_compiled.py",
        "_FEWEST_READERS",
        (
            "gradient by weights, 16 filters",
            *(f"gradient by weights of 5 x 5, {n} filters" for n in (64, 512)),
        ),
    ),
    Row(
        "kernels/threads/pools.py",
        "MATRIX_SHARES",
        (
            "gradient by weights, 16 filters",
            "gradient by weights, 256 filters",
            _BY_WEIGHTS,
            "depthwise, gradient by weights, 64 channels",
        ),
    ),
    Row(
        _IN_CONV + "conv_reference.py",
        "COLUMN_BYTES",
        ("convolution of float64, 8 channels", "convolution of float64, 32 filters"),
    ),
    Row(
        _IN_CONV + "conv_reference.py",
        "_SHORT_RUN",
        ("convolution of float64, 8 channels", "convolution of float64, 32 filters"),
    ),
    Row(_IN_CONV + "depthwise_tuned.py", "_LEAST_BYTES", _DEPTHWISE),
    Row(
        "kernels/resizing/resize_compiled.py",
        "_SHORT",
        ("resize by lanczos5, 32 channels",),
        given=(128, 2048),
    ),
    Row(
        "core/cpu/processor.py",
        "cache_bytes(1)",
        (_BY_WEIGHTS, "gradient by weights, 16 filters", "max, 512 x 1024", "cumsum, 512 x 1024"),
    ),
    Row(
        "core/cpu/processor.py",
        "cache_bytes(2)",
        (_CONV, _CONV_LARGE, _BY_WEIGHTS, *_DEPTHWISE, *_PRODUCTS),
    ),
    Row(
        "kernels/attention/attention_reference.py",
        "MOST_SCORES",
        ("attention of float64, 256 positions",),
    ),
    Row("kernels/matmul/product_tuned.py", "COPIED_ROW", _PRODUCTS, together=True),
    Row("kernels/matmul/product_tuned.py", "WAITED", _PRODUCTS, together=True),
    Row("kernels/matmul/matmul_compiled.py", "_MANY_CALLS", ("LSTM, 1 sequence of 128 units",)),
    Row(
        "kernels/jit/register_tiles.py",
        "BLOCK_DEPTH",
        (*_PRODUCTS, "product, 128 x 1024 x 1024, turned"),
    ),
    Row(
        "kernels/matmul/product_compiled.py",
        "_COPIED_ROWS",
        (*_PRODUCTS, "product, 16 x 1024 x 1024"),
    ),
    Row("kernels/matmul/product_compiled.py", "_PAGE", _PRODUCTS),
    Row("kernels/matmul/product_tuned.py", "_TURNED_STRIPS", _PRODUCTS),
    Row(
        "kernels/recurrent/recurrent_tuned.py",
        "SAMPLES",
        ("LSTM, 32 units", "LSTM, 128 units"),
        (8, 32),
    ),
    Row(
        "kernels/recurrent/recurrent_tuned.py",
        "LARGEST_KERNEL_BYTES",
        ("LSTM, 512 units", "LSTM, 640 units"),
    ),
    Row(
        "kernels/random/philox_compiled.py",
        "BLOCKS",
        ("random numbers, 40000", "random numbers, 400000"),
    ),
    Row(
        "kernels/reductions/reductions_tuned.py",
        "_FEWEST_COLUMNS",
        ("max, 512 x 1024", "cumsum, 512 x 1024"),
    ),
    Row(
        "kernels/threads/thread_pool.py",
        "VECTOR_SHARES",
        ("sum, 1024 x 512", "sum, 8192 x 32", *_BATCHES),
    ),
    Row("kernels/reductions/reductions_tuned.py", "_BROAD", ("sum, 8192 x 32",)),
    Row("kernels/reductions/reductions_tuned.py", "_RUN", ("sum, 1000000",)),
    Row("kernels/reductions/reductions_tuned.py", "_RUNS", ("sum, 1000000",)),
    Row("kernels/reductions/reductions_tuned.py", "_MOST_BY_ONE", ("sum, 1000000",)),
    Row(
        "compiler/schedule/rows.py",
        "MOST_BYTES",
        ("fused rows, 512 x 1024", "fused rows, 64 x 8192"),
    ),
    Row(
        "compiler/llvm/lower.py",
        "_WIDEST_ROW",
        (
            "product of int32 in a graph, 64 x 64 x 64",
            "product of int32 in a graph, 128 x 128 x 128",
        ),
    ),
    Row(
        "optimizers/base/flat_update.py", "PIECE", ("Adam without compiled loops, 600 000 weights",)
    ),
    # from which size on one way is faster than another
    Row(
        "core/dispatch/eager.py", "MOST_BY_DOT", ("product, 48 x 48 x 48", "product, 72 x 72 x 72")
    ),
    Row(
        "kernels/matmul/product_tuned.py",
        "LEAST_WORK",
        ("product, 48 x 48 x 48", "product, 72 x 72 x 72"),
    ),
    Row(
        "kernels/matmul/product_tuned.py",
        "FEWEST",
        ("product, 32 x 32 x 32", "product, 72 x 72 x 72"),
    ),
    Row(
        "kernels/matmul/product_tuned.py",
        "FEWEST_WEIGHTS",
        ("product, 1 x 784 x 256", "product, 4 x 256 x 1024", "product of int8, 1 x 256 x 256"),
    ),
    Row("kernels/jit/register_tiles.py", "FAR_BYTES", _ROWS),
    Row("kernels/jit/register_tiles.py", "STREAMS", (*_PRODUCTS, *_ROWS), given=((4, 4), (16, 4))),
    Row(
        "kernels/jit/array_kernel.py",
        "FEWEST_EXACT",
        ("dropout, 500", "dropout, 2000", "relu, 2000", "relu, 8000"),
    ),
    Row(
        "kernels/matmul/product_tuned.py",
        "_LEAST_EACH",
        ("stack of 64 products, 20 x 20 x 20", "stack of 64 products, 32 x 32 x 32"),
    ),
    Row("kernels/matmul/product_tuned.py", "_NARROWEST", ("product, 512 x 512 x 16",)),
    Row(
        "kernels/matmul/int8_tuned.py",
        "MOST_ROWS",
        ("product of int8, 4 x 1024 x 1024", "product of int8, 16 x 1024 x 1024"),
    ),
    Row(
        "kernels/elementwise/elementwise_tuned.py",
        "PARALLEL",
        ("silu, 30000", "softplus, 30000", "silu, 200000", "softplus, 200000"),
    ),
    Row(
        "kernels/reductions/reductions_tuned.py",
        "FEWEST",
        ("sum, 40 x 256", "sum, 8192 x 32", "max, 40 x 256"),
    ),
    Row(
        "kernels/reductions/reductions_tuned.py",
        "FEWEST_RUNNING",
        ("cumsum, 6 x 5", "cumsum, 8 x 40"),
    ),
    Row(
        "kernels/reductions/reductions_tuned.py", "FEWEST_OF_ALL", ("max, 1000000", "max, 4000000")
    ),
    Row("kernels/reductions/reductions_tuned.py", "_SMALLEST", ("sum, 64 x 16 x 64",)),
    Row(
        "kernels/softmax/softmax_tuned.py",
        "FEWEST",
        ("softmax, 8 x 500", "loss and its gradient, 64 x 40"),
    ),
    Row(
        "ops/neural/softmax_cross_entropy.py",
        "FEWEST_KEPT",
        ("loss and its gradient, 32 x 10", "loss and its gradient, 64 x 40"),
    ),
    Row(
        "ops/neural/softmax_cross_entropy.py",
        "MOST_KEPT_BYTES",
        ("loss and its gradient, 512 x 1500", "loss and its gradient, 512 x 8000"),
    ),
    Row(
        "compiler/schedule/rows.py",
        "FEWEST_BYTES",
        ("fused rows, 64 x 256", "fused rows, 256 x 256"),
    ),
    Row("compiler/schedule/rows.py", "FEWEST_ELEMENTS", ("fused rows, 300 x 64",)),
    Row("kernels/threads/malloc.py", "LARGEST_BYTES", ("sum of two arrays, 25 000 000 elements",)),
    # when a kernel is compiled of which there is no code
    Row("kernels/jit/kernel_family.py", "START_SECONDS", _FROM_NOTHING),
    Row("kernels/jit/kernel_family.py", "SWITCH_SECONDS", _FROM_NOTHING),
    Row("kernels/jit/kernel_family.py", "SMALLEST_SECONDS", _FROM_NOTHING),
    Row("graph/runtime/tiers.py", "START_SECONDS", ("3000 calls of a function from nothing",)),
    Row(
        "ops/neural/dense.py",
        "_LARGE",
        ("dense with relu, 64 x 256", "dense with relu, 512 x 1024"),
    ),
)
