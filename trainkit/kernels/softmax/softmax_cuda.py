"""Softmax and its cross-entropy over rows on a GPU, one launch each.

Neighbouring threads share a row, of any width: they go over it for the greatest element, for the
sum of exponentials, and to write; after the first time it comes from a cache.
"""

from __future__ import annotations

from trainkit.kernels.cuda.element_types import TypedKernel
from trainkit.kernels.cuda.raw_kernel import MOST_THREADS
from trainkit.kernels.cuda.row_reductions import ROW_SUMS, ROW_TOP

_ROWS = """
struct Rows { long long count, width; int lanes; };
// The threads of a row, of which a block has several; all of them come here equally often.
#define FOR_ROWS(r) \\
  __shared__ A room[64]; \\
  const int slots = blockDim.x / r.lanes, lane = threadIdx.x % r.lanes; \\
  for (long long row = (long long)blockIdx.x * slots + threadIdx.x / r.lanes, \\
                 base = (long long)blockIdx.x * slots; \\
       base < r.count; row += (long long)gridDim.x * slots, base += (long long)gridDim.x * slots)
#define ALONG(i, r) for (long long i = lane; row < r.count && i < r.width; i += r.lanes)
__device__ inline A lowest() { return (A)__int_as_float((int)0xff800000u); }  // -infinity
"""
_HEAD = ROW_SUMS + ROW_TOP + _ROWS


def _kernel(name: str, parameters: str, body: str, before: str = "") -> TypedKernel:
    start = f'extern "C" __global__ void __launch_bounds__({MOST_THREADS}) {name}(\n    '
    return TypedKernel(name, f"{_HEAD}{before}{start}{parameters}, const Rows r) {{\n{body}}}\n")


_TOP = """\
    A top = lowest(), sum = 0, mass = 0;
    ALONG(i, r) {
      const A v = wide(x[row * r.width + i]);
      top = v > top ? v : top;
    }
    top = row_top(room, r.lanes, top);
"""
_SUM = """\
    ALONG(i, r) sum += EXP(wide(x[row * r.width + i]) - top);
    row_sums(room, r.lanes, sum, mass);
"""

SOFTMAX = _kernel(
    "softmax_rows",
    "const T* __restrict__ x, T* __restrict__ y, int logarithm",
    "  FOR_ROWS(r) {\n"
    + _TOP
    + _SUM
    + """\
    // Each in a loop of its own: of float64, the sole loop for both did not fit into registers.
    if (logarithm) {
      const A whole = LOG(sum);
      ALONG(i, r) y[row * r.width + i] = narrow(wide(x[row * r.width + i]) - top - whole);
    } else {
      ALONG(i, r) y[row * r.width + i] = narrow(EXP(wide(x[row * r.width + i]) - top) / sum);
    }
  }
""",
)

SOFTMAX_BACK = _kernel(
    "softmax_rows_back",
    "const T* g, const T* __restrict__ y, T* by_x, A factor",
    """\
  FOR_ROWS(r) {
    A sum = 0, none = 0;
    ALONG(i, r) sum += wide(g[row * r.width + i]) * wide(y[row * r.width + i]);
    row_sums(room, r.lanes, sum, none);
    ALONG(i, r) {
      const long long k = row * r.width + i;
      by_x[k] = narrow(wide(y[k]) * (wide(g[k]) - sum) * factor);
    }
  }
""",
)
"""y * (g - sum(g * y)) * factor; `by_x` may be `g`."""

