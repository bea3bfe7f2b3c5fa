"""Steps of LSTM and GRU on a GPU: for each a product and one kernel for all else.

A thread has one unit of one sample. States of 16-bit floats are kept in float32 from step to step,
what is saved of them is rounded.
"""

from __future__ import annotations

from trainkit.kernels.cuda.element_types import TypedKernel

_HEAD = """
__device__ inline A squashed(A x) { return (A)0.5 * TANH((A)0.5 * x) + (A)0.5; }  // the sigmoid
// Sizes, the number of the step, and how far rows of the state before it are apart.
struct Step { long long apart; int batch, steps, units, step; };
// Where a thread is: the sample and its unit, alone and at this step of the whole sequence.
#define PLACE \\
  const int u = s.units; \\
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; \\
  if (at >= (long long)s.batch * u) return; \\
  const long long sample = at / u, unit = at % u, row = sample * s.steps + s.step;
"""


def _cell(name: str, parameters: str, body: str) -> TypedKernel:
    start = f'extern "C" __global__ void {name}({parameters}, const Step s) {{\n  PLACE\n'
    return TypedKernel(name, f"{_HEAD}{start}{body}}}\n")


# ------------------------------------------------------------------ LSTM

LSTM = _cell(
    "lstm_cell",
    """const T* __restrict__ product, const T* __restrict__ projected,
    A* __restrict__ state, T* __restrict__ hidden, T* __restrict__ memory, T* __restrict__ gates""",
    """\
  const T* p = projected + row * 4 * u + unit;
  const T* q = product + sample * 4 * u + unit;
  T* z = gates + row * 4 * u + unit;
  const A i = squashed(wide(p[0]) + wide(q[0])), f = squashed(wide(p[u]) + wide(q[u]));
  const A g = TANH(wide(p[2 * u]) + wide(q[2 * u]));
  const A o = squashed(wide(p[3 * u]) + wide(q[3 * u])), c = f * state[at] + i * g;
  z[0] = narrow(i);
  z[u] = narrow(f);
  z[2 * u] = narrow(g);
  z[3 * u] = narrow(o);
  state[at] = c;
  memory[row * u + unit] = narrow(c);
  hidden[row * u + unit] = narrow(o * TANH(c));
""",
)
"""One step from the state's share of the gates; `state` is c in full precision, written over."""

LSTM_BACK = _cell(
    "lstm_cell_back",
    """const T* __restrict__ by_hidden, const T* __restrict__ by_memory,
    const T* __restrict__ by_next, const T* __restrict__ earlier, const T* __restrict__ memory,
    const T* __restrict__ gates, A* __restrict__ by_state, T* __restrict__ grads""",
    """\
  const T* z = gates + row * 4 * u + unit;
  T* y = grads + row * 4 * u + unit;
  const A i = wide(z[0]), f = wide(z[u]), g = wide(z[2 * u]), o = wide(z[3 * u]);
  const A top = TANH(wide(memory[row * u + unit])), before = wide(earlier[sample * s.apart + unit]);
  A by_h = wide(by_hidden[row * u + unit]), by_c = 0;
  if (by_next) {
    by_h += wide(by_next[at]);
    by_c = by_state[at];
  }
  by_c += by_h * o * (1 - top * top);
  if (by_memory) by_c += wide(by_memory[row * u + unit]);
  y[0] = narrow(by_c * g * i * (1 - i));
  y[u] = narrow(by_c * before * f * (1 - f));
  y[2 * u] = narrow(by_c * i * (1 - g * g));
  y[3 * u] = narrow(by_h * top * o * (1 - o));
  by_state[at] = by_c * f;
""",
)
"""The same back; `by_next` is what the step after sends to h, nothing for the last one."""

# ------------------------------------------------------------------ GRU, the reset gate after

GRU = _cell(
    "gru_cell",
    """const T* __restrict__ product, const T* __restrict__ projected,
    const T* __restrict__ bias, const T* __restrict__ earlier, T* __restrict__ hidden,
    T* __restrict__ gates""",
    """\
  const T* p = projected + row * 3 * u + unit;
  const T* q = product + sample * 3 * u + unit;
  T* y = gates + row * 4 * u + unit;
  A inner[3];
#pragma unroll
  for (int k = 0; k < 3; ++k)
    inner[k] = wide(q[k * u]) + (bias ? wide(bias[k * u + unit]) : (A)0);
  const A z = squashed(wide(p[0]) + inner[0]), r = squashed(wide(p[u]) + inner[1]);
  const A fresh = TANH(wide(p[2 * u]) + r * inner[2]), h = wide(earlier[sample * s.apart + unit]);
  y[0] = narrow(z);
  y[u] = narrow(r);
  y[2 * u] = narrow(fresh);
  y[3 * u] = narrow(inner[2]);
  hidden[row * u + unit] = narrow(fresh + z * (h - fresh));
""",
)

