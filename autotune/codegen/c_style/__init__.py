"""What languages in the style of C have in common: names, expressions, loops, vectors by lane."""

from autotune.codegen.c_style.statements import Statements

__all__ = ["Statements"]
