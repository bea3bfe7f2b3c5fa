"""Pooling on a GPU: a launch for each way, and one more to find where the maxima are.

As array arithmetic it is up to five launches for each place of a window. Of up to three spatial
axes, as in `windows_cuda`; numbers of 16 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.windows_cuda import AXES, GEOMETRY, geometry
from trainkit.kernels.cuda.element_types import TypedKernel, ready
from trainkit.kernels.cuda.raw_kernel import ROUNDED, blocks_for

Array = Any

_HEAD = (
    GEOMETRY
    + """\
#define FOR_ALL(i, count) \\
  const long long step = (long long)gridDim.x * blockDim.x; \\
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
struct Place { long long image; int at[3], channel; };
// The i-th element of (images, sizes..., channels).
__device__ inline Place place_of(const Geometry& g, const int* sizes, long long i) {
  Place p;
  long long rest = i / g.channels;
  p.channel = (int)(i - rest * g.channels);
  for (int a = 2; a >= 0; --a) {
    const long long next = rest / sizes[a];
    p.at[a] = (int)(rest - next * sizes[a]);
    rest = next;
  }
  p.image = rest;
  return p;
}
__device__ inline long long element(const Geometry& g, const int* sizes, long long image, int i0,
                                    int i1, int i2, int channel) {
  return (((image * sizes[0] + i0) * sizes[1] + i1) * sizes[2] + i2) * g.channels + channel;
}
"""
)
_INSIDE = """\
// see(k, i) for each place k of a window that is the element i of the input.
template <typename See>
__device__ inline void look(const Geometry& g, const Place& w, See see) {
  int k = 0;
  for (int k0 = 0; k0 < g.window[0]; ++k0) {
    const int i0 = w.at[0] * g.stride[0] - g.pad[0] + k0 * g.dilation[0];
    for (int k1 = 0; k1 < g.window[1]; ++k1) {
      const int i1 = w.at[1] * g.stride[1] - g.pad[1] + k1 * g.dilation[1];
      for (int k2 = 0; k2 < g.window[2]; ++k2, ++k) {
        const int i2 = w.at[2] * g.stride[2] - g.pad[2] + k2 * g.dilation[2];
        if (i0 >= 0 && i0 < g.size[0] && i1 >= 0 && i1 < g.size[1] && i2 >= 0 && i2 < g.size[2])
          see(k, element(g, g.size, w.image, i0, i1, i2, w.channel));
      }
    }
  }
}
"""
_COVERING = """\
// see(k, w, i) for each window w, the i-th result, that has the element p at its place k.
template <typename See>
__device__ inline void look_back(const Geometry& g, const Place& p, See see) {
  int o[3];
  for (int k0 = 0; k0 < g.window[0]; ++k0) {
    const int far0 = p.at[0] + g.pad[0] - k0 * g.dilation[0];
    o[0] = far0 / g.stride[0];
    if (far0 < 0 || o[0] >= g.out[0] || o[0] * g.stride[0] != far0) continue;
    for (int k1 = 0; k1 < g.window[1]; ++k1) {
      const int far1 = p.at[1] + g.pad[1] - k1 * g.dilation[1];
      o[1] = far1 / g.stride[1];
      if (far1 < 0 || o[1] >= g.out[1] || o[1] * g.stride[1] != far1) continue;
      for (int k2 = 0; k2 < g.window[2]; ++k2) {
        const int far2 = p.at[2] + g.pad[2] - k2 * g.dilation[2];
        o[2] = far2 / g.stride[2];
        if (far2 < 0 || o[2] >= g.out[2] || o[2] * g.stride[2] != far2) continue;
        see((k0 * g.window[1] + k1) * g.window[2] + k2, o,
            element(g, g.out, p.image, o[0], o[1], o[2], p.channel));
      }
    }
  }
}
"""
_COUNTED = """\
// How many places of the window o lie inside of the input.
__device__ inline int seen_by(const Geometry& g, const int* o) {
  int all = 1;
  for (int a = 0; a < 3; ++a) {
    const int start = o[a] * g.stride[a] - g.pad[a], far = g.dilation[a];
    const int first = start < 0 ? (far - 1 - start) / far : 0;
    const int end = start < g.size[a] ? (g.size[a] - start + far - 1) / far : 0;
    const int last = end < g.window[a] ? end : g.window[a];
    all *= last > first ? last - first : 0;
  }
  return all;
}
"""


def _kernel(name: str, arrays: str, body: str, *before: str) -> TypedKernel:
    start = (
        f'extern "C" __global__ void {name}({arrays},\n    const Geometry g, long long count) {{'
    )
    return TypedKernel(name, "".join([_HEAD, *before, start, body, "}\n"]), ROUNDED)


MAXIMA = _kernel(
    "max_pooled",
    "const T* __restrict__ x, T* __restrict__ y",
    """
  FOR_ALL(i, count) {
    A top = (A)__int_as_float((int)0xff800000u);  // -infinity
    look(g, place_of(g, g.out, i), [&](int, long long at) {
      const A v = wide(x[at]);
      top = v > top || v != v ? v : top;  // NaN stays
    });
    y[i] = narrow(top);
  }
""",
    _INSIDE,
)
MAXIMA_AND_INDICES = _kernel(
    "max_pooled_with_argmax",
    "const T* __restrict__ x, T* __restrict__ y, long long* __restrict__ argmax",
    """
  FOR_ALL(i, count) {
    const Place w = place_of(g, g.out, i);
    A top = 0;
    long long best = -1;
    look(g, w, [&](int, long long at) {
      const A v = wide(x[at]);
      if (best < 0 || v > top || (v != v && top == top)) {  // the first NaN stays
        top = v;
        best = at;
      }
    });
    y[i] = narrow(top);
    argmax[i] = best - element(g, g.size, w.image, 0, 0, 0, 0);
  }
