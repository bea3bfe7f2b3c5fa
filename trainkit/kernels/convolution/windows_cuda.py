"""Columns of windows, and the sums of what windows send back, by one launch each on a GPU.

A window's column holds 0 where it looks at padding, so no padded copy is made. Of up to three
spatial axes; those that are missing come first, with one element.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.cuda.element_types import TypedKernel, ready
from trainkit.kernels.cuda.raw_kernel import RawKernel, blocks_for

Array = Any

AXES = 3
"""Spatial axes that there may be."""
_LAYOUT = np.dtype(
    [
        *((name, np.int32, (AXES,)) for name in ("size", "out", "window", "stride", "dilation")),
        ("pad", np.int32, (AXES,)),
        *((name, np.int32) for name in ("channels", "first", "each")),
    ],
    align=True,
)
GEOMETRY = f"""\
struct Geometry {{
  int size[{AXES}], out[{AXES}], window[{AXES}], stride[{AXES}], dilation[{AXES}];
  int pad[{AXES}];
  int channels, first, each;
}};
"""

_UNITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
_COLUMNS = """\
extern "C" __global__ void {name}(const {unit}* __restrict__ x, {unit}* __restrict__ y,
                                  const Geometry g, const {index} count) {{
  const {index} step = ({index})gridDim.x * blockDim.x;
  for ({index} i = ({index})blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
    {index} rest = i / g.each;
    const int channel = (int)(i - rest * g.each);
    int place[3];
    for (int a = 2; a >= 0; --a) {{
      const {index} next = rest / g.window[a];
      place[a] = (int)(rest - next * g.window[a]) * g.dilation[a] - g.pad[a];
      rest = next;
    }}
    bool inside = true;
    for (int a = 2; a >= 0; --a) {{
      const {index} next = rest / g.out[a];
      place[a] += (int)(rest - next * g.out[a]) * g.stride[a];
      inside = inside && place[a] >= 0 && place[a] < g.size[a];
      rest = next;
    }}
    {unit} seen = {{}};
    if (inside) {{
      for (int a = 0; a < 3; ++a) rest = rest * g.size[a] + place[a];
      seen = x[rest * g.channels + g.first + channel];
    }}
    y[i] = seen;
  }}
}}
"""

_SUMS = """\
extern "C" __global__ void sum_windows(const T* __restrict__ columns, T* __restrict__ y,
                                       const Geometry g, const long long count) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    long long rest = i / g.each;
    const int channel = (int)(i - rest * g.each);
    int place[3];
    for (int a = 2; a >= 0; --a) {
      const long long next = rest / g.size[a];
      place[a] = (int)(rest - next * g.size[a]) + g.pad[a];
      rest = next;
    }
    A total = 0;
    for (int k0 = 0; k0 < g.window[0]; ++k0) {
      const int far0 = place[0] - k0 * g.dilation[0], o0 = far0 / g.stride[0];
      if (far0 < 0 || o0 >= g.out[0] || o0 * g.stride[0] != far0) continue;
      for (int k1 = 0; k1 < g.window[1]; ++k1) {
        const int far1 = place[1] - k1 * g.dilation[1], o1 = far1 / g.stride[1];
        if (far1 < 0 || o1 >= g.out[1] || o1 * g.stride[1] != far1) continue;
        for (int k2 = 0; k2 < g.window[2]; ++k2) {
          const int far2 = place[2] - k2 * g.dilation[2], o2 = far2 / g.stride[2];
          if (far2 < 0 || o2 >= g.out[2] || o2 * g.stride[2] != far2) continue;
          long long row = ((rest * g.out[0] + o0) * g.out[1] + o1) * g.out[2] + o2;
          row = ((row * g.window[0] + k0) * g.window[1] + k1) * g.window[2] + k2;
          total += wide(columns[row * g.each + channel]);
        }
      }
    }
    y[i / g.each * g.channels + g.first + channel] = narrow(total);
  }
}
"""
SUMS = TypedKernel("sum_windows", GEOMETRY + _SUMS)


@functools.cache
def _columns_kernel(unit: int, index: str) -> RawKernel:
    name = f"columns_{unit}{'_long' if index == 'long long' else ''}"
    return RawKernel(name, GEOMETRY + _COLUMNS.format(name=name, unit=_UNITS[unit], index=index))


def geometry(w: Windows, channels: int, group: slice) -> Any:
    """`w` and the channels `group` of so many as the structure `Geometry` of `GEOMETRY`."""
    g = np.zeros((), _LAYOUT)
    missing = AXES - len(w.window)
    for name, values in (
        ("size", w.sizes),
        ("out", w.out),
        ("window", w.window),
        ("stride", w.strides),
        ("dilation", w.dilation),
    ):
        g[name] = (1,) * missing + tuple(values)
    # Padding behind needs no number: what lies beyond the size is 0 in any case.
    g["pad"] = (0,) * missing + tuple(before for before, _ in w.pads)
    g["channels"], g["first"], g["each"] = channels, group.start, group.stop - group.start
    return g


def columns(xp: Any, w: Windows, x: Array, group: slice) -> Array | None:
    """Windows of the channels `group` as a matrix (images * out, window * channels).

    `None` where a kernel is not for this.
    """
    if len(w.window) > AXES or not x.size:
        return None
    x = xp.ascontiguousarray(x)
    each = (group.stop - group.start) * x.itemsize
    channels, first = x.shape[-1] * x.itemsize, group.start * x.itemsize
    # The widest word that divides runs, distances and the address: nothing is computed, so
    # elements are moved as plain bytes, up to 16 at a time.
    unit = math.gcd(16, each, channels, first, x.data.ptr)
    rows = x.shape[0] * math.prod(w.out)
    count = rows * math.prod(w.window) * (each // unit)
    # Half of what fits, as the loop steps beyond the end before it stops.
    kernel = _columns_kernel(unit, "int" if max(count, x.size) < 2**30 else "long long")
    if not count or not kernel.is_there(xp):
        return None
    y = xp.empty((rows, math.prod(w.window) * (group.stop - group.start)), x.dtype)
    g = geometry(w, channels // unit, slice(first // unit, (first + each) // unit))
    number = np.int32(count) if count < 2**30 and x.size < 2**30 else np.int64(count)
    kernel(blocks_for(count), (x, y, g, number))
    return y


def sums_windows(xp: Any, w: Windows, dtype: Any) -> bool:
    """Whether `sum_windows` is for windows of so many axes and elements of `dtype`."""
    return len(w.window) <= AXES and ready(xp, dtype, SUMS) is not None


def sum_windows(w: Windows, column_matrix: Array, result: Array, group: slice) -> None:
    """Write to the channels `group` of `result` what overlapping windows send to each element.

    Numbers are added up in float32 at least, and rounded once.

    Args:
        w: where the windows lie.
        column_matrix: (images * out, window * channels of the group) in row-major order.
        result: (images, sizes..., channels) in row-major order, of the same dtype.
        group: the channels.
    """
    count = math.prod(result.shape[:-1]) * (group.stop - group.start)
    kernel = SUMS.of(result.dtype)
    if count and kernel is not None:
        g = geometry(w, result.shape[-1], group)
        kernel(blocks_for(count), (column_matrix, result, g, np.int64(count)))
