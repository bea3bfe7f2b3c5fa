"""Draws by rejection in CUDA C++: gamma, Poisson and binomial, in the order of the CPU.

A round tries a draw for each place that is open still: the k-th of them takes the k-th bits of the
round. What is rejected is listed in order, by chunks of places, so that the next round knows which
place is its k-th, and how many there are, without the host having to ask. Rounds over the whole
grid are followed by one of a single block, which goes on until nothing is open.
Sources: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; Hoermann 1993,
"The transformed rejection method for generating Poisson random variables" and "The generation of
binomial random variates".
"""

from __future__ import annotations

import math
import sys
from functools import cache

from trainkit.kernels.cuda.raw_kernel import RawKernel
from trainkit.kernels.random.philox_cuda import PHILOX
from trainkit.kernels.random.truncated_cuda import CHUNK, RANK

FACTORIALS = 20
"""So many logarithms of factorials come from a table, larger ones from Stirling's series."""

_STREAM = """
// Where a generator stands.
struct Stream {
  word low, high, key;
  __device__ inline explicit Stream(const word* state)
      : low(state[0]), high(state[1]), key(state[2]) {}
  __device__ inline static word blocks_of(long long words) {
    return words > 4 ? (word)((words + 3) / 4) : 1ULL;
  }
  __device__ inline void skip(long long words) {
    const word by = blocks_of(words);
    low += by;
    high += low < by ? 1ULL : 0ULL;
  }
  __device__ inline double unit_at(long long i) const {
    const Words four = philox(low, high, key, (word)(i / 4));
    const int j = (int)(i % 4);
    const word one = j & 1 ? four.w[1] : four.w[0], two = j & 1 ? four.w[3] : four.w[2];
    return unit(j & 2 ? two : one);
  }
  __device__ inline void store(word* state) const {
    state[0] = low;
    state[1] = high;
    state[2] = key;
  }
};
// The parameters of the draws; of each one, or, with a step of 0, the same for all.
struct Parameters {
  const double* one;
  const double* two;
  long long one_step, two_step;
};
"""

_FACTORIALS = f"""
__constant__ double LOG_FACTORIALS[{FACTORIALS}] = {{
  {", ".join(repr(math.lgamma(k + 1)) for k in range(FACTORIALS))}}};
__device__ inline double log_factorial(double k) {{
  if (k < {FACTORIALS}) return LOG_FACTORIALS[(int)k];
  const double series = (k + 0.5) * log(k) - k + {0.5 * math.log(2 * math.pi)!r};
  return series + 1 / (12 * k) - 1 / (360 * pow(k, 3.0));
}}
"""