""",
    _INSIDE,
)
FIRSTS = _kernel(
    "first_maxima",
    "const T* __restrict__ x, const T* __restrict__ y, int* __restrict__ firsts",
    """
  FOR_ALL(i, count) {
    const A top = wide(y[i]);
    int found = -1;
    look(g, place_of(g, g.out, i), [&](int k, long long at) {
      if (found < 0 && wide(x[at]) == top) found = k;
    });
    firsts[i] = found;
  }
""",
    _INSIDE,
)
MAXIMA_BACK = _kernel(
    "max_pooled_back",
    "const T* __restrict__ by_y, const int* __restrict__ firsts, T* __restrict__ by_x",
    """
  FOR_ALL(i, count) {
    A total = 0;
    look_back(g, place_of(g, g.size, i), [&](int k, const int*, long long at) {
      if (firsts[at] == k) total += wide(by_y[at]);
    });
    by_x[i] = narrow(total);
  }
""",
    _COVERING,
)
MEANS = _kernel(
    "average_pooled",
    "const T* __restrict__ x, T* __restrict__ y",
    """
  FOR_ALL(i, count) {
    A total = 0;
    int seen = 0;
    look(g, place_of(g, g.out, i), [&](int, long long at) {
      total += wide(x[at]);
      ++seen;
    });
    y[i] = narrow(total / seen);
  }
""",
    _INSIDE,
)
MEANS_BACK = _kernel(
    "average_pooled_back",
    "const T* __restrict__ by_y, T* __restrict__ by_x",
    """
  FOR_ALL(i, count) {
    A total = 0;
    look_back(g, place_of(g, g.size, i), [&](int, const int* o, long long at) {
      total += wide(by_y[at]) / seen_by(g, o);
    });
    by_x[i] = narrow(total);
  }
""",
    _COUNTED,
    _COVERING,
)


def _kernels(xp: Any, w: Windows, dtypes: list[Any], *kernels: TypedKernel) -> Any:
    """The kernels, each for its dtype; `None` where one is not for these windows or can't run."""
    if len(w.window) > AXES:
        return None
    ready_kernels = [
        ready(xp, dtype, kernel) for dtype, kernel in zip(dtypes, kernels, strict=True)
    ]
    return None if None in ready_kernels else [some[0] for some in ready_kernels if some]


def _launch(kernel: Any, w: Windows, result: Array, *arrays: Array) -> None:
    """A thread for each element of `result`, which is the last one of `arrays`."""
    channels = result.shape[-1]
    g = geometry(w, channels, slice(0, channels))
    kernel(blocks_for(result.size), (*arrays, g, np.int64(result.size)))


def _pool(xp: Any, kernel: TypedKernel, w: Windows, x: Array) -> Array | None:
    kernels = _kernels(xp, w, [x.dtype], kernel) if x.size else None
    y = xp.empty((x.shape[0], *w.out, x.shape[-1]), x.dtype)
    if not kernels or not y.size:
        return None
    _launch(kernels[0], w, y, xp.ascontiguousarray(x), y)
    return y


def max_pool(xp: Any, w: Windows, x: Array) -> Array | None:
    """The largest value of each window of (batch, spatial..., channels)."""
    return _pool(xp, MAXIMA, w, x)


def max_pool_with_argmax(xp: Any, w: Windows, x: Array) -> tuple[Array, Array] | None:
    """The largest value of each window, and its index in its image; each window has elements."""
    kernels = _kernels(xp, w, [x.dtype], MAXIMA_AND_INDICES) if x.size else None
    y = xp.empty((x.shape[0], *w.out, x.shape[-1]), x.dtype)
    if not kernels or not y.size:
        return None
    argmax = xp.empty(y.shape, np.int64)
    _launch(kernels[0], w, y, xp.ascontiguousarray(x), y, argmax)
    return y, argmax


def max_pool_gradient(xp: Any, w: Windows, g: Array, x: Array, y: Array) -> Array | None:
    """`g` at the first maximum of each window, 0 elsewhere; overlaps add up."""
    if not g.size or math.prod(w.window) >= 2**31 or x.dtype != y.dtype:
        return None
    kernels = _kernels(xp, w, [x.dtype, g.dtype], FIRSTS, MAXIMA_BACK)
    if not kernels:
        return None
    firsts, by_x = xp.empty(y.shape, np.int32), xp.empty(x.shape, g.dtype)
    _launch(kernels[0], w, firsts, *map(xp.ascontiguousarray, (x, y)), firsts)
    _launch(kernels[1], w, by_x, xp.ascontiguousarray(g), firsts, by_x)
    return by_x


def average_pool(xp: Any, w: Windows, x: Array) -> Array | None:
    """The mean of each window over what lies inside of the array."""
    return _pool(xp, MEANS, w, x)


def average_pool_gradient(xp: Any, w: Windows, g: Array, x: Array) -> Array | None:
    """Each `g` shared equally by what its window covers, in the shape of `x`."""
    kernels = _kernels(xp, w, [g.dtype], MEANS_BACK) if g.size else None
    if not kernels:
        return None
    by_x = xp.empty(x.shape, g.dtype)
    _launch(kernels[0], w, by_x, xp.ascontiguousarray(g), by_x)
    return by_x
