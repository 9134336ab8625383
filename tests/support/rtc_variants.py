"""Many variants of the unary kernel in one text, so that one compilation serves for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autotune.rtc.elementwise import REQUESTS, Request, unary
from autotune.rtc.vector_plan import VectorPlan, most_lanes

NINE = (
    "float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool",
)  # fmt: skip
"""The types whose pairs are all compiled."""


class Variant(NamedTuple):
    """One kernel: `plan` is None for the plain one."""

    operator: str
    input: str
    output: str
    request: Request
    plan: VectorPlan | None

    @property
    def text(self) -> str:
        made = unary(self.operator)
        code = made.code(self.plan)
        return made.parameters(self.input, self.output, self.request, self.plan) + code


def variants(
    operator: str,
    pairs: Sequence[tuple[str, str]],
    requests: Sequence[Request] = tuple(REQUESTS),
    ways: Sequence[bool | None] = (True, False, None),
) -> list[Variant]:
    """Return the kernels of all combinations; a way is aligned or not, or None: plain."""
    return [
        Variant(
            operator,
            a,
            b,
            request,
            None if aligned is None else VectorPlan(most_lanes([a, b]), aligned, 0),
        )
        for a, b in pairs
        for request in requests
        for aligned in ways
    ]


def joined(found: Sequence[Variant]) -> str:
    """Return one text with each variant as the kernel ``unary_NUMBER``."""
    return "\n".join(
        f"#define unary_kernel unary_{number}\nnamespace variant_{number} {{\n{variant.text}\n}}\n"
        "#undef unary_kernel\n#undef OP\n"
        for number, variant in enumerate(found)
    )
