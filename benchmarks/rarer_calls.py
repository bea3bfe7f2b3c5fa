"""Calls that few programs live on: ordering, picking, short rows, windows, scattered rows."""

from typing import Any

from op_operands import Call, same, up_to_512

_ORDER = up_to_512(
    Call("median of rows", "x", lambda m, x: m.ops.median(x, 1), lambda m, x: x.quantile(0.5, 1)),
    Call("median", "v", lambda m, v: m.ops.median(v), lambda m, v: m.quantile(v, 0.5)),
    Call(
        "quantile of rows",
        "x",
        lambda m, x: m.ops.quantile(x, 0.3, 1),
        lambda m, x: m.quantile(x, 0.3, 1),
    ),
    Call("sort of columns", "x", lambda m, x: m.sort(x, axis=0), lambda m, x: m.sort(x, 0)),
    Call("sort of i", "i", lambda m, i: m.sort(i), lambda m, i: m.sort(i)),
    Call(
        "stable argsort",
        "x",
        lambda m, x: m.argsort(x, stable=True),
        lambda m, x: m.argsort(x, stable=True),
    ),
    Call("top_k of one", "x", lambda m, x: m.math.top_k(x, 1), lambda m, x: m.topk(x, 1)),
    Call(
        "in_top_k",
        "xk",
        lambda m, x, k: m.math.in_top_k(k, x, 3),
        lambda m, x, k: (x > x.gather(1, k.long()[:, None])).sum(1) < 3,
    ),
    Call("unique of i", "i", lambda m, i: m.unique(m.reshape(i, [-1])), lambda m, i: m.unique(i)),
    Call(
        "searchsorted",
        "ok",
        lambda m, o, k: m.searchsorted(o, k),
        lambda m, o, k: m.searchsorted(o, k),
    ),
    Call(
        "bincount",
        "k",
        lambda m, k: m.math.bincount(k, minlength=len(k), maxlength=len(k)),
        lambda m, k: m.bincount(k, minlength=len(k)),
    ),
    Call(
        "bincount with weights",
        "kv",
        lambda m, k, v: m.math.bincount(k, v, minlength=len(k), maxlength=len(k)),
        lambda m, k, v: m.bincount(k, v, len(k)),
    ),
    Call(
        "cumprod of columns", "x", lambda m, x: m.math.cumprod(x, 0), lambda m, x: m.cumprod(x, 0)
    ),
    Call("cumsum of i", "i", lambda m, i: m.cumsum(i, 1), lambda m, i: m.cumsum(i, 1)),
    Call(
        "cumulative logsumexp",
        "x",
        lambda m, x: m.math.cumulative_logsumexp(x, 1),
        lambda m, x: m.logcumsumexp(x, 1),
    ),
    Call("difference of rows", "x", lambda m, x: m.ops.diff(x), lambda m, x: m.diff(x)),
)


def _segments(torch: Any, x: Any, o: Any) -> Any:
    return torch.zeros_like(x).index_add_(0, o, x)


_PICKING = up_to_512(
    Call("one_hot of 1000", "k", lambda m, k: m.one_hot(k, 1000), lambda m, k: one_hot(m, k, 1000)),
    Call(
        "gather along rows",
        "xi",
        lambda m, x, i: m.gather(x, i, axis=1, batch_dims=1),
        lambda m, x, i: x.gather(1, i.long()),
    ),
    Call(
        "gather_nd",
        "xkk",
        lambda m, x, k, o: m.gather_nd(x, m.stack([k, o], 1)),
        lambda m, x, k, o: x[k, o],
    ),
    Call(
        "scatter_nd",
        "kx",
        lambda m, k, x: m.scatter_nd(k[:, None], x, x.shape),
        lambda m, k, x: _segments(m, x, k),
    ),
    Call(
        "update of rows",
        "xky",
        lambda m, x, k, y: m.tensor_scatter_nd_update(x, k[:, None], y),
        lambda m, x, k, y: x.index_copy(0, k.long(), y),
    ),
    Call(
        "segment_sum",
        "xo",
        lambda m, x, o: m.math.segment_sum(x, o),
        lambda m, x, o: _segments(m, x, o),
    ),
    Call(
        "segment_max",
        "xo",
        lambda m, x, o: m.math.unsorted_segment_max(x, o, len(o)),
        lambda m, x, o: m.full_like(x, -3e38).index_reduce_(0, o, x, "amax"),
    ),
    Call(
        "segment_mean",
        "xo",
        lambda m, x, o: m.math.segment_mean(x, o),
        lambda m, x, o: _segments(m, x, o) / m.bincount(o, minlength=len(o)).clamp_min(1)[:, None],
    ),
    Call("rows of a mask", "xv", lambda m, x, v: x[v > 0.5], lambda m, x, v: x[v > 0.5]),
    Call(
        "repeat of columns",
        "x",
        lambda m, x: m.repeat(x, 2, 1),
        lambda m, x: x.repeat_interleave(2, 1),
    ),
    same("x[::2]", "x", lambda m, x: x[::2] + 0.0),
    Call("x[:, ::-1]", "x", lambda m, x: x[:, ::-1] + 0.0, lambda m, x: m.flip(x, [1])),
    Call("triu", "x", lambda m, x: m.linalg.band_part(x, 0, -1), lambda m, x: m.triu(x)),
    Call(
        "meshgrid",
        "vw",
        lambda m, v, w: m.meshgrid(v, w),
        lambda m, v, w: [g.contiguous() for g in m.meshgrid(v, w, indexing="xy")],
    ),
)