# Each has `words_of(count)`, the words that a round of so many places uses up, and `is_taken`,
# which tries a draw for the k-th of them.
_GAMMA = """
__device__ inline bool is_alpha(double a) { return a > 0 && a <= LARGEST; }
__device__ inline void pass_round(Stream* s, long long count) {
  s->skip((count + 1) / 2 * 2);
  s->skip(2 * count);
}
__device__ inline bool is_taken(const Parameters& p, const Stream& start, long long place,
                                long long k, long long count, double* value) {
  const double given = p.one[place * p.one_step], a = is_alpha(given) ? given : 1.0;
  const double d = (a < 1 ? a + 1 : a) - 1 / 3.0, c = 1 / sqrt(9 * d);
  const long long half = (count + 1) / 2, i = k < half ? k : k - half;
  const double radius = sqrt(-2 * log(1 - start.unit_at(i)));
  const double angle = 6.283185307179586 * start.unit_at(half + i);
  const double x = radius * (k < half ? cos(angle) : sin(angle));
  Stream later = start;
  later.skip(2 * half);
  const double u = 1 - later.unit_at(count + k), v = pow(1 + c * x, 3.0);
  *value = d * v;
  return v > 0 && log(u) < 0.5 * x * x + d * (1 - v + log(v));
}
"""
_BY_INVERSION = """
__device__ inline void pass_round(Stream* s, long long count) { s->skip(2 * count); }
"""
_POISSON = (
    _BY_INVERSION
    + """
// By inversion, for means below 10; false for others.
__device__ inline bool is_inverted(const Parameters& p, long long place, double u, double* value) {
  const double mean = p.one[place * p.one_step];
  if (!(mean < 10)) {
    if (mean <= LARGEST) return false;
    *value = mean;  // NaN and infinity give themselves
    return true;
  }
  if (mean < 0) {
    *value = 0;
    return true;
  }
  double term = exp(-mean), total = term, k = 0;
  for (int i = 1; i < MOST_TERMS && u >= total; ++i) {
    term = term * mean / i;
    total += term;
    k += 1;
  }
  *value = k;
  return true;
}
__device__ inline bool is_taken(const Parameters& p, const Stream& start, long long place,
                                long long k, long long count, double* value) {
  const double mean = p.one[place * p.one_step];
  const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
  const double u = start.unit_at(k) - 0.5, v = 1 - start.unit_at(count + k);
  const double us = 0.5 - fabs(u), safe = fmax(us, 1e-12);
  const double found = floor((2 * a / safe + b) * u + mean + 0.43);
  *value = found;
  if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return true;
  if (!(found >= 0 && (us >= 0.013 || v <= us))) return false;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double left = log(v * inverse_alpha / (a / (safe * safe) + b));
  return left <= -mean + found * log(mean) - log_factorial(found);
}
"""
)
_BINOMIAL = (
    _BY_INVERSION
    + """
// Counts, and the smaller one of the two probabilities.
struct Trials {
  double n, p;
  bool flipped, many;
  __device__ inline Trials(const Parameters& given, long long place) {
    n = given.one[place * given.one_step];
    p = given.two[place * given.two_step];
    flipped = p > 0.5;
    p = flipped ? 1 - p : p;
    many = n * p >= 10 && n <= LARGEST;
  }
  __device__ inline double result(double k) const {
    k = fmin(k, n);
    return flipped ? n - k : k;
  }
};
// By inversion, for expected counts below 10; false for others.
__device__ inline bool is_inverted(const Parameters& p, long long place, double u, double* value) {
  const Trials t(p, place);
  if (t.many) return false;
  const double ratio = t.p / (1 - t.p);
  double term = exp(t.n * log1p(-t.p)), total = term, k = 0;
  for (int i = 1; i < MOST_TERMS && u >= total; ++i) {
    term = term * ratio * fmax(t.n - i + 1, 0.0) / i;
    total += term;
    k += 1;
  }
  *value = t.result(k);
  return true;
}
__device__ inline bool is_taken(const Parameters& p, const Stream& start, long long place,
                                long long k, long long count, double* value) {
  const Trials t(p, place);
  const double spread = sqrt(t.n * t.p * (1 - t.p)), b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * t.p;
  const double u = start.unit_at(k) - 0.5, v = 1 - start.unit_at(count + k);
  const double us = 0.5 - fabs(u), safe = fmax(us, 1e-12);
  const double found = floor((2 * a / safe + b) * u + (t.n * t.p + 0.5));
  *value = t.result(found);
  if (!(found >= 0 && found <= t.n)) return false;
  if (us >= 0.07 && v <= 0.92 - 4.2 / b) return true;
  const double left = log(v * ((2.83 + 5.1 / b) * spread) / (a / (safe * safe) + b));
  const double mode = floor((t.n + 1) * t.p);
  const double at_mode = log_factorial(mode) + log_factorial(t.n - mode);
  const double there = log_factorial(found) + log_factorial(t.n - found);
  return left <= at_mode - there + (found - mode) * log(t.p / (1 - t.p));
}
"""
)

