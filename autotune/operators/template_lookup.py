"""Finds templates: the built-in ones by name, installed ones by entry point, others by file."""

from __future__ import annotations

import contextlib
import inspect
import os
from dataclasses import dataclass
from types import ModuleType

from autotune.errors import UsageError
from autotune.system.plugins import entry_points
from autotune.system.user_modules import import_file, load_object
from autotune.system.words import did_you_mean
from autotune.target import Target
from autotune.template import Template, template_of, unwrapped
from autotune.trace.dry_run import probe

# Names in the entry-point group autotune.operators are NAME or KIND/NAME (a target kind, or any);
# values are module:function. The second group is the older name of the first.
PLUGINS = ("operator", "template")

ANY = "any"  # The name of "every kind of target" in listings.

# The built-in templates by the folder of their family, a file each.
OPERATORS = {
    "contractions": (
        "matmul", "batch_matmul", "dense", "conv2d_nchw", "conv2d_nhwc", "attention",
    ),
    "reductions": ("pool2d", "softmax", "layer_norm", "rms_norm", "reduce"),
    "elementwise": ("transpose", "bias_gelu", "broadcast_add"),
    "scans": ("cumsum", "linear_recurrence", "rnn_cell", "lstm_cell"),
}  # fmt: skip

# Location of each built-in template, by name and target kind; None for every other kind.
BUILTIN: dict[tuple[str, str | None], str] = {
    **{
        (name, None): f"autotune.operators.{family}.{name}:{name}"
        for family, names in OPERATORS.items()
        for name in names
    },
    ("broadcast_add", "cuda"): "autotune.operators.elementwise.gpu_broadcast_add:broadcast_add",
}


@dataclass(frozen=True)
class TemplateEntry:
    """A template with a name."""

    name: str
    #: Its kind of target; None for every kind.
    target: str | None
    #: module:function.
    location: str

    def load(self) -> Template:
        """Import and return the template.

        Raises UsageError if its module cannot be imported, whatever it raises, or holds no such
        template.
        """
        found = load_object(self.location, f"template {self.name!r}")
        if not isinstance(found, Template):
            raise UsageError(f"template {self.name!r}: {self.location} is not a template")
        return found


def list_templates() -> list[TemplateEntry]:
    """Return all templates that have a name, without importing them."""
    found = {key: TemplateEntry(*key, location) for key, location in BUILTIN.items()}
    for entry, location in entry_points(*PLUGINS).items():
        kind, _, name = entry.rpartition("/")
        key = (name, None if kind == ANY else kind or "llvm")
        found.setdefault(key, TemplateEntry(*key, location))
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or ""))]


def entry_of(name: str, kind: str) -> TemplateEntry | None:
    """Return the entry of a name for a kind of target: its own one, or else that for every kind."""
    entries = {entry.target: entry for entry in list_templates() if entry.name == name}
    return entries.get(kind) or entries.get(None)


def find_template(
    reference: str,
    target: str | Target,
    import_timeout_s: float | None = None,
    text: bytes | None = None,
) -> Template:
    """Return a template by its name, ``path/to/file.py:function`` or ``path/to/file.tile``.

    `import_timeout_s`: import a file in a child process first, which may take this many seconds:
    its code may crash or never return.
    `text`: source text to use instead of the content of a file.

    Raises UsageError if there is none, or it is for another kind of target.
    """
    kind = Target.of(target).kind
    if names_tile(reference):
        from autotune.operators.tile_template import template_of_file

        return template_of_file(reference, kind, text)
    if names_file(reference):
        found = template_in_file(reference, import_timeout_s, text)
        if found.target not in (None, kind):
            raise UsageError(
                f"template {reference!r} is for {found.target!r} targets, not {kind!r}"
            )
        return found
    named = entry_of(reference, kind)
    if named is not None:
        return named.load()
    entries = list_templates()
    kinds = [str(entry.target) for entry in entries if entry.name == reference]
    if kinds:
        raise UsageError(f"template {reference!r} is for {', '.join(kinds)} targets, not {kind!r}")
    path, function = _file_and_function(reference)
    if function and os.path.isfile(f"{path}.py"):
        meant = f"{path}.py:{function}"
        raise UsageError(f"there is no template {reference!r}: did you mean {meant!r}?")
    names = ", ".join(dict.fromkeys(entry.name for entry in entries))
    raise UsageError(
        f"there is no template {reference!r}: give one of {names}, path/to/file.py:function or "
        "path/to/file.tile"
    )


def names_tile(reference: str) -> bool:
    """Whether a reference is the path of a Tile function."""
    return reference.endswith(".tile")


def names_file(reference: str) -> bool:
    """Whether a reference is of the form ``path/to/file.py:function``, or lacks the function."""
    return _file_and_function(reference)[0].endswith(".py")


def _file_and_function(reference: str) -> tuple[str, str]:
    """Return the two parts of ``path/to/file.py:function``; no function if only a file is named."""
    path, colon, function = reference.rpartition(":")
    return (path, function) if colon and not reference.endswith(".py") else (reference, "")


def template_in_file(
    reference: str, import_timeout_s: float | None = None, text: bytes | None = None
) -> Template:
    """Return the template ``path/to/file.py:function``, for any target; see `find_template`.

    A function without a decorator is one if it returns tensors; see `template_of`.

    Raises UsageError if there is none.
    """
    path, function = _file_and_function(reference)
    if text is None and not os.path.isfile(path):
        problem = "is a folder or a device" if os.path.exists(path) else "does not exist"
        raise UsageError(f"template file {path!r} {problem}: give the path of a Python file")
    if import_timeout_s is not None:
        fault = probe(lambda _: import_file(os.path.abspath(path)), import_timeout_s)
        if fault is not None:
            raise UsageError(
                f"{path}: the file cannot be loaded: {fault.message} while it was imported"
            )
    module = import_file(os.path.abspath(path), text)
    found = unwrapped(getattr(module, function, None))
    if isinstance(found, Template) or inspect.isfunction(found):
        return template_of(found)
    known = _templates_in(module)
    if not known:
        hint = "it has no templates, and no functions with annotated parameters"
    elif function:
        hint = did_you_mean(function, known, "its templates are")
    else:
        calls = (f"{path}:{name} {_call(value)}" for name, value in known.items())
        hint = f"choose one of its templates, {', '.join(calls)}"
    if not function:
        raise UsageError(f"{path} is a file and no template: {hint}")
    problem = "is not a template" if found is not None else "does not exist"
    raise UsageError(f"{path}: {function!r} {problem}; {hint}")


def _templates_in(module: ModuleType) -> dict[str, Template]:
    """Return the templates of a module; if there are none, templates of its annotated functions."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, Template)}
    if not found:
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                with contextlib.suppress(UsageError):
                    found[name] = template_of(value)
    return found


def _call(found: Template) -> str:
    """Return the arguments and the target of a template: "(n, dtype=float32) for llvm"."""
    words = [p.name if p.required else f"{p.name}={p.default}" for p in found.parameters]
    return f"({', '.join(words)}) for {found.target or 'any target'}"
