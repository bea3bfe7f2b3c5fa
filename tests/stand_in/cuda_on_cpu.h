// What the CUDA compiler knows by itself, declared for a C++ compiler of the CPU.
//
// The functions of <math.h> are declared here, as reading <cmath> takes longer. With CPU_BARRIERS
// the threads of a block are contexts of their own, which wait for each other.

#ifdef CPU_BARRIERS
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define warpSize 32

typedef decltype(sizeof(0)) size_t;

// ---------------------------------------------------------------------------- where a thread is

struct uint3 { unsigned int x, y, z; };
struct dim3 {
  unsigned int x, y, z;
  dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
};
static thread_local dim3 gridDim, blockDim;
static thread_local uint3 blockIdx, threadIdx;

// ---------------------------------------------------------------------------- vectors

#define CPU_VECTOR(T, name, width) \
  struct __attribute__((aligned(2 * width > 16 ? 16 : 2 * width))) name##2 { T x, y; }; \
  struct name##3 { T x, y, z; }; \
  struct __attribute__((aligned(4 * width > 16 ? 16 : 4 * width))) name##4 { T x, y, z, w; }; \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CPU_VECTOR(signed char, char, 1)
CPU_VECTOR(unsigned char, uchar, 1)
CPU_VECTOR(short, short, 2)
CPU_VECTOR(unsigned short, ushort, 2)
CPU_VECTOR(int, int, 4)
CPU_VECTOR(float, float, 4)
CPU_VECTOR(double, double, 8)
CPU_VECTOR(long long, longlong, 8)
CPU_VECTOR(unsigned long long, ulonglong, 8)
struct __attribute__((aligned(8))) uint2 { unsigned int x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned int x, y, z, w; };
static inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
static inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
  return {x, y, z, w};
}

// ---------------------------------------------------------------------------- functions

#define CPU_ONE(name) \
  extern "C" double name(double); extern "C" float name##f(float); \
  static inline float name(float x) { return name##f(x); }
#define CPU_TWO(name) \
  extern "C" double name(double, double); extern "C" float name##f(float, float); \
  static inline float name(float x, float y) { return name##f(x, y); }
CPU_ONE(acos) CPU_ONE(acosh) CPU_ONE(asin) CPU_ONE(asinh) CPU_ONE(atan) CPU_ONE(atanh)
CPU_ONE(cbrt) CPU_ONE(ceil) CPU_ONE(cos) CPU_ONE(cosh) CPU_ONE(erf) CPU_ONE(erfc) CPU_ONE(exp)
CPU_ONE(exp2) CPU_ONE(expm1) CPU_ONE(fabs) CPU_ONE(floor) CPU_ONE(lgamma) CPU_ONE(log)
CPU_ONE(log10) CPU_ONE(log1p) CPU_ONE(log2) CPU_ONE(nearbyint) CPU_ONE(rint) CPU_ONE(round)
CPU_ONE(sin) CPU_ONE(sinh) CPU_ONE(sqrt) CPU_ONE(tan) CPU_ONE(tanh) CPU_ONE(tgamma) CPU_ONE(trunc)
CPU_TWO(atan2) CPU_TWO(copysign) CPU_TWO(fdim) CPU_TWO(fmax) CPU_TWO(fmin) CPU_TWO(fmod)
CPU_TWO(hypot) CPU_TWO(nextafter) CPU_TWO(pow) CPU_TWO(remainder)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
extern "C" void sincos(double, double*, double*);
extern "C" void sincosf(float, float*, float*);
extern "C" void* memcpy(void*, const void*, size_t);
extern "C" void* memset(void*, int, size_t);
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
#define CPU_ORDERED(T) \
  static inline T min(T x, T y) { return y < x ? y : x; } \
  static inline T max(T x, T y) { return x < y ? y : x; }
CPU_ORDERED(int) CPU_ORDERED(unsigned int) CPU_ORDERED(long) CPU_ORDERED(unsigned long)
CPU_ORDERED(long long) CPU_ORDERED(unsigned long long)
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
static inline double min(double x, double y) { return fmin(x, y); }
static inline double max(double x, double y) { return fmax(x, y); }
template <class T> static inline bool isnan(T x) { return x != x; }
template <class T> static inline bool isinf(T x) { return x == x && (x - x) != (x - x); }
template <class T> static inline bool isfinite(T x) { return (x - x) == (x - x); }
template <class T> static inline bool signbit(T x) { return copysign((T)1, x) < 0; }

template <class To, class From> static inline To cpu_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "another size");
  To y; __builtin_memcpy(&y, &x, sizeof y); return y;
}
static inline float __int_as_float(int x) { return cpu_bits<float>(x); }
static inline float __uint_as_float(unsigned int x) { return cpu_bits<float>(x); }
static inline int __float_as_int(float x) { return cpu_bits<int>(x); }
static inline unsigned int __float_as_uint(float x) { return cpu_bits<unsigned int>(x); }
static inline double __longlong_as_double(long long x) { return cpu_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return cpu_bits<long long>(x); }

