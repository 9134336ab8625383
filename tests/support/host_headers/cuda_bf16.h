// bfloat16 for compilers of the CPU: as much of CUDA's header as the device header uses.
#pragma once
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  const uint32_t bits = uint32_t(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  __nv_bfloat16 result;
  if ((bits & 0x7fffffff) > 0x7f800000) {
    result.bits = 0x7fff;  // a NaN
  } else {
    result.bits = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  return result;
}
