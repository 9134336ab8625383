// Element-wise operators. They compute in type_util::acc_t, functions with a fraction in
// type_util::real_t; integers wrap around.

namespace op {

using namespace type_util;

// -- of one operand -----------------------------------------------------------------------------

template <class T>
__device__ inline acc_t<T> identity(T value) {
  return convert<acc_t<T>>(value);
}

template <class T>
__device__ inline acc_t<T> negative(T value) {
  const auto x = convert<acc_t<T>>(value);
  if constexpr (is_float<T>) {
    return -x;
  } else {
    return acc_t<T>(unsigned_of<acc_t<T>>(0) - unsigned_of<acc_t<T>>(x));
  }
}

template <class T>
__device__ inline acc_t<T> abs(T value) {
  const auto x = convert<acc_t<T>>(value);
  if constexpr (same<acc_t<T>, float32>) {
    return ::fabsf(x);
  } else if constexpr (is_float<T>) {
    return ::fabs(x);
  } else {
    return x < acc_t<T>(0) ? negative(x) : x;
  }
}

template <class T>
__device__ inline acc_t<T> sign(T value) {
  const auto x = convert<acc_t<T>>(value);
  if (x != x) return x;
  return acc_t<T>(x > acc_t<T>(0)) - acc_t<T>(x < acc_t<T>(0));
}

template <class T>
__device__ inline acc_t<T> relu(T value) {
  const auto x = convert<acc_t<T>>(value);
  return x < acc_t<T>(0) ? acc_t<T>(0) : x;  // a NaN stays one
}

template <class T>
__device__ inline acc_t<T> square(T value) {
  const auto x = convert<acc_t<T>>(value);
  if constexpr (is_float<T>) {
    return x * x;
  } else {
    return acc_t<T>(unsigned_of<acc_t<T>>(x) * unsigned_of<acc_t<T>>(x));
  }
}

// A function of the library, in single or double precision.
#define AUTOTUNE_REAL(name, single, twice)              \
  template <class T>                                    \
  __device__ inline real_t<T> name(T value) {           \
    const auto x = convert<real_t<T>>(value);           \
    if constexpr (same<real_t<T>, float32>) {           \
      return single(x);                                 \
    } else {                                            \
      return twice(x);                                  \
    }                                                   \
  }

AUTOTUNE_REAL(sqrt, ::sqrtf, ::sqrt)
AUTOTUNE_REAL(rsqrt, ::rsqrtf, ::rsqrt)
AUTOTUNE_REAL(cbrt, ::cbrtf, ::cbrt)
AUTOTUNE_REAL(exp, ::expf, ::exp)
AUTOTUNE_REAL(exp2, ::exp2f, ::exp2)
AUTOTUNE_REAL(expm1, ::expm1f, ::expm1)
AUTOTUNE_REAL(log, ::logf, ::log)
AUTOTUNE_REAL(log2, ::log2f, ::log2)
AUTOTUNE_REAL(log10, ::log10f, ::log10)
AUTOTUNE_REAL(log1p, ::log1pf, ::log1p)
AUTOTUNE_REAL(sin, ::sinf, ::sin)
AUTOTUNE_REAL(cos, ::cosf, ::cos)
AUTOTUNE_REAL(tan, ::tanf, ::tan)
AUTOTUNE_REAL(arcsin, ::asinf, ::asin)
AUTOTUNE_REAL(arccos, ::acosf, ::acos)
AUTOTUNE_REAL(arctan, ::atanf, ::atan)
AUTOTUNE_REAL(sinh, ::sinhf, ::sinh)
AUTOTUNE_REAL(cosh, ::coshf, ::cosh)
AUTOTUNE_REAL(tanh, ::tanhf, ::tanh)
AUTOTUNE_REAL(arcsinh, ::asinhf, ::asinh)
AUTOTUNE_REAL(arccosh, ::acoshf, ::acosh)
AUTOTUNE_REAL(arctanh, ::atanhf, ::atanh)
AUTOTUNE_REAL(erf, ::erff, ::erf)
AUTOTUNE_REAL(erfc, ::erfcf, ::erfc)

#undef AUTOTUNE_REAL

// Rounding leaves integers as they are.
#define AUTOTUNE_ROUND(name, single, twice)             \
  template <class T>                                    \
  __device__ inline acc_t<T> name(T value) {            \
    const auto x = convert<acc_t<T>>(value);            \
    if constexpr (same<acc_t<T>, float32>) {            \
      return single(x);                                 \
    } else if constexpr (same<acc_t<T>, float64>) {     \
      return twice(x);                                  \
    } else {                                            \
      return x;                                         \
    }                                                   \
  }

AUTOTUNE_ROUND(floor, ::floorf, ::floor)
AUTOTUNE_ROUND(ceil, ::ceilf, ::ceil)
AUTOTUNE_ROUND(trunc, ::truncf, ::trunc)
AUTOTUNE_ROUND(round, ::rintf, ::rint)

#undef AUTOTUNE_ROUND

template <class T>
__device__ inline real_t<T> reciprocal(T value) {
  return real_t<T>(1) / convert<real_t<T>>(value);
}

// The exponential is taken of negative numbers only, so that it never overflows. Approximations are
// those that no result shows: of the exponential for half types, of the quotient (2 units in the
// last place, the divisor is at most 2) for float32.
template <class T>
__device__ inline real_t<T> sigmoid(T value) {
  const auto x = convert<real_t<T>>(value);
  if constexpr (same<real_t<T>, float32>) {
    constexpr bool half = same<T, float16> || same<T, bfloat16>;
    const float32 e = half ? ::__expf(-op::abs(x)) : ::expf(-op::abs(x));
    return ::__fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
  } else {
    const auto e = op::exp(-op::abs(x));
    return (x < real_t<T>(0) ? e : real_t<T>(1)) / (real_t<T>(1) + e);
  }
}

template <class T>
__device__ inline real_t<T> silu(T value) {
  return convert<real_t<T>>(value) * sigmoid(value);
}

template <class T>
__device__ inline real_t<T> softplus(T value) {
  const auto x = convert<real_t<T>>(value);
  return relu(x) + op::log1p(op::exp(-op::abs(x)));
}

template <class T>
__device__ inline real_t<T> softsign(T value) {
  const auto x = convert<real_t<T>>(value);
  return x / (real_t<T>(1) + op::abs(x));
}

template <class T>
__device__ inline real_t<T> gelu(T value) {
  const auto x = convert<real_t<T>>(value);
  // erfc keeps its digits where 1 + erf would lose them.
  return real_t<T>(0.5) * x * op::erfc(x * real_t<T>(-0.70710678118654752440));
}

template <class T>
__device__ inline bool logical_not(T value) {
  return !convert<bool>(value);
}

template <class T>
__device__ inline bool isnan(T value) {
  const auto x = convert<acc_t<T>>(value);
  return x != x;
}

template <class T>
__device__ inline bool isfinite(T value) {
  const auto x = convert<acc_t<T>>(value);
  return x - x == acc_t<T>(0);  // infinity less itself is no number
}

template <class T>
__device__ inline bool isinf(T value) {
  return !isfinite(value) && !isnan(value);
}

// -- of two operands ----------------------------------------------------------------------------

// Integers are computed as unsigned ones, which wrap around.
#define AUTOTUNE_ARITHMETIC(name, sign)                                                       \
  template <class T, class U>                                                                 \
  __device__ inline mixed_t<T, U> name(T first, U second) {                                   \
    using Mixed = mixed_t<T, U>;                                                              \
    using Acc = acc_t<Mixed>;                                                                 \
    const auto a = convert<Acc>(convert<Mixed>(first));                                       \
    const auto b = convert<Acc>(convert<Mixed>(second));                                      \
    if constexpr (is_float<Mixed>) {                                                          \
      return convert<Mixed>(a sign b);                                                        \
    } else {                                                                                  \
      return convert<Mixed>(Acc(unsigned_of<Acc>(a) sign unsigned_of<Acc>(b)));               \
    }                                                                                         \
  }

AUTOTUNE_ARITHMETIC(add, +)
AUTOTUNE_ARITHMETIC(sub, -)
AUTOTUNE_ARITHMETIC(mul, *)

#undef AUTOTUNE_ARITHMETIC

// The quotient with its fraction, also of integers.
template <class T, class U>
__device__ inline real_t<mixed_t<T, U>> div(T first, U second) {
  using Real = real_t<mixed_t<T, U>>;
  return convert<Real>(first) / convert<Real>(second);
}

// A NaN on either side wins.
template <class T, class U>
__device__ inline mixed_t<T, U> max(T first, U second) {
  using Mixed = mixed_t<T, U>;
  const auto a = convert<acc_t<Mixed>>(convert<Mixed>(first));
  const auto b = convert<acc_t<Mixed>>(convert<Mixed>(second));
  return convert<Mixed>(a > b || a != a ? a : b);
}

template <class T, class U>
__device__ inline mixed_t<T, U> min(T first, U second) {
  using Mixed = mixed_t<T, U>;
  const auto a = convert<acc_t<Mixed>>(convert<Mixed>(first));
  const auto b = convert<acc_t<Mixed>>(convert<Mixed>(second));
  return convert<Mixed>(a < b || a != a ? a : b);
}

template <class T, class U>
__device__ inline real_t<mixed_t<T, U>> power(T first, U second) {
  using Real = real_t<mixed_t<T, U>>;
  if constexpr (same<Real, float32>) {
    return ::powf(convert<Real>(first), convert<Real>(second));
  } else {
    return ::pow(convert<Real>(first), convert<Real>(second));
  }
}

#define AUTOTUNE_COMPARISON(name, sign)                              \
  template <class T, class U>                                        \
  __device__ inline bool name(T first, U second) {                   \
    using Acc = acc_t<mixed_t<T, U>>;                                \
    return convert<Acc>(first) sign convert<Acc>(second);            \
  }

AUTOTUNE_COMPARISON(equal, ==)
AUTOTUNE_COMPARISON(not_equal, !=)
AUTOTUNE_COMPARISON(less, <)
AUTOTUNE_COMPARISON(less_equal, <=)
AUTOTUNE_COMPARISON(greater, >)
AUTOTUNE_COMPARISON(greater_equal, >=)

#undef AUTOTUNE_COMPARISON

}  // namespace op
