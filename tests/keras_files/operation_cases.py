"""A functional model for each operation of `keras.ops`, made alike by trainkit and by Keras.

A case has the inputs of a model and a function from `ops` and their symbols to the output. The
inputs are letters: `x`, `y` floats of shape (3, 4), `p`, `q` positive ones below 1, `m` a
symmetric matrix (3, 3), `i`, `j` integers of shape (3,), `n` small integers of shape (3, 4), `b`
bools, `s` images (8, 8, 2), `t` texts of numbers (3, 4) for one-hot, `v` floats of shape (12,).
All have a batch axis before.
"""

import numpy as np

SHAPES = {
    "x": ((3, 4), "float32"),
    "y": ((3, 4), "float32"),
    "p": ((3, 4), "float32"),
    "q": ((3, 4), "float32"),
    "m": ((3, 3), "float32"),
    "i": ((3,), "int32"),
    "j": ((3,), "int32"),
    "n": ((3, 4), "int32"),
    "k": ((3, 4), "int32"),
    "b": ((3, 4), "bool"),
    "c": ((3, 4), "bool"),
    "s": ((8, 8, 2), "float32"),
    "v": ((12,), "float32"),
}


def data(letter, batch=2, seed=0):
    """Values for an input."""
    rng = np.random.default_rng([seed, ord(letter)])
    shape, dtype = SHAPES[letter]
    shape = (batch, *shape)
    if letter in "pq":
        return rng.uniform(0.1, 0.9, shape).astype(dtype)
    if letter == "m":
        a = rng.normal(size=shape)
        return (a @ np.swapaxes(a, -1, -2) + 3 * np.eye(3)).astype(dtype)
    if dtype == "int32":
        return rng.integers(1, 4, shape).astype(dtype)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    return rng.normal(size=shape).astype(dtype)


UNARY = """abs absolute arcsinh arctan cbrt ceil conj conjugate cos cosh deg2rad exp exp2 expm1 fabs
floor negative rad2deg real reciprocal round sign signbit sin sinc sinh square tan
tanh trunc isfinite isinf isnan isneginf isposinf isreal copy i0 angle imag celu elu gelu
hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax relu
relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid sparsemax
squareplus swish tanh_shrink glu erf erfc logsumexp all any amax amin argmax argmin argsort sort
average count_nonzero diagflat fliplr flipud flip max mean median min nanargmax nanargmin nanmax
nanmean nanmedian nanmin nanprod nanstd nansum nanvar nancumsum nancumprod nan_to_num prod ptp ravel
std sum var cumsum cumprod ones_like zeros_like stop_gradient norm transpose squeeze tril
triu diff trapezoid normalize rms_normalization layer_normalization""".split()
BINARY = """add subtract multiply divide divide_no_nan true_divide maximum minimum fmax fmin fmod
mod floor_divide arctan2 equal not_equal greater greater_equal less less_equal hypot heaviside
logaddexp logaddexp2 nextafter isclose append allclose vdot outer kron""".split()
POSITIVE = """arccos arcsin arctanh erfinv log log10 log1p log2 sqrt rsqrt""".split()
LOGICAL = "logical_and logical_or logical_xor".split()
INTEGER = """bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift left_shift
right_shift gcd lcm""".split()
REDUCTIONS = """all any amax amin max mean median min nanmax nanmean nanmedian nanmin nanprod nanstd
nansum nanvar prod ptp std sum var logsumexp norm""".split()


