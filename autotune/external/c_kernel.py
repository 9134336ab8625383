"""A kernel in C or C++, whose knobs are macros and options of the system's compiler."""

from __future__ import annotations

import os
import reprlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autotune.errors import MissingCompilerError, UsageError
from autotune.external.call_form import call_form
from autotune.external.external_kernel import ExternalKernel
from autotune.external.included_files import headers_of_flags, read, with_included
from autotune.ir.stmt import CallForm, PrimFunc
from autotune.system.words import one_line
from autotune.target import Target
from autotune.te.tensor import Tensor

#: The compilers by default, by language.
COMPILERS = {"c": "cc", "c++": "c++"}

_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}

#: What a kernel has lists of.
_LISTS = {
    "inputs": "tensors from te.placeholder",
    "outputs": "tensors from te.placeholder",
    "arguments": "tensors and numbers",
    "scratch": "tensors",
    "flags": "texts",
}


@dataclass(frozen=True)
class CKernel(ExternalKernel):
    """A function in C or C++ that a template may return: compiled when it is measured or built.

    Attributes
    ----------
    name : str
        The function: its identifier, or in C++ an expression such as ``scale<float, BLOCK>``. Its
        parameters are pointers, to inputs and then outputs, unless `arguments` says otherwise; what
        it returns is ignored, unless it times itself.
    source : str or path
        The text; or a file, beside the template's file or by its path. A `str` is a file if it is
        one line that ends as files do in C or C++. Files that it includes in quotes, and that are
        there, become part of the text.
    inputs, outputs : sequence of Tensor
        Made by `te.placeholder`; C-contiguous arrays. A tensor in both lists is an array that the
        function changes in place: before each call its output gets the values of its input.
    defines : mapping of str to int, float, bool or str
        Macros with their values: numbers, or expressions of knobs and sizes.
    flags : sequence of str
        Options of the compiler; knobs that are texts, or ``f"-O{int(knob)}"``. One that is empty is
        left out. Relative paths in them begin at the folder of the template's file.
    compiler : str
        Found on the path; by default ``cc``, or ``c++`` for C++.
    language : str
        ``"c"`` or ``"c++"``; by default what the file's ending or the compiler's name says, else C.
    reduction_length : int
        Terms that one element of an output accumulates, >= 1: rounding errors grow with it, and so
        does what is allowed of them.
    arguments : sequence of Tensor or number
        What the function takes, in order: a pointer to each tensor, and numbers by value. Those of
        NumPy have their own type, other integers are ``int`` and other floats ``double``.
    scratch : sequence of Tensor
        Inputs that the function may overwrite, such as memory to work in. It gets copies, made when
        it is bound to arrays: each call finds there what the call before has left.
    times_itself : bool
        Whether the function returns the time that it took, in milliseconds, as a ``float``. Then
        this is what counts, and not the time of the call.
    folder : str
        Where files that a text includes are, and relative paths in options begin; by default the
        folder of the template's file.
    """

    kind: ClassVar[str] = "C kernel"

    name: str
    source: str | os.PathLike[str]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    defines: Mapping[str, Any] = field(default_factory=dict)
    flags: Sequence[str] = ("-O3", "-march=native")
    compiler: str = ""
    language: str = ""
    reduction_length: int = 1
    arguments: Sequence[Any] = ()
    scratch: Sequence[Tensor] = ()
    times_itself: bool = False
    folder: str = ""

    def __post_init__(self) -> None:
        for name, items in _LISTS.items():
            object.__setattr__(self, name, self._listed(name, items))
        for name in ("compiler", "folder"):
            if not isinstance(getattr(self, name), str):
                raise self._mistake(name, "text")
        if not isinstance(self.defines, Mapping):
            raise self._mistake("defines", "a mapping of names to values")
        if not isinstance(self.times_itself, (bool, np.bool_)):
            raise self._mistake("times_itself", "True or False")
        self._check([*self.inputs, *self.outputs], "inputs and outputs", self.defines, "a macro")
        _ = self._call_form
        if not isinstance(self.source, (str, os.PathLike)):
            raise UsageError(f"{self.what}: source must be text or a path, got {self.source!r}")
        if not all(isinstance(flag, str) for flag in self.flags):
            raise self._mistake("flags", "a list of texts")
        if self.language not in ("", *COMPILERS):
            raise UsageError(f'{self.what}: language must be "c" or "c++", got {self.language!r}')
        if self._language == "c" and not str(self.name).isidentifier():
            raise UsageError(f"{self.what}: the name of a function in C is an identifier")

    def _listed(self, name: str, items: str) -> tuple[Any, ...]:
        """Return the items of a list, which may be an iterator."""
        given = getattr(self, name)
        is_one = isinstance(given, (str, bytes, Mapping, np.ndarray, Tensor))
        if is_one or not isinstance(given, Iterable):
            raise self._mistake(name, f"a list of {items}")
        return tuple(given)

    def _mistake(self, name: str, wanted: str) -> UsageError:
        """Return the error of an argument that is something else."""
        shown = one_line(reprlib.repr(getattr(self, name)))
        return UsageError(f"{self.what}: {name} must be {wanted}, got {shown}")

    def refusal(self, target: Target) -> str:
        """Return why a target cannot run it, and which could; empty if it can."""
        if target.kind == "llvm":
            return ""
        return f"a kernel in C, which runs on CPUs only, not on {str(target)!r}: use 'llvm'"

    def lowered(self, name: str, folder: str = "") -> PrimFunc:
        """Return it as a function whose body is its text.

        Parameters
        ----------
        name : str
            Of the function.
        folder : str
            Where its file may be, and relative paths in the options begin.

        Raises
        ------
        MissingCompilerError
            If there is no such compiler.
        UsageError
            If there is no such file, or a macro's value is none.
        """
        compiler = self.compiler or COMPILERS[self._language]
        if shutil.which(compiler) is None:
            raise MissingCompilerError(
                f"there is no compiler {compiler!r} on this machine's path: install it, or name "
                "another as compiler="
            )
        folder = self.folder or folder
        flags = tuple(str(flag) for flag in self.flags if flag)
        raw = self._raw(
            self.name,
            self._text(folder),
            self._plain_defines(),
            language=self._language,
            command=(compiler, *flags),
            folder=folder,
            call=self._call_form,
        )
        headers = headers_of_flags(raw.text, flags, folder)
        return self._function(name, replace(raw, headers=headers))

    @property
    def _call_form(self) -> CallForm | None:
        """How it is called; None if it takes pointers to inputs and then to outputs."""
        return call_form(self, self.arguments, self.scratch, self.times_itself)

    def _plain_defines(self) -> dict[str, Any]:
        """Return the macros; flags are 0 and 1, as C has no other words for them."""
        return {n: str(int(v)) if isinstance(v, bool) else v for n, v in self.defines.items()}

    @property
    def _language(self) -> str:
        by_ending = _LANGUAGES.get(Path(self._file).suffix, "") if self._file else ""
        by_compiler = "c++" if "++" in self.compiler else "c"
        return self.language or by_ending or by_compiler

    @property
    def _file(self) -> str:
        """The path of the source, "" if it is text."""
        if not isinstance(self.source, str):
            return os.fspath(self.source)
        is_path = "\n" not in self.source and Path(self.source).suffix in _LANGUAGES
        return self.source if is_path else ""

    def _text(self, folder: str) -> Any:
        """Return the text, with the files that it includes."""
        if not self._file:
            return with_included(str(self.source), "text", folder, self.what)
        places = [os.path.join(folder, self._file), self._file]
        path = next(filter(os.path.isfile, places), None)
        if path is None:
            raise UsageError(f"{self.what}: there is no file {self._file!r}, nor in {folder!r}")
        name = os.path.basename(path)
        text = with_included(read(path, self.what), name, os.path.dirname(path), self.what)
        return f'#line 1 "{name}"\n{text}'
