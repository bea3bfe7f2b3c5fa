"""Compiled convolutions against the plain ones, and where the plain ones stay."""

import math

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution import conv_layout, conv_reference, conv_tuned, pixels_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit.target import vector_lanes
from trainkit.kernels.matmul import product_tuned
from trainkit.kernels.matmul.epilogue_tuned import Epilogue
from trainkit.kernels.normalization.norm_tuned import RELU
from trainkit.kernels.threads import pools

# sizes, window, channels, filters, strides, padding, dilation
CASES = [
    ((9, 11), (3, 3), 4, 16, (1, 1), "valid", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (1, 1), "same", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (2, 2), "same", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (1, 1), "same", (2, 2)),
    ((5, 9), (2, 3), 1, 10, (1, 2), "valid", (1, 1)),
    ((8, 5), (3, 2), 5, 33, (1, 1), ((2, 1), (0, 2)), (1, 1)),
    ((8, 8), (3, 3), 2, 64, (3, 1), "valid", (1, 2)),
    ((4, 4), (5, 5), 7, 96, (1, 1), "same", (1, 1)),
    ((13,), (4,), 6, 16, (1,), "same", (1,)),
    ((8, 8), (1, 1), 6, 40, (1, 1), "valid", (1, 1)),
    ((8, 8), (1, 1), 6, 40, (2, 2), "valid", (1, 1)),  # most of the input is not seen
    ((7, 7), (3, 3), 40, 70, (2, 2), "same", (1, 1)),
    ((7, 7), (3, 3), 40, 70, (1, 1), "same", (2, 2)),
    ((3, 3), (5, 5), 40, 70, (1, 1), "same", (3, 3)),  # some taps never lie inside
    ((6, 6), (2, 2), 9, 3, (1, 1), ((3, 2), (4, 4)), (1, 1)),
    ((17, 17), (3, 3), 140, 130, (1, 1), "same", (1, 1)),
    ((2, 2), (3, 3), 140, 260, (1, 1), "same", (1, 1)),
    ((37, 41), (3, 3), 24, 40, (1, 1), "same", (1, 1)),  # gradients are packed in several steps
    ((29, 23), (1, 1), 33, 40, (1, 1), "valid", (1, 1)),  # products of matrices
    ((29, 23), (1, 1), 33, 40, (2, 3), "valid", (1, 1)),
    ((7, 6), (1, 1), 256, 1024, (2, 3), "valid", (1, 1)),  # so is the gradient by weights
    ((4, 4), (2, 2), 1, 8, (1, 1), "valid", (1, 1)),  # the ends of a tile lie as if side by side
    ((900,), (1,), 17, 64, (1,), "same", (1,)),
    ((900,), (1,), 17, 64, (1,), ((2, 1),), (1,)),  # of which some see the padding alone
]
# the same, then the number of groups
GROUPED = [
    ((9, 11), (3, 3), 8, 16, (1, 1), "same", (1, 1), 2),
    ((9, 11), (3, 3), 8, 16, (2, 2), "same", (1, 1), 4),
    ((9, 11), (3, 3), 8, 8, (1, 1), "same", (1, 1), 8),
    ((9, 11), (3, 3), 70, 70, (2, 2), "same", (1, 1), 70),
    ((9, 11), (3, 2), 40, 40, (1, 1), "valid", (2, 2), 40),
    ((12,), (3,), 8, 24, (1,), "same", (1,), 8),
    ((7, 7), (3, 3), 80, 120, (1, 1), "same", (1, 1), 2),
    ((4, 5, 6), (3, 3, 3), 4, 16, (1, 1, 1), "same", (1, 1, 1), 1),
    ((5, 5, 6), (2, 3, 3), 33, 16, (2, 1, 2), "same", (1, 1, 1), 1),
    ((5, 5, 6), (2, 3, 3), 33, 33, (1, 1, 1), "same", (1, 1, 1), 33),
    ((6, 5, 6), (2, 3, 2), 5, 70, (2, 2, 2), "valid", (1, 1, 2), 1),
    ((3, 3, 3), (3, 3, 3), 40, 70, (1, 1, 1), "same", (2, 2, 2), 1),
]


