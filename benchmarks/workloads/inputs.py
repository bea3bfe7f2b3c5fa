"""Batches and first weights, the same for all frameworks, in Keras's layouts."""

from typing import Any

import numpy as np

Array = Any
RATE = 1e-7
"""Of Adam and SGD: thousands of timed steps change little."""
EPSILON = 1e-7
DECAYS = (0.9, 0.999)

VOCABULARY, LENGTH, WIDTH, HEADS, HIDDEN, BLOCKS = 256, 64, 128, 4, 512, 2
"""Of the transformer."""
WORDS, UNITS, TIMES = 2000, 64, 80
"""Of the recurrent network."""
CHAIN = 200
"""Links of the chain that its data decides."""


def random(seed: int) -> np.random.Generator:
    """A generator of its own for each purpose."""
    return np.random.default_rng(seed)


def normal(seed: int, *shape: int) -> Array:
    """Normal float32 numbers."""
    return random(seed).standard_normal(shape, dtype=np.float32)


def images(count: int) -> tuple[Array, Array]:
    """Bytes (count, 28, 28) and labels."""
    rng = random(1)
    pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    return pixels, rng.integers(0, 10, count).astype(np.int32)


def flat_batch(count: int) -> tuple[Array, Array]:
    """Images as rows in [0, 1], and labels."""
    x, y = images(count)
    return x.reshape(count, 784).astype(np.float32) / 255, y


def image_batch(count: int) -> tuple[Array, Array]:
    """Images with one channel in [0, 1], and labels."""
    x, y = images(count)
    return x[..., None].astype(np.float32) / 255, y


def color_batch() -> tuple[Array, Array]:
    """16 images of 32 x 32 in three colours, and labels."""
    return normal(2, 16, 32, 32, 3), random(3).integers(0, 10, 16).astype(np.int32)


def sentences() -> tuple[Array, Array]:
    """32 rows of 80 words, and a 0 or 1 for each."""
    rng = random(4)
    words = rng.integers(0, WORDS, (32, TIMES)).astype(np.int32)
    return words, rng.integers(0, 2, (32, 1)).astype(np.float32)


def texts() -> tuple[Array, Array]:
    """16 rows of 64 letters, and the letter behind each."""
    rows = random(5).integers(0, VOCABULARY, (16, LENGTH + 1)).astype(np.int32)
    return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])


def line() -> tuple[Array, Array]:
    """2000 points near y = 3 x + 2."""
    x = normal(6, 2000)
    return x, 3 * x + 2 + normal(7, 2000)


def links(shape: tuple[int, ...]) -> list[Array]:
    """Three arrays in [0.5, 1), for z = x * y + z over and over."""
    return [random(8 + i).uniform(0.5, 1, shape).astype(np.float32) for i in range(3)]


def whole_matrix() -> Array:
    """10 x 10 of -1, 0 and 1."""
    return random(11).integers(-1, 2, (10, 10)).astype(np.int32)


def decisions() -> tuple[list[int], list[Array], Array]:
    """Which of two matrices each link takes, the matrices, and the first row."""
    rng = random(12)
    turns = [np.linalg.qr(normal(13 + i, 32, 32))[0] * np.float32(1.1) for i in range(2)]
    return [int(i) for i in rng.integers(0, 2, CHAIN)], turns, normal(15, 1, 32)


def weights_of_adam(workload: str) -> list[tuple[Array, Array]]:
    """Weights and gradients: 100 of 100,000 numbers, or one of ten million."""
    many = workload == "optimizer_100x100k"
    count, size = (100, 100_000) if many else (1, 10_000_000)
    return [(normal(20, size), normal(21, size)) for _ in range(count)]


def factors(workload: str) -> tuple[Array, Array]:
    """Two matrices to multiply."""
    rows, inner, columns = (2048, 2048, 2048) if workload == "sgemm_2048" else (32, 784, 128)
    return normal(22, rows, inner), normal(23, inner, columns)


# ------------------------------------------------------------------ weights


