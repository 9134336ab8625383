"""Helper functions of CUDA sources: a source has only those that its kernels call."""

from __future__ import annotations

from collections.abc import Iterable

HEADERS = {"float16": "#include <cuda_fp16.h>", "bfloat16": "#include <cuda_bf16.h>"}

_EXTREME = """
// The {which} one, or a NaN if there is one.
template <typename T>
__device__ T {name}(T a, T b) {{
  return a {sign} b || a != a ? a : b;
}}
#if __CUDA_ARCH__ >= 800
__device__ float {name}(float a, float b) {{
  float result;
  asm("{ptx}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}}
#endif
"""

_BITWISE = """
template <typename T>
__device__ T bitwise_{name}(T a, T b) {{
  return T(a {sign} b);
}}
"""

HELPERS = {
    "INFINITY": """
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
""",
    "pack": """
// N elements that move together.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T lanes[N];
  __device__ T& operator[](int lane) { return lanes[lane]; }
  __device__ const T& operator[](int lane) const { return lanes[lane]; }
};

template <int N, typename T>
__device__ Pack<T, N>& pack(T* first) {
  return *reinterpret_cast<Pack<T, N>*>(first);
}

template <int N, typename T>
__device__ const Pack<T, N>& pack(const T* first) {
  return *reinterpret_cast<const Pack<T, N>*>(first);
}
""",
    "copy_ahead": """
// Starts a copy to shared memory, which goes on by itself until await_copies.
template <typename T>
__device__ void copy_ahead(T& to, const T& from) {
#if __CUDA_ARCH__ >= 800
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(&to));
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(&from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(&from),
                 "n"(sizeof(T)) : "memory");
  }
#else
  to = from;
#endif
}
""",
    "await_copies": """
// Waits for all copies that this thread has started.
__device__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
""",
    "stream": """
// Stores a value that nobody reads soon: caches give its place away first.
template <typename T>
__device__ void stream(T& place, T value) {
  if constexpr (sizeof(T) == 16) {
    __stcs(reinterpret_cast<int4*>(&place), *reinterpret_cast<const int4*>(&value));
  } else if constexpr (sizeof(T) == 8) {
    __stcs(reinterpret_cast<int2*>(&place), *reinterpret_cast<const int2*>(&value));
  } else if constexpr (sizeof(T) == 4) {
    __stcs(reinterpret_cast<int*>(&place), *reinterpret_cast<const int*>(&value));
  } else {
    place = value;
  }
}
""",
    "load_here": """
// Loads a value where it is written, not where it is used: the assembler keeps the order.
template <typename T>
__device__ T load_here(const T& place) {
  T result = place;
#ifdef __CUDA_ARCH__
  const size_t at = __cvta_generic_to_global(&place);
  if constexpr (sizeof(T) == 16) {
    int4& r = reinterpret_cast<int4&>(result);
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(at));
  } else if constexpr (sizeof(T) == 8) {
    int2& r = reinterpret_cast<int2&>(result);
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(at));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(reinterpret_cast<int&>(result)) : "l"(at));
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(reinterpret_cast<short&>(result)) : "l"(at));
  }
#endif
  return result;
}
""",
    "minimum": _EXTREME.format(name="minimum", which="smaller", sign="<", ptx="min"),
    "maximum": _EXTREME.format(name="maximum", which="larger", sign=">", ptx="max"),
    "sigmoid": """
__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
""",
    "unsigned_divide": """
// The quotient; 0 for a division by 0.
template <typename T>
__device__ T unsigned_divide(T a, T b) {
  return b == 0 ? 0 : a / b;
}
""",
    "unsigned_modulo": """
// The remainder; 0 for a division by 0.
template <typename T>
__device__ T unsigned_modulo(T a, T b) {
  return b == 0 ? 0 : a % b;
}
""",
    "floor_divide": """
// The quotient rounded down; 0 for a division by 0.
template <typename T>
__device__ T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1)) return T(0) - a;
  T quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
""",
    "floor_modulo": """
// The remainder with the sign of the divisor; 0 for a division by 0.
template <typename T>
__device__ T floor_modulo(T a, T b) {
  if (b == 0 || b == T(-1)) return 0;
  T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
""",
    "bitwise_and": _BITWISE.format(name="and", sign="&"),
    "bitwise_or": _BITWISE.format(name="or", sign="|"),
    "bitwise_xor": _BITWISE.format(name="xor", sign="^"),
    "shift_left": """
// Bits n places up; 0 where n is negative or as large as the width.
template <typename T>
__device__ T shift_left(T a, T n) {
  return (unsigned long long)n < 8 * sizeof(T) ? T((unsigned long long)a << n) : T(0);
}
""",
    "shift_right_logical": """
// Bits n places down, zeros above; 0 where n is negative or as large as the width.
template <typename T>
__device__ T shift_right_logical(T a, T n) {
  const unsigned long long bits = a & (~0ull >> (64 - 8 * sizeof(T)));
  return (unsigned long long)n < 8 * sizeof(T) ? T(bits >> n) : T(0);
}
""",
}

#: Names that kernels must not use for anything else.
NAMES = (
    *HELPERS, "Pack", "min", "max", "abs", "threadIdx", "blockIdx", "blockDim", "gridDim",
    "warpSize", "exp", "log", "sin", "cos", "pow", "sqrt", "floor", "ceil", "round", "trunc",
)  # fmt: skip


def needed(helpers: Iterable[str]) -> list[str]:
    """Return the helpers in the order in which they are written out."""
    wanted = set(helpers)
    return [name for name in HELPERS if name in wanted]