def _cases():
    for name in UNARY:
        yield name, "x", lambda o, x, n=name: getattr(o, n)(x)
    for name in POSITIVE:
        yield name, "p", lambda o, x, n=name: getattr(o, n)(x)
    for name in BINARY:
        yield name, "xy", lambda o, x, y, n=name: getattr(o, n)(x, y)
        if name not in ("append", "allclose", "vdot", "outer", "kron", "hypot", "heaviside"):
            yield f"{name} of a number", "x", lambda o, x, n=name: getattr(o, n)(x, 2.0)
            yield f"{name} after a number", "x", lambda o, x, n=name: getattr(o, n)(2.0, x)
    for name in LOGICAL:
        yield name, "bc", lambda o, x, y, n=name: getattr(o, n)(x, y)
    for name in INTEGER:
        yield name, "nk", lambda o, x, y, n=name: getattr(o, n)(x, y)
    for name in REDUCTIONS:
        yield (
            f"{name} of an axis",
            "x",
            lambda o, x, n=name: getattr(o, n)(x, axis=-1, keepdims=True),
        )
        if name != "norm":
            yield f"{name} of axes", "x", lambda o, x, n=name: getattr(o, n)(x, axis=(1, 2))
    yield from MORE
    yield from OPERATORS


MORE = [
    ("logical_not", "b", lambda o, x: o.logical_not(x)),
    ("bitwise_not", "n", lambda o, x: o.bitwise_not(x)),
    ("bitwise_invert", "n", lambda o, x: o.bitwise_invert(x)),
    ("abs of integers", "n", lambda o, x: o.abs(x)),
    ("arccosh", "p", lambda o, x: o.arccosh(x + 1.5)),
    ("power", "pq", lambda o, x, y: o.power(x, y)),
    ("power of a number", "p", lambda o, x: o.power(x, 2)),
    ("adaptive_average_pool", "s", lambda o, x: o.adaptive_average_pool(x, (3, 3))),
    ("adaptive_max_pool", "s", lambda o, x: o.adaptive_max_pool(x, (2, 3))),
    ("argmax of an axis", "x", lambda o, x: o.argmax(x, axis=-1)),
    ("argmax keepdims", "x", lambda o, x: o.argmax(x, axis=1, keepdims=True)),
    ("argmin of an axis", "x", lambda o, x: o.argmin(x, axis=-1)),
    ("argsort of an axis", "x", lambda o, x: o.argsort(x, axis=1)),
    ("sort of an axis", "x", lambda o, x: o.sort(x, axis=1)),
    ("argpartition", "x", lambda o, x: o.argpartition(x, 1)),
    ("array", "x", lambda o, x: o.array(x)),
    ("array_split", "x", lambda o, x: o.array_split(x, 3, axis=-1)),
    ("average weighted", "xp", lambda o, x, w: o.average(x, axis=-1, weights=w)),
    ("average of an axis", "x", lambda o, x: o.average(x, axis=1)),
    ("average_pool", "s", lambda o, x: o.average_pool(x, (2, 2))),
    ("average_pool same", "s", lambda o, x: o.average_pool(x, (3, 2), (2, 1), "same")),
    ("max_pool", "s", lambda o, x: o.max_pool(x, (2, 2))),
    ("max_pool same", "s", lambda o, x: o.max_pool(x, 3, 2, padding="same")),
    (
        "batch_normalization",
        "x",
        lambda o, x: o.batch_normalization(
            x, np.zeros(4, "float32"), np.ones(4, "float32"), axis=-1
        ),
    ),
    (
        "batch_normalization scaled",
        "x",
        lambda o, x: o.batch_normalization(
            x,
            np.ones(4, "float32"),
            np.full(4, 2, "float32"),
            -1,
            np.ones(4, "float32"),
            np.full(4, 3, "float32"),
            1e-2,
        ),
    ),
    ("binary_crossentropy", "pq", lambda o, x, y: o.binary_crossentropy(x, y)),
    ("binary_crossentropy of logits", "px", lambda o, x, y: o.binary_crossentropy(x, y, True)),
    ("categorical_crossentropy", "pq", lambda o, x, y: o.categorical_crossentropy(x, y)),
    (
        "categorical_crossentropy of logits",
        "px",
        lambda o, x, y: o.categorical_crossentropy(x, y, from_logits=True),
    ),
    (
        "sparse_categorical_crossentropy",
        "ip",
        lambda o, x, y: o.sparse_categorical_crossentropy(x, y),
    ),
    (
        "sparse_categorical_crossentropy of logits",
        "ix",
        lambda o, x, y: o.sparse_categorical_crossentropy(x, y, from_logits=True),
    ),
    ("bincount", "i", lambda o, x: o.bincount(x, minlength=5)),
    ("broadcast_to", "x", lambda o, x: o.broadcast_to(x[:, :1], (2, 3, 4))),
    ("cast", "x", lambda o, x: o.cast(x, "int32")),
    ("cast to float16", "x", lambda o, x: o.cast(x, "float16")),
    ("saturate_cast", "x", lambda o, x: o.saturate_cast(x, "uint8")),
    ("cdist", "xy", lambda o, x, y: o.cdist(x, y)),
    ("cholesky", "m", lambda o, x: o.cholesky(x)),
    ("cholesky upper", "m", lambda o, x: o.cholesky(x, upper=True)),
    ("cholesky_inverse", "m", lambda o, x: o.cholesky_inverse(o.cholesky(x))),
    ("clip", "x", lambda o, x: o.clip(x, -0.5, 0.5)),
    ("concatenate", "xy", lambda o, x, y: o.concatenate([x, y], axis=-1)),
    ("stack", "xy", lambda o, x, y: o.stack([x, y], axis=1)),
    ("hstack", "xy", lambda o, x, y: o.hstack([x, y])),
    ("vstack", "xy", lambda o, x, y: o.vstack([x, y])),
    ("dstack", "xy", lambda o, x, y: o.dstack([x, y])),
    ("conv", "s", lambda o, x: o.conv(x, np.ones((3, 3, 2, 4), "float32"), 2, "same")),
    (
        "conv dilated",
        "s",
        lambda o, x: o.conv(x, np.ones((3, 3, 2, 4), "float32"), dilation_rate=2),
    ),
    (
        "conv_transpose",
        "s",
        lambda o, x: o.conv_transpose(
            x, np.ones((3, 3, 4, 2), "float32"), 2, "same", data_format="channels_last"
        ),
    ),
    (
        "conv_transpose valid",
        "s",
        lambda o, x: o.conv_transpose(
            x, np.ones((2, 3, 4, 2), "float32"), (2, 3), data_format="channels_last"
        ),
    ),
    ("depthwise_conv", "s", lambda o, x: o.depthwise_conv(x, np.ones((3, 3, 2, 2), "float32"))),
    (
        "separable_conv",
        "s",
        lambda o, x: o.separable_conv(
            x, np.ones((3, 3, 2, 2), "float32"), np.ones((1, 1, 4, 3), "float32")
        ),
    ),
    ("corrcoef", "v", lambda o, x: o.corrcoef(x)),
    ("correlate", "v", lambda o, x: o.correlate(x[0], x[1], "same")),
    ("cross", "m", lambda o, x: o.cross(x[:, 0], x[:, 1])),
    (
        "ctc_loss",
        "jxii",
        lambda o, t, x, a, b: o.ctc_loss(t[:, :2], x, a[:, 0] * 0 + 2, a[:, 0] * 0 + 3),
    ),
    ("ctc_decode", "xi", lambda o, x, i: o.ctc_decode(x, i[:, 0])),
    ("cumsum of an axis", "x", lambda o, x: o.cumsum(x, axis=1)),
    ("cumsum as float16", "x", lambda o, x: o.cumsum(x, axis=1, dtype="float16")),
    ("cumprod of an axis", "x", lambda o, x: o.cumprod(x, axis=-1)),
    ("depth_to_space", "s", lambda o, x: o.depth_to_space(o.concatenate([x, x], -1), 2)),
    ("space_to_depth", "s", lambda o, x: o.space_to_depth(x, 2)),
    ("det", "m", lambda o, x: o.det(x)),
    ("slogdet", "m", lambda o, x: o.slogdet(x)),
    ("logdet", "m", lambda o, x: o.logdet(x)),
    ("inv", "m", lambda o, x: o.inv(x)),
    ("pinv", "m", lambda o, x: o.pinv(x)),
    ("eigh", "m", lambda o, x: o.eigh(x)[0]),
    ("eig", "m", lambda o, x: o.real(o.sum(o.eig(x)[0], axis=-1))),
    ("qr", "m", lambda o, x: o.abs(o.qr(x)[1])),
    ("svd", "m", lambda o, x: o.svd(x)[1]),
    ("svd values", "m", lambda o, x: o.svd(x, compute_uv=False)),
    ("lu_factor", "m", lambda o, x: o.lu_factor(x)),
    ("solve", "m", lambda o, x: o.solve(x, x[:, :, :2])),
    ("solve_triangular", "m", lambda o, x: o.solve_triangular(o.tril(x), x[:, :, :2], lower=True)),
    ("lstsq", "m", lambda o, x: o.lstsq(x[0], x[0, :, 0])),
    ("matrix_rank", "m", lambda o, x: o.matrix_rank(x)),
    ("norm of order 1", "x", lambda o, x: o.norm(x, ord=1, axis=-1)),
    ("norm fro", "x", lambda o, x: o.norm(x, ord="fro", axis=(1, 2))),
    ("norm nuc", "x", lambda o, x: o.norm(x, ord="nuc", axis=(1, 2))),
    ("norm inf", "x", lambda o, x: o.norm(x, ord=float("inf"), axis=-1)),
    ("diag", "v", lambda o, x: o.diag(x[0], 1)),
    ("diagonal", "x", lambda o, x: o.diagonal(x, 1, axis1=1, axis2=2)),
    ("trace", "x", lambda o, x: o.trace(x, axis1=1, axis2=2)),
    ("diff of an axis", "x", lambda o, x: o.diff(x, n=2, axis=-1)),
    ("digitize", "x", lambda o, x: o.digitize(x, np.array([-0.5, 0.0, 0.5]))),
    ("dot", "x", lambda o, x: o.dot(x, np.ones((4, 2), "float32"))),
    ("inner", "x", lambda o, x: o.inner(x, x[0])),
    ("tensordot", "xy", lambda o, x, y: o.tensordot(x, y, axes=[[1, 2], [1, 2]])),
    ("tensordot of 2", "xy", lambda o, x, y: o.tensordot(x[0], y[0], axes=2)),
    ("matmul", "xm", lambda o, x, m: o.matmul(m, x)),
    ("matmul of an array", "x", lambda o, x: o.matmul(x, np.ones((4, 2), "float32"))),
    ("einsum", "xy", lambda o, x, y: o.einsum("bij,bkj->bik", x, y)),
    ("dot_product_attention", "s", lambda o, x: o.dot_product_attention(x, x, x)),
    (
        "dot_product_attention causal",
        "s",
        lambda o, x: o.dot_product_attention(x, x, x, scale=0.5, is_causal=True),
    ),
    ("dsplit", "x", lambda o, x: o.dsplit(x, 2)),
    ("hsplit", "x", lambda o, x: o.hsplit(x, 3)),
    ("vsplit", "x", lambda o, x: o.vsplit(x, [1])),
    ("split", "x", lambda o, x: o.split(x, 2, axis=-1)),
    ("split at", "x", lambda o, x: o.split(x, [1, 3], axis=-1)),
    ("unstack", "x", lambda o, x: o.unstack(x, axis=1)),
    ("empty_like", "x", lambda o, x: o.empty_like(x) * 0),
    ("full_like", "x", lambda o, x: o.full_like(x, 3.0)),
    ("full_like of integers", "x", lambda o, x: o.full_like(x, 3, dtype="int32")),
    ("ones_like of integers", "x", lambda o, x: o.ones_like(x, dtype="int32")),
    ("zeros_like of integers", "x", lambda o, x: o.zeros_like(x, dtype="int32")),
    ("expand_dims", "x", lambda o, x: o.expand_dims(x, 1)),
    ("expand_dims of two", "x", lambda o, x: o.expand_dims(x, (1, -1))),
    ("squeeze of an axis", "x", lambda o, x: o.squeeze(x[:, :1], axis=1)),
    ("extract_sequences", "v", lambda o, x: o.extract_sequences(x, 4, 2)),
    ("fft", "xy", lambda o, x, y: o.fft((x, y))),
    ("fft2", "xy", lambda o, x, y: o.fft2((x, y))),
    ("ifft2", "xy", lambda o, x, y: o.ifft2((x, y))),
    ("rfft", "v", lambda o, x: o.rfft(x)),
    ("rfft of a length", "v", lambda o, x: o.rfft(x, 8)),
    ("irfft", "xy", lambda o, x, y: o.irfft((x, y))),
    ("stft", "v", lambda o, x: o.stft(x, 4, 2, 4)),
    ("istft", "v", lambda o, x: o.istft(o.stft(x, 4, 2, 4), 4, 2, 4)),
    ("flip of an axis", "x", lambda o, x: o.flip(x, axis=1)),
    (
        "fold",
        "s",
        lambda o, x: o.fold(
            o.unfold(o.transpose(x, (0, 3, 1, 2)), 2, stride=2), (8, 8), 2, stride=2
        ),
    ),
    ("unfold", "s", lambda o, x: o.unfold(o.transpose(x, (0, 3, 1, 2)), 2)),
    ("gelu exact", "x", lambda o, x: o.gelu(x, approximate=False)),
    ("get_item", "x", lambda o, x: o.get_item(x, (slice(None), 1))),
    ("glu of an axis", "x", lambda o, x: o.glu(x[:, :2], axis=1)),
    ("histogram", "v", lambda o, x: o.histogram(x[0], bins=4, range=(-1.0, 1.0))),
    ("in_top_k", "ix", lambda o, i, x: o.in_top_k(i[:, 0], x[:, 0], 2)),
    ("isin", "n", lambda o, x: o.isin(x, np.array([1, 2], "int32"))),
    ("ldexp", "xn", lambda o, x, n: o.ldexp(x, n)),
    ("leaky_relu of a slope", "x", lambda o, x: o.leaky_relu(x, 0.3)),
    ("log_softmax of an axis", "x", lambda o, x: o.log_softmax(x, axis=1)),
    ("softmax of an axis", "x", lambda o, x: o.softmax(x, axis=1)),
    ("softmax of axes", "x", lambda o, x: o.softmax(x, axis=(1, 2))),
    ("max initial", "x", lambda o, x: o.max(x, axis=1, initial=0.0)),
    ("min initial", "x", lambda o, x: o.min(x, axis=1, initial=0.0)),
    ("prod as float16", "x", lambda o, x: o.prod(x, axis=1, dtype="float16")),
    ("mean of integers", "n", lambda o, x: o.mean(x, axis=1)),
    ("meshgrid", "v", lambda o, x: o.meshgrid(x[0], x[1])),
    ("moments", "x", lambda o, x: o.moments(x, axes=[1])),
    ("moveaxis", "x", lambda o, x: o.moveaxis(x, 1, -1)),
    ("swapaxes", "x", lambda o, x: o.swapaxes(x, 1, 2)),
    ("transpose of axes", "x", lambda o, x: o.transpose(x, (0, 2, 1))),
    ("multi_hot", "n", lambda o, x: o.multi_hot(x, 5)),
    ("one_hot", "n", lambda o, x: o.one_hot(x, 5)),
    ("one_hot of an axis", "n", lambda o, x: o.one_hot(x, 5, axis=1, dtype="int32")),
    ("nanquantile", "x", lambda o, x: o.nanquantile(x, 0.3, axis=1)),
    ("nanpercentile", "x", lambda o, x: o.nanpercentile(x, 30.0, axis=1)),
    ("quantile", "x", lambda o, x: o.quantile(x, 0.3, axis=1)),
    ("quantile of several", "x", lambda o, x: o.quantile(x, [0.3, 0.5], axis=1)),
    ("percentile", "x", lambda o, x: o.percentile(x, 30.0, axis=1)),
    ("nonzero", "v", lambda o, x: o.nonzero(x[0])[0]),
    ("normalize of an order", "x", lambda o, x: o.normalize(x, axis=1, order=1)),
    ("pad", "x", lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1)))),
    ("pad of a value", "x", lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=2.0)),
    ("pad reflect", "x", lambda o, x: o.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect")),
    ("polar", "px", lambda o, p, x: o.real(o.polar(p, x))),
    ("view_as_complex", "x", lambda o, x: o.real(o.view_as_complex(x[:, :, :2]))),
    ("view_as_real", "px", lambda o, p, x: o.view_as_real(o.polar(p, x))),
    ("psnr", "pq", lambda o, x, y: o.psnr(x, y, 1.0)),
    ("rearrange", "x", lambda o, x: o.rearrange(x, "b h (w c) -> b c (h w)", c=2)),
    ("repeat", "x", lambda o, x: o.repeat(x, 2, axis=1)),
    ("reshape", "x", lambda o, x: o.reshape(x, (-1, 6))),
    (
        "rms_normalization scaled",
        "x",
        lambda o, x: o.rms_normalization(x, np.full(4, 2, "float32"), epsilon=1e-3),
    ),
    (
        "layer_normalization scaled",
        "x",
        lambda o, x: o.layer_normalization(
            x, np.full(4, 2, "float32"), np.ones(4, "float32"), epsilon=1e-3
        ),
    ),
    ("roll", "x", lambda o, x: o.roll(x, 1, axis=1)),
    ("rot90", "x", lambda o, x: o.rot90(x, axes=(1, 2))),
    ("round to decimals", "x", lambda o, x: o.round(x, 1)),
    ("scatter", "iv", lambda o, i, v: o.scatter(i[:, :1], v[:, 0], (5,))),
    (
        "scatter_update",
        "v",
        lambda o, x: o.scatter_update(x, np.array([[0, 1]]), np.array([3.0], "float32")),
    ),
    ("searchsorted", "v", lambda o, x: o.searchsorted(np.array([-0.5, 0.0, 0.5], "float32"), x)),
    ("segment_sum", "vi", lambda o, v, i: o.segment_sum(v, i[:, 0], 4)),
    ("segment_max", "vi", lambda o, v, i: o.maximum(o.segment_max(v, i[:, 0], 4), -9)),
    ("segment_min", "vi", lambda o, v, i: o.minimum(o.segment_min(v, i[:, 0], 4), 9)),
    ("segment_prod", "vi", lambda o, v, i: o.segment_prod(v, i[:, 0], 4)),
    ("select", "bx", lambda o, b, x: o.select([b], [x], 2.0)),
    ("select of two", "bcxy", lambda o, b, c, x, y: o.select([b, c], [x, y])),
    ("size", "x", lambda o, x: x * o.size(x[0])),
    ("shape", "x", lambda o, x: o.reshape(x, (o.shape(x)[0], -1))),
    ("slice", "x", lambda o, x: o.slice(x, (0, 1, 1), (2, 2, 2))),
    ("slice_update", "x", lambda o, x: o.slice_update(x, (0, 1, 1), x[:, :1, :1])),
    ("take", "x", lambda o, x: o.take(x, np.array([0, 2]), axis=1)),
    ("take of a symbol", "i", lambda o, i: o.take(np.arange(12.0, dtype="float32"), i)),
    ("take_along_axis", "xn", lambda o, x, n: o.take_along_axis(x, n - 1, axis=1)),
    ("threshold", "x", lambda o, x: o.threshold(x, 0.1, 5.0)),
    ("tile", "x", lambda o, x: o.tile(x, (1, 2, 1))),
    ("top_k", "x", lambda o, x: o.top_k(x, 2)),
    ("trapezoid spaced", "x", lambda o, x: o.trapezoid(x, dx=2.0, axis=1)),
    ("tril below", "x", lambda o, x: o.tril(x, -1)),
    ("triu above", "x", lambda o, x: o.triu(x, 1)),
    ("unravel_index", "i", lambda o, i: o.unravel_index(i, (2, 4))[1]),
    ("unique", "n", lambda o, x: o.unique(x, size=4, fill_value=0)),
    ("vander", "v", lambda o, x: o.vander(x[0], 3)),
    ("view", "n", lambda o, x: o.view(x, "float32")),
    ("where", "bxy", lambda o, b, x, y: o.where(b, x, y)),
    ("where of numbers", "bx", lambda o, b, x: o.where(b, x, 0.0)),
    ("celu of alpha", "x", lambda o, x: o.celu(x, 0.5)),
    ("elu of alpha", "x", lambda o, x: o.elu(x, 0.5)),
    ("squareplus of b", "x", lambda o, x: o.squareplus(x, 2)),
    ("hard_shrink of a threshold", "x", lambda o, x: o.hard_shrink(x, 0.2)),
    ("soft_shrink of a threshold", "x", lambda o, x: o.soft_shrink(x, 0.2)),
    ("sparsemax of an axis", "x", lambda o, x: o.sparsemax(x, axis=1)),
    ("count_nonzero of an axis", "n", lambda o, x: o.count_nonzero(x - 1, axis=1)),
    ("linspace", "xy", lambda o, x, y: o.linspace(x, y, 4)),
    ("logspace", "pq", lambda o, x, y: o.logspace(x, y, 4)),
    ("geomspace", "pq", lambda o, x, y: o.geomspace(x, y, 4)),
    ("image resize", "s", lambda o, x: o.image.resize(x, (4, 5))),
    (
        "image rgb_to_grayscale",
        "s",
        lambda o, x: o.image.rgb_to_grayscale(o.concatenate([x, x[..., :1]], -1)),
    ),
    (
        "image rgb_to_hsv",
        "s",
        lambda o, x: o.image.rgb_to_hsv(o.sigmoid(o.concatenate([x, x[..., :1]], -1))),
    ),
    (
        "image hsv_to_rgb",
        "s",
        lambda o, x: o.image.hsv_to_rgb(o.sigmoid(o.concatenate([x, x[..., :1]], -1))),
    ),
    (
        "image affine_transform",
        "s",
        lambda o, x: o.image.affine_transform(x, np.array([1, 0, 1, 0, 1, 0, 0, 0], "float32")),
    ),
    ("image extract_patches", "s", lambda o, x: o.image.extract_patches(x, (2, 2))),
    ("image pad_images", "s", lambda o, x: o.image.pad_images(x, 1, 2, 1, 1)),
    (
        "image crop_images",
        "s",
        lambda o, x: o.image.crop_images(x, 1, 2, target_height=4, target_width=4),
    ),
    ("image gaussian_blur", "s", lambda o, x: o.image.gaussian_blur(x)),
    ("image sobel_edges", "s", lambda o, x: o.image.sobel_edges(x)),
    ("image ssim", "s", lambda o, x: o.image.ssim(x, o.flip(x, 1), 4.0, filter_size=5)),
    (
        "image extract_patches_3d",
        "s",
        lambda o, x: o.image.extract_patches_3d(o.expand_dims(x, 1), (1, 2, 2)),
    ),
    (
        "image scale_and_translate",
        "s",
        lambda o, x: o.image.scale_and_translate(
            x,
            (2, 6, 5, 2),
            np.array([0.5, 1.5], "float32"),
            np.array([1.0, -0.5], "float32"),
            (1, 2),
            "linear",
        ),
    ),
    (
        "image map_coordinates",
        "v",
        lambda o, x: o.image.map_coordinates(x, np.array([[0.0, 1.0], [0.5, 1.5]], "float32"), 1),
    ),
    (
        "image perspective_transform",
        "s",
        lambda o, x: o.image.perspective_transform(
            x,
            np.array([[0, 0], [0, 7], [7, 0], [7, 7]], "float32"),
            np.array([[1, 0], [0, 6], [7, 1], [6, 7]], "float32"),
        ),
    ),
]
OPERATORS = [
    ("x + 1", "x", lambda o, x: x + 1),
    ("1 - x", "x", lambda o, x: 1 - x),
    ("x / y", "xy", lambda o, x, y: x / y),
    ("x // 2", "x", lambda o, x: x // 2),
    ("x % 2", "x", lambda o, x: x % 2),
    ("x ** 2", "x", lambda o, x: x**2),
    ("2 ** x", "x", lambda o, x: 2**x),
    ("-x", "x", lambda o, x: -x),
    ("abs(x)", "x", lambda o, x: abs(x)),
    ("x @ m", "m", lambda o, x: x @ x),
    ("x == y", "nk", lambda o, x, y: x == y),
    ("x != y", "nk", lambda o, x, y: x != y),
    ("x < 0", "x", lambda o, x: x < 0),
    ("x >= 0", "x", lambda o, x: x >= 0),
    ("b & c", "bc", lambda o, x, y: x & y),
    ("b | c", "bc", lambda o, x, y: x | y),
    ("b ^ c", "bc", lambda o, x, y: x ^ y),
    ("~b", "b", lambda o, x: ~x),
    ("n << k", "nk", lambda o, x, y: x << y),
    ("n >> 1", "n", lambda o, x: x >> 1),
    ("x[:, 1:]", "x", lambda o, x: x[:, 1:]),
    ("x[:, 0]", "x", lambda o, x: x[:, 0]),
    ("x[..., -1]", "x", lambda o, x: x[..., -1]),
    ("x[:, None, ::2]", "x", lambda o, x: x[:, None, ::2]),
    ("x[0]", "x", lambda o, x: x[0]),
    ("x + array", "x", lambda o, x: x + np.arange(4, dtype="float32")),
    ("array * x", "x", lambda o, x: o.multiply(np.arange(4, dtype="float32"), x)),
    ("a reused operation", "x", lambda o, x: (x + 1) * (x + 1)),
    ("a branch", "xy", lambda o, x, y: o.relu(x) + o.exp(-y) * o.mean(x, axis=-1, keepdims=True)),
]

NOT_IN_KERAS = frozenset(
    {
        "argpartition",  # any partition is right
        "average_pool same",
        "conv_transpose",
        "conv_transpose valid",
        "histogram",
        "image sobel_edges",  # JAX has zeros around the image, TensorFlow and trainkit reflect it
        "nanmedian of axes",
        "percentile",
        "quantile",
        "quantile of several",
    }
)
"""Cases whose own files Keras 3.15 on JAX can't run either, or that have several right results."""

CASES = {name: (letters, call) for name, letters, call in _cases()}


def model_of(lib, name, batch=2):
    """The model of a case, made by `trainkit.keras` or by Keras; of any batch for `None`."""
    letters, call = CASES[name]
    symbols = [
        lib.Input(
            SHAPES[letter][0], dtype=SHAPES[letter][1], batch_size=batch, name=f"in{n}{letter}"
        )
        for n, letter in enumerate(letters)
    ]
    return lib.Model(symbols, call(lib.ops, *symbols))


def inputs_of(name):
    """What the model of a case is called with."""
    return [data(letter, seed=n) for n, letter in enumerate(CASES[name][0])]
