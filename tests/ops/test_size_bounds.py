"""Sizes made of numbers go through one bound: beyond it NumPy's own arithmetic wraps around."""

import subprocess
import sys

import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core import shapes

# Each would take 2**62 times something: 64 bits hold less than four times that, and a count that
# wraps around to a small one makes NumPy write outside of the little memory that it took.
CASES = {
    "repeat": "ops.repeat(x, N)",
    "repeat an axis": "ops.repeat(m, N, axis=0)",
    "repeat by a list": "ops.repeat(x, [N] * 4, axis=0)",
    "repeat in a function": "tk.function(lambda a: ops.repeat(a, N))(x)",
    "tile": "ops.tile(x, N)",
    "tile two axes": "ops.tile(m, (2**31, 2**31))",
    "tile in a function": "tk.function(lambda a, n: tk.tile(a, [n]))(x, tk.constant(N))",
    "pad": "ops.pad(x, ((0, N),))",
    "pad by the edge": "ops.pad(x, ((N, 0),), mode='edge')",
    "one_hot": "ops.one_hot(i, N)",
    "one_hot, wrapped": "ops.one_hot(i, 2**63 - 1)",
    "multi_hot": "ops.multi_hot(i, N)",
    "arange": "ops.arange(N)",
    "arange, wrapped": "ops.arange(2**63 - 1)",
    "arange by half": "ops.arange(0, N, 0.5)",
    "arange down": "ops.arange(N, -N, -1)",
    "arange of floats": "ops.arange(0.0, 1e300)",
    "range in a function": "tk.function(lambda n: tk.range(n))(tk.constant(N))",
    "array_api.arange": "array_api.arange(2**63 - 1)",
    "linspace": "ops.linspace(0.0, 1.0, N)",
    "logspace": "ops.logspace(0.0, 1.0, N)",
    "geomspace": "ops.geomspace(1.0, 2.0, N)",
    "zeros": "ops.zeros((N,))",
    "ones": "ops.ones((2**32, 2**32))",
    "full": "ops.full((N, 4), 2.0)",
    "fill": "tk.fill([2**32, 2**32], 2.0)",
    "empty": "ops.empty((N,))",
    "eye": "ops.eye(2**32)",
    "tri": "ops.tri(2**32)",
    "tri, wrapped": "ops.tri(2**63 - 1)",
    "broadcast_to": "ops.broadcast_to(x, (N, 4))",
    "diagflat": "ops.diagflat(x, k=N)",
    "bartlett": "ops.bartlett(2**63 - 1)",
    "kaiser": "ops.kaiser(2**63 - 1, 1.0)",
    "hann_window": "tk.signal.hann_window(2**63 - 1)",
    "vander": "ops.vander(x, N)",
    "bincount": "ops.bincount(i, minlength=N)",
    "segment_sum": "ops.segment_sum(x, i, num_segments=N)",
    "scatter": "ops.scatter(ops.reshape(i, (4, 1)), x, (N,))",
    "kron": "ops.kron(big, ops.ones((2**20,)))",
    "outer": "ops.outer(big, ops.ones((2**20,)))",
    "meshgrid": "ops.meshgrid(big, big, big)[0] + 1",
    "rfft": "ops.rfft((x, x), fft_length=N)",
    "irfft": "ops.irfft((x, x), fft_length=N)",
    "stft": "ops.stft(x, N, 1, N)",
    "istft": "ops.istft((m, m), N, 1, N)",
    "resize": "ops.image.resize(image, (N, 4))",
    "resize, wrapped": "ops.image.resize(image, (2**63 - 1, 4))",
    "resize to the nearest": "ops.image.resize(image, (2**63 - 1, 4), interpolation='nearest')",
    "pad_images": "ops.image.pad_images(image, 0, 0, target_height=N, target_width=4)",
    "extract_patches": "ops.image.extract_patches(image, N)",
    "gaussian_blur": "ops.image.gaussian_blur(image, kernel_size=(2**63 - 1, 3))",
    "adaptive_average_pool": "ops.adaptive_average_pool(image, 2**63 - 1)",
    "adaptive_max_pool": "ops.adaptive_max_pool(image, N)",
    "conv_transpose": "ops.conv_transpose(image, ops.ones((2, 2, 2, 2)), strides=N)",
    "UpSampling1D": "tk.layers.UpSampling1D(N)(ops.ones((1, 2, 2)))",
    "UpSampling2D": "tk.layers.UpSampling2D(N)(image)",
    "UpSampling3D": "tk.layers.UpSampling3D(N)(ops.ones((1, 1, 2, 2, 1)))",
    "RepeatVector": "tk.layers.RepeatVector(N)(ops.ones((1, 4)))",
    "ZeroPadding2D": "tk.layers.ZeroPadding2D(N)(image)",
    "Resizing": "tk.layers.Resizing(2**63 - 1, 3)(image)",
    "Dense": "tk.layers.Dense(N)(ops.ones((1, 4)))",
    "Embedding": "tk.layers.Embedding(N, 4)(i)",
    "normal": "tk.random.normal((N,))",
    "uniform": "tk.random.uniform((2**32, 2**32))",
    "random integers": "tk.random.uniform((N,), maxval=9, dtype='int32')",
    "truncated_normal": "tk.random.truncated_normal((N,))",
    "gamma": "tk.random.gamma((N,), 1.0)",
    "binomial": "tk.keras.random.binomial((N,), 4, 0.5)",
    "categorical": "tk.keras.random.categorical(m, N)",
}
PROGRAM = """
import resource, sys, traceback
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import trainkit as tk
from trainkit import array_api, ops
N = 2**62
x, i, m = tk.ones((4,)), tk.constant([0, 1, 2, 3]), tk.ones((4, 4))
image, big = tk.ones((1, 4, 4, 2)), tk.ones((2**20,))
big = tk.broadcast_to(tk.ones(()), (2**30,))
for line in sys.stdin.read().splitlines():
    try:
        print(repr(eval(line))[:80], "||", line, flush=True)
    except (ValueError, MemoryError) as error:
        print(type(error).__name__, "||", line, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes():
    """What each call ends in, in one process of its own, which a crash would end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(CASES.values()),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = dict(reversed(line.split(" || ")) for line in done.stdout.splitlines())
    assert done.returncode == 0, (list(found)[-1:], done.returncode, done.stderr[-500:])
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_size_that_no_memory_holds_is_an_error(case, outcomes):
    assert outcomes[CASES[case]] in ("ShapeError", "InvalidArgumentError", "MemoryError")


@pytest.mark.parametrize("n", [2**48, 2**62, 2**63, 2**64, 2**100])
def test_the_error_names_the_operation_and_the_sizes(n):
    with pytest.raises(tk.errors.InvalidArgumentError, match=rf"repeat: .*{4 * n}.*elements"):
        ops.repeat(tk.ones((4,)), n)


def test_the_bound_counts_sizes_above_zero():
    shapes.bounded("op", 2**20, 2**27)
    shapes.bounded("op", 0, 2**40)
    with pytest.raises(shapes.ShapeError, match="op: a result of shape"):
        shapes.bounded("op", 0, 2**63)


def test_numbers_that_wrap_around_are_refused_not_taken_for_none():
    with pytest.raises(shapes.ShapeError):
        ops.arange(2**63 - 1)
    with pytest.raises(shapes.ShapeError):
        ops.one_hot([0, 1], 2**63 - 1)
