"""float16 and bfloat16 in CUDA C++ without the toolkit's headers, which not every machine has."""

SHORT_FLOATS = """\
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
// To the nearest, ties to even; a NaN stays one.
__device__ inline f16 to_f16(float x) {
  const unsigned int bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;
  unsigned int a = bits & 0x7FFFFFFFu;
  if (a > 0x7F800000u) a = 0x7E00u;
  else if (a >= 0x477FF000u) a = 0x7C00u;
  else if (a < 0x38800000u) a = __float_as_uint(__uint_as_float(a) + 0.5f) - 0x3F000000u;
  else a = (a + 0xFFFu + (a >> 13 & 1u) - 0x38000000u) >> 13;
  return f16{(unsigned short)(sign | a)};
}
__device__ inline bf16 to_bf16(float x) {
  const unsigned int bits = __float_as_uint(x);
  if (x != x) return bf16{(unsigned short)(bits >> 16 | 0x40u)};
  return bf16{(unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}
__device__ inline float from_f16(f16 h) {
  const unsigned int sign = (h.bits & 0x8000u) << 16, a = h.bits & 0x7FFFu;
  if (a >= 0x7C00u) return __uint_as_float(sign | 0x7F800000u | (a & 0x3FFu) << 13);
  if (a >= 0x400u) return __uint_as_float(sign | ((a << 13) + 0x38000000u));
  const float y = (float)a * 5.9604644775390625e-08f;
  return sign ? -y : y;
}
__device__ inline float from_bf16(bf16 b) { return __uint_as_float((unsigned int)b.bits << 16); }
"""
"""Types `f16` and `bf16`, and `to_f16`, `to_bf16`, `from_f16`, `from_bf16` from and to float."""