def one_hot(torch: Any, k: Any, depth: int) -> Any:
    """Of float32, as trainkit's: PyTorch's own are of int64."""
    return torch.zeros(len(k), depth).scatter_(1, (k[:, None] % depth).long(), 1.0)


_ROWS = [
    Call("sum of integer rows", "i", lambda m, i: m.reduce_sum(i, 1), lambda m, i: m.sum(i, 1)),
    Call("max of i", "i", lambda m, i: m.reduce_max(i), lambda m, i: m.amax(i)),
    Call("max of integer rows", "i", lambda m, i: m.reduce_max(i, 1), lambda m, i: m.amax(i, 1)),
    Call("argmax of integer rows", "i", lambda m, i: m.argmax(i, 1), lambda m, i: m.argmax(i, 1)),
    Call("any of columns", "m", lambda m, x: m.reduce_any(x, 0), lambda m, x: m.any(x, 0)),
    Call("all", "m", lambda m, x: m.reduce_all(x), lambda m, x: m.all(x)),
    Call(
        "count of a mask",
        "m",
        lambda m, x: m.math.count_nonzero(x),
        lambda m, x: m.count_nonzero(x),
    ),
    Call("sum of float64", "d", lambda m, x: m.reduce_sum(x), lambda m, x: m.sum(x)),
    Call("sum of float64 rows", "d", lambda m, x: m.reduce_sum(x, 1), lambda m, x: m.sum(x, 1)),
    Call("sum of float64 columns", "d", lambda m, x: m.reduce_sum(x, 0), lambda m, x: m.sum(x, 0)),
    Call("max of float64 rows", "d", lambda m, x: m.reduce_max(x, 1), lambda m, x: m.amax(x, 1)),
    Call("mean of float64 rows", "d", lambda m, x: m.reduce_mean(x, 1), lambda m, x: m.mean(x, 1)),
    Call("softmax of float64", "d", lambda m, x: m.nn.softmax(x), lambda m, x: m.softmax(x, 1)),
    Call("exp of float64", "d", lambda m, x: m.exp(x), lambda m, x: m.exp(x)),
    Call("tanh of float64", "d", lambda m, x: m.tanh(x), lambda m, x: m.tanh(x)),
    Call("matmul of float64", "dd", lambda m, x, y: m.matmul(x, y), lambda m, x, y: x @ y, 512),
    Call("cast to int64", "i", lambda m, i: m.cast(i, "int64"), lambda m, i: i.to(m.int64)),
    Call("cast to uint8", "i", lambda m, i: m.cast(i, "uint8"), lambda m, i: i.to(m.uint8)),
    Call("cast to bool", "x", lambda m, x: m.cast(x, "bool"), lambda m, x: x.to(m.bool)),
    Call("cast to float16", "x", lambda m, x: m.cast(x, "float16"), lambda m, x: x.to(m.float16)),
    Call("cast of float64", "d", lambda m, x: m.cast(x, "float32"), lambda m, x: x.to(m.float32)),
    Call("softmax of columns", "n", lambda m, x: m.nn.softmax(x, 0), lambda m, x: m.softmax(x, 0)),
    Call(
        "log_softmax of columns",
        "n",
        lambda m, x: m.nn.log_softmax(x, 0),
        lambda m, x: m.log_softmax(x, 0),
    ),
    Call("logsumexp", "n", lambda m, x: m.reduce_logsumexp(x), lambda m, x: m.logsumexp(x, (0, 1))),
    Call(
        "logsumexp of columns",
        "n",
        lambda m, x: m.reduce_logsumexp(x, 0),
        lambda m, x: m.logsumexp(x, 0),
    ),
    Call("1-norm of rows", "n", lambda m, x: m.norm(x, 1, 1), lambda m, x: m.linalg.norm(x, 1, 1)),
    Call(
        "norm of columns", "n", lambda m, x: m.norm(x, axis=0), lambda m, x: m.linalg.norm(x, dim=0)
    ),
    Call(
        "variance of columns",
        "x",
        lambda m, x: m.math.reduce_variance(x, 0),
        lambda m, x: m.var(x, 0, correction=0),
    ),
    Call(
        "moments of rows",
        "x",
        lambda m, x: m.nn.moments(x, [1]),
        lambda m, x: m.var_mean(x, 1, correction=0),
    ),
    Call(
        "clip_by_norm",
        "n",
        lambda m, x: m.clip_by_norm(x, 1.0),
        lambda m, x: x * (1.0 / m.clamp_min(m.linalg.norm(x), 1.0)),
    ),
    Call(
        "distances",
        "ex",
        lambda m, e, x: m.reduce_sum(m.square(e[:, None] - x[:32, None, :8][None, :, 0]), -1),
        lambda m, e, x: (e[:, None] - x[:32, None, :8][None, :, 0]).square().sum(-1),
    ),
]