_ROUND = """
// A round, a block for each chunk of `count` places: `take(k, &place, &value)` says for the k-th
// which one it is and whether its draw is taken. Others are listed in `left`, from the start of
// their chunk, and counted.
template <typename Take>
__device__ inline void round_by_chunks(const Stream& start, word* next, long long count,
                                       long long* left, long long* counts, double* out, Take take) {
  const long long first = (long long)blockIdx.x * CHUNK;
  if (!blockIdx.x && !threadIdx.x) {
    Stream end = start;
    if (count) pass_round(&end, count);
    end.store(next);
  }
  long long kept = 0;
  for (int by = 0; by < CHUNK && first + by < count; by += blockDim.x) {
    const long long k = first + by + threadIdx.x;
    bool open = false;
    long long place = k;
    if (k < count) {
      double value;
      open = !take(k, &place, &value);
      if (!open) out[place] = value;
    }
    int total;
    const int rank = rank_in_block(open, &total);
    if (open) left[first + kept + rank] = place;
    kept += total;
  }
  if (!threadIdx.x) counts[blockIdx.x] = kept;
}
"""
_INVERTED = """
// What inversion gives, and a list of the places for which it is not made: (one, two, steps, state,
// next, list, counts, out, n).
extern "C" __global__ void inverted(
    const double* __restrict__ one, const double* __restrict__ two, long long one_step,
    long long two_step, const word* __restrict__ state, word* __restrict__ next, long long* list,
    long long* counts, double* __restrict__ out, long long n) {
  const Parameters given = {one, two, one_step, two_step};
  const Stream start(state);
  round_by_chunks(start, next, n, list, counts, out,
                  [&](long long k, const long long*, double* value) {
                    return is_inverted(given, k, start.unit_at(k), value);
                  });
}
"""
_LISTED = """
// The k-th place of lists by chunks, of which `before` has the sums of lengths.
__device__ inline long long listed(const long long* list, const long long* before, int chunks,
                                   long long k) {
  int least = 0, most = chunks;
  while (most - least > 1) {
    const int middle = (least + most) / 2;
    if (before[middle] <= k) least = middle;
    else most = middle;
  }
  return list[(long long)least * CHUNK + k - before[least]];
}
"""
_TRIED = """
// A round of rejection: (one, two, steps, state, next, list, before, chunks, left, counts, out, n).
// All n places are open where there is no list.
extern "C" __global__ void tried(
    const double* __restrict__ one, const double* __restrict__ two, long long one_step,
    long long two_step, const word* __restrict__ state, word* __restrict__ next,
    const long long* __restrict__ list, const long long* __restrict__ before, int chunks,
    long long* left, long long* counts, double* __restrict__ out, long long n) {
  const Parameters given = {one, two, one_step, two_step};
  const Stream start(state);
  const long long count = list ? before[chunks] : n;
  round_by_chunks(start, next, count, left, counts, out,
                  [&](long long k, long long* place, double* value) {
                    if (list) *place = listed(list, before, chunks, k);
                    return is_taken(given, start, *place, k, count, value);
                  });
}
"""
_REST = """
// Rounds until nothing is open: (one, two, steps, state, next, list, before, chunks, left, out),
// one block.
extern "C" __global__ void tried_until_taken(
    const double* __restrict__ one, const double* __restrict__ two, long long one_step,
    long long two_step, const word* __restrict__ state, word* __restrict__ next,
    const long long* __restrict__ list, const long long* __restrict__ before, int chunks,
    long long* left, double* __restrict__ out) {
  const Parameters given = {one, two, one_step, two_step};
  Stream now(state);
  long long count = before[chunks];
  for (bool is_first = true; count; is_first = false) {
    long long kept = 0;
    for (long long from = 0; from < count; from += blockDim.x) {
      const long long k = from + threadIdx.x;
      bool open = false;
      long long place = 0;
      if (k < count) {
        place = is_first ? listed(list, before, chunks, k) : left[k];
        double value;
        open = !is_taken(given, now, place, k, count, &value);
        if (!open) out[place] = value;
      }
      int total;
      const int rank = rank_in_block(open, &total);
      if (open) left[kept + rank] = place;
      kept += total;
    }
    pass_round(&now, count);
    count = kept;
    __syncthreads();
  }
  if (!threadIdx.x) now.store(next);
}
"""
_BOOST = """
// Draws for a + 1 become draws for an a below 1: (alpha, step, state, next, values, n).
extern "C" __global__ void boosted_gamma(const double* __restrict__ alpha, long long alpha_step,
                                         const word* __restrict__ state, word* __restrict__ next,
                                         double* __restrict__ values, long long n) {
  const Stream start(state);
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (!i) {
    Stream end = start;
    end.skip(2 * n);
    end.store(next);
  }
  for (; i < n; i += step) {
    const double a = alpha[i * alpha_step];
    if (!is_alpha(a)) values[i] = __longlong_as_double(0x7FF8000000000000LL);
    else if (a < 1) values[i] *= pow(1 - start.unit_at(n + i), 1 / fmax(a, 1e-300));
  }
}
"""
_TAKEN = {"gamma": _GAMMA, "poisson": _FACTORIALS + _POISSON, "binomial": _FACTORIALS + _BINOMIAL}
DISTRIBUTIONS = tuple(_TAKEN)
MOST_TERMS = 200
"""Inversion ends after so many terms."""


def _kernel(name: str, distribution: str, text: str) -> RawKernel:
    limits = f"#define CHUNK {CHUNK}\n#define MOST_TERMS {MOST_TERMS}\n"
    limits += f"#define LARGEST {sys.float_info.max!r}\n"
    return RawKernel(name, limits + PHILOX + _STREAM + RANK + _TAKEN[distribution] + text)


@cache
def inverted(distribution: str) -> RawKernel:
    """Draws of small means by inversion, and which others there are; Poisson and binomial."""
    return _kernel("inverted", distribution, _ROUND + _INVERTED)


@cache
def tried(distribution: str) -> RawKernel:
    """One round for all places that are open."""
    return _kernel("tried", distribution, _LISTED + _ROUND + _TRIED)


@cache
def tried_until_taken(distribution: str) -> RawKernel:
    """Rounds by one block until none is open."""
    return _kernel("tried_until_taken", distribution, _LISTED + _REST)


@cache
def boosted_gamma() -> RawKernel:
    """The last step of gamma draws, for parameters below 1."""
    return _kernel("boosted_gamma", "gamma", _BOOST)