def arrays(case, rng, groups=1):
    sizes, window, channels, filters, strides, padding, dilation = case
    w = Windows(sizes, window, strides, padding, dilation)
    x = rng.normal(size=(3, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, channels // groups, filters)).astype("float32")
    g = rng.normal(size=(3, *w.out, filters)).astype("float32")
    return w, x, kernel, g


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_equals_the_plain_version(eager, rng, case):
    w, x, kernel, _ = arrays(case, rng)
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    plain = conv_reference.conv(np, w, x, kernel, 1)
    assert plain.shape == (3, *w.out, kernel.shape[-1])
    found = conv_tuned.forward(w, x, kernel, None, False, 1)
    np.testing.assert_allclose(found, plain, atol=1e-3)
    found = conv_tuned.forward(w, x, kernel, bias, True, 1)
    np.testing.assert_allclose(found, np.maximum(plain + bias, 0), atol=1e-3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_input_gradient_equals_the_plain_version(eager, rng, case):
    w, _, kernel, g = arrays(case, rng)
    found = conv_tuned.input_gradient(w, g, kernel, 1)
    assert (found is None) == (kernel.shape[-2] == 1)  # a single channel is left to the plain one
    if found is not None:
        plain = conv_reference.conv_input_gradient(np, w, g, kernel, 1)
        np.testing.assert_allclose(found, plain, atol=1e-3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_gradient_equals_the_plain_version(eager, rng, case):
    w, x, _, g = arrays(case, rng)
    found = conv_tuned.kernel_gradient(w, x, g, 1)
    plain = conv_reference.conv_kernel_gradient(np, w, x, g, 1)
    np.testing.assert_allclose(found, plain, atol=1e-3)


@pytest.mark.parametrize("case", GROUPED, ids=str)
def test_groups_and_volumes_equal_the_plain_version(eager, unusual, rng, case):
    *case, groups = case
    w, x, kernel, g = arrays(case, rng, groups)
    cases = [
        (conv_tuned.forward(w, x, kernel, None, False, groups), conv_reference.conv, (x, kernel)),
        (
            conv_tuned.input_gradient(w, g, kernel, groups),
            conv_reference.conv_input_gradient,
            (g, kernel),
        ),
        (conv_tuned.kernel_gradient(w, x, g, groups), conv_reference.conv_kernel_gradient, (x, g)),
    ]
    for found, plain, inputs in cases:
        np.testing.assert_allclose(unusual(found), plain(np, w, *inputs, groups), atol=1e-3)


@pytest.mark.parametrize("batch", [1, 5, 7])
def test_a_last_group_of_fewer_images(eager, rng, batch):
    w = Windows((7, 7), (3, 3), (1, 1), "same", (1, 1))
    x = rng.normal(size=(batch, 7, 7, 20)).astype("float32")
    kernel = rng.normal(size=(3, 3, 20, 40)).astype("float32")
    g = rng.normal(size=(batch, 7, 7, 40)).astype("float32")
    plain = conv_reference.conv(np, w, x, kernel, 1)
    np.testing.assert_allclose(
        conv_tuned.forward(w, x, kernel, None, False, 1), plain, rtol=1e-4, atol=1e-3
    )
    plain = conv_reference.conv_input_gradient(np, w, g, kernel, 1)
    np.testing.assert_allclose(
        conv_tuned.input_gradient(w, g, kernel, 1), plain, rtol=1e-4, atol=1e-3
    )


def test_the_plain_version_stays_where_the_compiled_one_does_not_serve(eager, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    assert (
        conv_tuned.forward(w, x.astype("float64"), kernel.astype("float64"), None, False, 1) is None
    )
    assert conv_tuned.forward(w, x[:0], kernel, None, False, 1) is None


def results(case, rng):
    w, x, kernel, g = arrays(case, rng)
    return [
        conv_tuned.forward(w, x, kernel, None, False, 1),
        conv_tuned.input_gradient(w, g, kernel, 1),
        conv_tuned.kernel_gradient(w, x, g, 1),
    ]


@pytest.mark.parametrize("case", [CASES[1], CASES[5], CASES[16]], ids=str)
def test_the_bits_do_not_depend_on_the_number_of_threads(eager, monkeypatch, case):
    found = results(case, np.random.default_rng(0))
    monkeypatch.setattr(conv_tuned, "shared", lambda nanoseconds: (0, 1))
    monkeypatch.setattr(pools, "compute_threads", lambda: 1)
    alone = results(case, np.random.default_rng(0))
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("channels", [31, 32, 33, 128, 170, 171])
def test_neither_joined_lines_nor_chunks_change_a_bit(eager, monkeypatch, rng, channels):
    """Lines of a window are read in one go while they are no longer than a chunk."""
    w, x, kernel, g = arrays(((6, 7), (2, 3), channels, 40, (1, 1), "valid", (1, 1)), rng)

    def both():
        conv_layout.forward.cache_clear()
        conv_layout.backward.cache_clear()
        pixels_tuned.pixels_call.cache_clear()
        y = conv_tuned.forward(w, x, kernel, None, False, 1)
        return y, conv_tuned.input_gradient(w, g, kernel, 1)

    expected = both()
    for chunk in (32, 100, 3 * channels - 1, 3 * channels):
        monkeypatch.setattr(conv_layout, "CHUNK", chunk)
        for a, b in zip(expected, both(), strict=True):
            np.testing.assert_array_equal(a, b)
    monkeypatch.undo()
    both()  # tables of short chunks are forgotten


# sizes, window, channels, filters, strides, groups: few and many tiles read the same gradients, and
# few and many blocks of filters the same inputs, which lie side by side or not
OF_TILES = [
    ((9, 11), (3, 3), 3, 32, (1, 1), 1),
    ((9, 11), (5, 5), 1, 64, (2, 2), 1),
    ((9, 11), (3, 3), 40, 64, (2, 2), 1),
    ((9, 11), (3, 3), 33, 176, (2, 1), 1),
    ((5, 6), (2, 2), 7, 208, (1, 1), 1),
    ((5, 6), (2, 2), 3, 560, (1, 1), 1),
    ((5, 6), (3, 3), 120, 48, (2, 2), 3),
    ((5, 6), (2, 2), 80, 288, (1, 1), 2),
    ((5, 6), (2, 2), 24, 24, (1, 1), 24),
]


@pytest.mark.parametrize("case", OF_TILES, ids=str)
def test_the_height_of_tiles_of_weights_changes_no_bit(eager, monkeypatch, rng, case):
    *case, groups = case
    w, x, _, g = arrays((*case, "same", (1,) * len(case[1])), rng, groups)

    def gradient(choose):
        monkeypatch.setattr(conv_layout, "weight_rows", choose)
        conv_layout.weights.cache_clear()
        return conv_tuned.kernel_gradient(w, x, g, groups)

    weight_rows = conv_layout.weight_rows
    chosen = gradient(weight_rows)
    plain = conv_reference.conv_kernel_gradient(np, w, x, g, groups)
    np.testing.assert_allclose(chosen, plain, atol=1e-3)
    for number in range(len(weight_rows(12))):
        other = gradient(lambda most, n=number: [weight_rows(most)[n % len(weight_rows(most))]])
        np.testing.assert_array_equal(other, chosen)
    monkeypatch.undo()
    conv_layout.weights.cache_clear()


@pytest.mark.parametrize(
    ("weights", "most", "vectors", "rows"),
    [(27, 12, 2, 9), (25, 12, 2, 9), (32, 12, 2, 8), (64, 12, 2, 8), (9, 12, 1, 9), (36, 6, 4, 6)],
)
def test_the_last_tile_of_weights_is_seldom_empty(weights, most, vectors, rows):
    lanes = vector_lanes()
    geometry = conv_layout.Geometry(
        8, (1, 9, 9), 4, (1, 9, 9), 64, (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), 1,
        (most, vectors * lanes), 1,
    )  # fmt: skip
    assert conv_layout._weight_rows(geometry, weights) == rows


@pytest.mark.parametrize("filters", [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 32])
def test_rows_that_end_within_a_vector_are_written_whole(eager, rng, filters):
    w, x, kernel, _ = arrays(((9, 8), (3, 3), 5, filters, (1, 1), "valid", (1, 1)), rng)
    bias = rng.normal(size=filters).astype("float32")
    expected = conv_reference.conv(np, w, *(a.astype("float64") for a in (x, kernel)), 1) + bias
    plain = conv_tuned.forward(w, x, kernel, bias, False, 1)
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-5)
    factor, shift = (rng.normal(size=filters).astype("float32") for _ in range(2))
    residual = rng.normal(size=plain.shape).astype("float32")
    for beside in (None, residual):
        follows = Epilogue(factor, shift, beside, RELU)
        found = conv_tuned.forward(w, x, kernel, bias, False, 1, None, follows)
        sums = plain * factor + shift + (0 if beside is None else beside)
        np.testing.assert_array_equal(found, np.maximum(sums, 0))


def test_not_a_number_stays_through_the_rectifier(eager, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    x[0, 0, 0, 0] = np.nan
    found = conv_tuned.forward(w, x, kernel, None, True, 1)
    assert np.isnan(found[0, 0, 0]).all()
    assert np.isfinite(found[1:]).all()


def test_numbers_beyond_the_padding_are_not_read(eager, rng):
    w, x, _, g = arrays(CASES[1], rng)
    x[-1, -1, -1] = np.nan
    found = conv_tuned.kernel_gradient(w, x[:-1], g[:-1], 1)
    assert np.isfinite(found).all()


def test_arrays_in_another_order_or_read_only_are_taken(eager, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    expected = conv_reference.conv(np, w, x, kernel, 1)
    turned = np.asfortranarray(x)
    fixed = kernel.copy()
    fixed.flags.writeable = False
    found = conv_tuned.forward(w, turned, fixed, None, False, 1)
    np.testing.assert_allclose(found, expected, atol=1e-3)


# beside those above depthwise ones: few pixels and many, and windows that lie in the padding
NOT_FINITE = [
    *((*case, 1) for case in CASES[:13]),
    *((*case, 1) for case in CASES if math.prod(case[1]) == 1),
    *GROUPED[:8],
    ((5, 6), (1, 1), 8, 24, (1, 1), "valid", (1, 1), 2),
    ((5, 6), (1, 1), 8, 24, (2, 2), "valid", (1, 1), 4),
    ((1, 1), (3, 3), 4, 16, (1, 1), "same", (1, 1), 1),
    ((1, 1), (3, 3), 8, 8, (1, 1), "same", (1, 1), 8),
    ((1, 1), (1, 1), 8, 8, (1, 1), "same", (1, 1), 8),
    ((1, 1), (3, 3), 5, 10, (1, 1), "same", (1, 1), 5),
    ((1, 1), (3, 3), 8, 8, (2, 2), "same", (1, 1), 8),
    ((2, 2), (5, 5), 8, 8, (1, 1), "same", (1, 1), 8),
    ((5, 6), (3, 3), 20, 20, (2, 2), "same", (1, 1), 20),
    ((14, 14), (3, 3), 16, 16, (1, 1), "valid", (1, 1), 16),
    ((6, 6), (2, 2), 9, 9, (1, 1), ((3, 2), (4, 4)), (1, 1), 9),
    ((6, 6), (2, 2), 9, 4, (1, 1), ((3, 2), (4, 4)), (1, 1), 1),
    ((1,), (3,), 8, 8, (1,), "same", (1,), 8),
]
OPERATIONS = {
    "forward": lambda w, x, k, g, n: (
        conv_tuned.forward(w, x, k, None, False, n),
        conv_reference.conv(np, w, x, k, n),
    ),
    "input_gradient": lambda w, x, k, g, n: (
        conv_tuned.input_gradient(w, g, k, n),
        conv_reference.conv_input_gradient(np, w, g, k, n),
    ),
    "kernel_gradient": lambda w, x, k, g, n: (
        conv_tuned.kernel_gradient(w, x, g, n),
        conv_reference.conv_kernel_gradient(np, w, x, g, n),
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("case", NOT_FINITE, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_where_the_plain_version_takes_it(
    eager, rng, case, operation, value
):
    *case, groups = case
    w, *arrays_of_it = arrays(case, rng, groups)
    for which, array in enumerate(arrays_of_it):
        for place in (0, -1, array.size // 2, array.size // 3):
            changed = [a.copy() for a in arrays_of_it]
            changed[which].reshape(-1)[place] = value
            found, plain = OPERATIONS[operation](w, *changed, groups)
            if found is not None:  # else the plain version serves
                np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("case", [CASES[1], (*CASES[1][:2], 8, 8, *CASES[1][4:])], ids=str)
def test_finite_numbers_are_left_to_the_compiled_version(eager, rng, case):
    w, x, kernel, g = arrays(case, rng)
    assert conv_tuned.forward(w, x, kernel, None, False, 1) is not None
    assert conv_tuned.input_gradient(w, g, kernel, 1) is not None
    x[0, 4, 4, 1] = np.inf
    assert conv_tuned.forward(w, x, kernel, None, False, 1) is not None
    g[0, 4, 4, 1] = np.inf
    assert conv_tuned.input_gradient(w, g, kernel, 1) is not None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("case", [c for c in CASES if math.prod(c[1]) == 1 < len(c[0])], ids=str)
def test_gradients_of_windows_of_one_element_are_compiled_for_any_numbers(eager, rng, case):
    w, x, kernel, g = arrays(case, rng)
    x[0, 2, 3, 4], g[0, 1, 1, 2] = np.inf, np.nan
    by_input = conv_tuned.input_gradient(w, g, kernel, 1)
    plain = conv_reference.conv_input_gradient(np, w, g, kernel, 1)
    np.testing.assert_allclose(by_input, plain, atol=1e-3)
    by_kernel = conv_tuned.kernel_gradient(w, x, g, 1)
    plain = conv_reference.conv_kernel_gradient(np, w, x, g, 1)
    np.testing.assert_allclose(by_kernel, plain, atol=1e-3)


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("sizes", [(56, 256, 512), (7, 960, 160), (7, 160, 960)], ids=str)
def test_gradients_by_weights_are_as_many_tasks_for_each_core(cores, sizes):
    """Three tasks for two cores would take as long as four."""
    size, channels, filters = sizes
    geometry = conv_layout.Geometry(
        8, (1, size, size), channels, (1, size, size), filters, (1, 1, 1), (1, 1, 1), (1, 1, 1),
        (0, 0, 0), 1, (6, 64), cores,
    )  # fmt: skip
    plan = conv_layout.weights(geometry)
    tasks = plan.parts * -(-len(plan.blocks) // plan.numbers[9]) * len(plan.groups)
    assert tasks % cores == 0 or tasks >= 4 * cores


def test_series_of_many_lengths_are_planned_once_each(monkeypatch):
    """As many lengths, layers and ways as the small networks for texts have."""
    made = []
    plan = conv_layout._pixel_plan
    monkeypatch.setattr(conv_layout, "_pixel_plan", lambda *g: made.append(g) or plan(*g))
    conv_layout.forward.cache_clear()
    asked = [
        conv_layout.Geometry(
            1, (1, 1, n), 8, (1, 1, n), 8, (1, 1, 2), (1, 1, 1), (1, 1, d), (0, 0, d), 1, (4, 16), 2
        )
        for n in range(32, 132)
        for d in (1, 2, 4, 8)
    ]
    first = [conv_layout.forward(g) for g in asked]
    assert len(made) == len(asked)
    assert all(conv_layout.forward(g) is found for g, found in zip(asked, first, strict=True))
    assert len(made) == len(asked)


def test_a_gradient_by_weights_of_one_element_has_the_bits_of_the_product(eager, rng):
    w, x, _, g = arrays(((7, 8), (1, 1), 256, 1024, (1, 1), "valid", (1, 1)), rng)
    pixels, grads = x.reshape(-1, 256), g.reshape(-1, 1024)
    expected = product_tuned.product(pixels.T, grads)
    np.testing.assert_array_equal(conv_tuned.kernel_gradient(w, x, g, 1)[0, 0], expected)


def test_numbers_that_are_not_finite_stay_in_their_weights_of_one_element(eager, rng):
    w, x, _, g = arrays(((7, 8), (1, 1), 256, 1024, (1, 1), "valid", (1, 1)), rng)
    x[1, 2, 3, 4], g[0, 5, 6, 7] = np.inf, np.nan
    found = conv_tuned._kernel_gradient(w, x, g, 1)[0, 0]
    outside = np.delete(np.delete(found, 4, 0), 7, 1)
    assert np.isnan(found[:, 7]).all()
    assert not np.isfinite(found[4]).any()
    assert np.isfinite(outside).all()


OF_BFLOAT16 = [
    *[(*case, 1) for case in (CASES[2], CASES[8], CASES[15], CASES[19], CASES[20])],
    GROUPED[2],
    GROUPED[0],
]


@pytest.mark.parametrize("case", OF_BFLOAT16, ids=str)
def test_bfloat16_is_summed_in_float32_and_rounded_once(eager, rng, unusual, case):
    *case, groups = case
    w, x, kernel, g = (
        a if isinstance(a, Windows) else a.astype(ml_dtypes.bfloat16)
        for a in arrays(case, rng, groups)
    )
    bias = rng.normal(size=kernel.shape[-1]).astype(ml_dtypes.bfloat16)
    exact_x, exact_kernel, exact_g = (a.astype("float64") for a in (x, kernel, g))
    y = conv_reference.conv(np, w, exact_x, exact_kernel, groups) + bias.astype("float64")
    exact = [
        np.maximum(y, 0),
        conv_reference.conv_input_gradient(np, w, exact_g, exact_kernel, groups),
        conv_reference.conv_kernel_gradient(np, w, exact_x, exact_g, groups),
    ]
    results = [
        unusual(conv_tuned.forward(w, x, kernel, bias, True, groups)),
        unusual(conv_tuned.input_gradient(w, g, kernel, groups)),
        unusual(conv_tuned.kernel_gradient(w, x, g, groups)),
    ]
    for result, right in zip(results, exact, strict=True):
        assert result.dtype == x.dtype
        assert result.shape == right.shape
        limit = 2**-8 * np.abs(right) + 2e-5 * np.abs(right).max()
        assert (np.abs(result.astype("float64") - right) <= limit).all()


def test_bfloat16_that_is_not_finite(eager, rng):
    w, x, kernel, g = arrays(CASES[15], rng)
    x, kernel, g = (a.astype(ml_dtypes.bfloat16) for a in (x, kernel, g))
    x[1, 4, 4, 3] = np.nan
    y = conv_tuned.forward(w, x, kernel, None, False, 1)
    seen = np.zeros(y.shape[:3], bool)
    seen[1, 3:6, 3:6] = True
    np.testing.assert_array_equal(np.isnan(y.astype("float32")).all(-1), seen)
    np.testing.assert_array_equal(np.isnan(y.astype("float32")).any(-1), seen)
    kernel[0, 0, 0, 0] = np.inf
    assert conv_tuned.input_gradient(w, g, kernel, 1) is None
    assert conv_tuned.forward(w, x, kernel.astype("float32"), None, False, 1) is None