def glorot(seed: int, *shape: int) -> Array:
    """Uniform, by fan in and fan out."""
    area = int(np.prod(shape[:-2]))
    limit = np.sqrt(6 / (area * (shape[-2] + shape[-1])))
    return random(seed).uniform(-limit, limit, shape).astype(np.float32)


def zeros(size: int) -> Array:
    """Of a bias."""
    return np.zeros(size, np.float32)


def mlp() -> list[Array]:
    """784-128-10: kernel and bias by layer."""
    return [glorot(30, 784, 128), zeros(128), glorot(31, 128, 10), zeros(10)]


def cnn() -> list[Array]:
    """Two convolutions of 16 filters, 10 classes."""
    kernels = [glorot(32, 3, 3, 1, 16), zeros(16), glorot(33, 3, 3, 16, 16), zeros(16)]
    return [*kernels, glorot(34, 16, 10), zeros(10)]


def convnet() -> list[Array]:
    """Convolutions of 32 and 64 filters, 128 units, 10 classes."""
    kernels = [glorot(35, 3, 3, 1, 32), zeros(32), glorot(36, 3, 3, 32, 64), zeros(64)]
    dense = [glorot(37, 12 * 12 * 64, 128), zeros(128), glorot(38, 128, 10), zeros(10)]
    return kernels + dense


def lstm() -> list[Array]:
    """Table, kernel, recurrent kernel, bias (gates i, f, c, o), and the last layer's."""
    bias = zeros(4 * UNITS)
    bias[UNITS : 2 * UNITS] = 1
    table = random(39).uniform(-0.05, 0.05, (WORDS, UNITS)).astype(np.float32)
    inner = [glorot(40, UNITS, 4 * UNITS), glorot(41, UNITS, 4 * UNITS), bias]
    return [table, *inner, glorot(42, UNITS, 1), zeros(1)]


def block(number: int) -> dict[str, list[Array]]:
    """One block of the transformer by layer."""
    seed, d, k = 50 + 10 * number, WIDTH, WIDTH // HEADS
    heads = [
        array
        for i in range(3)
        for array in (glorot(seed + i, d, d).reshape(d, HEADS, k), np.zeros((HEADS, k), "float32"))
    ]
    out = glorot(seed + 3, d, d).reshape(HEADS, k, d)
    ones = np.ones(d, np.float32)
    return {
        "norm1": [ones, zeros(d)],
        "attention": [*heads, out, zeros(d)],
        "norm2": [ones, zeros(d)],
        "up": [glorot(seed + 4, d, HIDDEN), zeros(HIDDEN)],
        "down": [glorot(seed + 5, HIDDEN, d), zeros(d)],
    }


def transformer() -> dict[str, Any]:
    """Tables of letters and places, the blocks, and what follows them."""
    return {
        "letters": 0.02 * normal(46, VOCABULARY, WIDTH),
        "places": 0.02 * normal(47, LENGTH, WIDTH),
        "blocks": [block(i) for i in range(BLOCKS)],
        "norm": [np.ones(WIDTH, np.float32), zeros(WIDTH)],
        "out": [glorot(48, WIDTH, VOCABULARY), zeros(VOCABULARY)],
    }


def resnet_parts() -> list[tuple[str, int, int, int, int]]:
    """ResNet-18 for small images: name, channels in and out, stride, size of the kernel."""
    parts = [("first", 3, 64, 1, 3)]
    have = 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for half in range(2):
            stride = 2 if stage and not half else 1
            name = f"{stage}{half}"
            parts.append((f"{name}a", have, filters, stride, 3))
            parts.append((f"{name}b", filters, filters, 1, 3))
            if stride > 1 or have != filters:
                parts.append((f"{name}c", have, filters, stride, 1))
            have = filters
    return parts


def resnet() -> tuple[dict[str, Array], list[Array]]:
    """Kernels by name, and the last layer's weights."""
    kernels = {}
    for i, (name, have, filters, _, size) in enumerate(resnet_parts()):
        scale = np.float32(np.sqrt(2 / (size * size * have)))
        kernels[name] = scale * normal(100 + i, size, size, have, filters)
    return kernels, [glorot(99, 512, 10), zeros(10)]
