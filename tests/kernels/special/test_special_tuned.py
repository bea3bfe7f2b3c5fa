"""Compiled special functions: exact values, the plain formulas, ends of ranges, gradients."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.autodiff.check import check_gradient
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.special import special_tuned
from trainkit.ops.math.incomplete_gamma import igamma, igammac
from trainkit.ops.special import bessel, modified_bessel

OPS = {
    "erfc": ops.erfc, "erfinv": ops.erfinv, "erfcinv": ops.erfcinv, "ndtri": ops.ndtri,
    "lgamma": ops.lgamma, "digamma": ops.digamma, "logaddexp": ops.logaddexp,
    "igamma": igamma, "igammac": igammac, "trigamma": lambda x: tk.math.polygamma(1.0, x),
    **{f"bessel_{n}": getattr(bessel, f"bessel_{n}") for n in ("j0", "j1", "y0", "y1")},
    **{f"bessel_{n}": getattr(modified_bessel, n) for n in ("i0", "i1", "i0e", "i1e")},
    **{f"bessel_{n}": getattr(modified_bessel, f"bessel_{n}") for n in ("k0", "k1", "k0e", "k1e")},
}  # fmt: skip
# By mpmath 1.3 with 40 digits.
EXACT = {
    "erfc": [
        (-3.0, 1.9999779095030014), (-0.5, 1.5204998778130465), (1e-10, 0.99999999988716208),
        (0.25, 0.72367360983176307), (0.46875, 0.50738652678206201), (0.5, 0.47950012218695346),
        (1.0, 0.15729920705028513), (3.75, 1.1372725656979665e-7), (4.0, 1.5417257900280019e-8),
        (4.25, 1.8505741373867425e-9), (9.0, 4.1370317465138102e-37),
        (20.0, 5.3958656116079009e-176), (26.5, 2.2109076642637343e-307),
    ],
    "erfinv": [
        (-0.875, -1.0847870400692831), (-1e-20, -8.8622692545275797e-21),
        (0.25, 0.2253120550121781), (0.5, 0.47693627620446987), (0.84375, 1.0025339706240399),
        (0.875, 1.0847870400692831), (0.9921875, 1.8809517454731394),
    ],
    "erfcinv": [
        (1e-30, 8.148616223169697), (0.125, 1.0847870400692831), (0.5, 0.47693627620446987),
        (1.5, -0.47693627620446987), (1.9375, -1.3171503349861307),
    ],
    "ndtri": [
        (1e-30, -11.464024688443377), (0.03125, -1.8627318674216515), (0.25, -0.67448975019608174),
        (0.75, 0.67448975019608174), (0.9375, 1.5341205443525463),
    ],
    "lgamma": [
        (-20.5, -42.70719597482576), (-2.25, 0.55550154502064747), (-0.5, 1.2655121234846454),
        (0.25, 1.2880225246980775), (0.75, 0.20328095143129537), (1.25, -0.098271836421813161),
        (1.75, -0.084401121020485556), (2.5, 0.28468287047291916), (9.5, 11.689333420797268),
        (10.0, 12.80182748008147), (100.25, 360.28455963776423), (1e10, 2.2025850928881058e11),
    ],
    "digamma": [
        (-20.25, 6.1742356336144838), (-2.25, 4.1585835646579723), (-0.75, -2.8941202000429321),
        (0.25, -4.2274535333762654), (0.75, -1.0858608797864722), (1.25, -0.22745353337626541),
        (1.75, 0.24747245354686116), (2.5, 0.70315664064524319), (9.5, 2.1977378764029495),
        (10.0, 2.2517525890667211), (100.25, 4.6026712432747126), (1e10, 23.025850929890457),
    ],
    "trigamma": [
        (-20.25, 19.691025351008711), (-0.75, 18.975106932284889), (0.25, 17.197329154507111),
        (0.75, 2.5418796476716065), (2.5, 0.49035775610023486), (9.5, 0.11099728846909903),
        (10.0, 0.10516633568168575), (100.25, 0.010024978698123366),
    ],
    "bessel_j0": [
        (-3.5, -0.38012773998726338), (0.5, 0.9384698072408129), (2.0, 0.22389077914123567),
        (7.75, 0.2252340691201067), (8.0, 0.17165080713755391), (20.5, 0.11509696025367476),
        (90.0, 0.026630016699969511),
    ],
    "bessel_j1": [
        (-3.5, -0.13737752736232719), (0.5, 0.24226845767487389), (2.0, 0.57672480775687339),
        (7.75, 0.19160259218911781), (8.0, 0.23463634685391462), (20.5, 0.13625468819339574),
        (90.0, 0.079925646708868085),
    ],
    "bessel_y0": [
        (0.5, -0.44451873350670656), (2.0, 0.51037567264974512), (7.75, 0.17676987751364716),
        (8.0, 0.22352148938756622), (20.5, 0.13340956665759048), (90.0, 0.079776475854877763),
    ],
    "bessel_y1": [
        (0.5, -1.4714723926702431), (2.0, -0.10703243154093755), (7.75, -0.21433222865940805),
        (8.0, -0.15806046173124749), (20.5, -0.11187909834450973), (90.0, -0.026187238607768228),
    ],
    "bessel_i0": [
        (-9.0, 1093.5883545113747), (-0.5, 1.0634833707413235), (2.0, 2.2795853023360673),
        (7.75, 338.51375374727595), (8.0, 427.56411572180479), (30.0, 781672297823.97749),
    ],
    "bessel_i1": [
        (-9.0, -1030.9147225169564), (-0.5, -0.25789430539089632), (2.0, 1.5906368546373291),
        (7.75, 315.8524809240034), (8.0, 399.8731367825601), (30.0, 768532038938.957),
    ],
    "bessel_i0e": [
        (-9.0, 0.13495952458172301), (0.5, 0.64503527044915007), (2.0, 0.30850832255367104),
        (7.75, 0.14581227430891431), (8.0, 0.14343178185685031), (30.0, 0.073145946482237294),
    ],
    "bessel_i1e": [
        (-9.0, -0.12722498393589121), (0.5, 0.1564208031848717), (2.0, 0.21526928924893766),
        (7.75, 0.13605110008033911), (8.0, 0.13414249329269818), (30.0, 0.071916330598647555),
    ],
    "bessel_k0": [
        (0.5, 0.92441907122766586), (2.0, 0.11389387274953344), (2.25, 0.084043111974658112),
        (7.75, 0.00019099545486702075), (30.0, 2.1324774964630564e-14),
    ],
    "bessel_k1": [
        (0.5, 1.6564411200033009), (2.0, 0.13986588181652243), (2.25, 0.10121630256832526),
        (7.75, 0.00020296330367377868), (30.0, 2.1677320018915494e-14),
    ],
    "bessel_k0e": [
        (0.5, 1.5241093857739095), (2.0, 0.84156821507077142), (2.25, 0.79737884528105611),
        (7.75, 0.44340977933536648), (30.0, 0.22788666561625373),
    ],
    "bessel_k1e": [
        (0.5, 2.7310097082117857), (2.0, 1.0334768470686886), (2.25, 0.96031354110120701),
        (7.75, 0.47119400698737154), (30.0, 0.2316541293777118),
    ],
    "logaddexp": [
        (0.0, -40.0, 4.248354255291589e-18), (0.5, 0.25, 1.0759394198788436),
        (-1000.0, -1001.0, -999.68673831248178), (3.0, -3.0, 3.0024756851377304),
        (88.0, 88.0, 88.693147180559945),
    ],
    "igamma": [
        (0.25, 0.125, 0.64015720608308411), (0.5, 2.0, 0.95449973610364159),
        (1.0, 1.0, 0.63212055882855768), (3.0, 0.5, 0.014387677966970687),
        (3.0, 9.0, 0.99376780489362268), (20.0, 21.5, 0.65599018094013711),
        (100.0, 80.0, 0.017108313035133114), (100.0, 130.0, 0.99724959163269347),
    ],
    "igammac": [
        (0.25, 0.125, 0.35984279391691589), (0.5, 2.0, 0.045500263896358414),
        (1.0, 1.0, 0.36787944117144232), (3.0, 0.5, 0.98561232203302931),
        (3.0, 9.0, 6.2321951063773172e-3), (20.0, 21.5, 0.34400981905986289),
        (100.0, 80.0, 0.98289168696486689), (0.5, 600.0, 6.0995688148084337e-263),
    ],
}  # fmt: skip
ENDS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e-300, 1e300, 27.0, -27.0]


def inputs_of(name, rng, dtype, shape=(31, 33)):
    """One array or two with numbers of all kinds, and the ends in all pairs."""
    x = rng.normal(size=shape) * 4
    if name.endswith("inv") or name == "ndtri":
        x = rng.uniform(-1, 2, size=shape)
    ends = np.meshgrid(ENDS, ENDS)
    count = len(EXACT[name][0]) - 1
    arrays = [x, rng.normal(size=shape) * 4 + 3][:count]
    for array, values in zip(arrays, ends, strict=False):
        if array.size > values.size:
            array.flat[: values.size] = values.reshape(-1)
    with np.errstate(over="ignore"):
        return [array.astype(dtype) for array in arrays]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.usefixtures("mode")
def test_values_have_the_digits_of_their_dtype(name):
    *inputs, exact = np.array(EXACT[name]).T
    wide = OPS[name](*inputs).numpy()
    np.testing.assert_allclose(wide, exact, rtol=2e-13)
    short = [np.abs(v) < 1e30 for v in inputs]
    kept = np.all([*short, np.abs(exact) > 1e-37], axis=0) & (np.float32(inputs) == inputs).all(0)
    single = OPS[name](*[v[kept].astype("float32") for v in inputs]).numpy()
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact[kept], rtol=6.1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(31, 33), (1, 13)])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernels_agree_with_the_plain_version_at_the_ends_too(name, shape, dtype, kernels, rng):
    arrays = inputs_of(name, rng, dtype, shape)
    results = []
    for mode in ("off", "eager"):
        kernels(mode)
        results.append(OPS[name](*arrays).numpy())
    assert results[1].dtype == dtype
    rtol, atol = (1.3e-7, 1e-14) if dtype == "float32" else (1e-11, 1e-13)
    if name == "logaddexp":  # NumPy's rounds each of its steps
        atol = max(atol, np.finfo(dtype).eps)
    np.testing.assert_allclose(results[1], results[0], rtol=rtol, atol=atol)
    signs = [np.signbit(y[results[0] == 0]) for y in results]
    np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("name", EXACT)
def test_the_kernel_serves_both_dtypes_and_any_layout_with_the_same_bits(name, eager, rng):
    kernel = getattr(special_tuned, name.upper())
    run = getattr(kernel, "run", kernel)
    for dtype in ("float32", "float64"):
        arrays = inputs_of(name, rng, dtype)
        y = run(*arrays)
        assert y is not None
        strided = [np.repeat(a, 2, axis=1)[:, ::2] for a in arrays]
        turned = [a.T.copy().T for a in arrays]
        for other in (strided, turned):
            np.testing.assert_array_equal(run(*other), y)
        for a in arrays:
            a.flags.writeable = False
        np.testing.assert_array_equal(run(*arrays), y)
        assert run(*[a[:0] for a in arrays]) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.usefixtures("mode")
def test_16_bit_floats_and_empty_arrays_are_served(name, dtype, rng):
    x = [tk.cast(tk.constant(rng.uniform(0.1, 0.9, 50)), dtype) for _ in EXACT[name][0][1:]]
    y = OPS[name](*x)
    exact = OPS[name](*[tk.cast(v, "float64") for v in x])
    assert y.dtype.name == dtype
    np.testing.assert_allclose(tk.cast(y, "float64"), exact, rtol=8e-3)
    assert OPS[name](*[v[:0] for v in x]).shape == (0,)


@pytest.mark.parametrize("name", EXACT)
def test_gradients_agree_with_differences(name, eager, rng):
    x = [rng.uniform(0.2, 0.8, 20) for _ in EXACT[name][0][1:]]
    if name.startswith("igamma"):  # the slope by the first is another operation's
        check_gradient(lambda v: OPS[name](x[0] + 1, v), [x[1] + 0.5], order=2, tolerance=1e-6)
    else:
        check_gradient(OPS[name], x, order=2, tolerance=1e-6)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_functions_broadcast(name, eager, rng):
    a, x = rng.uniform(0.1, 9, (4, 1, 3)), rng.uniform(0, 9, (5, 1))
    full = OPS[name](*[v.copy() for v in np.broadcast_arrays(a, x)])
    np.testing.assert_array_equal(OPS[name](a, x), full)
    assert OPS[name](a, np.float64(2.0)).shape == (4, 1, 3)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.usefixtures("mode")
def test_graphs_have_the_bits_of_eager_calls(name, rng):
    arrays = [tk.constant(rng.uniform(0.1, 0.9, (40, 50)).astype("float32"))] * (
        len(EXACT[name][0]) - 1
    )

    def scaled(*arrays):
        return OPS[name](*arrays) * 2.0 + arrays[0]

    expected = scaled(*arrays).numpy()
    for options in ({}, {"jit_compile": True}):
        np.testing.assert_array_equal(tk.function(scaled, **options)(*arrays), expected)


def test_threads_change_no_bit(eager, rng):
    kernel_family.set_mode("eager")
    x = rng.normal(size=70000).astype("float32")
    pairs = [ops.erfc(x[i : i + 1000]).numpy() for i in range(0, 70000, 1000)]
    np.testing.assert_array_equal(ops.erfc(x), np.concatenate(pairs))
