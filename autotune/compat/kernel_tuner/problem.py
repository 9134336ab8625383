"""The template of a kernel that was given to `tune_kernel`: what workers know of it is in a folder.

`write_problem` writes the folder, which workers read by this file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.compat.kernel_tuner.expressions import plain
from autotune.compat.kernel_tuner.launches import Launch
from autotune.errors import UsageError
from autotune.external.c_kernel import CKernel
from autotune.external.included_files import with_included
from autotune.rtc import RawKernel
from autotune.system.user_modules import load_object, what_failed
from autotune.template import Knobs, template
from records.storage.files import replacing

Array = npt.NDArray[Any]

_PART = 1 << 14  # Elements that are compared at once.
_LONGEST_NAME = 60  # Characters of a kernel's name in that of its folder.

#: What the user's comparison is called in its file.
VERIFY = "autotune_verify"

#: What the reason begins with where it fails itself.
VERIFY_FAILS = "verify "


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
    #: What messages call that.
    verify_name: str = ""
    #: Of a kernel in CUDA C++: how it is launched, as the fields of `Launch`; for launches that
    #: functions give, that of each configuration by its key.
    launch: dict[str, Any] = field(default_factory=dict)
    #: What configurations begin a search; that of the first values if it is empty.
    first: dict[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> list[int]:
        """Positions of the arrays."""
        return [n for n, (_, shape) in enumerate(self.arguments) if isinstance(shape, list)]

    @property
    def is_cuda(self) -> bool:
        """Whether it is in CUDA C++."""
        return self.language == "cuda"

    def launch_macros(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the macros of the launch of a configuration; none of a kernel in C."""
        return self._launch(values).macros(values) if self.launch else {}

    def _launch(self, values: Mapping[str, Any]) -> Launch:
        one = self.launch if "divisors" in self.launch else self.launch[_decided_key(values)]
        return Launch(**one)

    def kernel(self, values: Mapping[str, Any], times_itself: bool) -> CKernel | RawKernel:
        """Return the kernel of a configuration, or of all with symbols for values."""
        text, defines = self.text, {**self.defines, **values}
        if isinstance(text, dict):
            text, defines = text[_decided_key(values)], {}
        tensors = {
            n: te.placeholder((max(1, int(np.prod(shape))),), dtype, name=f"argument{n}")
            for n, (dtype, shape) in enumerate(self.arguments)
            if n in self.arrays
        }
        arguments = [
            tensors[n] if n in tensors else np.dtype(dtype).type(value)
            for n, (dtype, value) in enumerate(self.arguments)
        ]
        common: dict[str, Any] = {
            "inputs": list(tensors.values()),
            "outputs": [tensors[n] for n in self.outputs],
            "flags": self.flags,
            "arguments": arguments,
            "scratch": [tensor for n, tensor in tensors.items() if n not in self.outputs],
        }
        if self.is_cuda:
            return self._cuda_kernel(text, defines, values, common)
        return CKernel(
            self.name,
            text,
            defines=defines,
            compiler=self.compiler,
            language=self.language,
            times_itself=times_itself,
            folder=self.folder,
            **common,
        )

    def _cuda_kernel(
        self,
        text: str,
        defines: dict[str, Any],
        values: Mapping[str, Any],
        common: Mapping[str, Any],
    ) -> RawKernel:
        """Return the kernel with its launch; it is called by the values of the parameters."""
        launch = self._launch(values)
        grid, block, shared = launch.at(values)
        if not isinstance(self.text, dict):
            defines = {**launch.macros(values), **defines}
        whole = with_included(text, "text", self.folder, f"kernel {self.name!r}")
        name = with_parameters(self.name, values)
        return RawKernel(
            name,
            whole,
            grid=grid,
            block=block,
            shared_memory=shared,
            defines={n: int(v) if isinstance(v, bool) else v for n, v in defines.items()},
            header=False,
            **common,
        )


def with_parameters(text: str, params: Mapping[str, Any]) -> str:
    """Return a text in which names of parameters are replaced by their values."""
    return re.sub(
        r"\w+", lambda found: str(plain(params[found[0]])) if found[0] in params else found[0], text
    )


def _decided_key(values: Mapping[str, Any]) -> str:
    return key_of({name: plain(v) for name, v in values.items()})


def key_of(values: Mapping[str, Any]) -> str:
    """Return what a configuration is called in a cache."""
    return ",".join(map(str, values.values()))


def write_problem(
    folder: Path, problem: Problem, arguments: Sequence[Any], answers: Mapping[int, Array]
) -> Path:
    """Write a problem with its arrays into a folder inside of `folder`, and return that folder.

    Its name has a digest: a changed problem gets another folder, and does not share records.

    Raises UsageError if it cannot be made.
    """
    text = json.dumps(asdict(problem))
    named = {f"argument{n}": flat(arguments[n]) for n in problem.arrays}
    named.update((f"answer{n}", flat(answer)) for n, answer in answers.items())
    digest = hashlib.blake2b(text.encode(), digest_size=6)
    for array in named.values():
        digest.update(array.view(np.uint8).data)
    name = re.sub(r"\W+", "_", problem.name)[:_LONGEST_NAME]
    place = folder / f"{name}-{digest.hexdigest()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        _write(place / "problem.json", lambda path: path.write_text(text, encoding="utf-8"))
        _write(place / "verify.py", lambda path: path.write_text(problem.verify, encoding="utf-8"))
        for name, array in named.items():
            _write(place / f"{name}.npy", functools.partial(np.save, arr=array))
    except OSError as error:
        raise UsageError(f"folder: cannot make {place}: {error.strerror}") from error
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
        try:
            is_right = bool(verify(given, results, atol=own.atol))
        except (Exception, SystemExit) as error:
            return f"{VERIFY_FAILS}{own.verify_name!r} fails: {what_failed(error)}"
        return is_right or "verify says that the answer is wrong"
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


@template("kernel_tuner", None, reference=answers_of, inputs=arrays_of, accept=accept)
def kernel(cfg: Knobs, problem: str) -> CKernel | RawKernel:
    """Return a kernel that was given to `tune_kernel`, read from its folder."""
    own = _read(problem)
    values = {
        name: cfg.define_knob(name, choices, own.first.get(name))
        for name, choices in own.parameters.items()
    }
    return own.kernel(values, not own.is_cuda)