_SCATTERED = [
    same("add of X", "XY", lambda m, x, y: m.add(x, y)),
    same("X + y", "Xy", lambda m, x, y: x + y),
    same("exp of X", "X", lambda m, x: m.exp(x)),
    Call("relu of X", "N", lambda m, x: m.nn.relu(x), lambda m, x: m.relu(x)),
    Call("sum of X", "X", lambda m, x: m.reduce_sum(x), lambda m, x: m.sum(x)),
    Call("sum of rows of X", "X", lambda m, x: m.reduce_sum(x, 1), lambda m, x: m.sum(x, 1)),
    Call("sum of columns of X", "X", lambda m, x: m.reduce_sum(x, 0), lambda m, x: m.sum(x, 0)),
    Call("max of rows of X", "X", lambda m, x: m.reduce_max(x, 1), lambda m, x: m.amax(x, 1)),
    Call("softmax of X", "X", lambda m, x: m.nn.softmax(x), lambda m, x: m.softmax(x, 1)),
    same("cumsum of X", "X", lambda m, x: m.cumsum(x, 1)),
    Call("reshape of X", "X", lambda m, x: m.reshape(x, [-1]), lambda m, x: x.reshape(-1), 512),
    Call("cast of X", "X", lambda m, x: m.cast(x, "int32"), lambda m, x: x.to(m.int32)),
    Call(
        "concat of X", "XY", lambda m, x, y: m.concat([x, y], 0), lambda m, x, y: m.cat([x, y]), 512
    ),
    Call("sort of X", "X", lambda m, x: m.sort(x), lambda m, x: m.sort(x), 512),
    Call("matmul of X", "XY", lambda m, x, y: m.matmul(x, y), lambda m, x, y: x @ y, 512),
    Call("mean of rows of X", "X", lambda m, x: m.reduce_mean(x, 1), lambda m, x: m.mean(x, 1)),
]

_BATCHES = up_to_512(
    same("products of 8 x 8", "ab", lambda m, a, b: m.matmul(a, b)),
    same("einsum of batches", "ab", lambda m, a, b: m.einsum("nij,nkj->nik", a, b)),
    same("einsum of sums", "ab", lambda m, a, b: m.einsum("nij,nij->", a, b)),
    same("einsum of diagonals", "a", lambda m, a: m.einsum("nii->n", a)),
    same("einsum, odd", "ab", lambda m, a, b: m.einsum("nij,mkj->nmik", a[:8], b[:8])),
    same("cholesky of 8 x 8", "q", lambda m, a: m.linalg.cholesky(a)),
    same("solve of 8 x 8", "qb", lambda m, a, b: m.linalg.solve(a, b)),
    same("inverse of 8 x 8", "q", lambda m, a: m.linalg.inv(a)),
    same("determinant of 8 x 8", "q", lambda m, a: m.linalg.det(a)),
    same("svd of 8 x 8", "a", lambda m, a: m.linalg.svd(a)),
    same("eigh of 8 x 8", "q", lambda m, a: m.linalg.eigh(a)),
    same("qr of 8 x 8", "a", lambda m, a: m.linalg.qr(a)),
    Call(
        "triangular solve of 8 x 8",
        "qb",
        lambda m, a, b: m.linalg.triangular_solve(a, b),
        lambda m, a, b: m.linalg.solve_triangular(a, b, upper=False),
    ),
)

