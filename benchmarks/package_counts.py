"""Counts how the package is built: files, lines, folders, cycles of imports, names, classes.

    python benchmarks/package_counts.py [ROOT] [--names]

ROOT is a checkout (default: this one), so that two commits can be compared. ``--names`` also lists
what was counted.
"""

from __future__ import annotations

import argparse
import ast
import collections
import tomllib
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("autotune", "features", "records", "search_spaces")

#: File names that may stand in several folders: interfaces, devices, and commands with their topic.
SHARED_NAMES = {"__init__", "__main__", "base"}

#: A folder with names of other projects, which may be ours for other things.
FOREIGN = "compat"

#: Bases of trees and exceptions, which may be as deep as they need to be.
TREES = {"Expr", "Stmt", "Exception", "NodeVisitor", "NodeTransformer", "Protocol"}

Graph = dict[str, set[str]]


def modules(root: Path) -> dict[str, ast.Module]:
    """Return the syntax tree of each module by its dotted name."""
    found = {}
    for path in sorted(file for package in PACKAGES for file in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def imports(name: str, tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Yield the modules of ours that are imported at the top, for type checking included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = inner if inner in known else node.module
                if found in known and found != name:
                    yield found
        else:
            yield from imports(name, node, known)


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules each of which reaches every other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return groups


def classes(trees: dict[str, ast.Module]) -> dict[str, list[ast.ClassDef]]:
    """Return all classes at the top of modules by name."""
    found: dict[str, list[ast.ClassDef]] = collections.defaultdict(list)
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return found


def bases(cls: ast.ClassDef) -> list[str]:
    found = [base.value if isinstance(base, ast.Subscript) else base for base in cls.bases]
    names = [ast.unparse(base).split(".")[-1] for base in found]
    return [name for name in names if name != cls.name]  # that of another module


def ancestors(cls: ast.ClassDef, known: dict[str, list[ast.ClassDef]]) -> set[str]:
    names = set(bases(cls))
    return names.union(*(ancestors(c, known) for name in names for c in known.get(name, [])[:1]))


def depth(cls: ast.ClassDef, known: dict[str, list[ast.ClassDef]]) -> int:
    own = [known[name][0] for name in bases(cls) if name in known]
    return 1 + max((depth(base, known) for base in own), default=0)


def attributes(cls: ast.ClassDef, known: dict[str, list[ast.ClassDef]]) -> set[str]:
    """Return methods, fields and what methods assign to `self`, with those of our own bases."""
    found = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    stored = (n for n in ast.walk(cls) if isinstance(n, ast.Attribute))
    found.update(n.attr for n in stored if isinstance(n.ctx, ast.Store) and _is_self(n.value))
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    own = [known[name][0] for name in bases(cls) if name in known]
    return {name for name in found if not name.startswith("__")}.union(
        *(attributes(base, known) for base in own)
    )


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def late_imports(trees: dict[str, ast.Module]) -> list[str]:
    """Return the modules that import inside functions, once for each import."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for name, tree in trees.items():
        inside = {
            node
            for function in ast.walk(tree)
            if isinstance(function, functions)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        found += [name] * len(inside)
    return found


def folder_of(module: str, packages: set[str]) -> str:
    return module if module in packages else module.rpartition(".")[0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    options.add_argument("--names", action="store_true")
    args = options.parse_args()
    root: Path = args.root
    files = [file for package in PACKAGES for file in (root / package).rglob("*.py")]
    trees = modules(root)
    packages = {
        ".".join(file.parent.relative_to(root).parts) for file in files if file.stem == "__init__"
    }
    graph = {name: set(imports(name, tree, set(trees))) for name, tree in trees.items()}
    groups = cycles(graph)
    across = [g for g in groups if len({folder_of(name, packages) for name in g}) > 1]
    known = classes(trees)
    own = {name: tree for name, tree in trees.items() if FOREIGN not in name.split(".")}
    public = {n: len(found) for n, found in classes(own).items() if not n.startswith("_")}
    named = (file for file in files if FOREIGN not in file.parts)
    stems = collections.Counter(file.stem for file in named if file.stem not in SHARED_NAMES)
    plain = [
        cls
        for found in known.values()
        for cls in found
        if not TREES & ancestors(cls, known) and not cls.name.endswith(("Error", "Warning"))
    ]
    deepest = max(plain, key=lambda cls: depth(cls, known))
    largest = max(
        (cls for found in known.values() for cls in found),
        key=lambda cls: len(attributes(cls, known)),
    )
    sizes = collections.Counter(file.parent for file in files if file.stem != "__init__")
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = max(len(contract.get("layers", ())) for contract in contracts["contracts"])
    late = collections.Counter(late_imports(trees))
    rows: list[tuple[str, object, object]] = [
        ("files", len(files), ""),
        ("lines", sum(len(file.read_text().splitlines()) for file in files), ""),
        ("folders", len({file.parent for file in files}), ""),
        ("layers", layers, ""),
        ("groups of files that import each other", len(groups), groups),
        ("such groups across folders", len(across), across),
        ("class names used twice", *_repeated(public)),
        ("file names used twice", *_repeated(stems)),
        ("deepest inheritance", depth(deepest, known), deepest.name),
        ("attributes of the largest class", len(attributes(largest, known)), largest.name),
        ("imports in functions", late.total(), late.most_common(40)),
        (
            "folders of more than 15 files",
            sum(size > 15 for size in sizes.values()),
            [(str(folder.relative_to(root)), size) for folder, size in sizes.items() if size > 15],
        ),
    ]
    for title, count, names in rows:
        print(f"{title:40} {count:>7}" + (f"  {names}" if args.names and names else ""))


def _repeated(counts: collections.Counter[str] | dict[str, int]) -> tuple[int, list[str]]:
    names = sorted(name for name, count in counts.items() if count > 1)
    return len(names), names


if __name__ == "__main__":
    main()
