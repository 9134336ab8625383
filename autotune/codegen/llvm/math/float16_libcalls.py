"""Functions that LLVM calls to convert float16 if the processor has no instruction for it.

They have the names of a C compiler's functions, because no C compiler is needed here. They are weak
and hidden: each module that converts has its own. Processors since 2013 (F16C) never call them.
"""

EXTEND = """\
define weak hidden float @__extendhfsf2(half %half) nounwind {
  %narrow = bitcast half %half to i16
  %bits = zext i16 %narrow to i32
  %shifted = shl i32 %bits, 13
  %magnitude = and i32 %shifted, 268427264 ; 0x0fffe000
  ; The exponents' bias differs by 112; a multiplication is right for subnormal numbers too.
  %small = bitcast i32 %magnitude to float
  %number = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %number to i32
  %infinite = or i32 %magnitude, 2139095040 ; 0x7f800000
  %special = icmp uge i32 %magnitude, 260046848 ; 0x0f800000
  %absolute = select i1 %special, i32 %infinite, i32 %finite
  %high = shl i32 %bits, 16
  %sign = and i32 %high, 2147483648
  %pattern = or i32 %absolute, %sign
  %result = bitcast i32 %pattern to float
  ret float %result
}"""

TRUNCATE = """\
define weak hidden half @__truncsfhf2(float %value) nounwind {
  %bits = bitcast float %value to i32
  %magnitude = and i32 %bits, 2147483647
  ; A normal result: round at bit 13, ties to even, and take 112 from the exponent.
  %last = lshr i32 %magnitude, 13
  %odd = and i32 %last, 1
  %below = add i32 %odd, 4095
  %up = add i32 %magnitude, %below
  %cut = lshr i32 %up, 13
  %normal = sub i32 %cut, 114688 ; 112 << 10
  ; A subnormal one: beside 0.5, float32 has the same last place.
  %absolute = bitcast i32 %magnitude to float
  %shifted = fadd float %absolute, 0.5
  %place = bitcast float %shifted to i32
  %tiny = sub i32 %place, 1056964608 ; 0x3f000000
  %is_tiny = icmp ult i32 %magnitude, 947912704 ; 2**-14
  %finite = select i1 %is_tiny, i32 %tiny, i32 %normal
  %is_large = icmp uge i32 %magnitude, 1199570944 ; 2**16
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %unsigned = select i1 %is_large, i32 %special, i32 %finite
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %pattern = or i32 %unsigned, %sign
  %narrow = trunc i32 %pattern to i16
  %result = bitcast i16 %narrow to half
  ret half %result
}"""
