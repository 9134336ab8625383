"""What a cubin says of its kernels beside their code: parameters and launch bounds.

A cubin is an ELF file; of each kernel it has a section ``.nv.info.SYMBOL`` of attributes, which
NVIDIA's own tools read (``cuobjdump -elf``) and whose format has been the same since sm_70.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_PREFIX = ".nv.info."
_SIZED = 4  # Format of an attribute whose data follow; others have at most two bytes, in the head.
_PARAMETER, _MAX_THREADS = 0x17, 0x05

_HEAD = struct.Struct("<BBH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class KernelInfo:
    """What a cubin says of one kernel."""

    #: Sizes of its parameters, in order.
    parameter_bytes: tuple[int, ...]
    #: Most threads of a block by ``__launch_bounds__``; None without it.
    max_threads: int | None


def kernel_infos(code: bytes) -> dict[str, KernelInfo]:
    """Return what a cubin says of its kernels, by their symbols."""
    return {
        name.removeprefix(_PREFIX): _info(data)
        for name, data in _sections(code)
        if name.startswith(_PREFIX)
    }


def _sections(code: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    heads = [_SECTION.unpack_from(code, table + size * number) for number in range(count)]
    first = heads[names][4]
    for name, _, _, _, start, length, *_ in heads:
        end = code.index(b"\0", first + name)
        yield code[first + name : end].decode(), code[start : start + length]


def _info(data: bytes) -> KernelInfo:
    sizes: dict[int, int] = {}
    max_threads = None
    for attribute, content in _attributes(data):
        if attribute == _PARAMETER:
            _, ordinal, _, word = struct.unpack("<IHHI", content)
            sizes[ordinal] = word >> 18
        elif attribute == _MAX_THREADS:
            x, y, z = struct.unpack("<III", content)
            max_threads = x * y * z
    return KernelInfo(tuple(sizes[ordinal] for ordinal in sorted(sizes)), max_threads)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        form, attribute, value = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        length = value if form == _SIZED else 0
        yield attribute, data[position : position + length]
        position += length