static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
// The short versions of a GPU are less exact than these.
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }
static inline float __uint2float_rn(unsigned int x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)floorf(x); }

static inline unsigned int __umulhi(unsigned int x, unsigned int y) {
  return (unsigned int)((unsigned long long)x * y >> 32);
}
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned int __brev(unsigned int x) {
  unsigned int y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline void __stcs(T* p, T x) { *p = x; }

// ---------------------------------------------------------------------------- short floats

static inline float cpu_from_half(unsigned short h) {
  unsigned int sign = (unsigned int)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 1023u;
  if (e == 31) return cpu_bits<float>(sign | 0x7F800000u | m << 13);
  if (e) return cpu_bits<float>(sign | (e + 112) << 23 | m << 13);
  float y = (float)m * 0x1p-24f;
  return sign ? -y : y;
}
template <class T> static inline unsigned short cpu_to_half(T x) {  // to the nearest, ties to even
  if (x != x) return 0x7FFFu;
  unsigned short sign = copysign((T)1, x) < 0 ? 0x8000u : 0;
  double a = fabs((double)x);
  if (a >= 65520.0) return sign | 0x7C00u;
  if (a < 0x1p-14) return sign | (unsigned short)rint(a * 0x1p24);
  long long bits = cpu_bits<long long>(a);
  long long kept = (bits >> 42) - ((long long)(1023 - 15) << 10), rest = bits & ((1LL << 42) - 1);
  long long half = 1LL << 41;
  return sign | (unsigned short)(kept + (rest > half || (rest == half && (kept & 1))));
}
static inline float cpu_from_bfloat16(unsigned short b) {
  return cpu_bits<float>((unsigned int)b << 16);
}
static inline unsigned short cpu_to_bfloat16(float x) {
  if (x != x) return 0x7FFFu;
  unsigned int bits = cpu_bits<unsigned int>(x);
  return (unsigned short)(bits + 0x7FFFu + (bits >> 16 & 1u) >> 16);
}

#define CPU_SHORT(name, from, to) \
  struct name { \
    unsigned short bits; \
    name() = default; \
    name(float x) : bits(to(x)) {} \
    name(double x) : bits(to(x)) {} \
    name(int x) : bits(to((float)x)) {} \
    operator float() const { return from(bits); } \
  }; \
  static inline name operator+(name x, name y) { return (float)x + (float)y; } \
  static inline name operator-(name x, name y) { return (float)x - (float)y; } \
  static inline name operator*(name x, name y) { return (float)x * (float)y; } \
  static inline name operator/(name x, name y) { return (float)x / (float)y; } \
  static inline name operator-(name x) { return -(float)x; } \
  static inline name& operator+=(name& x, name y) { return x = x + y; } \
  static inline name& operator-=(name& x, name y) { return x = x - y; } \
  static inline name& operator*=(name& x, name y) { return x = x * y; } \
  static inline name& operator/=(name& x, name y) { return x = x / y; } \
  static inline bool operator<(name x, name y) { return (float)x < (float)y; } \
  static inline bool operator>(name x, name y) { return (float)x > (float)y; } \
  static inline bool operator<=(name x, name y) { return (float)x <= (float)y; } \
  static inline bool operator>=(name x, name y) { return (float)x >= (float)y; } \
  static inline bool operator==(name x, name y) { return (float)x == (float)y; } \
  static inline bool operator!=(name x, name y) { return (float)x != (float)y; } \
  struct __attribute__((aligned(4))) name##2 { name x, y; };
CPU_SHORT(__half, cpu_from_half, cpu_to_half)
CPU_SHORT(__nv_bfloat16, cpu_from_bfloat16, cpu_to_bfloat16)
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
static inline float __half2float(__half x) { return x; }
static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline __half __double2half(double x) { return x; }
static inline __half __ushort_as_half(unsigned short x) { return cpu_bits<__half>(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  return cpu_bits<__nv_bfloat16>(x);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }

// ---------------------------------------------------------------------------- atomic operations

template <class T> struct cpu_same { typedef T type; };
#define CPU_ATOMIC(name, change) \
  template <class T> static inline T name(T* p, typename cpu_same<T>::type x) { \
    T old = *p; *p = change; return old; \
  }
CPU_ATOMIC(atomicAdd, old + x)
CPU_ATOMIC(atomicSub, old - x)
CPU_ATOMIC(atomicMin, (x < old ? x : old))
CPU_ATOMIC(atomicMax, (old < x ? x : old))
CPU_ATOMIC(atomicAnd, (T)(old & x))
CPU_ATOMIC(atomicOr, (T)(old | x))
CPU_ATOMIC(atomicXor, (T)(old ^ x))
CPU_ATOMIC(atomicExch, x)
template <class T>
static inline T atomicCAS(T* p, typename cpu_same<T>::type before, typename cpu_same<T>::type x) {
  T old = *p;
  if (old == before) *p = x;
  return old;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

// ---------------------------------------------------------------------------- blocks and threads

static thread_local unsigned char* cpu_dynamic;  // what `extern __shared__` names
static thread_local void (*cpu_kernel)(void**);
static thread_local void** cpu_given;

static void cpu_place(unsigned int t) {
  threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
}

#ifdef CPU_BARRIERS
struct CpuThread {
  ucontext_t start;
  jmp_buf here;
  int line;  // of the barrier where it waits, 0 where it runs
  bool begun, done;  // its stack stands between two blocks, too: what begins here goes on there
  unsigned int turns;  // how many barriers of its warp it has passed
  unsigned long long slot;
};
static const size_t CPU_STACK = 128 << 10;
static const unsigned int CPU_MOST = 1024;
static thread_local CpuThread* cpu_threads;
static thread_local unsigned int cpu_now, cpu_count;
static thread_local unsigned int cpu_arrived[CPU_MOST / 32];
static thread_local unsigned int cpu_running[CPU_MOST / 32];  // lanes of each warp, less what ended
static thread_local jmp_buf cpu_back;
static thread_local const char* cpu_error;
static thread_local bool cpu_moved;

static void cpu_pause() {
  CpuThread& mine = cpu_threads[cpu_now];
  if (!_setjmp(mine.here)) _longjmp(cpu_back, 1);
}
static void cpu_fail(const char* text) { cpu_error = text; cpu_pause(); }
static void cpu_barrier(int line) {
  cpu_moved = true;
  cpu_threads[cpu_now].line = line;
  while (cpu_threads[cpu_now].line) cpu_pause();
}
#define __syncthreads() cpu_barrier(__LINE__)

static unsigned int cpu_lanes(unsigned int mask) {  // those of the mask that have not ended
  return mask & cpu_running[cpu_now / 32];
}
static void cpu_wait(unsigned int mask) {
  CpuThread& mine = cpu_threads[cpu_now];
  unsigned int first = cpu_now & ~31u, &arrived = cpu_arrived[cpu_now / 32], turns = mine.turns;
  if (!(mask >> (cpu_now & 31u) & 1u)) cpu_fail("a thread waits for a mask without its own lane");
  arrived |= 1u << (cpu_now & 31u);
  cpu_moved = true;
  while (mine.turns == turns) {
    unsigned int lanes = cpu_lanes(mask);
    if ((arrived & lanes) == lanes) {
      arrived &= ~mask;
      for (unsigned int i = 0; i < 32; ++i) if (lanes >> i & 1u) ++cpu_threads[first + i].turns;
      cpu_moved = true;
    } else {
      cpu_pause();
    }
  }
}
static inline void __syncwarp(unsigned int mask = 0xFFFFFFFFu) { cpu_wait(mask); }
static inline unsigned int __activemask() { return cpu_lanes(0xFFFFFFFFu); }
template <class T> static T cpu_lane(unsigned int mask, T x, unsigned int from) {
  static_assert(sizeof(T) <= 8, "a shuffle takes up to 8 bytes");
  memcpy(&cpu_threads[cpu_now].slot, &x, sizeof x);
  cpu_wait(mask);
  T y;
  unsigned int there = (cpu_now & ~31u) + from;
  memcpy(&y, &cpu_threads[there < cpu_count ? there : cpu_now].slot, sizeof y);
  cpu_wait(mask);
  return y;
}
template <class T> static T __shfl_sync(unsigned int mask, T x, int from, int width = 32) {
  unsigned int lane = cpu_now & 31u;
  return cpu_lane(mask, x, (lane & ~(width - 1u)) | (from & (width - 1u)));
}
template <class T> static T __shfl_xor_sync(unsigned int mask, T x, int with, int width = 32) {
  unsigned int lane = cpu_now & 31u, there = lane ^ with;
  return cpu_lane(mask, x, there >= (lane & ~(width - 1u)) + width ? lane : there);
}
template <class T> static T __shfl_down_sync(unsigned int mask, T x, unsigned by, int width = 32) {
  unsigned int lane = cpu_now & 31u;
  return cpu_lane(mask, x, (lane & (width - 1u)) + by < (unsigned)width ? lane + by : lane);
}
template <class T> static T __shfl_up_sync(unsigned int mask, T x, unsigned by, int width = 32) {
  unsigned int lane = cpu_now & 31u;
  return cpu_lane(mask, x, (lane & (width - 1u)) >= by ? lane - by : lane);
}
static unsigned int __ballot_sync(unsigned int mask, int holds) {
  unsigned int first = cpu_now & ~31u, lanes = cpu_lanes(mask), found = 0;
  cpu_threads[cpu_now].slot = holds != 0;
  cpu_wait(mask);
  for (unsigned int i = 0; i < 32; ++i)  // a lane that has ended says nothing
    if (lanes >> i & 1u && cpu_threads[first + i].slot) found |= 1u << i;
  cpu_wait(mask);
  return found;
}
static int __any_sync(unsigned int mask, int holds) { return __ballot_sync(mask, holds) != 0; }
static int __all_sync(unsigned int mask, int holds) {
  unsigned int lanes = cpu_lanes(mask);
  return __ballot_sync(mask, holds) == lanes;
}

static thread_local unsigned int cpu_votes, cpu_voters;
static int cpu_vote(int holds, int line) {
  cpu_barrier(line);
  if (!cpu_voters++) cpu_votes = 0;
  cpu_votes += holds != 0;
  cpu_barrier(line);
  unsigned int votes = cpu_votes;
  cpu_barrier(line);
  cpu_voters = 0;
  return (int)votes;
}
#define __syncthreads_count(holds) cpu_vote(holds, __LINE__)
#define __syncthreads_or(holds) (cpu_vote(holds, __LINE__) != 0)

static void cpu_begin() {
  for (;;) {  // once for each block: a context of its own takes two calls of the system
    cpu_kernel(cpu_given);
    cpu_threads[cpu_now].done = cpu_moved = true;
    cpu_running[cpu_now / 32] &= ~(1u << (cpu_now & 31u));
    cpu_pause();
  }
}

static void cpu_turn(unsigned int t) {  // let thread t go on to where it waits or ends
  CpuThread& mine = cpu_threads[t];
  cpu_now = t;
  cpu_place(t);
  if (_setjmp(cpu_back)) return;
  if (mine.begun) _longjmp(mine.here, 1);
  mine.begun = true;
  setcontext(&mine.start);
}

static bool cpu_released() {  // the barrier of the block opens where all threads left wait at it
  int line = 0;
  unsigned int waiting = 0, left = 0;
  for (unsigned int t = 0; t < cpu_count; ++t) {
    if (cpu_threads[t].done) continue;
    ++left;
    if (!cpu_threads[t].line) continue;
    ++waiting;
    if (line && cpu_threads[t].line != line) cpu_error = "threads of a block wait at two barriers";
    line = cpu_threads[t].line;
  }
  if (!waiting || waiting < left) return false;
  for (unsigned int t = 0; t < cpu_count; ++t) cpu_threads[t].line = 0;
  return true;
}

static const char* cpu_block(bool backward) {
  static thread_local unsigned char* stacks = nullptr;
  cpu_count = blockDim.x * blockDim.y * blockDim.z;
  if (!stacks) {
    stacks = (unsigned char*)mmap(nullptr, CPU_MOST * CPU_STACK, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cpu_threads = (CpuThread*)mmap(nullptr, CPU_MOST * sizeof(CpuThread), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  for (unsigned int t = 0; t < cpu_count; ++t) {
    CpuThread& one = cpu_threads[t];
    bool stands = one.begun && one.done;  // it does not where an error broke a block off
    one.line = one.turns = 0;
    one.begun = stands;
    one.done = false;
    if (stands) continue;
    getcontext(&one.start);
    one.start.uc_stack.ss_sp = stacks + t * CPU_STACK;
    one.start.uc_stack.ss_size = CPU_STACK;
    one.start.uc_link = nullptr;
    makecontext(&one.start, cpu_begin, 0);
  }
  memset(cpu_arrived, 0, sizeof cpu_arrived);
  for (unsigned int first = 0; first < cpu_count; first += 32)
    cpu_running[first / 32] = ~0u >> (cpu_count - first < 32 ? 32 - (cpu_count - first) : 0);
  cpu_error = nullptr;
  cpu_voters = 0;
  for (;;) {
    cpu_moved = false;
    bool left = false;
    for (unsigned int i = 0; i < cpu_count; ++i) {
      unsigned int t = backward ? cpu_count - 1 - i : i;
      if (cpu_threads[t].done) continue;
      left = true;
      if (!cpu_threads[t].line) cpu_turn(t);
      if (cpu_error) return cpu_error;
    }
    if (!left) return nullptr;
    bool opened = cpu_released();
    if (cpu_error) return cpu_error;
    if (!opened && !cpu_moved) return "threads wait for others that never come";
  }
}
#else
static const char* cpu_block(bool backward) {
  unsigned int count = blockDim.x * blockDim.y * blockDim.z;
  for (unsigned int i = 0; i < count; ++i) {
    cpu_place(backward ? count - 1 - i : i);
    cpu_kernel(cpu_given);
  }
  return nullptr;
}
#endif

// What a kernel takes: arrays by address, all else by value.
template <class T> struct CpuGiven {
  static T get(void* p) { return *(T*)p; }
  static long size() { return sizeof(T); }
};
template <class T> struct CpuGiven<T*> {
  static T* get(void* p) { return (T*)p; }
  static long size() { return -(long)(sizeof(T*)); }
};
template <unsigned... I> struct CpuPlaces {};
template <unsigned N, unsigned... I> struct CpuCount : CpuCount<N - 1, N - 1, I...> {};
template <unsigned... I> struct CpuCount<0, I...> { typedef CpuPlaces<I...> type; };
template <class... T, unsigned... I>
static void cpu_call(void (*kernel)(T...), void** a, CpuPlaces<I...>) {
  kernel(CpuGiven<T>::get(a[I])...);
}
template <class... T> static void cpu_call(void (*kernel)(T...), void** a) {
  cpu_call(kernel, a, typename CpuCount<sizeof...(T)>::type());
}
template <class... T> static int cpu_sizes(void (*)(T...), long* sizes) {
  long found[] = {CpuGiven<T>::size()..., 0};
  if (sizes) memcpy(sizes, found, sizeof found);
  return sizeof...(T);
}
static const char* cpu_run(const unsigned* grid, const unsigned* block, void* dynamic,
                           int backward, void (*kernel)(void**), void** a) {
  gridDim = dim3(grid[0], grid[1], grid[2]);
  blockDim = dim3(block[0], block[1], block[2]);
  cpu_dynamic = (unsigned char*)dynamic;
  cpu_kernel = kernel;
  cpu_given = a;
  unsigned int blocks = grid[0] * grid[1] * grid[2];
  for (unsigned int i = 0; i < blocks; ++i) {
    unsigned int b = backward ? blocks - 1 - i : i;
    blockIdx = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
    if (const char* error = cpu_block(backward)) return error;
  }
  return nullptr;
}
