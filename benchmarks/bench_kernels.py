"""Compiled CPU kernels beside the plain NumPy versions and PyTorch's, on sizes of small models.

`compiled` and `plain` are the bodies alone, on arrays; `torch` is the function that does the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import Benchmark, Step

SHARED_PROCESS = True

Body = Callable[..., Any]


def normal(*shape: int) -> Any:
    """The same numbers each time."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def compiled(body: Callable[[], Any]) -> Callable[[], Step]:
    """A contestant that compiles at its first call, which warms it up."""

    def contestant() -> Step:
        from trainkit.kernels.jit import kernel_family

        kernel_family.set_mode("eager")
        if body() is None:
            raise RuntimeError("the kernel leaves this size to the plain version")
        return body

    return contestant


def plain(body: Callable[[], Any]) -> Callable[[], Step]:
    """A contestant that is ready as it is."""
    return lambda: body


def torch_step(make: Callable[[Any], Step]) -> Callable[[], Step]:
    """A contestant of PyTorch's, without gradients being recorded."""

    def contestant() -> Step:
        import torch

        step = make(torch)

        def run() -> object:
            with torch.no_grad():
                return step()

        return run

    return contestant


def convolution(
    name: str,
    batch: int,
    sizes: tuple[int, ...],
    channels: int,
    filters: int,
    window: int = 3,
    stride: int = 1,
    padding: str = "valid",
    groups: int = 1,
) -> list[Benchmark]:
    """A convolution: forward, and its two gradients."""
    from trainkit.kernels.convolution import conv_reference, conv_tuned
    from trainkit.kernels.convolution.sliding_windows import Windows

    rank = len(sizes)
    w = Windows(sizes, (window,) * rank, (stride,) * rank, padding, (1,) * rank)
    x = normal(batch, *sizes, channels)
    kernel = normal(*w.window, channels // groups, filters)
    g = normal(batch, *w.out, filters)
    flops = 2 * g.size * window**rank * channels // groups / 1e9
    edge = w.pads[0][1]  # torch pads both sides alike; more before shifts windows, not their number

    def torch_arrays(torch: Any) -> Any:
        def images(a: Any) -> Any:
            return torch.from_numpy(a).movedim(-1, 1)

        turned = np.ascontiguousarray(np.moveaxis(kernel, (-1, -2), (0, 1)))
        form = torch.channels_last_3d if rank == 3 else torch.channels_last
        return images(x), torch.from_numpy(turned).contiguous(memory_format=form), images(g)

    def forward(torch: Any) -> Step:
        images, weights, _ = torch_arrays(torch)
        run = getattr(torch.nn.functional, f"conv{rank}d")
        return lambda: run(images, weights, stride=stride, padding=edge, groups=groups)

    def backward(wanted: tuple[bool, bool]) -> Callable[[Any], Step]:
        def make(torch: Any) -> Step:
            images, weights, slopes = torch_arrays(torch)
            run = torch.ops.aten.convolution_backward
            many = [stride] * rank, [edge] * rank, [1] * rank
            rest = ([0], *many, False, [0] * rank, groups, [*wanted, False])
            return lambda: run(slopes, images, weights, *rest)

        return make

    cases: list[tuple[str, Body, Body, Any]] = [
        (
            "forward",
            lambda: conv_tuned.forward(w, x, kernel, None, False, groups),
            lambda: conv_reference.conv(np, w, x, kernel, groups),
            forward,
        ),
        (
            "kernel gradient",
            lambda: conv_tuned.kernel_gradient(w, x, g, groups),
            lambda: conv_reference.conv_kernel_gradient(np, w, x, g, groups),
            backward((False, True)),
        ),
    ]
    if channels > 1:
        cases.append(
            (
                "input gradient",
                lambda: conv_tuned.input_gradient(w, g, kernel, groups),
                lambda: conv_reference.conv_input_gradient(np, w, g, kernel, groups),
                backward((True, False)),
            )
        )
    return [
        Benchmark(
            f"conv {name} {part}",
            "GFLOP/s",
            flops,
            {"trainkit": compiled(fast), "trainkit, plain": plain(slow), "torch": torch_step(make)},
            rate=True,
        )
        for part, fast, slow, make in cases
    ]


def pooling() -> list[Benchmark]:
    """Max pooling 2 x 2, forward and gradient."""
    from trainkit.kernels.convolution.sliding_windows import Windows
    from trainkit.kernels.pooling import pool_reference, pool_tuned

    w = Windows((24, 24), (2, 2), (2, 2), "valid", (1, 1))
    x, g = normal(64, 24, 24, 64), normal(64, 12, 12, 64)
    y = pool_reference.max_pool(np, w, x)

    def forward(torch: Any) -> Step:
        images = torch.from_numpy(x).permute(0, 3, 1, 2)
        return lambda: torch.nn.functional.max_pool2d(images, 2)

    bodies = {
        "forward": (lambda: pool_tuned.max_pool(w, x), lambda: pool_reference.max_pool(np, w, x)),
        "gradient": (
            lambda: pool_tuned.max_pool_gradient(w, g, x, y),
            lambda: pool_reference.max_pool_gradient(np, w, g, x, y),
        ),
    }
    found = []
    for part, (fast, slow) in bodies.items():
        contestants = {"trainkit": compiled(fast), "trainkit, plain": plain(slow)}
        if part == "forward":
            contestants["torch"] = torch_step(forward)
        found.append(Benchmark(f"max_pool {part}", "ms", 1e3, contestants))
    return found


def normalization() -> list[Benchmark]:
    """Layer normalization of a transformer, batch normalization of a residual network."""
    from trainkit.kernels.normalization import norm_reference, norm_tuned

    rows, columns = normal(16, 64, 128), normal(16, 32, 32, 64)
    scale, offset = normal(128), normal(128)
    gain, shift = normal(64), normal(64)

    def layer(torch: Any) -> Step:
        x, a, b = (torch.from_numpy(v) for v in (rows, scale, offset))
        return lambda: torch.nn.functional.layer_norm(x, (128,), a, b, 1e-5)

    def batch(torch: Any) -> Step:
        x = torch.from_numpy(columns).permute(0, 3, 1, 2)
        a, b = torch.from_numpy(gain), torch.from_numpy(shift)
        return lambda: torch.nn.functional.batch_norm(x, None, None, a, b, True)

    outer = (0, 1, 2)
    return [
        Benchmark(
            "layer normalization forward",
            "us",
            1e6,
            {
                "trainkit": compiled(
                    lambda: norm_tuned.normalized_rows(rows, scale, offset, (2,), 1e-5)
                ),
                "trainkit, plain": plain(
                    lambda: norm_reference.normalized(np, rows, scale, offset, (2,), 1e-5)
                ),
                "torch": torch_step(layer),
            },
        ),
        Benchmark(
            "layer normalization gradient",
            "us",
            1e6,
            {
                "trainkit": compiled(
                    lambda: norm_tuned.normalized_rows_gradient(rows, rows, scale, (2,), 1e-5)
                ),
                "trainkit, plain": plain(
                    lambda: norm_reference.normalized_gradient(
                        np, rows, rows, scale, None, None, (2,), 1e-5
                    )
                ),
            },
        ),
        Benchmark(
            "batch normalization forward",
            "ms",
            1e3,
            {
                "trainkit": compiled(
                    lambda: norm_tuned.normalized_columns(columns, gain, shift, (3,), 1e-3)
                ),
                "trainkit, plain": plain(
                    lambda: norm_reference.normalized(np, columns, gain, shift, outer, 1e-3)
                ),
                "torch": torch_step(batch),
            },
        ),
        Benchmark(
            "batch normalization gradient",
            "ms",
            1e3,
            {
                "trainkit": compiled(
                    lambda: norm_tuned.normalized_columns_gradient(
                        columns, columns, gain, None, None, (3,), 1e-3
                    )
                ),
                "trainkit, plain": plain(
                    lambda: norm_reference.normalized_gradient(
                        np, columns, columns, gain, None, None, outer, 1e-3
                    )
                ),
            },
        ),
    ]


def losses_and_tables() -> list[Benchmark]:
    """Softmax cross-entropy of a transformer's logits, the gradient of an embedding."""
    from trainkit.kernels.embedding import embedding_tuned
    from trainkit.kernels.softmax import softmax_tuned

    logits, g = normal(1024, 256), normal(1024)
    labels = np.random.default_rng(1).integers(0, 256, 1024).astype(np.int32)
    rows, ids = normal(2560, 64), np.random.default_rng(2).integers(0, 2000, 2560)

    def by_hand() -> Any:
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(1024), labels]

    def add_at() -> Any:
        table = np.zeros((2000, 64), np.float32)
        np.add.at(table, ids, rows)
        return table

    def cross_entropy(torch: Any) -> Step:
        x, y = torch.from_numpy(logits), torch.from_numpy(labels.astype(np.int64))
        return lambda: torch.nn.functional.cross_entropy(x, y, reduction="none")

    return [
        Benchmark(
            "softmax cross-entropy",
            "us",
            1e6,
            {
                "trainkit": compiled(lambda: softmax_tuned.loss(labels, logits)),
                "trainkit, plain": plain(by_hand),
                "torch": torch_step(cross_entropy),
            },
        ),
        Benchmark(
            "softmax cross-entropy gradient",
            "us",
            1e6,
            {"trainkit": compiled(lambda: softmax_tuned.gradient(g, labels, logits))},
        ),
        *slopes(),
        Benchmark(
            "embedding gradient",
            "us",
            1e6,
            {
                "trainkit": compiled(lambda: embedding_tuned.sum_by_id(rows, ids, 2000)),
                "trainkit, plain": plain(add_at),
            },
        ),
    ]