_BY_H = """\
  A by_h = wide(by_hidden[row * u + unit]);
  if (by_next) by_h += wide(by_next[at]) + carry[at];
"""

GRU_BACK = _cell(
    "gru_cell_back",
    """const T* __restrict__ by_hidden, const T* __restrict__ by_next,
    const T* __restrict__ earlier, const T* __restrict__ gates, A* __restrict__ carry,
    T* __restrict__ grads, T* __restrict__ inner""",
    """\
  const T* g = gates + row * 4 * u + unit;
  T* y = grads + row * 3 * u + unit;
  T* within = inner + row * 3 * u + unit;
  const A z = wide(g[0]), r = wide(g[u]), fresh = wide(g[2 * u]), share = wide(g[3 * u]);
"""
    + _BY_H
    + """\
  const A by_fresh = by_h * (1 - z) * (1 - fresh * fresh);
  const A by_z = by_h * (wide(earlier[sample * s.apart + unit]) - fresh) * z * (1 - z);
  const A by_r = by_fresh * share * r * (1 - r);
  y[0] = within[0] = narrow(by_z);
  y[u] = within[u] = narrow(by_r);
  y[2 * u] = narrow(by_fresh);
  within[2 * u] = narrow(by_fresh * r);
  carry[at] = by_h * z;
""",
)
"""`carry` goes to the state before without a product; it is read where `by_next` is there."""

# ------------------------------------------------------------------ GRU, the reset gate before

GATES = _cell(
    "gru_gates",
    """const T* __restrict__ product, const T* __restrict__ projected,
    const T* __restrict__ earlier, T* __restrict__ gates""",
    """\
  const T* p = projected + row * 3 * u + unit;
  const T* q = product + sample * 2 * u + unit;
  T* y = gates + row * 4 * u + unit;
  const A r = squashed(wide(p[u]) + wide(q[u]));
  y[0] = narrow(squashed(wide(p[0]) + wide(q[0])));
  y[u] = narrow(r);
  y[3 * u] = narrow(r * wide(earlier[sample * s.apart + unit]));
""",
)
"""The first half of a step: both gates, and the state times the reset gate."""

FRESH = _cell(
    "gru_fresh",
    """const T* __restrict__ product, const T* __restrict__ projected,
    const T* __restrict__ earlier, T* __restrict__ hidden, T* __restrict__ gates""",
    """\
  T* y = gates + row * 4 * u + unit;
  const A z = wide(y[0]), h = wide(earlier[sample * s.apart + unit]);
  const A fresh = TANH(wide(projected[row * 3 * u + 2 * u + unit]) + wide(product[at]));
  y[2 * u] = narrow(fresh);
  hidden[row * u + unit] = narrow(fresh + z * (h - fresh));
""",
)
"""The second half: the candidate and the state."""

FRESH_BACK = _cell(
    "gru_fresh_back",
    """const T* __restrict__ by_hidden, const T* __restrict__ by_next,
    const T* __restrict__ earlier, const T* __restrict__ gates, A* __restrict__ carry,
    T* __restrict__ grads""",
    """\
  const T* g = gates + row * 4 * u + unit;
  T* y = grads + row * 3 * u + unit;
  const A z = wide(g[0]), fresh = wide(g[2 * u]);
"""
    + _BY_H
    + """\
  y[0] = narrow(by_h * (wide(earlier[sample * s.apart + unit]) - fresh) * z * (1 - z));
  y[2 * u] = narrow(by_h * (1 - z) * (1 - fresh * fresh));
  carry[at] = by_h * z;
""",
)

GATES_BACK = _cell(
    "gru_gates_back",
    """const T* __restrict__ by_share, const T* __restrict__ earlier,
    const T* __restrict__ gates, A* __restrict__ carry, T* __restrict__ grads""",
    """\
  const A r = wide(gates[row * 4 * u + u + unit]), back = wide(by_share[at]);
  grads[row * 3 * u + u + unit] =
      narrow(back * wide(earlier[sample * s.apart + unit]) * r * (1 - r));
  carry[at] += back * r;
""",
)
