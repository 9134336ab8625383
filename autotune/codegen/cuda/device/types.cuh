// Types by the names that NumPy gives them, their conversions, and the types of results.
// The rules are those of docs/dtypes.md.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using float16 = __half;
using bfloat16 = __nv_bfloat16;
using float32 = float;
using float64 = double;
using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

[[maybe_unused]] constexpr int kRTCMaxThreadsPerBlock = 512;

// What becomes of a result: nothing, it replaces the output, or it is added to it.
enum OpReqType { kNullOp, kWriteTo, kAddTo };

namespace type_util {

template <bool condition, class T, class U>
struct conditional {
  using type = T;
};
template <class T, class U>
struct conditional<false, T, U> {
  using type = U;
};
template <bool condition, class T, class U>
using conditional_t = typename conditional<condition, T, U>::type;

template <class T, class U>
constexpr bool same = false;
template <class T>
constexpr bool same<T, T> = true;

// -- kinds --------------------------------------------------------------------------------------

template <class T>
constexpr bool is_half = same<T, float16> || same<T, bfloat16>;
template <class T>
constexpr bool is_float = is_half<T> || same<T, float32> || same<T, float64>;
template <class T>
constexpr bool is_bool = same<T, bool>;
template <class T>
constexpr bool is_integer = !is_float<T> && !is_bool<T>;
template <class T>
constexpr bool is_unsigned = same<T, uint8> || same<T, uint16> || same<T, uint32> ||
                             same<T, uint64>;

// Whether functions of a type have to be computed in double to keep its digits.
template <class T>
struct has_double_or_integral {
  static constexpr bool value = same<T, float64> || is_integer<T> || is_bool<T>;
};

// Integers of a width in bytes.
template <int bytes, bool with_sign>
struct integer;
template <> struct integer<1, true> { using type = int8; };
template <> struct integer<2, true> { using type = int16; };
template <> struct integer<4, true> { using type = int32; };
template <> struct integer<8, true> { using type = int64; };
template <> struct integer<1, false> { using type = uint8; };
template <> struct integer<2, false> { using type = uint16; };
template <> struct integer<4, false> { using type = uint32; };
template <> struct integer<8, false> { using type = uint64; };

template <class T>
using unsigned_of = typename integer<sizeof(T), false>::type;

template <class T>
constexpr T highest = is_unsigned<T>
    ? T(~T(0))
    : T((unsigned_of<T>(1) << (8 * sizeof(T) - 1)) - 1);
template <class T>
constexpr T lowest = is_unsigned<T> ? T(0) : T(-highest<T> - 1);

// -- the type of a result -----------------------------------------------------------------------

template <class T, class U>
constexpr int wider_bytes = sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U);

// Two floats: the wider; the two half types: float32.
template <class T, class U>
struct mixed_float {
  using type = conditional_t<sizeof(T) == sizeof(U), float32,
                             conditional_t<(sizeof(T) > sizeof(U)), T, U>>;
};
// Two integers: the width of the wider, signed if either is; bool takes the other's type.
template <class T, class U>
struct mixed_integer {
  using type = typename integer<wider_bytes<T, U>, !(is_unsigned<T> && is_unsigned<U>)>::type;
};
template <class T>
struct mixed_integer<T, bool> {
  using type = T;
};
template <class U>
struct mixed_integer<bool, U> {
  using type = U;
};

template <class T, class U, bool T_is_float = is_float<T>, bool U_is_float = is_float<U>>
struct mixed {
  using type = typename mixed_integer<T, U>::type;
};
template <class T, class U>
struct mixed<T, U, true, true> {
  using type = typename mixed_float<T, U>::type;
};
template <class T, class U>
struct mixed<T, U, true, false> {
  using type = T;
};
template <class T, class U>
struct mixed<T, U, false, true> {
  using type = U;
};

// The type of an operation between values of two types.
template <class T, class U>
struct mixed_type {
  using type = typename mixed<T, U>::type;
};
template <class T>
struct mixed_type<T, T> {
  using type = T;
};
template <class T, class U>
using mixed_t = typename mixed_type<T, U>::type;

// The type that values of a type are computed in.
template <class T>
using acc_t = conditional_t<is_half<T>, float32,
                            conditional_t<is_bool<T> || (sizeof(T) < 4), int32, T>>;

// The type of functions that have a fraction: float64 where float32 lacks digits of the operand.
template <class T>
using real_t = conditional_t<same<T, float64> || (is_integer<T> && sizeof(T) >= 4),
                             float64, float32>;

// -- conversions --------------------------------------------------------------------------------

// A float as an integer: towards zero, the nearest end beyond the range, 0 of a NaN.
template <class T, class F>
__device__ inline T saturated(F value) {
  if (value != value) return 0;
  // 2 to the power of the bits is exact in every float type; the highest integer may not be.
  const F end = F(highest<T> / 2 + 1) * 2;
  if (value >= end) return highest<T>;
  if (value <= F(lowest<T>)) return lowest<T>;
  return T(value);
}

template <class To, class From>
__device__ inline To convert(From value) {
  if constexpr (same<To, From>) {
    return value;
  } else if constexpr (same<From, float16>) {
    return convert<To>(__half2float(value));
  } else if constexpr (same<From, bfloat16>) {
    return convert<To>(__bfloat162float(value));
  } else if constexpr (same<To, float16>) {
    return __float2half_rn(float32(value));
  } else if constexpr (same<To, bfloat16>) {
    return __float2bfloat16_rn(float32(value));
  } else if constexpr (is_bool<To>) {
    return value != From(0);
  } else if constexpr (is_float<From> && is_integer<To>) {
    return saturated<To>(value);
  } else {
    return To(value);
  }
}

}  // namespace type_util

namespace util = type_util;

// How values of a type are loaded, computed with, and stored.
template <class T>
struct AccType {
  using type = type_util::acc_t<T>;

  __device__ static inline type from(T value) { return type_util::convert<type>(value); }

  template <class U>
  __device__ static inline T to(U value) {
    return type_util::convert<T>(value);
  }
};
