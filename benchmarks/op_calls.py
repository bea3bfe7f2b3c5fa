"""Calls of single operations by trainkit and by PyTorch, on square matrices: a table.

Each row names an operation, its operands, one letter each, and the call by either.
"""

from typing import Any

from op_operands import Call, same, up_to_512
from rarer_calls import RARER_CALLS, RARER_DIFFERENTIATED, one_hot

_ARITHMETIC = [
    same("add", "xy", lambda m, x, y: m.add(x, y)),
    same("x - y", "xy", lambda m, x, y: x - y),
    same("multiply", "xy", lambda m, x, y: x * y),
    same("divide", "xy", lambda m, x, y: x / y),
    same("x + row", "xv", lambda m, x, v: x + v),
    same("x * 2.0", "x", lambda m, x: x * 2.0),
    same("1.0 - x", "x", lambda m, x: 1.0 - x),
    same("1.0 / x", "x", lambda m, x: 1.0 / x),
    same("x % y", "xy", lambda m, x, y: x % y),
    same("x // y", "xy", lambda m, x, y: x // y),
    same("x % 0.3", "x", lambda m, x: x % 0.3),
    same("x // 0.3", "x", lambda m, x: x // 0.3),
    same("negative", "x", lambda m, x: -x),
    same("abs", "n", lambda m, x: m.abs(x)),
    same("square", "x", lambda m, x: m.square(x)),
    same("sqrt", "x", lambda m, x: m.sqrt(x)),
    Call("rsqrt", "x", lambda m, x: m.math.rsqrt(x), lambda m, x: m.rsqrt(x)),
    Call("reciprocal", "x", lambda m, x: m.math.reciprocal(x), lambda m, x: m.reciprocal(x)),
    same("power of 3.0", "x", lambda m, x: x**3.0),
    same("power of 2", "x", lambda m, x: x**2),
    same("power of 0.5", "x", lambda m, x: x**0.5),
    same("power of 2.5", "x", lambda m, x: x**2.5),
    same("x ** y", "xy", lambda m, x, y: x**y),
    same("sign", "n", lambda m, x: m.sign(x)),
    same("floor", "n", lambda m, x: m.floor(x)),
    Call("ceil", "n", lambda m, x: m.math.ceil(x), lambda m, x: m.ceil(x)),
    same("round", "n", lambda m, x: m.round(x)),
    same("maximum", "xy", lambda m, x, y: m.maximum(x, y)),
    same("minimum", "xy", lambda m, x, y: m.minimum(x, y)),
    Call("maximum of 0.5", "x", lambda m, x: m.maximum(x, 0.5), lambda m, x: m.clamp_min(x, 0.5)),
    Call("clip", "x", lambda m, x: m.clip_by_value(x, 0.2, 0.8), lambda m, x: m.clamp(x, 0.2, 0.8)),
    Call(
        "squared difference",
        "xy",
        lambda m, x, y: m.math.squared_difference(x, y),
        lambda m, x, y: (x - y).square(),
    ),
    Call("add of three", "xyz", lambda m, *xs: m.add_n(list(xs)), lambda m, x, y, z: x + y + z),
]

_FUNCTIONS = [
    same("exp", "n", lambda m, x: m.exp(x)),
    Call("expm1", "n", lambda m, x: m.math.expm1(x), lambda m, x: m.expm1(x)),
    Call("log", "x", lambda m, x: m.math.log(x), lambda m, x: m.log(x)),
    Call("log1p", "x", lambda m, x: m.math.log1p(x), lambda m, x: m.log1p(x)),
    Call("log2", "x", lambda m, x: m.ops.log2(x), lambda m, x: m.log2(x)),
    Call("log10", "x", lambda m, x: m.ops.log10(x), lambda m, x: m.log10(x)),
    same("sin", "n", lambda m, x: m.sin(x)),
    same("cos", "n", lambda m, x: m.cos(x)),
    same("tan", "n", lambda m, x: m.tan(x)),
    same("asin", "x", lambda m, x: m.asin(x)),
    same("acos", "x", lambda m, x: m.acos(x)),
    same("atan", "n", lambda m, x: m.atan(x)),
    Call("atan2", "xn", lambda m, x, y: m.math.atan2(x, y), lambda m, x, y: m.atan2(x, y)),
    same("sinh", "n", lambda m, x: m.sinh(x)),
    same("cosh", "n", lambda m, x: m.cosh(x)),
    same("tanh", "n", lambda m, x: m.tanh(x)),
    Call("asinh", "n", lambda m, x: m.math.asinh(x), lambda m, x: m.asinh(x)),
    Call("atanh", "x", lambda m, x: m.math.atanh(x), lambda m, x: m.atanh(x)),
    Call("erf", "n", lambda m, x: m.math.erf(x), lambda m, x: m.erf(x)),
    Call("lgamma", "x", lambda m, x: m.math.lgamma(x), lambda m, x: m.lgamma(x), 512),
    Call("digamma", "x", lambda m, x: m.math.digamma(x), lambda m, x: m.digamma(x), 512),
    Call(
        "logaddexp", "xy", lambda m, x, y: m.ops.logaddexp(x, y), lambda m, x, y: m.logaddexp(x, y)
    ),
]

_COMPARISONS = [
    same("x > 0.5", "x", lambda m, x: x > 0.5),
    same("x < y", "xy", lambda m, x, y: x < y),
    same("x == y", "xy", lambda m, x, y: x == y),
    same("x != y", "xy", lambda m, x, y: x != y),
    Call("isnan", "x", lambda m, x: m.math.is_nan(x), lambda m, x: m.isnan(x)),
    Call("isfinite", "x", lambda m, x: m.math.is_finite(x), lambda m, x: m.isfinite(x)),
    same("logical_and", "mm", lambda m, x, y: m.logical_and(x, y)),
    same("logical_not", "m", lambda m, x: m.logical_not(x)),
    same("where", "mxy", lambda m, c, x, y: m.where(c, x, y)),
    same("where, 0.0", "mx", lambda m, c, x: m.where(c, x, 0.0)),
]

_INTEGERS = [
    same("i + j", "ij", lambda m, i, j: i + j),
    same("i * j", "ij", lambda m, i, j: i * j),
    same("i // j", "ij", lambda m, i, j: i // j),
    same("i % j", "ij", lambda m, i, j: i % j),
    same("i // 3", "i", lambda m, i: i // 3),
    same("i % 3", "i", lambda m, i: i % 3),
    same("i == 3", "i", lambda m, i: i == 3),
    Call(
        "i & j",
        "ij",
        lambda m, i, j: m.bitwise.bitwise_and(i, j),
        lambda m, i, j: m.bitwise_and(i, j),
    ),
    Call("sum of i", "i", lambda m, i: m.reduce_sum(i), lambda m, i: m.sum(i)),
    Call("cast to int32", "x", lambda m, x: m.cast(x, "int32"), lambda m, x: x.to(m.int32)),
    Call("cast to float32", "i", lambda m, i: m.cast(i, "float32"), lambda m, i: i.to(m.float32)),
    Call("cast to float64", "x", lambda m, x: m.cast(x, "float64"), lambda m, x: x.to(m.float64)),
    Call("cast of bool", "m", lambda m, x: m.cast(x, "float32"), lambda m, x: x.to(m.float32)),
    Call(
        "cast to bfloat16", "x", lambda m, x: m.cast(x, "bfloat16"), lambda m, x: x.to(m.bfloat16)
    ),
]


def _functional(name: str, ours: str = "", theirs: str = "", **settings: Any) -> Call:
    """A row of an activation."""
    return Call(
        name,
        "n",
        lambda m, x: getattr(m.nn, ours or name)(x),
        lambda m, x: getattr(m.nn.functional, theirs or name)(x, **settings),
        2048,
    )


_ACTIVATIONS = [
    same("sigmoid", "n", lambda m, x: m.sigmoid(x)),
    _functional("relu"),
    _functional("relu6"),
    _functional("leaky_relu", negative_slope=0.2),
    _functional("elu"),
    _functional("selu"),
    _functional("gelu"),
    Call(
        "gelu by tanh",
        "n",
        lambda m, x: m.nn.gelu(x, approximate=True),
        lambda m, x: m.nn.functional.gelu(x, approximate="tanh"),
    ),
    _functional("silu"),
    _functional("softplus"),
    _functional("softsign"),
    Call(
        "log_sigmoid",
        "n",
        lambda m, x: m.math.log_sigmoid(x),
        lambda m, x: m.nn.functional.logsigmoid(x),
    ),
    Call(
        "hard_sigmoid",
        "n",
        lambda m, x: m.ops.hard_sigmoid(x),
        lambda m, x: m.nn.functional.hardsigmoid(x),
    ),
    Call(
        "hard_silu", "n", lambda m, x: m.ops.hard_silu(x), lambda m, x: m.nn.functional.hardswish(x)
    ),
    Call("mish", "n", lambda m, x: m.activations.mish(x), lambda m, x: m.nn.functional.mish(x)),
    Call("softmax", "n", lambda m, x: m.nn.softmax(x), lambda m, x: m.softmax(x, 1)),
    Call("log_softmax", "n", lambda m, x: m.nn.log_softmax(x), lambda m, x: m.log_softmax(x, 1)),
]

_REDUCTIONS = [
    Call("sum", "x", lambda m, x: m.reduce_sum(x), lambda m, x: m.sum(x)),
    Call("sum of columns", "x", lambda m, x: m.reduce_sum(x, 0), lambda m, x: m.sum(x, 0)),
    Call("sum of rows", "x", lambda m, x: m.reduce_sum(x, 1), lambda m, x: m.sum(x, 1)),
    Call("mean", "x", lambda m, x: m.reduce_mean(x), lambda m, x: m.mean(x)),
    Call("mean of columns", "x", lambda m, x: m.reduce_mean(x, 0), lambda m, x: m.mean(x, 0)),
    Call("mean of rows", "x", lambda m, x: m.reduce_mean(x, 1), lambda m, x: m.mean(x, 1)),
    Call("max", "x", lambda m, x: m.reduce_max(x), lambda m, x: m.amax(x)),
    Call("max of columns", "x", lambda m, x: m.reduce_max(x, 0), lambda m, x: m.amax(x, 0)),
    Call("max of rows", "x", lambda m, x: m.reduce_max(x, 1), lambda m, x: m.amax(x, 1)),
    Call("min", "x", lambda m, x: m.reduce_min(x), lambda m, x: m.amin(x)),
    Call("min of rows", "x", lambda m, x: m.reduce_min(x, 1), lambda m, x: m.amin(x, 1)),
    Call("prod", "x", lambda m, x: m.reduce_prod(x), lambda m, x: m.prod(x)),
    Call("prod of rows", "x", lambda m, x: m.reduce_prod(x, 1), lambda m, x: m.prod(x, 1)),
    Call("any", "m", lambda m, x: m.reduce_any(x), lambda m, x: m.any(x)),
    Call("all of rows", "m", lambda m, x: m.reduce_all(x, 1), lambda m, x: m.all(x, 1)),
    same("argmax of rows", "x", lambda m, x: m.argmax(x, 1)),
    same("argmax of columns", "x", lambda m, x: m.argmax(x, 0)),
    Call(
        "variance", "x", lambda m, x: m.math.reduce_variance(x), lambda m, x: m.var(x, correction=0)
    ),
    Call(
        "variance of rows",
        "x",
        lambda m, x: m.math.reduce_variance(x, 1),
        lambda m, x: m.var(x, 1, correction=0),
    ),
    Call("std", "x", lambda m, x: m.math.reduce_std(x), lambda m, x: m.std(x, correction=0)),
    Call("norm", "x", lambda m, x: m.norm(x), lambda m, x: m.linalg.norm(x)),
    Call("norm of rows", "x", lambda m, x: m.norm(x, axis=1), lambda m, x: m.linalg.norm(x, dim=1)),
    Call(
        "logsumexp of rows",
        "x",
        lambda m, x: m.reduce_logsumexp(x, 1),
        lambda m, x: m.logsumexp(x, 1),
    ),
    Call(
        "count_nonzero", "i", lambda m, i: m.math.count_nonzero(i), lambda m, i: m.count_nonzero(i)
    ),
    same("cumsum of rows", "x", lambda m, x: m.cumsum(x, 1)),
    same("cumsum of columns", "x", lambda m, x: m.cumsum(x, 0)),
    Call("cumprod of rows", "x", lambda m, x: m.math.cumprod(x, 1), lambda m, x: m.cumprod(x, 1)),
]

_SHAPING = up_to_512(
    same("reshape", "x", lambda m, x: m.reshape(x, (-1,))),
    Call("transpose", "x", lambda m, x: m.transpose(x), lambda m, x: x.t()),
    Call("transpose, copied", "x", lambda m, x: m.transpose(x) + 0.0, lambda m, x: x.t() + 0.0),
    Call("expand_dims", "x", lambda m, x: m.expand_dims(x, 0), lambda m, x: x.unsqueeze(0)),
    Call("squeeze", "x", lambda m, x: m.squeeze(x), lambda m, x: x.squeeze()),
    Call("concat", "xy", lambda m, x, y: m.concat([x, y], 0), lambda m, x, y: m.cat([x, y], 0)),
    Call(
        "concat of columns",
        "xy",
        lambda m, x, y: m.concat([x, y], 1),
        lambda m, x, y: m.cat([x, y], 1),
    ),
    same("stack", "xy", lambda m, x, y: m.stack([x, y])),
    same("stack of columns", "xy", lambda m, x, y: m.stack([x, y], 1)),
    Call("split", "x", lambda m, x: m.split(x, 2), lambda m, x: m.chunk(x, 2)),
    Call("split of columns", "x", lambda m, x: m.split(x, 2, 1), lambda m, x: m.chunk(x, 2, 1)),
    Call("unstack", "x", lambda m, x: m.unstack(x[:8]), lambda m, x: m.unbind(x[:8])),
    same("tile", "x", lambda m, x: m.tile(x, (2, 2))),
    Call("repeat", "x", lambda m, x: m.repeat(x, 2, 0), lambda m, x: m.repeat_interleave(x, 2, 0)),
    Call(
        "pad",
        "x",
        lambda m, x: m.pad(x, [[1, 1], [2, 2]]),
        lambda m, x: m.nn.functional.pad(x, (2, 2, 1, 1)),
    ),
    same("roll", "x", lambda m, x: m.roll(x, 3, 0)),
    same("roll of columns", "x", lambda m, x: m.roll(x, 3, 1)),
    Call("flip", "x", lambda m, x: m.reverse(x, [1]), lambda m, x: m.flip(x, [1])),
    same("broadcast_to", "v", lambda m, v: m.broadcast_to(v, (4, len(v)))),
    same("x[1]", "x", lambda m, x: x[1]),
    same("x[2:8]", "x", lambda m, x: x[2:8]),
    same("x[:, 3]", "x", lambda m, x: x[:, 3]),
    same("x[..., None]", "x", lambda m, x: x[..., None]),
    Call("x[mask]", "xm", lambda m, x, c: m.boolean_mask(x, c), lambda m, x, c: x[c]),
    Call("rows of numbers", "xk", lambda m, x, k: m.gather(x, k), lambda m, x, k: x[k]),
    Call(
        "columns of numbers",
        "xk",
        lambda m, x, k: m.gather(x, k, axis=1),
        lambda m, x, k: x.index_select(1, k),
    ),
    Call(
        "scatter of rows",
        "xk",
        lambda m, x, k: m.math.unsorted_segment_sum(x, k, len(k)),
        lambda m, x, k: m.zeros_like(x).index_add_(0, k, x),
    ),
    Call("one_hot", "k", lambda m, k: m.one_hot(k, 10), lambda m, k: one_hot(m, k, 10)),
    Call(
        "zeros", "v", lambda m, v: m.zeros((len(v), len(v))), lambda m, v: m.zeros(len(v), len(v))
    ),
    Call("ones", "v", lambda m, v: m.ones((len(v), len(v))), lambda m, v: m.ones(len(v), len(v))),
    Call(
        "fill",
        "v",
        lambda m, v: m.fill((len(v), len(v)), 2.5),
        lambda m, v: m.full((len(v), len(v)), 2.5),
    ),
    same("zeros_like", "x", lambda m, x: m.zeros_like(x)),
    same("ones_like", "x", lambda m, x: m.ones_like(x)),
    same("eye", "v", lambda m, v: m.eye(len(v))),
    Call("range", "v", lambda m, v: m.range(len(v)), lambda m, v: m.arange(len(v))),
    same("linspace", "v", lambda m, v: m.linspace(0.0, 1.0, len(v))),
    Call("diag", "v", lambda m, v: m.linalg.diag(v), lambda m, v: m.diag(v)),
    Call("diag_part", "x", lambda m, x: m.linalg.diag_part(x), lambda m, x: m.diagonal(x)),
    Call("tril", "x", lambda m, x: m.linalg.band_part(x, -1, 0), lambda m, x: m.tril(x)),
    same("sort", "x", lambda m, x: m.sort(x)),
    same("argsort", "x", lambda m, x: m.argsort(x)),
    Call("top_k", "x", lambda m, x: m.math.top_k(x, 5), lambda m, x: m.topk(x, 5)),
    same("unique", "k", lambda m, k: m.unique(k)),
    Call("where is", "m", lambda m, c: m.where(c), lambda m, c: m.nonzero(c)),
)


_PRODUCTS = up_to_512(
    same("matmul", "xy", lambda m, x, y: m.matmul(x, y)),
    Call(
        "matmul, transposed",
        "xy",
        lambda m, x, y: m.matmul(x, y, transpose_a=True),
        lambda m, x, y: x.t() @ y,
    ),
    Call(
        "product by a row", "xv", lambda m, x, v: m.linalg.matvec(x, v), lambda m, x, v: m.mv(x, v)
    ),
    Call("dot", "vw", lambda m, v, w: m.tensordot(v, w, 1), lambda m, v, w: m.dot(v, w)),
    Call("outer", "vw", lambda m, v, w: m.ops.outer(v, w), lambda m, v, w: m.outer(v, w)),
    same("einsum of products", "xy", lambda m, x, y: m.einsum("ij,jk->ik", x, y)),
    same("einsum of rows", "xy", lambda m, x, y: m.einsum("ij,ij->i", x, y)),
    Call("trace", "x", lambda m, x: m.linalg.trace(x), lambda m, x: m.trace(x)),
    same("inverse", "p", lambda m, x: m.linalg.inv(x)),
    same("determinant", "p", lambda m, x: m.linalg.det(x)),
    same("cholesky", "p", lambda m, x: m.linalg.cholesky(x)),
    same("solve", "px", lambda m, x, y: m.linalg.solve(x, y)),
    same("qr", "x", lambda m, x: m.linalg.qr(x)),
    same("eigh", "p", lambda m, x: m.linalg.eigh(x), 10),
    same("svd", "x", lambda m, x: m.linalg.svd(x), 10),
)

_LAYERS = [
    Call("bias_add", "xv", lambda m, x, v: m.nn.bias_add(x, v), lambda m, x, v: x + v),
    *up_to_512(
        Call(
            "l2_normalize",
            "x",
            lambda m, x: m.math.l2_normalize(x, -1),
            lambda m, x: m.nn.functional.normalize(x, dim=-1),
        ),
        Call(
            "layer normalization",
            "xvw",
            lambda m, x, v, w: m.ops.layer_normalization(x, v, w),
            lambda m, x, v, w: m.nn.functional.layer_norm(x, v.shape, v, w, 1e-3),
        ),
        Call(
            "embedding",
            "xk",
            lambda m, x, k: m.nn.embedding_lookup(x, k),
            lambda m, x, k: m.nn.functional.embedding(k, x),
        ),
        Call(
            "softmax cross entropy of labels",
            "xk",
            lambda m, x, k: m.nn.sparse_softmax_cross_entropy_with_logits(labels=k, logits=x),
            lambda m, x, k: m.nn.functional.cross_entropy(x, k.long(), reduction="none"),
        ),
        Call(
            "mean squared error",
            "xy",
            lambda m, x, y: m.reduce_mean(m.math.squared_difference(x, y)),
            lambda m, x, y: m.nn.functional.mse_loss(x, y),
        ),
        Call(
            "dropout",
            "x",
            lambda m, x: m.nn.dropout(x, 0.5),
            lambda m, x: m.nn.functional.dropout(x, 0.5),
        ),
        Call(
            "uniform random numbers",
            "v",
            lambda m, v: m.random.uniform((len(v), len(v))),
            lambda m, v: m.rand(len(v), len(v)),
        ),
        Call(
            "normal random numbers",
            "v",
            lambda m, v: m.random.normal((len(v), len(v))),
            lambda m, v: m.randn(len(v), len(v)),
        ),
    ),
]

CALLS = [
    *_ARITHMETIC,
    *_FUNCTIONS,
    *_COMPARISONS,
    *_INTEGERS,
    *_ACTIVATIONS,
    *_REDUCTIONS,
    *_SHAPING,
    *_PRODUCTS,
    *_LAYERS,
    *RARER_CALLS,
]
"""All of them."""

DIFFERENTIATED = (
    *("add", "x - y", "multiply", "divide", "x + row", "x * 2.0", "1.0 - x", "1.0 / x", "negative"),
    *("abs", "square", "sqrt", "rsqrt", "reciprocal", "power of 3.0", "power of 2", "power of 2.5"),
    *("x ** y", "maximum", "minimum", "maximum of 0.5", "clip", "squared difference"),
    *("add of three", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin"),
    *("acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "atanh", "erf", "lgamma"),
    *("digamma", "logaddexp", "where", "where, 0.0", "cast to float64", "sigmoid", "relu", "relu6"),
    *("leaky_relu", "elu", "selu", "gelu", "gelu by tanh", "silu", "softplus", "softsign"),
    *("log_sigmoid", "hard_sigmoid", "hard_silu", "mish", "softmax", "log_softmax", "sum"),
    *("sum of columns", "sum of rows", "mean", "mean of columns", "mean of rows", "max"),
    *("max of columns", "max of rows", "min", "min of rows", "prod", "prod of rows", "variance"),
    *("variance of rows", "std", "norm", "norm of rows", "logsumexp of rows", "cumsum of rows"),
    *("cumsum of columns", "cumprod of rows", "reshape", "transpose", "transpose, copied"),
    *("expand_dims", "squeeze", "concat", "concat of columns", "stack", "stack of columns"),
    *("split", "split of columns", "unstack", "tile", "repeat", "pad", "roll", "roll of columns"),
    *("flip", "broadcast_to", "x[1]", "x[2:8]", "x[:, 3]", "x[..., None]", "x[mask]"),
    *("rows of numbers", "columns of numbers", "scatter of rows", "diag", "diag_part", "tril"),
    *("matmul", "matmul, transposed", "product by a row", "dot", "outer", "einsum of products"),
    *("einsum of rows", "trace", "inverse", "determinant", "cholesky", "solve", "bias_add"),
    *("l2_normalize", "layer normalization", "embedding", "softmax cross entropy of labels"),
    *("mean squared error", "dropout"),
    *RARER_DIFFERENTIATED,
)
"""Calls that are measured with the gradients by their operands of floats, too."""
