"""Links objects into a shared library for the system's `dlopen` and linkers.

The code is position independent, so the dynamic linker fills only the table of addresses (.got).
Addresses in memory equal offsets in the file. There are three segments on separate pages:
read-only, executable, and writeable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.codegen.elf.elf_notes import HEADER, MACHINE, MAGIC, PROGRAM, PT_NOTE
from autotune.codegen.elf.object_reader import (
    ALLOC,
    EXECUTE,
    RELOCATION,
    SECTION,
    SYMBOL,
    WRITE,
    ElfSymbol,
    RelocatableObject,
    Relocation,
)
from autotune.errors import CodegenError

_PAGE = 4096
_SHARED = 3
_PROGBITS, _STRTAB, _RELA, _HASH, _DYNAMIC, _NOTE, _DYNSYM = 1, 3, 4, 5, 6, 7, 11
_LOAD, _PT_DYNAMIC, _GNU_STACK = 1, 2, 0x6474E551
_GLOBAL_FUNCTION = 1 << 4 | 2
_GLOB_DAT, _RELATIVE = 6, 8
_PC64, _GOTOFF64, _GOT64, _GOTPC64 = 24, 25, 27, 29
_DT = {
    "NULL": 0, "NEEDED": 1, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "RELA": 7, "RELASZ": 8,
    "RELAENT": 9, "STRSZ": 10, "SYMENT": 11,
}  # fmt: skip
_PROGRAM_HEADERS = 6


@dataclass
class _Part:
    """A section of the library; it gets its address when all sections are complete."""

    name: str
    kind: int
    flags: int
    align: int = 8
    data: bytearray = field(default_factory=bytearray)
    address: int = 0
    link: str = ""
    info: int = 0
    entry: int = 0

    def add(self, data: bytes, align: int = 1) -> int:
        """Append bytes; return where they begin."""
        self.align = max(self.align, align)
        self.data += bytes(-len(self.data) % align)
        at = len(self.data)
        self.data += data
        return at

    @property
    def end(self) -> int:
        return self.address + len(self.data)


def link(
    objects: Sequence[RelocatableObject],
    exports: Mapping[str, str],
    library_of: Callable[[str], str],
    note: bytes,
) -> bytes:
    """Return a shared library made of objects.

    `objects`: the objects; they can refer to each other's global symbols.
    `exports`: exported functions: symbol in an object, and exported name.
    `library_of`: returns the shared library with a symbol that no object defines; raises
    CodegenError if there is none.
    `note`: a note for the library.

    Raises CodegenError if an object needs an unsupported feature.
    """
    return _Linker(objects, exports, library_of, note).file()


class _Linker:
    def __init__(
        self,
        objects: Sequence[RelocatableObject],
        exports: Mapping[str, str],
        library_of: Callable[[str], str],
        note: bytes,
    ) -> None:
        self.objects = objects
        self.note = _Part(".note.autotune", _NOTE, ALLOC, 4, bytearray(note))
        self.hash = _Part(".hash", _HASH, ALLOC, link=".dynsym", entry=4)
        self.dynsym = _Part(".dynsym", _DYNSYM, ALLOC, link=".dynstr", info=1, entry=SYMBOL.size)
        self.dynstr = _Part(".dynstr", _STRTAB, ALLOC, 1)
        self.rela = _Part(".rela.dyn", _RELA, ALLOC, link=".dynsym", entry=RELOCATION.size)
        self.rodata = _Part(".rodata", _PROGBITS, ALLOC)
        self.text = _Part(".text", _PROGBITS, ALLOC | EXECUTE, 16)
        self.dynamic = _Part(".dynamic", _DYNAMIC, ALLOC | WRITE, link=".dynstr", entry=16)
        self.got = _Part(".got", _PROGBITS, ALLOC | WRITE, entry=8)
        self.data = _Part(".data", _PROGBITS, ALLOC | WRITE)
        self.names = _Part(".shstrtab", _STRTAB, 0, 1)
        self.segments = (
            (4, [self.note, self.hash, self.dynsym, self.dynstr, self.rela, self.rodata]),
            (5, [self.text]),
            (6, [self.dynamic, self.got, self.data]),
        )
        self.places = self._placed()
        self.defined = {
            symbol.name: (number, symbol)
            for number, one in enumerate(objects)
            for symbol in one.symbols
            if symbol.is_global and symbol.section is not None
        }
        self.exports = exports
        self.slots = self._slots()
        self.external = [name for name in self.slots if name not in self.defined]
        needed = dict.fromkeys(library_of(name) for name in self.external)
        self.entries = self._reserve(list(needed))
        self._lay_out()

    # -- sections and symbols
    # ---------------------------------------------------------------------------

    def _placed(self) -> dict[tuple[int, int], tuple[_Part, int]]:
        """Collect the objects' sections; return the place of each (object, section)."""
        places = {}
        for number, one in enumerate(self.objects):
            for index, section in one.sections.items():
                part = self.rodata
                if section.flags & EXECUTE:
                    part = self.text
                elif section.flags & WRITE:
                    part = self.data
                places[number, index] = part, part.add(section.data, section.align)
        return places

    def _slots(self) -> dict[str, int]:
        """Return the slot in the table of addresses of each symbol that needs one."""
        slots: dict[str, int] = {}
        for one in self.objects:
            for relocation in one.relocations:
                if relocation.kind == _GOT64:
                    slots.setdefault(relocation.symbol.name, len(slots))
        return slots

    def _reserve(self, needed: Sequence[str]) -> list[tuple[str, int]]:
        """Give the tables their sizes and return the dynamic section, with addresses missing."""
        count = 1 + len(self.exports) + len(self.external)
        self.hash.data = bytearray(4 * (2 + 1 + count))
        self.dynsym.data = bytearray(SYMBOL.size * count)
        self.dynstr.add(b"\0")
        self.name_at = {
            name: self.dynstr.add(name.encode() + b"\0")
            for name in [*self.exports.values(), *self.external, *needed]
        }
        self.rela.data = bytearray(RELOCATION.size * len(self.slots))
        self.got.data = bytearray(8 * len(self.slots))
        entries = [("NEEDED", self.name_at[library]) for library in needed]
        entries += [("HASH", 0), ("STRTAB", 0), ("SYMTAB", 0), ("STRSZ", len(self.dynstr.data))]
        entries += [("SYMENT", SYMBOL.size)]
        if self.slots:
            entries += [("RELA", 0), ("RELASZ", len(self.rela.data))]
            entries += [("RELAENT", RELOCATION.size)]
        entries.append(("NULL", 0))
        self.dynamic.data = bytearray(16 * len(entries))
        return entries

    def _lay_out(self) -> None:
        at = HEADER.size + _PROGRAM_HEADERS * PROGRAM.size
        for _, parts in self.segments:
            for part in parts:
                part.address = at + -at % part.align
                at = part.end
            at += -at % _PAGE

    # -- addresses -----------------------------------------------------------------------

    def file(self) -> bytes:
        """Return the bytes of the library."""
        for number, one in enumerate(self.objects):
            for relocation in one.relocations:
                self._relocate(number, relocation)
        self._fill_symbols()
        self._fill_slots()
        self._fill_dynamic()
        return self._bytes()

    def _address(self, number: int, symbol: ElfSymbol) -> int:
        """Return the address of a symbol that an object refers to."""
        if symbol.section is None:
            number, symbol = self.defined.get(symbol.name, (number, symbol))
        if symbol.section is None:
            raise CodegenError(f"cannot link: {symbol.name!r} is referred to other than by a call")
        part, base = self.places[number, symbol.section]
        return part.address + base + symbol.value

    def _relocate(self, number: int, relocation: Relocation) -> None:
        part, base = self.places[number, relocation.section]
        at, kind, symbol = base + relocation.offset, relocation.kind, relocation.symbol
        if kind == _PC64:
            value = self._address(number, symbol) - (part.address + at)
        elif kind == _GOTOFF64:
            value = self._address(number, symbol) - self.got.address
        elif kind == _GOT64:
            value = 8 * self.slots[symbol.name]
        elif kind == _GOTPC64:
            value = self.got.address - (part.address + at)
        else:
            raise CodegenError(f"cannot link: relocations of type {kind} are not supported")
        struct.pack_into("<q", part.data, at, value + relocation.addend)

    def _fill_symbols(self) -> None:
        section = [part.name for part in self._sections()].index(".text") + 1
        number = 1
        for symbol, name in self.exports.items():
            address, size = self._address(*self.defined[symbol]), self.defined[symbol][1].size
            row = (self.name_at[name], _GLOBAL_FUNCTION, 0, section, address, size)
            SYMBOL.pack_into(self.dynsym.data, number * SYMBOL.size, *row)
            number += 1
        for name in self.external:
            row = (self.name_at[name], _GLOBAL_FUNCTION, 0, 0, 0, 0)
            SYMBOL.pack_into(self.dynsym.data, number * SYMBOL.size, *row)
            number += 1
        # One bucket: the exported symbols one after the other, ended by symbol 0.
        chain = [0, *(i + 1 for i in range(1, len(self.exports))), 0]
        chain += [0] * (number - len(chain))
        first = 1 if self.exports else 0
        struct.pack_into(f"<{3 + number}I", self.hash.data, 0, 1, number, first, *chain)

    def _fill_slots(self) -> None:
        external = {name: 1 + len(self.exports) + i for i, name in enumerate(self.external)}
        for name, slot in self.slots.items():
            place = self.got.address + 8 * slot
            if name in external:
                row = (place, external[name] << 32 | _GLOB_DAT, 0)
            else:
                row = (place, _RELATIVE, self._address(*self.defined[name]))
            RELOCATION.pack_into(self.rela.data, slot * RELOCATION.size, *row)

    def _fill_dynamic(self) -> None:
        at = {"HASH": self.hash, "STRTAB": self.dynstr, "SYMTAB": self.dynsym, "RELA": self.rela}
        for number, (name, value) in enumerate(self.entries):
            known = at[name].address if name in at else value
            struct.pack_into("<QQ", self.dynamic.data, 16 * number, _DT[name], known)

    # -- the file --------------------------------------------------------------------------------

    def _sections(self) -> list[_Part]:
        return [part for _, parts in self.segments for part in parts if part.data]

    def _bytes(self) -> bytes:
        sections = [*self._sections(), self.names]
        self.names.add(b"\0")
        name_at = [self.names.add(part.name.encode() + b"\0") for part in sections]
        self.names.address = self._sections()[-1].end
        table = self.names.end + -self.names.end % 8
        file = bytearray(table + (1 + len(sections)) * SECTION.size)
        numbers = {part.name: number + 1 for number, part in enumerate(sections)}
        for part in sections:
            file[part.address : part.end] = part.data
            row = table + numbers[part.name] * SECTION.size
            address = part.address if part.flags else 0
            SECTION.pack_into(
                file, row, name_at[numbers[part.name] - 1], part.kind, part.flags, address,
                part.address, len(part.data), numbers.get(part.link, 0), part.info, part.align,
                part.entry,
            )  # fmt: skip
        HEADER.pack_into(
            file, 0, MAGIC, _SHARED, MACHINE, 1, 0, HEADER.size, table, 0, HEADER.size,
            PROGRAM.size, _PROGRAM_HEADERS, SECTION.size, 1 + len(sections), len(sections),
        )  # fmt: skip
        for number, segment in enumerate(self._program_headers()):
            PROGRAM.pack_into(file, HEADER.size + number * PROGRAM.size, *segment)
        return bytes(file)

    def _program_headers(self) -> list[tuple[int, ...]]:
        rows: list[tuple[int, ...]] = []
        start = 0
        for access, parts in self.segments:
            size = parts[-1].end - start
            rows.append((_LOAD, access, start, start, start, size, size, _PAGE))
            start = parts[-1].end + -parts[-1].end % _PAGE
        for kind, access, part in ((_PT_DYNAMIC, 6, self.dynamic), (PT_NOTE, 4, self.note)):
            at, size = part.address, len(part.data)
            rows.append((kind, access, at, at, at, size, size, part.align))
        rows.append((_GNU_STACK, 6, 0, 0, 0, 0, 0, 16))
        return rows
