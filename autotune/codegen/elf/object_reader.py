"""Reads relocatable objects as LLVM writes them: sections, symbols, relocations."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from autotune.codegen.elf.elf_notes import HEADER, MACHINE, is_elf
from autotune.errors import CodegenError

SECTION = struct.Struct("<IIQQQQIIQQ")  # name type flags address offset size link info align entry
SYMBOL = struct.Struct("<IBBHQQ")  # name info other section value size
RELOCATION = struct.Struct("<QQq")  # offset info addend

WRITE, ALLOC, EXECUTE = 1, 2, 4
_RELOCATABLE = 1
_SYMTAB, _RELA, _NOBITS, _NOTE = 2, 4, 8, 7


@dataclass(frozen=True)
class Section:
    """Bytes of a section that will be in memory."""

    #: The bytes; zeros if the object has none.
    data: bytes
    #: `WRITE`, `EXECUTE` and others.
    flags: int
    #: Alignment in bytes.
    align: int


@dataclass(frozen=True)
class ElfSymbol:
    """A named address; `section` is the number of its section, None if it is external."""

    name: str
    section: int | None
    value: int
    size: int
    is_global: bool


@dataclass(frozen=True)
class Relocation:
    """A place in a section whose bytes depend on the address of a symbol."""

    section: int
    offset: int
    kind: int
    symbol: ElfSymbol
    addend: int


@dataclass(frozen=True)
class RelocatableObject:
    """The parts of an object file that the linker needs; sections by number."""

    sections: dict[int, Section]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[Relocation, ...]


def read_object(data: bytes) -> RelocatableObject:
    """Read an object file for x86-64.

    Raises CodegenError if it is for another kind of machine.
    """
    header = HEADER.unpack_from(data) if is_elf(data) else (0,) * 14
    if header[1] != _RELOCATABLE or header[2] != MACHINE:
        raise CodegenError(
            "a built function can be saved only where object code is ELF for x86-64; build and "
            "save it on such a machine"
        )
    start, count = header[6], header[12]
    table = [SECTION.unpack_from(data, start + i * SECTION.size) for i in range(count)]
    loaded = [i for i, r in enumerate(table) if r[2] & ALLOC and r[5] > 0 and r[1] != _NOTE]
    sections = {i: _section(data, table[i]) for i in loaded}
    symbols: tuple[ElfSymbol, ...] = ()
    for row in table:
        if row[1] == _SYMTAB:
            symbols = _symbols(data, row, table[row[6]])
    relocations = tuple(
        _relocation(data, row[4] + at, row[7], symbols)
        for row in table
        if row[1] == _RELA and row[7] in sections
        for at in range(0, row[5], RELOCATION.size)
    )
    return RelocatableObject(sections, symbols, relocations)


def defines(data: bytes, symbol: str) -> bool:
    """Whether some bytes are a whole object file, for any machine, that defines a symbol."""
    if not is_elf(data) or (header := HEADER.unpack_from(data))[1] != _RELOCATABLE:
        return False
    start, count = header[6], header[12]
    try:
        table = [SECTION.unpack_from(data, start + i * SECTION.size) for i in range(count)]
        if any(row[4] + row[5] > len(data) for row in table if row[1] != _NOBITS):
            return False
        tables = [_symbols(data, row, table[row[6]]) for row in table if row[1] == _SYMTAB]
    except (struct.error, ValueError, IndexError, OverflowError):
        return False
    return any(s.name == symbol and s.section in range(count) for found in tables for s in found)


def _section(data: bytes, row: tuple[int, ...]) -> Section:
    _, kind, flags, _, offset, size, _, _, align, _ = row
    content = bytes(size) if kind == _NOBITS else data[offset : offset + size]
    return Section(content, flags, max(1, align))


def _symbols(data: bytes, row: tuple[int, ...], names: tuple[int, ...]) -> tuple[ElfSymbol, ...]:
    symbols = []
    for at in range(row[4], row[4] + row[5], SYMBOL.size):
        name, info, _, section, value, size = SYMBOL.unpack_from(data, at)
        text = data[names[4] + name : data.index(b"\0", names[4] + name)].decode()
        is_defined = 0 < section < 0xFF00
        place = section if is_defined else None
        symbols.append(ElfSymbol(text, place, value, size, is_global=info >> 4 != 0))
    return tuple(symbols)


def _relocation(data: bytes, at: int, section: int, symbols: tuple[ElfSymbol, ...]) -> Relocation:
    offset, info, addend = RELOCATION.unpack_from(data, at)
    return Relocation(section, offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)