def slopes() -> list[Benchmark]:
    """Cross-entropy and its gradient in one pass, with class numbers and with chances."""
    from trainkit.kernels.softmax import softmax_tuned

    logits, g = normal(1024, 256), normal(1024)
    labels = np.random.default_rng(1).integers(0, 256, 1024)
    chances = np.eye(256, dtype=np.float32)[labels]

    def steps(kind: str, given: Any) -> Benchmark:
        def step(torch: Any) -> Step:
            x, y = torch.from_numpy(logits).requires_grad_(), torch.from_numpy(given)
            weights = torch.from_numpy(g)

            def run() -> object:
                with torch.enable_grad():
                    loss = torch.nn.functional.cross_entropy(x, y, reduction="none")
                    return torch.autograd.grad(loss, x, weights)

            return run

        def both() -> Any:
            run = softmax_tuned.loss_and_gradients
            found = (run if given is labels else softmax_tuned.dense_loss_and_gradients)(
                given, logits
            )
            return None if found is None else softmax_tuned.scaled_rows(g, found[1])

        name = f"softmax cross-entropy and gradient, {kind}"
        return Benchmark(name, "us", 1e6, {"trainkit": compiled(both), "torch": torch_step(step)})

    return [steps("sparse", labels), steps("dense", chances)]


