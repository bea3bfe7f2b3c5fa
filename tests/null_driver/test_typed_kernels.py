"""Kernels for several types of elements: NVRTC takes their texts, and steps launch few of them."""

import importlib
import pkgutil

import numpy as np
import pytest

import trainkit as tk
from tests.null_driver.counting import counted
from trainkit import kernels
from trainkit.kernels.cuda.element_types import BY_DTYPE, TypedKernel
from trainkit.ops.neural import fused_normalization as module
from trainkit.ops.neural import recurrence
from trainkit.ops.neural.standardization import standardized, standardized_gradient

FAMILIES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}.")
    if module.name.endswith("_cuda")
]
KERNELS = {
    kernel.name: kernel
    for family in FAMILIES
    for kernel in vars(family).values()
    if isinstance(kernel, TypedKernel)
}


@pytest.mark.parametrize("dtype", BY_DTYPE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", KERNELS)
def test_the_compiler_takes_the_text(cupy, name, dtype):
    assert KERNELS[name].of(dtype).is_there(cupy)


def launches(function, *arguments):
    """How often each kernel is launched by a call that is not the first one."""
    function(*arguments)
    with counted() as counts:
        function(*arguments)
    assert (counts.to_device, counts.to_host, counts.waits) == (0, 0, 0)
    return dict(counts.names)


DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])


@DTYPES
@pytest.mark.parametrize(
    ("over_batch", "count"), [(True, (2, 2)), (False, (1, 2))], ids=["batch", "layer"]
)
def test_normalization_takes_two_launches_each_way(dtype, over_batch, count):
    settings = {"axis": (3,), "epsilon": 1e-3, "over_batch": over_batch}
    x = tk.cast(np.ones((4, 5, 6, 40)), dtype)
    is_short = dtype in ("float16", "bfloat16")
    v = tk.cast(np.ones(40), "float32" if over_batch and is_short else dtype)  # as layers have it
    forward = launches(lambda: module.fused_normalization(x, v, v, **settings))
    back = launches(lambda: module.fused_normalization_gradient(x, x, v, None, None, **settings))
    assert (sum(forward.values()), sum(back.values())) == count, (forward, back)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization"])
def test_a_layer_of_short_floats_takes_one_launch_and_two_back(name, dtype):
    layer = getattr(tk.layers, name)(dtype=f"mixed_{dtype}")
    x = tk.cast(np.ones((4, 6, 40)), dtype)
    layer.build(x.shape)

    def step():
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return tape.gradient(y, [x, *layer.trainable_variables], output_gradients=x)

    found = launches(step)
    rows = {kernel: n for kernel, n in found.items() if "rows" in kernel or "summed" in kernel}
    assert sum(rows.values()) == 3
    # a weight that is made shorter for the layer, and its gradient, which is made longer
    assert sum(found.values()) - 3 <= (2 if name == "RMSNormalization" else 0), found


def test_moments_that_nobody_uses_send_no_zeros_back():
    x, v = tk.ones((4, 5, 6, 40)), tk.ones((40,))

    def step():
        with tk.GradientTape() as tape:
            tape.watch(x)
            y, _, _ = tk.ops.fused_batch_normalization(x, v, v)
        return tape.gradient(y, x, output_gradients=x)

    step()
    with counted() as counts:
        step()
    assert (counts.launches, counts.fills) == (4, 0)


@DTYPES
@pytest.mark.parametrize(("kind", "cells"), [("lstm", 1), ("gru", 1), ("gru_before", 2)])
def test_a_recurrent_step_takes_a_product_and_a_kernel_each_way(dtype, kind, cells):
    """What 12 steps take more than 2 do."""
    gates = 4 if kind == "lstm" else 3

    def taken(steps):
        projected = tk.cast(np.ones((8, steps, gates * 16)), dtype)
        h, kernel = tk.cast(np.ones((8, 16)), dtype), tk.cast(np.ones((16, gates * 16)), dtype)

        def step():
            with tk.GradientTape() as tape:
                tape.watch(projected)
                if kind == "lstm":
                    y, _ = recurrence.lstm(projected, h, h, kernel)
                else:
                    y = recurrence.gru(projected, h, kernel, reset_after=kind == "gru")
            tape.gradient(y, projected)

        names = launches(step)
        products = names.pop("cublasGemmStridedBatchedEx")
        return products, sum(names.values())

    (many, more), (few, less) = taken(12), taken(2)
    assert (many - few, more - less) == (20 * cells, 20 * cells)


@DTYPES
def test_softmax_and_cross_entropy_take_one_launch_each_way(dtype):
    x, labels = tk.cast(np.ones((8, 10)), dtype), tk.constant(np.zeros(8, np.int32))

    def with_gradient(function):
        def step():
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = function()
            tape.gradient(y, x, output_gradients=y)

        return launches(step)

    names = with_gradient(lambda: tk.nn.softmax(x))
    assert sum(names.values()) == 2, names
    names = with_gradient(
        lambda: tk.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    )
    assert sum(names.values()) == 2, names


def test_memory_of_attention_does_not_grow_with_the_product_of_lengths(cupy):
    """16,384 targets and sources of 4 heads have scores of 4 GiB, which are there in blocks."""
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    x = tk.zeros((1, 16384, 4, 32))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.ops.dot_product_attention(x, x, x, is_causal=True)
    tape.gradient(y, x)
    assert pool.total_bytes() - before < 1 << 30


@pytest.mark.parametrize("flash", [True, None])
def test_a_mask_beside_a_causal_one_is_not_sent_from_the_host(flash):
    x, mask = tk.ones((2, 8, 4, 16)), tk.ones((2, 1, 8, 8), "bool")
    settings = {"mask": mask, "is_causal": True, "flash_attention": flash}
    launches(lambda: tk.ops.dot_product_attention(x, x, x, **settings))


@pytest.mark.parametrize(
    ("shape", "axis", "centred", "count"),
    [
        ((8, 64), (1,), False, (1, 1)),
        ((8, 5, 64), (1, 2), True, (1, 1)),
        ((8, 5, 4, 16), (1, 3), True, (2, 2)),
    ],
    ids=["root mean square", "rows", "groups"],
)
def test_standardization_takes_a_launch_for_rows_and_two_for_groups(shape, axis, centred, count):
    x, settings = tk.ones(shape), {"axis": axis, "epsilon": 1e-3, "centred": centred}
    forward = launches(lambda: standardized(x, **settings))
    back = launches(lambda: standardized_gradient(x, x, **settings))
    assert (sum(forward.values()), sum(back.values())) == count, (forward, back)
