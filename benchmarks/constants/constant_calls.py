"""Calls that numbers of the machine might matter to, in a process: `constant_calls.py ROOT CALL`.

`ROOT` holds the package, so that each of several copies has a process of its own. A line on the
standard input says how many times to call, and the answer is `[seconds, seconds of the processor]`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], object]
CALLS: dict[str, Callable[[Any], Step]] = {}
"""By name, what prepares a call; given the package."""
FRESH: dict[str, int] = {}
"""Those which begin where nothing is compiled, and how often they are repeated in a process."""


def call(name: str, fresh: int = 0) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """Put what prepares a call into the list."""

    def put(prepare: Callable[[Any], Step]) -> Callable[[Any], Step]:
        CALLS[name] = prepare
        if fresh:
            FRESH[name] = fresh
        return prepare

    return put


def _array(*shape: int, dtype: str = "float32") -> Any:
    import numpy as np

    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _kernel(name: str, *arrays: Any, **settings: Any) -> Step:
    """The compiled kernel of an operation by itself."""
    from trainkit.core.tensor import PRIMITIVES

    run = PRIMITIVES[name].facets.tuned.run
    if run(*arrays, **settings) is None:
        raise RuntimeError(f"{name} leaves this size to the plain version")
    return lambda: run(*arrays, **settings)


def _graph(tk: Any, function: Callable[..., Any], *arrays: Any) -> Step:
    traced = tk.function(function, jit_compile=True)
    given = [tk.constant(array) for array in arrays]
    return lambda: traced(*given)


def _gradient(tk: Any, function: Callable[..., Any], *arrays: Any) -> Step:
    """A loss and its gradients, by a tape."""
    given = [tk.Variable(array) for array in arrays]

    def step() -> object:
        with tk.GradientTape() as tape:
            loss = function(*given)
        return tape.gradient(loss, given)

    return step


# ------------------------------------------------------------------ convolution

_SAME = {"strides": (1, 1), "padding": "same", "dilation_rate": (1, 1)}


def _conv(batch: int, side: int, channels: int, filters: int, dtype: str = "float32") -> Any:
    def prepare(tk: Any) -> Step:
        x = tk.constant(_array(batch, side, side, channels, dtype=dtype))
        kernel = tk.constant(_array(3, 3, channels, filters, dtype=dtype))
        return lambda: tk.ops.conv(x, kernel, padding="same")

    return prepare


def _conv_gradient(
    batch: int, side: int, channels: int, filters: int, groups: int = 1, window: int = 3
) -> Any:
    def prepare(tk: Any) -> Step:
        x, g = _array(batch, side, side, channels), _array(batch, side, side, filters)
        settings = {**_SAME, "kernel_size": (window, window), "groups": groups}
        return _kernel("conv_kernel_gradient", x, g, **settings)

    return prepare


call("convolution, 16 filters of 3 channels")(_conv(8, 32, 3, 16))
call("convolution, 32 filters, small")(_conv(1, 14, 16, 32))
call("convolution, 64 filters")(_conv(8, 28, 64, 64))
call("convolution, 256 filters")(_conv(4, 14, 256, 256))
call("convolution, 512 filters")(_conv(4, 7, 512, 512))
call("convolution of float64, 32 filters")(_conv(8, 28, 32, 32, "float64"))
call("convolution of float64, 8 channels")(_conv(8, 28, 8, 16, "float64"))
call("gradient by weights, 16 filters")(_conv_gradient(8, 32, 3, 16))
call("gradient by weights, 64 filters")(_conv_gradient(8, 28, 64, 64))
call("gradient by weights, 256 filters")(_conv_gradient(4, 14, 256, 256))
call("gradient by weights of 5 x 5, 64 filters")(_conv_gradient(8, 28, 32, 64, window=5))
call("gradient by weights of 5 x 5, 512 filters")(_conv_gradient(8, 7, 64, 512, window=5))
for _filters in (96, 1024):
    call(f"gradient by weights of one element, {_filters} filters")(
        _conv_gradient(8, 14, 256, _filters, window=1)
    )
for _side, _channels in ((28, 64), (14, 256), (7, 1024)):
    call(f"depthwise, gradient by weights, {_channels} channels")(
        _conv_gradient(8, _side, _channels, _channels, groups=_channels)
    )


@call("depthwise, 64 channels")
def _(tk: Any) -> Step:
    x, kernel = tk.constant(_array(2, 28, 28, 64)), tk.constant(_array(3, 3, 64, 1))
    return lambda: tk.ops.depthwise_conv(x, kernel, padding="same")


@call("pooling, 64 channels")
def _(tk: Any) -> Step:
    x = tk.constant(_array(2, 28, 28, 64))
    return lambda: tk.ops.max_pool(x, 2)


@call("resize by lanczos5, 32 channels")
def _(tk: Any) -> Step:
    x = tk.constant(_array(2, 40, 40, 32))
    return lambda: tk.image.resize(x, (56, 56), "lanczos5")


# ------------------------------------------------------------------ products


def _product(*shapes: tuple[int, ...], dtype: str = "float32", turn: bool = False) -> Any:
    def prepare(tk: Any) -> Step:
        a, b = (_array(*shape, dtype=dtype) for shape in shapes)
        one, two = tk.constant(a), tk.constant(b)
        return lambda: tk.matmul(one, two, transpose_b=turn)

    return prepare


for _n in (32, 48, 72, 128, 512):
    call(f"product, {_n} x {_n} x {_n}")(_product((_n, _n), (_n, _n)))
call("product, 128 x 1024 x 1024")(_product((128, 1024), (1024, 1024)))
call("product, 128 x 1024 x 1024, turned")(_product((128, 1024), (1024, 1024), turn=True))
call("product, 16 x 1024 x 1024")(_product((16, 1024), (1024, 1024)))
call("product, 1 x 784 x 256")(_product((1, 784), (784, 256)))
call("product, 1 x 512 x 2048")(_product((1, 512), (512, 2048)))
call("product, 4 x 256 x 1024")(_product((4, 256), (256, 1024)))
call("product, 512 x 512 x 16")(_product((512, 512), (512, 16)))
call("stack of 16 products, 128 x 64 x 128")(_product((16, 128, 64), (16, 64, 128)))
call("stack of 64 products, 20 x 20 x 20")(_product((64, 20, 20), (64, 20, 20)))
call("stack of 64 products, 32 x 32 x 32")(_product((64, 32, 32), (64, 32, 32)))


def _int8(rows: int, size: int) -> Any:
    def prepare(tk: Any) -> Step:
        a = tk.cast(tk.constant(_array(rows, size) * 20), "int8")
        b = tk.cast(tk.constant(_array(size, size) * 20), "int8")
        return lambda: tk.matmul(a, b, output_type="int32")

    return prepare


call("product of int8, 1 x 256 x 256")(_int8(1, 256))
call("product of int8, 4 x 1024 x 1024")(_int8(4, 1024))
call("product of int8, 16 x 1024 x 1024")(_int8(16, 1024))


# ------------------------------------------------------------------ attention, recurrent layers


def _attention(batch: int, positions: int, heads: int, size: int, dtype: str = "float32") -> Any:
    def prepare(tk: Any) -> Step:
        x = tk.constant(_array(batch, positions, heads, size, dtype=dtype))
        return lambda: tk.ops.dot_product_attention(x, x, x)

    return prepare


call("attention, 64 positions")(_attention(1, 64, 2, 32))
call("attention, 128 positions")(_attention(4, 128, 4, 32))
call("attention, 512 positions")(_attention(2, 512, 8, 64))
call("attention of float64, 256 positions")(_attention(16, 256, 8, 16, "float64"))


def _lstm(batch: int, steps: int, units: int) -> Any:
    def prepare(tk: Any) -> Step:
        layer = tk.layers.LSTM(units)
        x = tk.constant(_array(batch, steps, units))
        layer(x)

        def step() -> object:
            with tk.GradientTape() as tape:
                loss = tk.reduce_sum(layer(x))
            return tape.gradient(loss, layer.trainable_variables)

        return step

    return prepare


call("LSTM, 32 units")(_lstm(16, 20, 32))
call("LSTM, 128 units")(_lstm(32, 30, 128))
call("LSTM, 1 sequence of 128 units")(_lstm(1, 20, 128))
call("LSTM, 512 units")(_lstm(32, 10, 512))
call("LSTM, 640 units")(_lstm(32, 10, 640))
call("600 steps of LSTM from nothing, 32 units", fresh=600)(_lstm(16, 20, 32))
call("600 convolutions from nothing, 64 filters", fresh=600)(_conv(2, 28, 64, 64))


@call("3000 calls of softmax from nothing", fresh=3000)
def _(tk: Any) -> Step:
    x = tk.constant(_array(128, 256))
    return lambda: tk.nn.softmax(x)


@call("3000 calls of a function from nothing", fresh=3000)
def _(tk: Any) -> Step:
    def chain(x: Any) -> Any:
        return tk.reduce_sum(tk.tanh(x * 2.0 + 1.0) * x - 0.5, axis=-1)

    traced, x = tk.function(chain), tk.constant(_array(128, 256))
    return lambda: traced(x)


# ------------------------------------------------------------------ rows, columns, elements


@call("sums of embeddings' gradients, 2048 ids")
def _(tk: Any) -> Step:
    import numpy as np

    ids = tk.constant(np.random.default_rng(0).integers(0, 500, 2048))
    rows = tk.constant(_array(2048, 64))
    return lambda: tk.math.unsorted_segment_sum(rows, ids, 500)


def _batch_norm(batch: int) -> Any:
    def prepare(tk: Any) -> Step:
        layer, x = tk.layers.BatchNormalization(), tk.constant(_array(batch, 14, 14, 64))
        return lambda: layer(x, training=True)

    return prepare


call("batch normalization, 16 images")(_batch_norm(16))
call("batch normalization, 64 images")(_batch_norm(64))


@call("layer normalization and its gradient, 512 rows")
def _(tk: Any) -> Step:
    layer = tk.layers.LayerNormalization()
    return _gradient(tk, lambda x: tk.reduce_sum(layer(x)), _array(512, 256))


def _unary(name: str, *shape: int, **settings: Any) -> None:
    size = " x ".join(map(str, shape))

    @call(f"{name}, {size}")
    def _(tk: Any) -> Step:
        x, run = tk.constant(_array(*shape)), getattr(tk.ops, name)
        return lambda: run(x, **settings)


for _size in (30_000, 200_000):
    _unary("silu", _size)
    _unary("softplus", _size)
for _size in (40_000, 200_000, 1_000_000):
    _unary("exp", _size)
for _size in (2_000, 8_000):
    _unary("relu", _size)
_unary("softmax", 8, 500)
_unary("softmax", 512, 256)
_unary("max", 40, 256, axis=-1)
_unary("max", 512, 512, axis=-1)
_unary("max", 512, 1024, axis=0)
_unary("max", 1_000_000)
_unary("max", 4_000_000)
_unary("sum", 40, 256, axis=0)
_unary("sum", 1024, 512, axis=0)
_unary("sum", 8192, 32, axis=0)
_unary("sum", 64, 16, 64, axis=1)
_unary("sum", 1_000_000)
_unary("cumsum", 512, 512, axis=-1)
_unary("cumsum", 512, 1024, axis=0)


def _add(size: int) -> None:
    @call(f"sum of two arrays, {size:,} elements".replace(",", " ").replace("arrays  ", "arrays, "))
    def _(tk: Any) -> Step:
        x = tk.constant(_array(size))
        return lambda: x + x


for _size in (50_000, 200_000, 1_000_000, 25_000_000):
    _add(_size)


def _random(size: int) -> None:
    @call(f"random numbers, {size}")
    def _(tk: Any) -> Step:
        tk.random.set_seed(0)
        return lambda: tk.random.uniform((size,))


def _dropout(size: int) -> None:
    @call(f"dropout, {size}")
    def _(tk: Any) -> Step:
        tk.random.set_seed(0)
        x = tk.constant(_array(size))
        return lambda: tk.nn.dropout(x, rate=0.5)


for _size in (8_000, 40_000, 400_000):
    _random(_size)
for _size in (500, 2_000, 40_000, 400_000):
    _dropout(_size)


def _loss(rows: int, classes: int) -> None:
    @call(f"loss and its gradient, {rows} x {classes}")
    def _(tk: Any) -> Step:
        import numpy as np

        labels = tk.constant(np.arange(rows) % classes)
        loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        return _gradient(tk, lambda x: loss(labels, x), _array(rows, classes))


for _shape in ((32, 10), (64, 40), (512, 1_500), (512, 8_000)):
    _loss(*_shape)


def _adam(*sizes: int) -> Any:
    def prepare(tk: Any) -> Step:
        weights = [tk.Variable(_array(size)) for size in sizes]
        grads = [tk.constant(_array(size)) for size in sizes]
        adam = tk.optimizers.Adam()
        return lambda: adam.apply_gradients(zip(grads, weights, strict=True))

    return prepare


call("Adam, 100 000 weights")(_adam(60_000, 40_000))
call("Adam, 600 000 weights")(_adam(400_000, 200_000))


@call("function of Adam, 610 000 weights")
def _(tk: Any) -> Step:
    sizes = (400_000, 200_000, *[100] * 100)
    weights = [tk.Variable(_array(size)) for size in sizes]
    grads = [tk.constant(_array(size)) for size in sizes]
    adam = tk.optimizers.Adam()
    adam.build(weights)

    @tk.function(jit_compile=True)
    def step(*grads: Any) -> None:
        adam.apply_gradients(zip(grads, weights, strict=True))

    return lambda: step(*grads)


for _sizes in ((64, 256), (512, 1024)):

    @call(f"dense with relu, {_sizes[0]} x {_sizes[1]}")
    def _(tk: Any, sizes: tuple[int, int] = _sizes) -> Step:
        x, kernel = tk.constant(_array(sizes[0], 64)), tk.constant(_array(64, sizes[1]))
        layer = tk.keras.layers.Dense(sizes[1], activation="relu")
        layer(x)
        layer.kernel.assign(kernel)
        return lambda: layer(x)


def _plain_adam(size: int) -> Any:
    def prepare(tk: Any) -> Step:
        from trainkit.kernels.jit import kernel_family

        kernel_family.set_mode("off")
        step: Step = _adam(size)(tk)
        return step

    return prepare


call("Adam without compiled loops, 600 000 weights")(_plain_adam(600_000))


# ------------------------------------------------------------------ graphs and tapes


def _loop(*shape: int) -> None:
    size = " x ".join(map(str, shape))

    @call(f"fused loop, {size}")
    def _(tk: Any) -> Step:
        return _graph(tk, lambda x, y: tk.sqrt(x * x + y) * 0.5 - y, *[abs(_array(*shape))] * 2)


def _rows(*shape: int) -> None:
    size = " x ".join(map(str, shape))

    @call(f"fused rows, {size}")
    def _(tk: Any) -> Step:
        def rows(x: Any) -> Any:
            centred = x - tk.reduce_mean(x, axis=-1, keepdims=True)
            return centred * tk.math.rsqrt(
                tk.reduce_mean(centred * centred, axis=-1, keepdims=True) + 1e-6
            )

        return _graph(tk, rows, _array(*shape))


for _sizes in ((512, 1024), (1000, 2048), (4000, 2048)):
    _loop(*_sizes)
for _sizes in ((64, 256), (256, 256), (512, 1024), (64, 8192), (1000, 2048)):
    _rows(*_sizes)


# ------------------------------------------------------------------ the process


def serve(root: str, name: str) -> None:
    """Answer each line of the standard input."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what is printed meanwhile is no answer
    began = time.perf_counter()
    sys.path.insert(0, root)
    import trainkit as tk

    if not str(tk.__file__).startswith(root):
        raise ImportError(f"trainkit is that of {tk.__file__}, not of {root}")
    step = CALLS[name](tk)
    if name in FRESH:
        for _ in range(FRESH[name]):
            step()
        times = time.perf_counter() - began, time.process_time()
        answers.write(json.dumps(times) + "\n")
        return
    for _ in range(5):
        step()
    answers.write("true\n")
    for line in sys.stdin:
        step()
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step()
        times = time.perf_counter() - wall, time.process_time() - processor
        answers.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    serve(*sys.argv[1:3])
