"""The note of a library; it is found through the program headers, without loading the library."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM = struct.Struct("<IIQQQQQQ")  # type flags offset address physical file_size size align
MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
MACHINE = 62  # x86-64
PT_NOTE = 4
_NOTE = struct.Struct("<III")


def is_elf(data: bytes) -> bool:
    """Whether `data` begins as a little-endian ELF file of 64 bits does."""
    return data.startswith(MAGIC) and len(data) >= HEADER.size


def note(owner: str, content: bytes) -> bytes:
    """Return a note of type 1, padded to a multiple of 4 bytes."""
    name = owner.encode() + b"\0"
    return _NOTE.pack(len(name), len(content), 1) + _padded(name) + _padded(content)


def find_note(data: bytes, owner: str) -> tuple[int, int] | None:
    """Return the start and end of the content of an owner's first note in an ELF file.

    It is None if the file is not an ELF file of 64 bits, or has no such note.
    """
    if not is_elf(data):
        return None
    header = HEADER.unpack_from(data)
    start, size, count = header[5], header[9], header[10]
    for number in range(count):
        at = start + number * size
        if size < PROGRAM.size or at + size > len(data):
            return None
        kind, _, offset, _, _, length, _, _ = PROGRAM.unpack_from(data, at)
        if kind == PT_NOTE and (found := _find(data, offset, offset + length, owner)):
            return found
    return None


def _find(data: bytes, at: int, end: int, owner: str) -> tuple[int, int] | None:
    while at + _NOTE.size <= min(end, len(data)):
        name_size, size, _ = _NOTE.unpack_from(data, at)
        name = at + _NOTE.size
        content = name + _rounded(name_size)
        if data[name : name + name_size] == owner.encode() + b"\0" and content + size <= len(data):
            return content, content + size
        at = content + _rounded(size)
    return None


def _rounded(size: int) -> int:
    return -size % 4 + size


def _padded(data: bytes) -> bytes:
    return data.ljust(_rounded(len(data)), b"\0")
