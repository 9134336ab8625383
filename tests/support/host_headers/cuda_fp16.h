// float16 for compilers of the CPU: as much of CUDA's header as the device header uses.
#pragma once
#include <cstdint>
#include <cstring>

struct __half {
  __half() = default;
  uint16_t bits;
};

inline float __half2float(__half value) {
  const uint32_t sign = uint32_t(value.bits & 0x8000) << 16;
  const uint32_t exponent = (value.bits >> 10) & 31, fraction = value.bits & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | (fraction << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else {
    float small = float(fraction) / (1 << 24);
    std::memcpy(&bits, &small, 4);
    bits |= sign;
  }
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

inline __half __float2half_rn(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = (bits >> 16) & 0x8000;
  const uint32_t size = bits & 0x7fffffff;
  __half result;
  if (size > 0x7f800000) {
    result.bits = 0x7fff;  // a NaN
  } else if (size >= 0x477ff000) {
    result.bits = sign | 0x7c00;  // rounds to infinity
  } else if (size < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the digits that a subnormal has, rounded to nearest even.
    float magic;
    std::memcpy(&magic, &size, 4);
    magic += 0.5f;
    uint32_t rounded;
    std::memcpy(&rounded, &magic, 4);
    result.bits = sign | uint16_t(rounded - 0x3f000000);
  } else {
    const uint32_t odd = (size >> 13) & 1;
    result.bits = sign | uint16_t((size - 0x38000000 + 0xfff + odd) >> 13);
  }
  return result;
}
