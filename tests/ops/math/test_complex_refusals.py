"""Functions whose formulas hold for real numbers refuse complex ones, as in TensorFlow."""

import numpy as np
import pytest

import trainkit as tk

Z = np.array([0.3 + 0.2j, 0.4 + 0.1j])
SPECIAL = (
    "bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 dawsn "
    "expint fresnel_cos fresnel_sin spence bessel_i0 bessel_i0e bessel_i1 bessel_i1e"
).split()
REAL = {name: getattr(tk.math.special, name) for name in SPECIAL}
REAL |= {
    name: getattr(tk.math, name)
    for name in "erf erfc erfinv erfcinv ndtri digamma lgamma log_sigmoid softplus".split()
}
REAL |= {
    "lbeta": tk.math.lbeta,
    "gelu": tk.nn.gelu,
    "gelu_tanh": lambda x: tk.nn.gelu(x, approximate=True),
    "mish": tk.ops.mish,
    "polygamma": lambda x: tk.math.polygamma(x, x),
    "zeta": lambda x: tk.math.zeta(x, x),
    "igamma": lambda x: tk.math.igamma(x, x),
    "igammac": lambda x: tk.math.igammac(x, x),
    "betainc": lambda x: tk.math.betainc(x, x, x),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", REAL)
def test_complex_numbers_are_refused(name, dtype):
    function, z = REAL[name], tk.constant(Z.astype(dtype))
    for run in (function, tk.function(function)):
        with pytest.raises(tk.errors.InvalidArgumentError, match="is one of real numbers"):
            run(z)
    assert function(tk.math.real(z)).dtype.is_floating


def test_a_tensor_among_sums_is_its_rows():
    """As in TensorFlow, which takes what it is given one by one."""
    rows = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    for inputs in (rows, tk.constant(rows), tk.Variable(rows), list(rows)):
        np.testing.assert_array_equal(tk.add_n(inputs), [6.0, 9.0])
    np.testing.assert_array_equal(tk.function(tk.add_n)(rows), [6.0, 9.0])
    spec = tk.TensorSpec((None, 2), "float32")
    np.testing.assert_array_equal(tk.function(tk.add_n, input_signature=[spec])(rows), [6.0, 9.0])
    assert tk.add_n(tk.constant([1, 2, 3], "int8")).dtype == tk.int8
    assert int(tk.add_n(tk.constant(5))) == 5