def whole_cell(kind: str) -> Callable[[], Step]:
    """PyTorch's LSTM or GRU of one size, inputs' product included."""

    def step(torch: Any) -> Step:
        cell = getattr(torch.nn, kind)(64, 64, batch_first=True)
        x = torch.from_numpy(normal(32, 80, 64))
        return lambda: cell(x)

    return torch_step(step)


def recurrence() -> list[Benchmark]:
    """LSTM and GRU with 64 units over 80 steps of 32 samples, without the inputs' product.

    PyTorch's has it included.
    """
    return [*lstm(), *gru(True), *gru(False)]


def lstm() -> list[Benchmark]:
    """Forward, and back from the hidden states alone, as a layer does it."""
    from trainkit.kernels.recurrent import recurrent_reference, recurrent_tuned

    inputs = normal(32, 80, 256), normal(32, 64), normal(32, 64), normal(64, 256) / 8
    results = recurrent_reference.lstm(np, *inputs)
    given = (normal(32, 80, 64), None, *inputs[1:], *results)
    return [
        Benchmark(
            "lstm forward",
            "ms",
            1e3,
            {
                "trainkit": compiled(lambda: recurrent_tuned.lstm(*inputs)),
                "trainkit, plain": plain(lambda: recurrent_reference.lstm(np, *inputs)),
                "torch": whole_cell("LSTM"),
            },
        ),
        Benchmark(
            "lstm gradient",
            "ms",
            1e3,
            {
                "trainkit": compiled(lambda: recurrent_tuned.lstm_gradient(*given)),
                "trainkit, plain": plain(lambda: recurrent_reference.lstm_gradient(np, *given)),
            },
        ),
    ]


