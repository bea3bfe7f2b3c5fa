"""Products of short floats on a GPU stay in their type, for its tensor cores."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.kernels.cudnn import frontend
from trainkit.kernels.matmul import matmul_gpu


@pytest.fixture
def products(monkeypatch):
    """The dtypes of the matrices that are multiplied on the stand-in."""
    found = []
    plain = matmul_gpu.Cublas.matmul

    def matmul(self, a, b, out=None):
        found.append((a.dtype.name, b.dtype.name))
        return plain(self, a, b, out)

    monkeypatch.setattr(matmul_gpu.Cublas, "matmul", matmul)
    with stand_in.in_place():
        monkeypatch.setattr(
            frontend, "_import_frontend", lambda: (None, "products alone are looked at")
        )
        yield found


LAYERS = {
    "dense": lambda **k: tk.layers.Dense(4, activation="relu", **k),
    "conv": lambda **k: tk.layers.Conv2D(4, 3, **k),
    "grouped": lambda **k: tk.layers.Conv2D(4, 3, groups=2, **k),
    "depthwise": lambda **k: tk.layers.DepthwiseConv2D(3, **k),
}
X = np.random.default_rng(0).normal(size=(2, 5, 5, 4)).astype("float32")


def trained(layer, dtype):
    """Result and gradients of a layer in a short type, and in float32 with its weights."""
    found = []
    tk.random.set_seed(1)
    made = LAYERS[layer](dtype=f"mixed_{dtype}")
    twin = LAYERS[layer]()
    for one in (made, twin):
        x = tk.constant(X)
        one(x)
        twin.set_weights(made.get_weights()) if one is twin else None
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.cast(one(x), "float32")
            loss = tk.reduce_mean(y * y)
        found.append([y, *tape.gradient(loss, [x, *one.trainable_variables])])
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_multiply_in_their_own_type(products, layer, dtype):
    short, full = trained(layer, dtype)
    near = 2e-2 if dtype == "bfloat16" else 2e-3
    for a, b in zip(short, full, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=near, atol=near)
    count = 0 if layer == "depthwise" else len(products) // 2
    assert products[:count] == [(dtype, dtype)] * count
    assert count > 0 or layer == "depthwise"


def test_whole_numbers_are_multiplied_as_before(products):
    x = tk.constant(np.full((2, 300), 100, "int8"))
    y = tk.ops.matmul(x, tk.transpose(x))
    assert y.numpy().tolist() == [[3_000_000] * 2] * 2


SCANS = {
    "cumsum": lambda x: tk.ops.cumsum(x, axis=1),
    "cumsum backwards": lambda x: tk.cumsum(x, axis=0, reverse=True, exclusive=True),
    "cumprod": lambda x: tk.ops.cumprod(x, axis=1),
    "cumprod backwards": lambda x: tk.math.cumprod(x, axis=0, reverse=True, exclusive=True),
    "prod": lambda x: tk.reduce_prod(x, axis=1),
    "prod of all": tk.reduce_prod,
    "sparsemax": tk.ops.sparsemax,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SCANS)
def test_running_sums_and_products_with_their_gradients(products, name, dtype):
    """CuPy has no running sums and products of bfloat16."""
    found = []
    for kind in (dtype, "float32"):
        x = tk.constant(np.random.default_rng(1).integers(1, 4, (3, 4)).astype("float32") / 2)
        x = tk.cast(x, kind)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = SCANS[name](x)
        assert y.dtype == kind
        found.append([y, tape.gradient(y, x)])
    for short, full in zip(*found, strict=True):
        near = 2e-2 if dtype == "bfloat16" else 2e-3
        np.testing.assert_allclose(tk.cast(short, "float32").numpy(), full.numpy(), near, near)
