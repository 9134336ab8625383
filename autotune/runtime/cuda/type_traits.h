// What <type_traits> of C++17 has for types of kernels: NVRTC brings no headers of its own.

#pragma once

namespace std {

using size_t = decltype(sizeof(0));
using nullptr_t = decltype(nullptr);

template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr __host__ __device__ operator T() const noexcept { return v; }
  constexpr __host__ __device__ T operator()() const noexcept { return v; }
};
template <bool v>
using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

// -- choices ------------------------------------------------------------------------------------

template <bool condition, class T, class U>
struct conditional { using type = T; };
template <class T, class U>
struct conditional<false, T, U> { using type = U; };
template <bool condition, class T, class U>
using conditional_t = typename conditional<condition, T, U>::type;

template <bool condition, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> { using type = T; };
template <bool condition, class T = void>
using enable_if_t = typename enable_if<condition, T>::type;

template <class...>
using void_t = void;

template <class... B>
struct conjunction : bool_constant<(bool(B::value) && ...)> {};
template <class... B>
struct disjunction : bool_constant<(bool(B::value) || ...)> {};
template <class B>
struct negation : bool_constant<!bool(B::value)> {};

// -- changes of types ---------------------------------------------------------------------------

template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv : remove_const<typename remove_volatile<T>::type> {};
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <class T> struct remove_pointer<T* const> { using type = T; };
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, size_t n> struct remove_extent<T[n]> { using type = T; };
template <class T> struct add_const { using type = const T; };
template <class T> struct add_pointer { using type = typename remove_reference<T>::type*; };

template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using add_const_t = typename add_const<T>::type;
template <class T> using add_pointer_t = typename add_pointer<T>::type;

// -- kinds of types -----------------------------------------------------------------------------

template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T, class U> inline constexpr bool is_same_v = is_same<T, U>::value;

template <class T, class... U>
inline constexpr bool __is_one_of = (is_same_v<remove_cv_t<T>, U> || ...);

template <class T>
struct is_integral
    : bool_constant<__is_one_of<T, bool, char, signed char, unsigned char, wchar_t, char16_t,
                                char32_t, short, unsigned short, int, unsigned int, long,
                                unsigned long, long long, unsigned long long>> {};
template <class T>
struct is_floating_point : bool_constant<__is_one_of<T, float, double, long double>> {};
template <class T>
struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_void : bool_constant<is_same_v<remove_cv_t<T>, void>> {};
template <class T, bool = is_arithmetic<T>::value>
struct __is_signed : false_type {};
template <class T>
struct __is_signed<T, true> : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed : __is_signed<T> {};
template <class T>
struct is_unsigned : bool_constant<is_arithmetic<T>::value && !is_signed<T>::value> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_volatile : false_type {};
template <class T> struct is_volatile<volatile T> : true_type {};
template <class T> struct is_reference : bool_constant<!is_same_v<T, remove_reference_t<T>>> {};
template <class T>
struct is_pointer : bool_constant<!is_same_v<remove_cv_t<T>, remove_pointer_t<remove_cv_t<T>>>> {};
template <class T> struct is_array : bool_constant<!is_same_v<T, remove_extent_t<T>>> {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_union : bool_constant<__is_union(T)> {};
template <class T> struct is_empty : bool_constant<__is_empty(T)> {};
template <class B, class T> struct is_base_of : bool_constant<__is_base_of(B, T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class T> struct underlying_type { using type = __underlying_type(T); };

template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> inline constexpr bool is_void_v = is_void<T>::value;
template <class T> inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T> inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> inline constexpr bool is_const_v = is_const<T>::value;
template <class T> inline constexpr bool is_reference_v = is_reference<T>::value;
template <class T> inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> inline constexpr bool is_array_v = is_array<T>::value;
template <class T> inline constexpr bool is_enum_v = is_enum<T>::value;
template <class T> inline constexpr bool is_class_v = is_class<T>::value;
template <class B, class T> inline constexpr bool is_base_of_v = is_base_of<B, T>::value;
template <class... B> inline constexpr bool conjunction_v = conjunction<B...>::value;
template <class... B> inline constexpr bool disjunction_v = disjunction<B...>::value;
template <class B> inline constexpr bool negation_v = negation<B>::value;
template <class T> using underlying_type_t = typename underlying_type<T>::type;

template <class T>
struct decay {
  using bare = remove_reference_t<T>;
  using type = conditional_t<is_array_v<bare>, remove_extent_t<bare>*, remove_cv_t<bare>>;
};
template <class T> using decay_t = typename decay<T>::type;

template <class T, bool with_sign>
struct __integer {
  using wide = conditional_t<sizeof(T) == 8, long long, int>;
  using narrow = conditional_t<sizeof(T) == 1, signed char, short>;
  using with = conditional_t<(sizeof(T) < 4), narrow, wide>;
  using wide_u = conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
  using narrow_u = conditional_t<sizeof(T) == 1, unsigned char, unsigned short>;
  using without = conditional_t<(sizeof(T) < 4), narrow_u, wide_u>;
  using type = conditional_t<with_sign, with, without>;
};
template <class T> struct make_signed { using type = typename __integer<T, true>::type; };
template <class T> struct make_unsigned { using type = typename __integer<T, false>::type; };
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;

template <class T>
__host__ __device__ T&& declval() noexcept;

}  // namespace std