_LABEL = """\
__device__ inline long long label_of(const void* labels, int kind, long long row) {
  switch (kind) {
    case -1: return ((const signed char*)labels)[row];
    case 1: return ((const unsigned char*)labels)[row];
    case -2: return ((const short*)labels)[row];
    case 2: return ((const unsigned short*)labels)[row];
    case -4: return ((const int*)labels)[row];
    case 4: return ((const unsigned int*)labels)[row];
    default: return ((const long long*)labels)[row];
  }
}
"""
SPARSE = _kernel(
    "sparse_cross_entropy",
    """const void* __restrict__ labels, int kind, const T* __restrict__ x,
    const T* __restrict__ g, T* __restrict__ losses, T* __restrict__ grads""",
    "  FOR_ROWS(r) {\n"
    + _TOP
    + _SUM
    + """\
    const long long label = row < r.count ? label_of(labels, kind, row) : 0;
    const bool is_class = label >= 0 && label < r.width;
    const A nan = 0 * lowest(), weight = g && row < r.count ? wide(g[row]) : (A)1;
    if (losses && row < r.count && lane == 0)
      losses[row] = narrow(is_class ? LOG(sum) - (wide(x[row * r.width + label]) - top) : nan);
    if (grads)
      ALONG(i, r) {
        const A share = EXP(wide(x[row * r.width + i]) - top) / sum - (i == label ? 1 : 0);
        grads[row * r.width + i] = narrow(is_class ? share * weight : nan);
      }
  }
""",
    _LABEL,
)
"""Losses, and gradients times `g`, each where there is a place for them; NaN for labels outside.

`kind` is the size of a label in bytes, negative for signed ones.
"""
DENSE = _kernel(
    "dense_cross_entropy",
    """const T* __restrict__ labels, const T* __restrict__ x, const T* __restrict__ g,
    T* __restrict__ losses, T* __restrict__ grads""",
    "  FOR_ROWS(r) {\n"
    + _TOP
    + """\
    ALONG(i, r) {
      sum += EXP(wide(x[row * r.width + i]) - top);
      mass += wide(labels[row * r.width + i]);
    }
    row_sums(room, r.lanes, sum, mass);
    const A whole = LOG(sum), weight = g && row < r.count ? wide(g[row]) : (A)1;
    A loss = 0, none = 0;
    ALONG(i, r) {
      const A label = wide(labels[row * r.width + i]), v = wide(x[row * r.width + i]) - top;
      // A label of 0 counts nothing, even where the probability is 0.
      if (label != 0) loss -= label * (v - whole);
      if (grads) grads[row * r.width + i] = narrow((EXP(v) * (mass / sum) - label) * weight);
    }
    if (!losses) continue;
    row_sums(room, r.lanes, loss, none);
    if (row < r.count && lane == 0) losses[row] = narrow(loss);
  }
""",
)
"""The same for the chance of each class."""

_SCORES = """
struct Scores {
  long long heads, targets, sources, first;   // first: the place of the first target
  long long far_batch, far_head, far_target, far_source;   // steps of the mask
  int causal;
};
"""
SHARES = TypedKernel(
    "attention_shares",
    _HEAD + _SCORES + f"""\
// Scores of rows (batch, heads, targets) become shares of the sources; of none, if none is seen.
extern "C" __global__ void __launch_bounds__({MOST_THREADS}) attention_shares(
    T* x, const bool* __restrict__ mask, A factor, const Scores s, const Rows r) {{
  FOR_ROWS(r) {{
    const long long target = row % s.targets, head = row / s.targets % s.heads;
    const long long at = row / s.targets / s.heads * s.far_batch + head * s.far_head +
                         target * s.far_target;
    const long long seen = s.causal && s.first + target + 1 < r.width ? s.first + target + 1
                                                                       : r.width;
#define SEES(i) (i < seen && (!mask || mask[at + i * s.far_source]))
    A top = lowest(), sum = 0, none = 0;
    ALONG(i, r) if (SEES(i)) {{
      const A v = wide(x[row * r.width + i]) * factor;
      top = v > top ? v : top;
    }}
    top = row_top(room, r.lanes, top);
    if (top == lowest()) top = 0;
    ALONG(i, r) if (SEES(i)) sum += EXP(wide(x[row * r.width + i]) * factor - top);
    row_sums(room, r.lanes, sum, none);
    const A whole = sum == 0 ? (A)1 : sum;
    ALONG(i, r) {{
      const long long k = row * r.width + i;
      x[k] = narrow(SEES(i) ? EXP(wide(x[k]) * factor - top) / whole
                            : sum == sum ? (A)0 : sum);
    }}
  }}
}}
""",
)  # fmt: skip
