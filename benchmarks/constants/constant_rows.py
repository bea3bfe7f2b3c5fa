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
_CONVS = (
    _CONV,
    _CONV_LARGE,
    "convolution, 512 filters",
    "convolution, 16 filters of 3 channels",
    "convolution, 32 filters, small",
)
_FLOAT64 = "convolution of float64, 8 channels", "convolution of float64, 32 filters"
_BY_WEIGHTS = "gradient by weights, 64 filters"
_PRODUCTS = "product, 512 x 512 x 512", "product, 128 x 1024 x 1024"
_ROWS = "product, 1 x 784 x 256", "product, 1 x 512 x 2048", "product, 4 x 256 x 1024"
_SMALL = tuple(f"product, {n} x {n} x {n}" for n in (32, 48, 72))
_INT8 = "product of int8, 4 x 1024 x 1024", "product of int8, 16 x 1024 x 1024"
_FROM_NOTHING = (
    "600 steps of LSTM from nothing, 32 units",
    "600 convolutions from nothing, 64 filters",
    "3000 calls of softmax from nothing",
    "3000 calls of a function from nothing",
)
_LOOPS = "fused loop, 512 x 1024", "fused loop, 1000 x 2048"
_FEW_CALLS = _CONV, "softmax, 512 x 256", "LSTM, 32 units", _PRODUCTS[0]
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
_COST_MODEL = "core/cpu/cost_model.py"
_POOL = "kernels/threads/thread_pool.py"
_MATMUL = "kernels/matmul/product_tuned.py"

ROWS = (
    Row("", "nothing", _FEW_CALLS),
    # how work is shared out
    Row("", "nothing", _FEW_CALLS, together=True),
    Row(_COST_MODEL, "PART_NANOSECONDS", _SHARED_OUT, together=True),
    Row(
        _POOL,
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
        (
            "random numbers, 8000",
            "random numbers, 40000",
            "random numbers, 400000",
            "dropout, 40000",
            "dropout, 400000",
        ),
        together=True,
    ),
    Row(_MATMUL, "WAITED", _PRODUCTS, together=True),
    # caches of a usual processor: what is cut for them, and from which size on one way is faster
    Row(
        _COST_MODEL,
        "FIRST_CACHE",
        (
            *_PRODUCTS,
            "product, 128 x 1024 x 1024, turned",
            "resize by lanczos5, 32 channels",
            "fused rows, 512 x 1024",
            "fused rows, 64 x 8192",
            "softmax, 8 x 500",
            "loss and its gradient, 64 x 40",
            "sum, 40 x 256",
            "sum, 8192 x 32",
            "max, 40 x 256",
            "dense with relu, 64 x 256",
            "dense with relu, 512 x 1024",
        ),
    ),
    Row(
        _COST_MODEL,
        "SECOND_CACHE",
        (
            *_CONVS,
            *_FLOAT64,
            *(f"gradient by weights of one element, {n} filters" for n in (96, 1024)),
            *_ROWS,
            "product of int8, 1 x 256 x 256",
            *(f"{name}, {n}" for name in ("silu", "softplus") for n in (30_000, 200_000)),
            "sum, 1000000",
            "fused rows, 64 x 256",
            "fused rows, 256 x 256",
            "Adam without compiled loops, 600 000 weights",
        ),
    ),
    Row(
        _COST_MODEL,
        "SECOND_CACHE",
        (
            *(f"exp, {n}" for n in (40_000, 200_000, 1_000_000)),
            *(f"sum of two arrays, {n} elements" for n in ("50 000", "200 000", "1 000 000")),
            "Adam, 100 000 weights",
            "Adam, 600 000 weights",
        ),
        together=True,
    ),
    Row(
        _COST_MODEL,
        "THIRD_CACHE",
        (
            "max, 1000000",
            "max, 4000000",
            "attention of float64, 256 positions",
            "LSTM, 512 units",
            "LSTM, 640 units",
            "loss and its gradient, 512 x 1500",
            "loss and its gradient, 512 x 8000",
            "batch normalization, 64 images",
        ),
    ),
    Row(
        _COST_MODEL,
        "THIRD_CACHE",
        (
            *_LOOPS,
            "fused loop, 4000 x 2048",
            "fused rows, 1000 x 2048",
            "function of Adam, 610 000 weights",
        ),
        together=True,
    ),
    Row(_COST_MODEL, "PAGE", (*_PRODUCTS, "exp, 200000", "random numbers, 40000")),
    Row(
        _COST_MODEL,
        "CALL_FLOATS",
        (
            *_SMALL,
            *(f"relu, {n}" for n in (2000, 8000)),
            *(f"dropout, {n}" for n in (500, 2000)),
            "loss and its gradient, 32 x 10",
            "loss and its gradient, 64 x 40",
            "sum, 64 x 16 x 64",
        ),
    ),
    Row(
        _COST_MODEL,
        "COPIED_ROW",
        (
            *_PRODUCTS,
            "product, 16 x 1024 x 1024",
            *_INT8,
            "gradient by weights, 16 filters",
            *(f"gradient by weights of 5 x 5, {n} filters" for n in (64, 512)),
        ),
    ),
    Row(_COST_MODEL, "KEPT_BYTES", ("sum of two arrays, 25 000 000 elements",)),
    # those of the machine
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
    # how work is cut for registers, and in which order sums are made
    Row("kernels/convolution/conv_layout.py", "PIXELS", (_CONV, _CONV_LARGE)),
    Row("kernels/convolution/depthwise_tuned.py", "_LEAST_BYTES", _DEPTHWISE),
    Row(
        "kernels/threads/pools.py",
        "MATRIX_SHARES",
        (
            "gradient by weights, 16 filters",
            "gradient by weights, 256 filters",
            _BY_WEIGHTS,
            "depthwise, gradient by weights, 64 channels",
            "sum, 1024 x 512",
            "sum, 8192 x 32",
            "batch normalization, 16 images",
            "batch normalization, 64 images",
        ),
    ),
    Row(_MATMUL, "_TURNED_STRIPS", _PRODUCTS),
    Row("kernels/matmul/matmul_compiled.py", "_MANY_CALLS", ("LSTM, 1 sequence of 128 units",)),
    Row("kernels/jit/register_tiles.py", "STREAMS", (*_PRODUCTS, *_ROWS), given=((4, 4), (16, 4))),
    Row(
        "kernels/recurrent/recurrent_tuned.py",
        "SAMPLES",
        ("LSTM, 32 units", "LSTM, 128 units"),
        (8, 32),
    ),
    # from which size on one way is faster than another
    Row(_MATMUL, "LEAST_WORK", (*_SMALL[1:], "product, 512 x 512 x 16")),
    Row(
        _MATMUL,
        "_LEAST_EACH",
        ("stack of 64 products, 20 x 20 x 20", "stack of 64 products, 32 x 32 x 32"),
    ),
    # when a kernel is compiled of which there is no code
    Row("kernels/jit/kernel_family.py", "SWITCH_SECONDS", _FROM_NOTHING),
)
