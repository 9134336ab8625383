"""Wrong files: templates, logs, what is built, shown and replayed, and data sets."""

from __future__ import annotations

from support.command_mistake import MATMUL, SIZE, Mistake, N, Row

FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"

GOOD, OUT = "good.jsonl", ["--out", "x.jsonl"]
MERGE, COMPACT = ["records", "merge", GOOD], ["records", "compact", GOOD]
PRUNE = ["records", "prune", GOOD, "--failed"]
EXPORT, IMPORT = ["records", "export", GOOD, "--format"], ["records", "import", GOOD]
LIST = ["records", "list", GOOD]

_WRITERS = (MERGE, COMPACT, PRUNE, [*EXPORT, "autotvm"], IMPORT)

OF_RECORDS: list[Row] = [
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


TWICE = ["templates.py:good", "templates.py:good"]
HASTY = "from autotune.cli.options import task_arguments; task_arguments._MIN_IMPORT_S /= 60"
LITTLE_MEMORY = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"

ROWS: list[Row] = [
    # template files
    (["run", "pipe.py:f"], "pipe.py' is a folder or a device"),
    (["run", "loop.py:f"], "loop.py"),
    (["run", "/dev/null:f"], "no template '/dev/null:f'"),
    (["run", f"{'x' * 300}.py:f"], "does not exist"),
    Mistake(["run", "unreadable.py:f"], "Permission denied", unprivileged=True),
    (["run", "latin1.py:f"], r"latin1.py.*SyntaxError"),
    (["run", "tabs.py:f"], r"tabs.py:3: .*TabError"),
    (["run", "raises_base.py:f"], "raises_base.py"),
    (["run", "recursion.py:f"], r"recursion.py:2: .*RecursionError"),
    (["run", "memory.py:f"], r"memory.py:1: .*MemoryError"),
    (["run", "crashes.py:f"], "crashes.py: .*SIGSEGV"),
    (["run", "leaves_at_once.py:f"], "leaves_at_once.py: .*exit code 0"),
    (["run", "closes.py:f"], "closes.py: .*exit code 1 while it was imported"),
    (["run", "prints.py:f"], "prints.py:2: .*loud"),
    *(
        Mistake(["run", f"{name}.py:f", "--timeout", "0.5"], "did not return", setup=HASTY)
        for name in ("hangs", "spins", "deaf")
    ),
    (["show", "hangs_not.py:f"], "does not exist"),
    (["run", "templates.py:good:more"], "templates.py:good:more"),
    (["run", "templates.py::good"], "templates.py:"),
    (["run", "templates.py:good.more", *N], "good.more"),
    (["run", "templates.py:returns_number", *N], "must return"),
    (["run", "templates.py:returns_strings", *N], "returns_strings"),
    (["run", "templates.py:raises_base", *N], "so odd"),
    (["run", "templates.py:leaves", *N], "leaves"),
    (["run", "templates.py:empty_knob", *N], "'k'"),
    (["run", "templates.py:twice", *N], "'k'.*twice|twice.*'k'|already"),
    (["run", "templates.py:bad_schedule", *N], "factor"),
    (["run", "templates.py:asks_for_keyboard", *N], "EOFError|input"),
    (["show", "templates.py:raises", *N, "--source"], "it never"),
    (["build", "templates.py:raises", *N], "it never"),
    (["best", "templates.py:raises", *N, "--log", "good.jsonl"], "it never"),
    *(
        Mistake(["run", f"templates.py:{name}", *N, "--seed", "1"], said, printed=True)
        for name, said in {
            "reference_raises": "ZeroDivisionError",
            "reference_of_other_shape": "shape",
        }.items()
    ),
    Mistake(
        ["run", "templates.py:good", "--set", "n=2000000000", "--seed", "1"],
        "has too little memory: the arrays of good take .*Unable to allocate",
        setup=LITTLE_MEMORY,
        printed=True,
    ),
    Mistake(
        ["run", "templates.py:wrong", *N],
        "nothing valid was found in 1 trial: 1 failed",
        code=3,
        printed=True,
        leaves=("wrong.jsonl",),
    ),
    # Tile functions
    *(
        (words, said)
        for name, said in {
            "folder.py": "folder.py: it is a folder, a device or a pipe",
            "pipe.tile": "pipe.tile: it is a folder, a device or a pipe",
            "/dev/zero": "/dev/zero: it is a folder, a device or a pipe",
            "missing.tile": "missing.tile: No such file or directory; check the path",
        }.items()
        for words in (["tile", "check", name], ["tile", "show", name])
    ),
    (["run", "pipe.tile", "--set", "N=4"], "pipe.tile: it is a folder, a device or a pipe"),
    # logs that are none
    *(
        ([*words, name], said)
        for words in (
            ["best", "matmul", *SIZE, "--log"],
            ["build", "matmul", *SIZE, "--log"],
            ["records", "summary"],
        )
        for name, said in {
            "": "empty",
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "/dev/zero": "/dev/zero is a device",
            "loop.jsonl": "loop.jsonl: Too many levels",
            "binary.jsonl": "binary.jsonl is not a log of records",
            "story.jsonl": "story.jsonl is not a log of records.*line 1",
        }.items()
    ),
    *(
        (["records", "summary", name], said)
        for name, said in {
            "picture.jsonl": "is not a log of records",
            "list.jsonl": "is not a log of records",
            "deep.jsonl": "is not a log of records",
            "long.jsonl": "is not a log of records",
            "latin1.jsonl": "is not a log of records",
            "nan.jsonl": "NaN",
            f"{'x' * 300}.jsonl": "File name too long",
            "plain_file/x.jsonl": "Not a directory",
        }.items()
    ),
    Mistake(["records", "summary", "unreadable.jsonl"], "Permission denied", unprivileged=True),
    Mistake(["best", "matmul", *SIZE, "--log", "empty.jsonl"], "no valid record", code=3),
    *OF_RECORDS,
    *(
        ([*MATMUL, "--log", name], said)
        for name, said in {
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "loop.jsonl": "loop.jsonl",
            "story.jsonl": "story.jsonl is not a log of records",
            "picture.jsonl": "picture.jsonl is not a log of records",
            f"{'x' * 300}.jsonl": "File name too long",
            "\udcff/x.jsonl": "there is no folder",
        }.items()
    ),
    Mistake([*MATMUL, "--log", "unreadable.jsonl"], "Permission denied", unprivileged=True),
    Mistake([*MATMUL, "--log", "closed/x.jsonl"], "Permission denied", unprivileged=True),
    *(
        ([*MATMUL, "--transfer", name], said)
        for name, said in {
            "": "--transfer is empty",
            "folder.py": "folder.py is a folder",
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "/dev/zero": "/dev/zero is a device",
        }.items()
    ),
    # what build writes
    (["build", "matmul", *SIZE, "-o", ""], "empty|'\\.'|folder"),
    (["build", "matmul", *SIZE, "-o", "/dev/full"], "/dev/full"),
    (["build", "matmul", *SIZE, "-o", "plain_file/f.so"], "plain_file"),
    (["build", "matmul", *SIZE, "-o", f"{'x' * 300}.so"], "File name too long"),
    Mistake(["build", "matmul", *SIZE, "-o", "closed/f.so"], "Permission", unprivileged=True),
    Mistake(["build", "matmul", *SIZE, "-o", "f.so"], "File too large", setup=FULL_DISK),
    (["build", "matmul", *SIZE, "--name", ""], "name"),
    (["build", "matmul", *SIZE, "--name", "1st"], "letters, digits and _, got '1st'"),
    # show
    (["show", "matmul", *SIZE, "--config", "9" * 30], "outside the space"),
    (["show", "matmul", *SIZE, "--ir", "--source", "--steps", "--space"], "choose one"),
    # replay
    (["replay", "run"], "FILE"),
    *(
        (["replay", "run", name, "--tuner", "random"], said)
        for name, said in {
            "": "empty",
            "missing.json": "missing.json: No such file",
            "folder.py": "folder.py is a folder",
            "pipe.jsonl": "is a device or a pipe",
            "binary.jsonl": "binary.jsonl is not text",
            "story.jsonl": "story.jsonl is of no known format",
            "empty.jsonl": "empty.jsonl",
            "long.jsonl": "long.jsonl is of no known format",
            "deep.jsonl": "deep.jsonl",
            "number.json": "number.json is of no known format",
            "no_cache.json": "no_cache.json",
            "cut.json.gz": "cut.json.gz",
        }.items()
    ),
    (["replay", "run", "good.jsonl", "--tuner", "kernel_tuner:magic"], "kernel_tuner|Kernel Tuner"),
    (["replay", "run", "good.jsonl", "--tuner"], "--tuner"),
    (["replay", "run", "good.jsonl", "--jobs", "0"], "--jobs"),
    (["replay", "run", "good.jsonl", "--batch", "-1"], "--batch"),
    (["replay", "run", "good.jsonl", "--repeats", "0.5"], "--repeats"),
    (["replay", "run", "good.jsonl", "--workload", "other"], "other"),
    (["replay", "run", "good.jsonl", "--plot", "x.xyz"], r"picture x\.xyz: its suffix"),
    (["replay", "run", "good.jsonl", "--plot", "x"], "picture x: its suffix"),
    (["replay", "run", "good.jsonl", "--plot", "no/x.png"], "there is no folder no"),
    (["replay", "run", "good.jsonl", "--transfer", "missing.jsonl"], "--transfer missing.jsonl"),
    (["replay", "compare", "missing"], "missing is not a folder"),
    (["replay", "compare", "good.jsonl"], "good.jsonl is not a folder"),
    (["replay", "compare", "no_files"], "no_files holds no file of measurements"),
    # data sets
    (["features"], "Missing command"),
    (["features", "exprot"], "exprot.*export"),
    (["features", "export"], "--log"),
    (["features", "export", "--log", "good.jsonl"], "--out"),
    (["features", "export", "--out", "x.csv"], "--log"),
    *(
        (["features", "export", "--log", log, "--out", out, *more], said)
        for log, out, said, *more in (
            ("good.jsonl", "x.xlsx", r"x\.xlsx: a data set ends in \.parquet, \.csv or \.npz"),
            ("good.jsonl", "x", r"ends in \.parquet"),
            ("good.jsonl", "", "--out is empty"),
            ("good.jsonl", "no_folder/x.csv", "there is no folder no_folder; make it first"),
            ("good.jsonl", "x.csv", "'curv' is not a .*did you mean 'curve'", "--layout", "curv"),
            ("good.jsonl", "x.csv", "is not a layout.*one of itervar", "--layout", "knob", "all"),
            ("good.jsonl", "x.csv", "twice", "--layout", "knob", "curve", "knob"),
            ("good.jsonl", "x.csv", "file.py:function", "--template", "matmul"),
            ("good.jsonl", "x.csv", "'gone.py' does not exist", "--template", "gone.py:f"),
            ("good.jsonl", "x.csv", "godo.*good", "--template", "templates.py:godo"),
            ("good.jsonl", "x.csv", "SIGSEGV|Segmentation", "--template", "crashes.py:f"),
            ("good.jsonl", "x.csv", "'good' for llvm twice", "--template", *TWICE),
            ("good.jsonl", "x.csv", "--with-program", "--with-program"),
            ("missing.jsonl", "x.csv", "--log missing.jsonl: No such file"),
            ("", "x.csv", "--log is empty"),
            ("folder.py", "x.csv", "folder.py is a folder"),
            ("pipe.jsonl", "x.csv", "pipe.jsonl is a device or a pipe"),
            ("newer.jsonl", "x.npz", "newer.jsonl, line 1.*99"),
            ("story.jsonl", "x.npz", "story.jsonl is of no known format: expected autotune"),
            ("binary.jsonl", "x.npz", "binary.jsonl is not text"),
            ("cut.json.gz", "x.npz", "cannot read cut.json.gz"),
            ("no_cache.json", "x.npz", "no_cache.json: a Kernel Tuner cache has"),
        )
    ),
    Mistake(
        ["features", "export", "--log", "empty.jsonl", "--out", "x.npz"],
        "empty.jsonl: there is no record to export",
        code=3,
    ),
    Mistake(
        ["features", "export", "--log", "good.jsonl", "--out", "closed/x.npz", "--layout", "knob"],
        "closed/x.npz: nothing can be written in closed: Permission denied",
        unprivileged=True,
    ),
    (["features", "describe", "--layout", "knobs"], "did you mean 'knob'"),
    (["features", "describe", "--set", "n=4"], "--set gives arguments of a template"),
    (["features", "describe", "matmul"], "m, n, k"),
    (["features", "describe", "templates.py:raises", "--set", "n=4"], "RuntimeError: it never"),
]
