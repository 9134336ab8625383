"""Shared libraries from object code, without a linker on the machine (ELF for x86-64 only).

Sources of formats and formulas: the System V ABI, "Object Files" and "Dynamic Linking", and its
AMD64 supplement, section 4.4 (relocation), large code model.
"""

from autotune.codegen.elf.library import link
from autotune.codegen.elf.notes import MAGIC, find_note, note
from autotune.codegen.elf.objects import read_object

__all__ = ["MAGIC", "find_note", "link", "note", "read_object"]
