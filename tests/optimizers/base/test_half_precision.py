"""Weights of half precision: their rule is one program, as of others, in float32."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.tracer import Namespace


@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_steps_are_those_of_float32_rounded_once(dtype, shape, rng, monkeypatch):
    calls, update = [], tk.optimizers.Adam.update

    def counted(self, xp, *args):
        calls.append(type(xp))
        return update(self, xp, *args)

    monkeypatch.setattr(tk.optimizers.Adam, "update", counted)
    half = tk.Variable(tk.cast(tk.constant(rng.normal(size=shape).astype("float32")), dtype))
    full = tk.Variable(tk.cast(half, "float32"))
    of_half, of_full = tk.optimizers.Adam(0.1), tk.optimizers.Adam(0.1)
    for _ in range(3):
        grad = tk.cast(tk.constant(rng.normal(size=shape).astype("float32")), dtype)
        of_half.apply([grad], [half])
        of_full.apply([tk.cast(grad, "float32")], [full])
        full.assign(tk.cast(tk.cast(full, dtype), "float32"))
        np.testing.assert_array_equal(tk.cast(half, "float32"), full)
    for one, other in zip(of_half.variables, of_full.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert calls == [Namespace, Namespace]  # one for each optimizer
