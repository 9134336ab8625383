"""How a worker process gets a template that is given as an object: by its file, or as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from autotune.errors import UsageError
from autotune.operators.function_source import self_contained
from autotune.operators.template_lookup import template_in_file
from autotune.system.user_modules import FileAsItIs
from autotune.template import Template

# Returns what a template computes by default, as lines; None if it refuses its default knobs.
Computed = Callable[[Template], Sequence[str] | None]


def file_text(template: Template) -> bytes | None:
    """Return the text of a template's file at the time of loading; None if it has no such file.

    The file may have been edited since, and may be incomplete.
    """
    loader = template.function.__globals__.get("__loader__")
    return loader.text if isinstance(loader, FileAsItIs) else None


def worker_source(template: Template, computed: Computed) -> tuple[str, bytes | None]:
    """Return how a worker process finds a template that is given as an object.

    A text is tried here first: it must compute the same.

    Parameters
    ----------
    template : Template
    computed : function
        What tells whether two templates compute the same.

    Returns
    -------
    reference : str
        ``path/to/file.py:function``.
    text : bytes or None
        What is loaded in place of that file: the function and what it uses. None for our own
        templates, and for those that no text can give but that stand in a file.

    Raises
    ------
    UsageError
        If the function stands in no file, and no text can give it; or the text computes something
        else.
    """
    if template.is_ours:
        return template.path, None
    reference, text = _as_text(template)
    if text is not None:
        _check_text(template, reference, text, computed)
    return reference, text


def _as_text(template: Template) -> tuple[str, bytes | None]:
    """Return a name of a file that does not exist, and its text; else the template's own file."""
    name = template.function.__name__
    # Files beside the template are found from there.
    path = os.path.join(os.path.dirname(template.source_file) if template.has_path else "", name)
    while os.path.exists(f"{path}.py"):  # workers would load that file instead
        path += "_"
    try:
        return f"{path}.py:{name}", self_contained(template).encode()
    except UsageError:
        if not template.has_path:
            raise
        return template.path, file_text(template)


def _check_text(template: Template, reference: str, text: bytes, computed: Computed) -> None:
    """Raise UsageError if a text does not compute what the template does."""
    name = f"function {template.function.__name__!r}"
    own, again = computed(template), computed(template)
    try:
        others = computed(template_in_file(reference, text=text))
    except UsageError as error:
        raise UsageError(f"the text of {name} does not run by itself: {error}") from error
    if own == again != others:
        raise UsageError(
            f"the text of {name} computes something else than the function: its file or what "
            "it uses has changed since it was loaded; load it again"
        )
