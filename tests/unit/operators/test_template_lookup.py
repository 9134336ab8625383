"""Finding templates: by name, by entry point, in a file; and what is said when there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.installed import install

from autotune.cli.commands.templates import templates
from autotune.errors import UsageError
from autotune.operators import template_lookup
from autotune.operators.template_lookup import find_template, list_templates
from autotune.target import KINDS
from autotune.template import Template

FILE = '''
from autotune.template import template

@template("mine", target="{target}")
def mine(cfg, n: int):
    return cfg, n

number = 3
'''


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(FILE.format(target="llvm"))
    return file


@pytest.mark.parametrize("entry", list_templates(), ids=lambda e: e.name)
def test_every_listed_template_loads_under_its_name(entry: template_lookup.TemplateEntry) -> None:
    for kind in KINDS if entry.target is None else [entry.target]:
        found = find_template(entry.name, kind)
        assert found.name == entry.name
        assert found.target in (entry.target, kind)
        assert found.description


def test_listing_imports_no_template() -> None:
    assert {"matmul", "conv2d_nchw", "softmax", "broadcast_add"} <= {
        entry.name for entry in list_templates()
    }


def test_a_template_is_found_in_a_file(path: Path) -> None:
    found = find_template(f"{path}:mine", "llvm -threads=2")
    assert isinstance(found, Template)
    assert found.name == "mine"
    assert found.path == f"{path}:mine"


def test_a_file_is_read_again_when_it_has_changed(path: Path) -> None:
    assert find_template(f"{path}:mine", "llvm").target == "llvm"
    path.write_text(FILE.format(target="cuda"))
    assert find_template(f"{path}:mine", "cuda").target == "cuda"


@pytest.mark.parametrize(
    ("reference", "target", "words"),
    [
        ("matmull", "llvm", ["no template 'matmull'", "matmul", "path/to/file.py:function"]),
        ("only", "cuda", ["'only' is for llvm targets, not 'cuda'"]),
        ("missing.py:f", "llvm", ["'missing.py' does not exist"]),
        ("{path}:yours", "llvm", ["'yours' does not exist", "its templates are mine"]),
        ("{path}:number", "llvm", ["'number' is not a template", "mine"]),
        ("{path}:mine", "cuda", ["is for 'llvm' targets, not 'cuda'"]),
    ],
)
def test_what_is_not_found_is_one_clear_line(
    path: Path,
    reference: str,
    target: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(template_lookup.BUILTIN, ("only", "llvm"), "nowhere:only")
    with pytest.raises(UsageError) as caught:
        find_template(reference.format(path=path), target)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:", [":1: ", "SyntaxError"]),
        ("import nothing_of_this_name", ["ModuleNotFoundError", "nothing_of_this_name"]),
        ("1 / 0", ["ZeroDivisionError"]),
    ],
)
def test_a_file_that_cannot_be_run_is_one_clear_line(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        find_template(f"{file}:f", "llvm")
    for word in [str(file), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_leaves_the_others_listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    said: str,
) -> None:
    points = {"autotune.operators": {"bad": "broken_plugin:bad"}}
    install(tmp_path, monkeypatch, points, {"broken_plugin": text})
    with pytest.raises(UsageError, match=said):
        find_template("bad", "llvm")
    templates(as_json=True)
    out, err = capsys.readouterr()
    names = {row["name"] for row in json.loads(out)}
    assert "matmul" in names
    assert "bad" not in names
    assert err.count("\n") == 1
    assert err.startswith("autotune: warning: template 'bad': broken_plugin:bad cannot be loaded")
    assert said in err


@pytest.mark.parametrize("group", ["autotune.operators", "autotune.templates"])
def test_installed_templates_are_found_by_entry_point(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matmul = "autotune.operators.contractions.matmul"
    points = {"other": f"{matmul}:matmul", "cuda/far": "nowhere:far", "odd": f"{matmul}:te"}
    install(tmp_path, monkeypatch, {group: points})
    listed = {(entry.name, entry.target) for entry in list_templates()}
    assert {("other", "llvm"), ("far", "cuda"), ("matmul", None)} <= listed
    assert find_template("other", "llvm").name == "matmul"
    with pytest.raises(UsageError, match="is not a template"):
        find_template("odd", "llvm")
    with pytest.raises(UsageError, match="cannot be loaded"):
        find_template("far", "cuda")


@pytest.mark.parametrize(
    ("end", "timeout_s", "how"),
    [
        ("os.abort()", 60.0, "killed by SIGABRT"),
        ("os._exit(0)", 60.0, "left with exit code 0"),
        ("time.sleep(300)", 1.0, "did not return within 1 s"),
    ],
)
def test_a_file_that_ends_the_process_when_imported_is_the_users_mistake(
    path: Path, end: str, timeout_s: float, how: str
) -> None:
    path.write_text(f"import os\nimport time\n\n{end}\n{path.read_text()}")
    with pytest.raises(UsageError, match=rf"mine\.py: .* {how} while it was imported$"):
        find_template(f"{path}:mine", "llvm", import_timeout_s=timeout_s)


def test_a_good_file_is_found_after_it_was_tried_out(path: Path) -> None:
    assert find_template(f"{path}:mine", "llvm", import_timeout_s=60.0).name == "mine"


TWO = """
from autotune.template import template
@template("scale", target="llvm")
def scale(cfg, n: int):
    pass
