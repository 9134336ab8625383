"""The template of a kernel that was given to `tune_kernel`: what workers know of it is in a folder.

`write_problem` writes the folder; workers load this file and nothing else of this package.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.external.c_kernel import CKernel
from autotune.system.user_modules import load_object
from autotune.template import Knobs, template
from records.storage.files import replacing

Array = npt.NDArray[Any]

_PART = 1 << 14  # Elements that are compared at once.

#: What the user's comparison is called in its file.
VERIFY = "autotune_verify"


@dataclass(frozen=True)
class Problem:
    """A kernel with its parameters and arguments, as plain data."""

    name: str
    #: The text; for texts that depend on the parameters, the text of each configuration by its key.
    text: str | dict[str, str]
    language: str
    compiler: str
    flags: list[str]
    #: Where files that the text includes are, and relative paths in the options begin.
    folder: str
    #: The choices of each parameter.
    parameters: dict[str, list[Any]]
    #: Macros beside the parameters.
    defines: dict[str, int]
    #: Dtype and shape of each array among the arguments; dtype and value of numbers.
    arguments: list[tuple[str, Any]]
    #: Positions of the arrays that are checked.
    outputs: list[int]
    #: Positions of those whose right values are known.
    answered: list[int] = field(default_factory=list)
    atol: float = 1e-6
    #: The text of a module with the user's comparison, `VERIFY`; "" for that of NumPy.
    verify: str = ""

    @property
    def arrays(self) -> list[int]:
        """Positions of the arrays."""
        return [n for n, (_, shape) in enumerate(self.arguments) if isinstance(shape, list)]

    def kernel(self, values: Mapping[str, Any], times_itself: bool) -> CKernel:
        """Return the kernel of a configuration, or of all with symbols for values."""
        text, defines = self.text, {**self.defines, **values}
        if isinstance(text, dict):
            text, defines = text[key_of({name: plain(v) for name, v in values.items()})], {}
        tensors = {
            n: te.placeholder((max(1, int(np.prod(shape))),), dtype, name=f"argument{n}")
            for n, (dtype, shape) in enumerate(self.arguments)
            if n in self.arrays
        }
        numbers = (
            tensors.get(n, None if n in tensors else np.dtype(dtype).type(value))
            for n, (dtype, value) in enumerate(self.arguments)
        )
        return CKernel(
            self.name,
            text,
            inputs=list(tensors.values()),
            outputs=[tensors[n] for n in self.outputs],
            defines=defines,
            flags=self.flags,
            compiler=self.compiler,
            language=self.language,
            arguments=list(numbers),
            scratch=[tensor for n, tensor in tensors.items() if n not in self.outputs],
            times_itself=times_itself,
            folder=self.folder,
        )


def key_of(values: Mapping[str, Any]) -> str:
    """Return what a configuration is called in a cache."""
    return ",".join(map(str, values.values()))


def plain(value: Any) -> Any:
    """Return a knob's value as a plain one, which decides a symbol."""
    return value if isinstance(value, (bool, float, str)) else int(value)


def write_problem(
    folder: Path, problem: Problem, arguments: Sequence[Any], answers: Mapping[int, Array]
) -> Path:
    """Write a problem with its arrays into a folder of its own in `folder`; return that.

    It has another one if anything of it changes, so that records are never those of another.
    """
    text = json.dumps(asdict(problem))
    named = {f"argument{n}": flat(arguments[n]) for n in problem.arrays}
    named.update((f"answer{n}", flat(answer)) for n, answer in answers.items())
    digest = hashlib.blake2b(text.encode(), digest_size=6)
    for array in named.values():
        digest.update(array.view(np.uint8).data)
    place = folder / f"{problem.name}-{digest.hexdigest()}"
    place.mkdir(parents=True, exist_ok=True)
    _write(place / "problem.json", lambda path: path.write_text(text, encoding="utf-8"))
    _write(place / "verify.py", lambda path: path.write_text(problem.verify, encoding="utf-8"))
    for name, array in named.items():
        _write(place / f"{name}.npy", functools.partial(np.save, arr=array))
    return place


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file as a whole, unless it is there: workers of other calls may have mapped it."""
    if not path.exists():
        with replacing(path) as partial:
            write(partial)


def flat(array: Array) -> Array:
    """Return an array in one dimension, C-contiguous."""
    return np.ascontiguousarray(array).reshape(-1)


@functools.lru_cache(maxsize=4)
def _read(problem: str) -> Problem:
    return Problem(**json.loads(Path(problem, "problem.json").read_text(encoding="utf-8")))


def arrays_of(_: np.random.Generator, *, problem: str) -> list[Array]:
    """Return the arrays among the arguments."""
    return [_load(problem, f"argument{n}") for n in _read(problem).arrays]


def answers_of(*_: Array, problem: str) -> list[Array]:
    """Return the right outputs; what the array began with where none is known."""
    own = _read(problem)
    names = (f"{'answer' if n in own.answered else 'argument'}{n}" for n in own.outputs)
    return [_load(problem, name) for name in names]


def _load(problem: str, name: str) -> Array:
    found: Array = np.load(os.path.join(problem, f"{name}.npy"), mmap_mode="r")
    return found


def accept(expected: Sequence[Array], found: Sequence[Array], *, problem: str) -> bool | str:
    """Compare outputs with the answers by the user's function, or as `numpy.allclose` does."""
    own = _read(problem)
    if own.verify:
        location = f"{problem}/verify.py:{VERIFY}"
        verify = load_object(location, f"verify of {own.name!r}")
        answers: list[Any] = [None] * len(own.arguments)
        results = list(answers)
        for n, right, output in zip(own.outputs, expected, found, strict=True):
            shape = own.arguments[n][1]
            answers[n] = right.reshape(shape) if n in own.answered else None
            results[n] = output.reshape(shape)
        given = answers if own.answered else None
        return bool(verify(given, results, atol=own.atol)) or "verify says that the answer is wrong"
    for n, right, output in zip(own.outputs, expected, found, strict=True):
        if n not in own.answered:
            continue
        wrong = _wrong(right, output, own.atol)
        if wrong.size:
            first = int(wrong[0])
            return (
                f"{wrong.size} of {right.size} elements of argument {n} are wrong, first at "
                f"[{first}]: {output[first]} instead of {right[first]}"
            )
    return True


def _wrong(right: Array, found: Array, atol: float) -> Array:
    """Return where elements are wrong, compared in parts that stay in the caches."""
    parts = (slice(begin, begin + _PART) for begin in range(0, right.size, _PART))
    return np.concatenate([
        part.start + np.flatnonzero(~np.isclose(right[part], found[part], atol=atol))
        for part in parts
    ])  # fmt: skip


@template("kernel_tuner", "llvm", reference=answers_of, inputs=arrays_of, accept=accept)
def kernel(cfg: Knobs, problem: str) -> CKernel:
    """Return a kernel that was given to `tune_kernel`, read from its folder."""
    own = _read(problem)
    choices = own.parameters.items()
    return own.kernel({name: cfg.define_knob(name, values) for name, values in choices}, True)
