"""Objects of users: found by entry point, module or file, and what is said when they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.installed import install

from autotune.errors import AutotuneError, UsageError
from autotune.system.plugins import entry_points, errors_of, find_maker, find_plugin, make_object

TEXT = "class Mine:\n    pass\n\nnumber = 3\n"


def test_a_name_is_found_by_its_entry_point_and_imports_no_other_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"mine": "mine_of_a_test:Mine", "broken": "broken_of_a_test:Mine"}
    modules = {"mine_of_a_test": TEXT, "broken_of_a_test": "raise RuntimeError('no licence')"}
    install(tmp_path, monkeypatch, {"autotune.cost_models": points}, modules)
    assert entry_points("cost model") == points
    assert find_plugin("cost model", "mine", []).__name__ == "Mine"
    assert "broken_of_a_test" not in sys.modules
    with pytest.raises(UsageError) as caught:
        find_plugin("cost model", "broken", [])
    assert str(caught.value) == (
        "cost model 'broken': broken_of_a_test:Mine cannot be loaded: RuntimeError: no licence"
    )


def test_unreadable_entry_points_of_one_package_leave_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, monkeypatch, {"autotune.tuners": {"mine": "mine:Mine"}})
    damaged = tmp_path / "damaged-1.0.dist-info"
    damaged.mkdir()
    (damaged / "entry_points.txt").write_text("[autotune.tuners]\nno sign of equality\n")
    assert entry_points("tuner") == {"mine": "mine:Mine"}
    (line,) = caplog.messages
    assert str(damaged) in line
    assert "unreadable entry points" in line


def test_modules_and_files_are_given_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {}, {"mine_by_module": TEXT})
    assert find_plugin("tuner", "mine_by_module:Mine.__name__", []) == "Mine"
    assert find_plugin("tuner", f"{tmp_path / 'mine_by_module.py'}:number", []) == 3


def test_a_file_is_loaded_once_until_its_text_changes(tmp_path: Path) -> None:
    file, loads = tmp_path / "own.py", tmp_path / "loads"
    text = f"with open({str(loads)!r}, 'a') as file: file.write('x')\nnumber = {{}}\n"
    for number in (3, 4):
        file.write_text(text.format(number))
        for _ in range(3):
            assert find_plugin("tuner", f"{file}:number", []) == number
    assert loads.read_text() == "xx"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("climbr", "unknown tuner 'climbr': did you mean 'climber'?"),
        ("xyz", "unknown tuner 'xyz': expected one of grid, climber"),
        ("nowhere:A", "tuner 'nowhere:A': nowhere:A cannot be loaded: ModuleNotFoundError: No"),
        ("own_parts:Mine", "No module named 'own_parts'; did you mean 'own_parts.py:Mine'?"),
        ("own_parts.py:Mone", "own_parts.py has no 'Mone': did you mean 'Mine'?"),
        ("gone.py:Mine", "FileNotFoundError"),
        ("bad.py:Mine", "bad.py:1: the file cannot be loaded: ZeroDivisionError"),
        (":", "cannot be loaded"),
    ],
)
def test_what_is_not_found_is_one_line(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"autotune.tuners": {"climber": "m:Climber"}})
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("own_parts.py").write_text(TEXT)
    Path("bad.py").write_text("1 / 0\n")
    with pytest.raises(UsageError) as caught:
        find_plugin("tuner", name, ["grid"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_called_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "own_parts.py").write_text(TEXT)
    with pytest.raises(UsageError, match=r"number' must be a class or a function, not int$"):
        find_maker("tuner", f"{tmp_path / 'own_parts.py'}:number", {})
    assert find_maker("tuner", "known", {"known": dict}) is dict
    assert find_maker("tuner", list, {}) is list


def test_an_object_is_made_with_those_of_the_further_arguments_that_it_takes() -> None:
    def make(a: int, features: str = "") -> tuple[int, str]:
        return a, features

    assert make_object(make, "x", 1, features="f", seed=2) == (1, "f")
    assert make_object(lambda a, **more: more, "x", 1, seed=2) == {"seed": 2}
    with pytest.raises(AutotuneError, match=r"^x cannot be made: TypeError: .*$") as told:
        make_object(make, "x")
    assert ".py" not in str(told.value)  # of the package, which no user can mend


def test_an_error_of_a_users_code_is_one_line_with_its_place() -> None:
    with (
        pytest.raises(AutotuneError, match=r"^tuner x fails: KeyError: 'a' \(test_plugins\.py:\d+"),
        errors_of("tuner x fails"),
    ):
        {}["a"]
    with pytest.raises(AutotuneError, match=r"^said already$"), errors_of("tuner x fails"):
        raise UsageError("said already")
    with pytest.raises(KeyboardInterrupt), errors_of("tuner x fails"):
        raise KeyboardInterrupt


def test_entry_points_are_not_read_for_what_is_built_in() -> None:
    code = (
        "import sys; from autotune.tuner.factory import check_tuner\n"
        "from autotune.system import plugins\n"
        "plugins.entry_points = None\n"
        "check_tuner('model'); check_tuner('optuna:tpe')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
