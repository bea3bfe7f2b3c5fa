"""Special functions beside SciPy's, and where they have poles or end."""

import numpy as np
import pytest

import trainkit as tk

special = pytest.importorskip("scipy.special")
INF, NAN = np.inf, np.nan

# name: SciPy's function, whether it goes below 0, its values at 0 and at infinity
FUNCTIONS = {
    "dawsn": (special.dawsn, True, 0.0, 0.0),
    "expint": (special.expi, False, -INF, INF),
    "fresnel_cos": (lambda x: special.fresnel(x)[1], True, 0.0, 0.5),
    "fresnel_sin": (lambda x: special.fresnel(x)[0], True, 0.0, 0.5),
    "spence": (special.spence, False, np.pi**2 / 6, -INF),
    "bessel_j0": (special.j0, True, 1.0, 0.0),
    "bessel_j1": (special.j1, True, 0.0, 0.0),
    "bessel_y0": (special.y0, False, -INF, 0.0),
    "bessel_y1": (special.y1, False, -INF, 0.0),
    "bessel_k0": (special.k0, False, INF, 0.0),
    "bessel_k0e": (special.k0e, False, INF, 0.0),
    "bessel_k1": (special.k1, False, INF, 0.0),
    "bessel_k1e": (special.k1e, False, INF, 0.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_scipy(name):
    reference, both_sides, at_zero, at_infinity = FUNCTIONS[name]
    f = getattr(tk.math.special, name)
    x = np.concatenate([np.geomspace(1e-9, 500.0, 3000), np.linspace(0.01, 60.0, 3000)])
    x = np.concatenate([-x, x]) if both_sides else x
    expected = reference(x)
    np.testing.assert_allclose(f(x), expected, rtol=1e-13, atol=2e-15 if expected.min() < 0 else 0)
    np.testing.assert_array_equal(tk.function(f)(tk.constant(x)), f(x))
    single = np.abs(x[np.abs(x) < 60]).astype("float32")
    found = f(single)
    assert found.dtype == tk.float32
    np.testing.assert_allclose(found, reference(np.float64(single)), rtol=2e-5, atol=2e-6)
    assert f(tk.constant([0.5], tk.float16)).dtype == tk.float16
    edges = f([0.0, INF, NAN, -1.0]).numpy()
    np.testing.assert_allclose(edges[:3], [at_zero, at_infinity, NAN], rtol=1e-6)
    assert np.isnan(edges[3]) != both_sides


def test_slopes_at_zero_and_one():
    slopes = {}
    for name, at in (("bessel_j0", 0.0), ("bessel_j1", 0.0), ("dawsn", 0.0), ("spence", 1.0)):
        x = tk.Variable(at)
        with tk.GradientTape() as tape:
            y = getattr(tk.math.special, name)(x)
        slopes[name] = float(tape.gradient(y, x))
    assert slopes == {"bessel_j0": 0.0, "bessel_j1": 0.5, "dawsn": 1.0, "spence": -1.0}