@template("twice", target="cuda")
def other(cfg, n: int, x: float = 2.0):
    pass
"""


@pytest.mark.parametrize("ending", ["", ":"])
def test_a_file_alone_lists_its_templates_and_what_they_take(tmp_path, ending):
    path = tmp_path / "mine.py"
    path.write_text(TWO)
    with pytest.raises(UsageError) as caught:
        find_template(f"{path}{ending}", "llvm")
    assert str(caught.value) == (
        f"{path} is a file and no template: choose one of its templates, "
        f"{path}:scale (n) for llvm, {path}:other (n, x=2.0) for cuda"
    )


def test_a_file_without_templates_and_one_that_is_missing_are_said_to_be_so(tmp_path):
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"none\.py is a file and no template: it has no templ"):
        find_template(str(tmp_path / "none.py"), "llvm")
    with pytest.raises(UsageError, match=r"template file ['\"].*gone\.py['\"] does not exist"):
        find_template(str(tmp_path / "gone.py"), "llvm")


PLAIN = """
from autotune import te

def scaled(n: int, by: float = 2.0):
    A = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: A[i] * by, name="B")

def helper(anything):
    return anything
"""


def test_a_function_that_returns_tensors_is_a_template_without_a_decorator(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    for target in ("llvm", "cuda"):
        found = find_template(f"{path}:scaled", target)
        assert (found.name, found.target, found.path) == ("scaled", None, f"{path}:scaled")
    with pytest.raises(UsageError, match=r"'helper'.*must be annotated"):
        find_template(f"{path}:helper", "llvm")
    with pytest.raises(UsageError) as caught:
        find_template(str(path), "llvm")
    assert f"choose one of its templates, {path}:scaled (n, by=2.0) for any target" in str(
        caught.value
    )
    with pytest.raises(UsageError, match=r"'others' does not exist; its templates are scaled$"):
        find_template(f"{path}:others", "llvm")
    with pytest.raises(UsageError, match=r"plain:scaled': did you mean '\S+plain\.py:scaled'\?$"):
        find_template(f"{tmp_path}/plain:scaled", "llvm")


def test_a_template_for_one_kind_is_found_before_that_for_every_kind() -> None:
    by_rules = {entry.name for entry in list_templates() if entry.target is None}
    assert {"dense", "transpose", "attention"} <= by_rules
    assert find_template("transpose", "llvm").target is None
    assert find_template("broadcast_add", "cuda").target == "cuda"


def test_an_entry_point_may_be_for_any_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = "autotune.operators.contractions.dense:dense"
    install(tmp_path, monkeypatch, {"autotune.operators": {"any/layer": location}})
    assert find_template("layer", "llvm") is find_template("layer", "cuda")
