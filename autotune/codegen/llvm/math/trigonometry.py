"""sin and cos: reduction to |r| <= pi / 4 as a pair, and two polynomials; all in float64.

Up to `_LIMIT`, a multiple of pi / 2 is subtracted in exact parts (Cody and Waite); `payne_hanek`
reduces larger arguments lane by lane.
"""

from __future__ import annotations

import math

from autotune.codegen.llvm.math import double_double, payne_hanek
from autotune.codegen.llvm.math.double_double import Pair
from autotune.codegen.llvm.math.math_writer import FORMATS, MathWriter
from autotune.codegen.llvm.math.polynomial_coefficients import (
    cosine_rest,
    half_pi,
    interpolated,
    sine_rest,
    split,
)

#: Largest |x| of the quick reduction: its multiple of pi / 2 has at most 20 bits.
_LIMIT = 2.0**20
#: Bits of the parts of pi / 2 whose product with such a multiple is exact, by target format.
_PARTS = {"float32": (33,), "float64": (33, 33, 33)}
#: Coefficients that leave less than a tenth of a unit in the last place.
_TERMS = {"float32": 4, "float64": 6}
#: Largest square of the reduced argument.
_END = (math.pi / 4) ** 2 * 1.001


def sin(w: MathWriter, x: str) -> str:
    """Sine."""
    return _periodic(w, x, "sin")


def cos(w: MathWriter, x: str) -> str:
    """Cosine."""
    return _periodic(w, x, "cos")


def _periodic(w: MathWriter, x: str, name: str) -> str:
    dtype = w.form.dtype
    d = w if dtype == "float64" else w.doubled()
    wide = x if d is w else w.extended(x)
    r, quadrant = _reduced(d, wide, dtype)
    quick = _of_quadrant(d, r, quadrant, name, dtype)
    far = d.test("ogt", d.absolute(wide), d.number(_LIMIT))
    symbol = _large(d, name, dtype)
    result = d.choose(far, _lane_by_lane(d, far, symbol, wide), quick)
    if name == "sin":
        result = d.select("oeq", wide, d.number(0.0), wide, result)  # -0 keeps its sign
    return result if d is w else w.rounded(result)


def _reduced(w: MathWriter, x: str, dtype: str) -> tuple[Pair, str]:
    """Return (r, n) with x = n pi / 2 + r for |x| up to `_LIMIT`."""
    n, whole = w.nearest(w.mul(x, w.number(2 / math.pi)))
    first, *parts = split(half_pi(), _PARTS[dtype])
    high, low = w.sub(x, w.mul(n, w.number(first))), w.number(0.0)
    for part in parts[:-1]:
        high, lost = double_double.exact_sum(w, high, w.mul(n, w.number(-part)))
        low = w.add(low, lost)
    low = w.sub(low, w.mul(n, w.number(parts[-1])))
    return double_double.ordered_sum(w, high, low), whole


def _of_quadrant(w: MathWriter, r: Pair, quadrant: str, name: str, dtype: str) -> str:
    """Sine or cosine of n pi / 2 + r."""
    if name == "cos":
        quadrant = w.int_op("add", quadrant, w.integer(1))
    odd = w.int_op("and", quadrant, w.integer(1))
    is_odd = w.define(f"icmp ne {w.int_type} {odd}, {w.integer(0)}")
    value = w.choose(is_odd, _cosine(w, r, dtype), _sine(w, r, dtype))
    sign = w.int_op("shl", w.int_op("lshr", quadrant, w.integer(1)), w.integer(w.form.bits - 1))
    return w.as_float(w.int_op("xor", w.as_int(value), sign))


def _sine(w: MathWriter, r: Pair, dtype: str) -> str:
    high, low = r
    z = w.mul(high, high)
    rest = w.mul(w.mul(high, z), w.polynomial(z, interpolated(sine_rest, 0.0, _END, _TERMS[dtype])))
    correction = w.mul(low, w.sub(w.number(1.0), w.mul(z, w.number(0.5))))
    return w.add(high, w.add(rest, correction))


def _cosine(w: MathWriter, r: Pair, dtype: str) -> str:
    high, low = r
    z = w.mul(high, high)
    rest = w.mul(w.mul(z, z), w.polynomial(z, interpolated(cosine_rest, 0.0, _END, _TERMS[dtype])))
    half, one = w.mul(z, w.number(0.5)), w.number(1.0)
    with w.exactly():
        lead = w.sub(one, half)
        lost = w.sub(w.sub(one, lead), half)
    return w.add(lead, w.add(lost, w.sub(rest, w.mul(high, low))))


def _lane_by_lane(w: MathWriter, mask: str, symbol: str, x: str) -> str:
    """Call a scalar function on every lane if the mask is set in any; at most once per function."""
    lanes, kind, some = w.lanes, w.float_type, mask
    if lanes == 1:
        body = [f"  %far.y = call {kind} @{symbol}({kind} {x})", "  br label %near"]
    else:
        reduce = f"llvm.vector.reduce.or.v{lanes}i1"
        w.needed[reduce] = f"declare i1 @{reduce}({w.mask_type})"
        some = w.define(f"call i1 @{reduce}({w.mask_type} {mask})")
        body = [
            "  %far.i = phi i64 [ 0, %entry ], [ %far.next, %far ]",
            f"  %far.v = phi {kind} [ {x}, %entry ], [ %far.y, %far ]",
            f"  %far.x = extractelement {kind} {x}, i64 %far.i",
            f"  %far.one = call double @{symbol}(double %far.x)",
            f"  %far.y = insertelement {kind} %far.v, double %far.one, i64 %far.i",
            "  %far.next = add nuw nsw i64 %far.i, 1",
            f"  %far.more = icmp ult i64 %far.next, {lanes}",
            "  br i1 %far.more, label %far, label %near",
        ]
    w.lines += [f"  br i1 {some}, label %far, label %near", "far:", *body, "near:"]
    return w.define(f"phi {kind} [ {x}, %entry ], [ %far.y, %far ]")


def _large(w: MathWriter, name: str, dtype: str) -> str:
    """Return the symbol of the scalar function for large arguments, which it makes sure exists."""
    symbol = f"at.{name}.large.{dtype}"
    if symbol not in w.needed:
        scalar = MathWriter(FORMATS["float64"], 1, needed=w.needed)
        r, quadrant = payne_hanek.reduced(scalar, "%x", _LIMIT)
        result = _of_quadrant(scalar, r, quadrant, name, dtype)
        finite = scalar.test("olt", scalar.absolute("%x"), scalar.number(math.inf))
        result = scalar.choose(finite, result, scalar.number(math.nan))
        w.needed[symbol] = scalar.function(symbol, 1, result, "noinline cold")
    return symbol