_SIGNALS = up_to_512(
    Call("rfft", "x", lambda m, x: m.signal.rfft(x), lambda m, x: m.fft.rfft(x)),
    Call(
        "fft of complex",
        "x",
        lambda m, x: m.signal.fft(m.cast(x, "complex64")),
        lambda m, x: m.fft.fft(x.to(m.complex64)),
    ),
    Call(
        "conv1d",
        "se",
        lambda m, s, e: m.nn.conv1d(s, m.reshape(e, (4, 8, 8)), 1, "VALID"),
        lambda m, s, e: m.nn.functional.conv1d(
            s.transpose(1, 2), e.reshape(4, 8, 8).permute(2, 1, 0)
        ),
    ),
    Call(
        "conv2d",
        "fe",
        lambda m, f, e: m.nn.conv2d(f, m.reshape(e, (4, 4, 4, 4)), 1, "VALID"),
        lambda m, f, e: m.nn.functional.conv2d(
            f.permute(0, 3, 1, 2), e.reshape(4, 4, 4, 4).permute(3, 2, 0, 1)
        ),
    ),
    Call(
        "conv3d",
        "ce",
        lambda m, c, e: m.nn.conv3d(c, m.reshape(e, (2, 2, 4, 4, 4)), [1] * 5, "VALID"),
        lambda m, c, e: m.nn.functional.conv3d(
            c.permute(0, 4, 1, 2, 3), e.reshape(2, 2, 4, 4, 4).permute(4, 3, 0, 1, 2)
        ),
    ),
    Call(
        "max pooling",
        "f",
        lambda m, f: m.nn.max_pool2d(f, 2, 2, "VALID"),
        lambda m, f: m.nn.functional.max_pool2d(f.permute(0, 3, 1, 2), 2),
    ),
    Call(
        "max pooling with places",
        "f",
        lambda m, f: m.nn.max_pool_with_argmax(f, 2, 2, "VALID"),
        lambda m, f: m.nn.functional.max_pool2d(f.permute(0, 3, 1, 2), 2, return_indices=True),
    ),
    Call(
        "mean pooling",
        "f",
        lambda m, f: m.nn.avg_pool2d(f, 2, 2, "VALID"),
        lambda m, f: m.nn.functional.avg_pool2d(f.permute(0, 3, 1, 2), 2),
    ),
    Call(
        "resize, bilinear",
        "f",
        lambda m, f: m.image.resize(f, (96, 96)),
        lambda m, f: m.nn.functional.interpolate(f.permute(0, 3, 1, 2), (96, 96), mode="bilinear"),
    ),
    Call(
        "resize, nearest",
        "f",
        lambda m, f: m.image.resize(f, (96, 96), "nearest"),
        lambda m, f: m.nn.functional.interpolate(
            f.permute(0, 3, 1, 2), (96, 96), mode="nearest-exact"
        ),
    ),
    Call(
        "resize, bicubic",
        "f",
        lambda m, f: m.image.resize(f, (96, 96), "bicubic"),
        lambda m, f: m.nn.functional.interpolate(f.permute(0, 3, 1, 2), (96, 96), mode="bicubic"),
    ),
)

RARER_CALLS = [*_ORDER, *_PICKING, *_ROWS, *_SCATTERED, *_BATCHES, *_SIGNALS]
"""All of them."""

RARER_DIFFERENTIATED = tuple(
    call.name
    for call in RARER_CALLS
    if call.name
    not in {
        *("sort of i", "stable argsort", "in_top_k", "unique of i", "searchsorted", "bincount"),
        *(
            "cumsum of i",
            "one_hot of 1000",
            "rows of a mask",
            "bincount with weights",
            "update of rows",
        ),
        *("sum of integer rows", "max of i", "max of integer rows", "argmax of integer rows"),
        *("any of columns", "all", "count of a mask", "cast to int64", "cast to uint8"),
        *("cast to bool", "cast of X", "rfft", "fft of complex", "svd of 8 x 8", "eigh of 8 x 8"),
    }
)
"""Those that are measured with gradients: all but those of integers and of complex numbers."""
