"""Mistakes in the commands of `autotune records`: files that are none, words that do not fit."""

from __future__ import annotations

from support.command_mistake import Mistake, Row

FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"

GOOD, OUT = "good.jsonl", ["--out", "x.jsonl"]
MERGE, COMPACT = ["records", "merge", GOOD], ["records", "compact", GOOD]
PRUNE = ["records", "prune", GOOD, "--failed"]
EXPORT, IMPORT = ["records", "export", GOOD, "--format"], ["records", "import", GOOD]
LIST = ["records", "list", GOOD]

_WRITERS = (MERGE, COMPACT, PRUNE, [*EXPORT, "autotvm"], IMPORT)

ROWS: list[Row] = [
    # what is read
    *(
        ([*words, name, *more], said)
        for name, said in {
            "": "empty",
            "missing.jsonl": "no record log at missing.jsonl",
            "folder.py": "folder.py is a folder without logs",
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "/dev/zero": "/dev/zero is a device",
            "loop.jsonl": "loop.jsonl: Too many levels",
            "binary.jsonl": "binary.jsonl is not a log of records",
            "no_cache.json": "no_cache.json: a Kernel Tuner cache has",
            "newer.jsonl": "newer.jsonl, line 1.*99",
            f"{'x' * 300}.jsonl": "File name too long",
        }.items()
        for words, more in ((["records", "list"], []), (["records", "import"], OUT))
    ),
    *(
        ([*words, "missing.jsonl", *more], "no record log at missing.jsonl")
        for words, more in (
            (["records", "merge", GOOD], OUT),
            (["records", "compact"], OUT),
            (["records", "diff", GOOD], []),
            (["records", "export"], ["--format", "t4", *OUT]),
            (["records", "prune"], ["--failed", "--in-place"]),
        )
    ),
    *(
        (["records", "validate", name], said)
        for name, said in {
            "": "empty",
            "missing.jsonl": "no record log at missing.jsonl",
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "cut.json.gz": "cut.json.gz",
        }.items()
    ),
    (["records", "prune", "newer.jsonl", "--failed", "--in-place"], "newer.jsonl, line 1.*99"),
    (["records", "compact", "story.jsonl", "--in-place"], "story.jsonl is not a log of records"),
    (["records", "diff", GOOD], "B"),
    (["records", "diff", GOOD, GOOD, GOOD], "good.jsonl"),
    Mistake(["records", "list", "unreadable.jsonl"], "Permission denied", unprivileged=True),
    Mistake([*COMPACT, "--in-place"], "Permission denied", unprivileged=True),
    # what is written
    *(
        ([*words, "--out", name], said)
        for name, said in {
            "": "--out is empty",
            "/dev/full": "/dev/full is a device or a pipe",
            "folder.py": "folder.py is a folder",
            "no_folder/x.jsonl": "there is no folder no_folder; make it first",
            "plain_file/x.jsonl": "plain_file is no folder",
            "dangling.jsonl": "dangling.jsonl is a link that leads nowhere",
            GOOD: "good.jsonl is one of the files to read",
            f"{'x' * 300}.jsonl": "File name too long",
        }.items()
        for words in (MERGE, [*EXPORT, "autotvm"])
    ),
    *(
        ([*words, "--out", name], said)
        for name, said in {"": "--out is empty", GOOD: "is one of the files to read"}.items()
        for words in (COMPACT, PRUNE, IMPORT)
    ),
    *(
        ([*words, "--out", "empty.jsonl"], "empty.jsonl is there already.*--force")
        for words in _WRITERS[:-1]
    ),
    *(
        Mistake([*words, "--out", "closed/x.jsonl"], "in closed: Permission", unprivileged=True)
        for words in _WRITERS
    ),
    Mistake(
        [*IMPORT, "--out", "unreadable.jsonl"],
        "unreadable.jsonl: nothing can be appended to it: Permission denied",
        unprivileged=True,
    ),
    *(Mistake([*words, *OUT], "File too large", setup=FULL_DISK) for words in _WRITERS[:-1]),
    Mistake([*IMPORT, *OUT], "File too large", setup=FULL_DISK, leaves=("x.jsonl",)),
    ([*MERGE, *OUT, "--out", "y.jsonl"], "--out is given twice"),
    (MERGE, "--out"),
    (COMPACT, "--out FILE, or --in-place"),
    ([*PRUNE, *OUT, "--in-place"], "--out FILE, or --in-place"),
    (["records", "prune", GOOD, *OUT], "say which records are to be dropped"),
    ([*IMPORT, "--out", "cut.json.gz"], "cut.json.gz is a compressed log"),
    ([*IMPORT, "--out", "no_cache.json"], "no_cache.json is a Kernel Tuner cache"),
    ([*IMPORT, "--out", "story.jsonl"], "story.jsonl is not a log of records"),
    (["records", "prune", "no_cache.json", "--gone", "--in-place"], "a Kernel Tuner cache has"),
    (["records", "compact", "pretuned", "--in-place"], "ships with autotune and is not rewritten"),
    (["records", "prune", "pretuned", "--gone", "--force", "--in-place"], "and is not rewritten"),
    # options
    ([*COMPACT, *OUT, "--keep", "0"], "--keep"),
    ([*COMPACT, *OUT, "--keep", "many"], "--keep"),
    ([*LIST, "--top", "0"], "--top"),
    ([*LIST, "--top", "-3"], "--top"),
    ([*LIST, "--since", "soon"], "--since must be a date"),
    ([*LIST, "--since", "2026-13-45"], "--since must be a date"),
    ([*LIST, "--before", ""], "--before must be a date"),
    ([*LIST, "--before", "-7d"], "--before must be a date"),
    ([*LIST, "--since", "\x1b[31m"], r"--since must be a date.*x1b"),
    ([*LIST, "--valid", "--failed"], "--valid and --failed"),
    ([*LIST, "--known", "matmul"], "file.py:function"),
    ([*LIST, "--known", "missing.py:f"], "'missing.py' does not exist"),
    ([*LIST, "--csv", "x.txt"], "--csv x.txt"),
    ([*LIST, "--csv", ""], "--csv is empty"),
    ([*LIST, "--csv", "no_folder/x.csv"], "there is no folder no_folder"),
    ([*LIST, "--csv", "x.csv", "--json"], "--csv and --json"),
    Mistake([*LIST, "--csv", "x.csv"], "File too large", setup=FULL_DISK),
    Mistake([*LIST, "--template", "matmull"], "no record is what the options ask for", code=3),
    Mistake(["records", "list", "empty.jsonl"], "empty.jsonl: there are no records", code=3),
    ([*EXPORT, "autotmv", *OUT], "--format autotmv: did you mean 'autotvm'"),
    ([*EXPORT, "", *OUT], "--format : expected one of autotune, autotvm"),
    Mistake([*EXPORT, "t4", *OUT, "--failed"], "no record is what the options ask for", code=3),
    Mistake(
        [*EXPORT, "autotune", *OUT, "--failed"], "no record is what the options ask for", code=3
    ),
]