def gru(reset_after: bool) -> list[Benchmark]:
    """The same of a GRU; PyTorch has only that whose reset gate comes after the product."""
    from trainkit.kernels.recurrent import recurrent_reference, recurrent_tuned

    bias = normal(192) if reset_after else None
    inputs = normal(32, 80, 192), normal(32, 64), normal(64, 192) / 8, bias, reset_after
    results = recurrent_reference.gru(np, *inputs)
    given = (normal(32, 80, 64), *inputs[1:3], *results, reset_after)
    forward = {
        "trainkit": compiled(lambda: recurrent_tuned.gru(*inputs)),
        "trainkit, plain": plain(lambda: recurrent_reference.gru(np, *inputs)),
    }
    if reset_after:
        forward["torch"] = whole_cell("GRU")
    name = "gru" if reset_after else "gru, reset before,"
    back = {
        "trainkit": compiled(lambda: recurrent_tuned.gru_gradient(*given)),
        "trainkit, plain": plain(lambda: recurrent_reference.gru_gradient(np, *given)),
    }
    return [
        Benchmark(f"{name} forward", "ms", 1e3, forward),
        Benchmark(f"{name} gradient", "ms", 1e3, back),
    ]


def dropout() -> list[Benchmark]:
    """Dropout of a million numbers and its gradient, with the drawing of the mask."""
    x = normal(1 << 20)

    def step(mode: str) -> Callable[[], Step]:
        def contestant() -> Step:
            import trainkit as tk
            from trainkit.kernels.jit import kernel_family

            kernel_family.set_mode(mode)
            layer, inputs = tk.layers.Dropout(0.25, seed=1), tk.constant(x) * 1.0

            def run() -> object:
                with tk.GradientTape() as tape:
                    tape.watch(inputs)
                    y = layer(inputs, training=True)
                return tape.gradient(y, inputs, output_gradients=inputs)

            return run

        return contestant

    def in_torch(torch: Any) -> Step:
        inputs = torch.from_numpy(x.copy()).requires_grad_()

        def run() -> object:
            with torch.enable_grad():
                y = torch.nn.functional.dropout(inputs, 0.25, training=True)
                return torch.autograd.grad(y, inputs, inputs)

        return run

    contestants = {"trainkit": step("eager"), "trainkit, plain": step("off")}
    contestants["torch"] = torch_step(in_torch)
    return [Benchmark("dropout and gradient", "us", 1e6, contestants)]


BENCHMARKS = [
    *convolution("28x28 1-16", 32, (28, 28), 1, 16),
    *convolution("26x26 16-16", 32, (26, 26), 16, 16),
    *convolution("26x26 32-64", 64, (26, 26), 32, 64),
    *convolution("32x32 64-64", 16, (32, 32), 64, 64, padding="same"),
    *convolution("8x8 256-256", 16, (8, 8), 256, 256, padding="same"),
    *convolution("4x4 512-512", 16, (4, 4), 512, 512, padding="same"),
    *convolution("16x16 128-256 strided", 16, (16, 16), 128, 256, stride=2, padding="same"),
    *convolution("32x32 64-128 pointwise", 16, (32, 32), 64, 128, window=1),
    *convolution("32x32 64 by channel", 16, (32, 32), 64, 64, padding="same", groups=64),
    *convolution("112x112 32 by channel", 8, (112, 112), 32, 32, padding="same", groups=32),
    *convolution("56x56 128 by channel", 8, (56, 56), 128, 128, padding="same", groups=128),
    *convolution("28x28 256 by channel", 32, (28, 28), 256, 256, padding="same", groups=256),
    *convolution("14x14 512 by channel", 32, (14, 14), 512, 512, padding="same", groups=512),
    *convolution(
        "56x56 128 strided by channel", 8, (56, 56), 128, 128, 3, 2, padding="same", groups=128
    ),
    *convolution(
        "28x28 240 5x5 strided by channel", 16, (28, 28), 240, 240, 5, 2, "same", groups=240
    ),
    *convolution("28x28 64-128 by channel", 32, (28, 28), 64, 128, padding="same", groups=64),
    *convolution("32x32 64-64 grouped", 16, (32, 32), 64, 64, padding="same", groups=4),
    *convolution("16x16x16 8-16", 4, (16, 16, 16), 8, 16, padding="same"),
    *pooling(),
    *normalization(),
    *losses_and_tables(),
    *recurrence(),
    *dropout(),
]
