"""Wrong command lines and inputs: a table of what a user types, finds or has set up wrongly.

Each row is a command line and what its one line must say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SIZE = ["--set", "m=8", "--set", "n=8", "--set", "k=8"]
MATMUL = ["run", "matmul", *SIZE]
N = ["--set", "n=4"]
TWICE = ["templates.py:good", "templates.py:good"]


@dataclass(frozen=True)
class Mistake:
    """A wrong command line or input.

    Attributes
    ----------
    words : list of str
        The command line.
    said : str
        Regular expression that the line matches.
    code : int
        Exit code.
    variables : dict of str to str
        More variables of the environment.
    setup : str
        Python that the command runs first, to lower a limit.
    unprivileged : bool
        Whether it needs a user who may not read and write everything.
    leaves : tuple of str
        Files that are there afterwards.
    printed : bool
        Whether something may be printed before, as a run says what it is about to do.
    """

    words: list[str]
    said: str
    code: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    setup: str = ""
    unprivileged: bool = False
    leaves: tuple[str, ...] = ()
    printed: bool = False

    def __str__(self) -> str:
        where = "".join(f"{name}={value} " for name, value in self.variables.items())
        return f"{where}{' '.join(self.words)}"[:70] or "no words"


HASTY = "from autotune.cli import tasks; tasks._LEAST_IMPORT_S = 0.5"
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
LITTLE_MEMORY = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"
FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))"

ROWS: list[Mistake | tuple[list[str], str]] = [
    # words that are no command
    ([], "Missing command"),
    (["frobnicate"], "frobnicate.*--help"),
    (["rum", "matmul"], "rum.*run"),
    (["--frob"], "--frob"),
    (["--versoin"], "--version"),
    (["records"], "Missing command"),
    (["records", "sumary", "x"], "sumary"),
    # options and arguments of run
    (["run"], "TEMPLATE"),
    ([*MATMUL, "extra"], "extra"),
    ([*MATMUL, "--trails", "3"], "--trails.*--trials"),
    ([*MATMUL, "--trials"], "--trials"),
    ([*MATMUL, "--trials", "many"], "--trials"),
    ([*MATMUL, "--trials", "0"], "--trials"),
    ([*MATMUL, "--trials", "-5"], "--trials"),
    ([*MATMUL, "--trials", "1.5"], "--trials"),
    ([*MATMUL, "--seed", "-1"], "--seed"),
    ([*MATMUL, "--seed", "x"], "--seed"),
    ([*MATMUL, "--timeout", "0"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "-3"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "nan"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "inf"], "--timeout.*> 0"),
    ([*MATMUL, "--timeout", "soon"], "--timeout"),
    ([*MATMUL, "--tuner", "modle"], "did you mean 'model'"),
    ([*MATMUL, "--tuner", "oracle"], "model, random, grid"),
    ([*MATMUL, "--tuner", ""], "unknown tuner ''"),
    ([*MATMUL, "--tuner", "model", "grid"], "grid"),
    ([*MATMUL, "--tuner", "grid", "--patience", "0.1"], "use --tuner model"),
    ([*MATMUL, "--patience", "3"], "between 0 and 1"),
    ([*MATMUL, "--transfer", "missing.jsonl"], "--transfer missing.jsonl: No such file"),
    ([*MATMUL, "--tuner", "local", "--transfer", "x.jsonl"], "only the model tuner"),
    ([*MATMUL, "--storage", "sqlite:///x.db"], "no use for --storage"),
    # arguments of the template
    (["run", "matmul", "--set"], "--set"),
    (["run", "matmul", "--set", "m"], "NAME=VALUE"),
    (["run", "matmul", "--set", "=8"], "NAME=VALUE"),
    (["run", "matmul", "--set", "m="], "NAME=VALUE"),
    (["run", "matmul", "--set", "m=8", "n=8"], "n=8"),
    (["run", "matmul", "--set", "m=8", "--set", "m=9"], "m twice"),
    (["run", "matmul", "--set", "m=8"], "n, k"),
    ([*MATMUL, "--set", "stride=2"], "'stride'.*m, n, k, dtype"),
    ([*MATMUL, "--set", "dtpye=float32"], "did you mean 'dtype'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=eight"], "k must be an integer, got 'eight'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=8.5"], "k must be an integer"),
    ([*MATMUL, "--set", "dtype=floaty"], "float32.*got floaty"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "flag=perhaps"], "true or false"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "x=much"], "x must be a number"),
    (["run", "templates.py:good", "--set", "n=4", "--set", "x=nan"], "x must be a number"),
    # targets
    ([*MATMUL, "--target", ""], "llvm"),
    ([*MATMUL, "--target", "gpu"], "'gpu'.*llvm, cuda"),
    ([*MATMUL, "--target", "llvm -mcpu"], "-name=value"),
    ([*MATMUL, "--target", "llvm -speed=high"], "-speed.*-mcpu="),
    ([*MATMUL, "--target", "llvm -threads=none"], "-threads"),
    ([*MATMUL, "--target", "llvm -mcpu=pentium99"], "pentium99"),
    (["run", "conv2d_nchw", *SIZE, "--target", "cuda"], "llvm targets, not 'cuda'"),
    (["run", "templates.py:for_cuda", "--set", "n=4"], "'cuda' targets, not 'llvm'"),
    (["run", "templates.py:for_cuda", "--set", "n=4", "--target", "cuda"], "cuda.*llvm"),
    # templates
    (["run", "matmull", *SIZE], "matmull.*matmul"),
    (["run", "", *SIZE], "there is no template ''"),
    (["run", "templates.py", *SIZE], "file.py:function"),
    (["run", "templates.py:", *SIZE], "good"),
    (["run", "templates.py:godo", *SIZE], "godo.*good"),
    (["run", "templates.py:not_a_template", *SIZE], "not a template"),
    (["run", "missing.py:f", *SIZE], "missing.py"),
    (["run", "folder.py:f", *SIZE], "folder.py"),
    (["run", "empty.py:f", *SIZE], "no templates"),
    (["run", "raises_on_import.py:f"], r"raises_on_import.py:3: .*ValueError: boom"),
    (["run", "bad_syntax.py:f"], r"bad_syntax.py:2: .*SyntaxError"),
    (["run", "exits.py:f"], r"exits.py:2: .*SystemExit"),
    (["run", "no_such_module.py:f"], r"no_such_module.py:1: .*module_that_is_not_there"),
    (["run", "deep.py:f"], r"deep.py:2: .*KeyError"),
    (["run", "not_text.py:f"], "not_text.py"),
    (["run", "bad_annotation.py:t"], "n: list.*annotated"),
    (["run", "templates.py:raises", "--set", "n=4"], r"templates.py:\d+"),
    (["run", "templates.py:returns_none", "--set", "n=4"], "must return"),
    (["run", "templates.py:bad_flops", "--set", "n=4"], "flops.*ZeroDivisionError"),
    # logs
    ([*MATMUL, "--log", ""], "--log is empty"),
    ([*MATMUL, "--log", "folder.py"], "folder.py is a folder"),
    ([*MATMUL, "--log", "/dev/full"], "/dev/full is a device"),
    ([*MATMUL, "--log", "/dev/null"], "/dev/null is a device"),
    ([*MATMUL, "--log", "no_folder/log.jsonl"], "there is no folder no_folder"),
    (["run", "matmull", "--log", "/dev/full"], "/dev/full is a device"),
    ([*MATMUL, "--log", "plain_file/log.jsonl"], "plain_file/log.jsonl: Not a directory"),
    ([*MATMUL, "--log", "/proc/log.jsonl"], "/proc/log.jsonl.*--log"),
    ([*MATMUL, "--log", "newer.jsonl"], "newer.jsonl, line 1.*99"),
    (["best", "matmul", *SIZE], "--log"),
    (["best", "matmul", *SIZE, "--log", "missing.jsonl"], "missing.jsonl"),
    (["best", "matmul", *SIZE, "--log", "newer.jsonl"], "99"),
    (["best", "matmul", "--set", "m=8", "--log", "newer.jsonl"], "n, k"),
    (["build", "matmul", *SIZE, "--log", "missing.jsonl"], "missing.jsonl"),
    (["build", "matmul", *SIZE, "--name", "a b"], "name must be letters, digits and _, got 'a b'"),
    (["build", "matmul", *SIZE, "-o", "no_folder/f.so"], "make the folder no_folder first"),
    (["build", "matmul", *SIZE, "-o", "folder.py"], "folder.py: it is a folder"),
    (["build", "matmul", *SIZE, "-o", "templates.py"], "templates.py: there is something else"),
    (["build", "matmul", *SIZE, "-o", "f.h"], "f.so"),
    (["build", "matmul", *SIZE, "--target", "llvm -mcpu=nehalem"], "nehalem.*not known"),
    (["build", "matmul", *SIZE, "--target", "cuda"], "built for a GPU"),
    (["records", "summary"], "FILE"),
    (["records", "summary", "missing.jsonl"], "missing.jsonl"),
    (["records", "summary", "folder.py"], "folder.py is a folder"),
    (["records", "summary", "newer.jsonl", "--json"], "99"),
    # show and templates
    (["show"], "TEMPLATE"),
    (["show", "matmul"], "m, n, k"),
    (["show", "matmul", *SIZE, "--ir", "--source"], "--ir and --source"),
    (["show", "matmul", *SIZE, "--config", "x"], "--config"),
    (["show", "matmul", *SIZE, "--config", "-1"], "--config"),
    (["show", "matmul", *SIZE, "--config", "999999999"], "outside the space"),
    (["show", "matmul", *SIZE, "--config", "999999999", "--space"], "outside the space"),
    (["show", "templates.py:raises", "--set", "n=4"], "RuntimeError: it never"),
    (["templates", "matmul"], "matmul"),
    (["templates", "--jsno"], "--json"),
    # characters that would steer the terminal
    (["run", "mat\x1b[31mmul", *SIZE], r"mat\\x1b"),
    (["best", "matmul", *SIZE, "--log", "no\nsuch.jsonl"], "no such.jsonl"),
    # when to end, and how to measure
    *(
        ([*MATMUL, option, value], said)
        for option, value, said in (
            ("--time", "", "--time must be a time > 0"),
            ("--time", "30", "--time must be a time > 0 such as 90s, 30m or 1h30m"),
            ("--time", "-5m", "--time must be a time > 0"),
            ("--time", "1e400s", "--time must be a time > 0"),
            ("--time", "5 fortnights", "--time must be a time > 0"),
            ("--until", "", "--until: a goal is"),
            ("--until", "soon", "--until: a goal is .*not 'soon'"),
            ("--until", "0 GFLOPS", "--until: a goal is"),
            ("--until", "120% of copy", "at most 1"),
            ("--until", "200 GFLOPS of peak", "--until: a goal is"),
            ("--until", "nan ms", "--until: a goal is"),
            ("--batch", "0", "--batch"),
            ("--batch", "all", "--batch"),
            ("--repeats", "0", "--repeats"),
            ("--repeats", "2.5", "--repeats"),
            ("--warmup", "-1", "--warmup"),
            ("--min-repeat-ms", "-1", "--min-repeat-ms must be a number >= 0"),
            ("--min-repeat-ms", "inf", "--min-repeat-ms must be a number"),
            ("--flush", "sometimes", "--flush must be off or repeats"),
            ("--flush", "", "--flush must be off or repeats"),
            ("--race", "0.5", "race must be a factor > 1"),
            ("--race", "nan", "--race"),
            ("--race", "fast", "--race"),
        )
    ),
    Mistake(
        ["run", "templates.py:good", *N, "--until", "5 GFLOPS"], "how many operations", printed=True
    ),
    # job files
    *(
        (["run", "--job", f"job{name}"], said)
        for name, said in {
            "": "job",
            ".json": "a job file ends in .toml, .yaml or .yml",
            "_missing.toml": "--job job_missing.toml: No such file",
            "_broken.toml": "job_broken.toml is no TOML",
            "_broken.yaml": "job_broken.yaml is no YAML",
            "_latin1.toml": "no text in UTF-8",
            "_empty.toml": "job_empty.toml has no workload",
            "_empty.yaml": "job_empty.yaml",
            "_number.yaml": "must be a table of options, not 3",
            "_deep.yaml": "job_deep.yaml",
            "_code.yaml": "job_code.yaml is no YAML",
            "_bomb.yaml": "job_bomb.yaml",
            "_twice.yaml": "workload is given twice",
            "_key.toml": "job_key.toml, workload 1: trails: .*'trials'",
            "_top.toml": "job_top.toml: trials",
            "_seed.toml": "job_seed.toml: workload 1: seed is for all workloads",
            "_value.toml": "job_value.toml, workload 1: trials must be",
            "_until.toml": "job_until.toml, workload 1: until: a goal is",
            "_same.toml": "job_same.toml",
            "_template.toml": "job_template.toml, workload 1: .*matmull",
            "_no_template.toml": "job_no_template.toml, workload 1: template is missing",
            "_log.toml": "job_log.toml, workload 1: .*pipe.jsonl is a device or a pipe",
            "_set.toml": "job_set.toml, workload 1: set: k must be",
        }.items()
    ),
    (["run", "--job", ""], "--job"),
    (["run", "--job", "folder.py"], "folder.py is a folder"),
    (["run", "--job", "pipe.toml"], "pipe.toml is a device or a pipe"),
    (["run", "--job", "/dev/zero"], "/dev/zero is a device"),
    (["run", "--job"], "--job"),
    (["run", "matmul", "--job", "job.toml"], "--job and TEMPLATE exclude one another"),
    (["run", "--job", "job.toml", "--set", "m=8"], "--job and --set exclude one another"),
    (["run", "--job", "job.toml", "--trials", "0"], "--trials"),
    (["run", "--job", "job.yaml", "--time", "0s"], "time must be a time > 0"),
    (["run", "--job", "job.yaml", "--weight", "2"], "--weight"),
    # what to print
    ([*MATMUL, "--quiet", "--json-lines"], "--quiet and --json-lines exclude one another"),
    ([*MATMUL, "--quiet=yes"], "--quiet"),
    ([*MATMUL, "--json-line"], "--json-lines"),
    ([*MATMUL, "--json"], "--json-lines"),
    # more words that are no command
    (["cache"], "Missing command"),
    (["cache", "cler"], "cler"),
    (["cache", "clear", "all"], "all"),
    (["cache", "info", "--jsno"], "--json"),
    (["doctor", "who"], "who"),
    (["replay"], "Missing command"),
    (["replay", "rnu", "x"], "rnu.*run"),
    (["RUN", "matmul"], "RUN"),
    (["-x"], "-x"),
    (["--version=3"], "--version"),
    (["run", "--", "--weird"], "no template '--weird'"),
    # words of other scripts, and bytes that are no text
    (["матмул"], "матмул"),
    (["run", "行列積"], "行列積"),
    (["run", "🚀" * 50], "🚀"),
    (["run", "x\u202egpj.exe"], r"x\\u202egpj"),
    (["run", "zero\u200bwidth"], r"zero\\u200bwidth"),
    (["run", "not\udcff\udcfetext"], r"not\\udcff\\udcfetext"),
    (["run", "x" * 10_000], "no template 'x{10000}'"),
    (["run", "templates.py:good", "--set", "ñ=4"], "'ñ'"),
    (["run", "templates.py:good", "--set", "n=四"], "四"),
    (["best", "matmul", *SIZE, "--log", "日誌.jsonl"], "日誌.jsonl"),
    (["run", "\x1b]0;title\x07", *SIZE], r"\\x1b\]0;title\\x07"),
    # numbers
    (["run", "matmul", *SIZE[:4], "--set", "k=0"], "k.*0"),
    (["run", "matmul", *SIZE[:4], "--set", "k=-8"], "k.*-8"),
    (["run", "matmul", *SIZE[:4], "--set", "k=1e3"], "k must be an integer"),
    (["run", "matmul", *SIZE[:4], "--set", "k=99999999999999999999"], "k must be at most"),
    ([*MATMUL, "--trials", "9" * 5000], "--trials"),
    ([*MATMUL, "--patience", "nan"], "between 0 and 1"),
    ([*MATMUL, "--patience", "-0.1"], "between 0 and 1"),
    ([*MATMUL, "--target", "llvm -threads=0"], "-threads"),
    ([*MATMUL, "--target", "llvm -threads=2 -threads=3"], "-threads twice"),
    ([*MATMUL, "--target", "llvm -fast-math=yes"], "-fast-math"),
    ([*MATMUL, "--target", "cuda -arch=90"], "-arch"),
    ([*MATMUL, "--target", "x" * 5000], "unknown target kind"),
    # Optuna's tuners and storages
    ([*MATMUL, "--tuner", "optuna:"], "optuna"),
    ([*MATMUL, "--tuner", "optuna:magic"], "magic"),
    Mistake(
        [*MATMUL, "--tuner", "optuna:tpe", "--storage", "nonsense"], "Optuna study", printed=True
    ),
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
    (["run", "templates.py:no_schedule", *N], "must return"),
    (["run", "templates.py:raises_base", *N], "so odd"),
    (["run", "templates.py:leaves", *N], "leaves"),
    (["run", "templates.py:empty_knob", *N], "'k'"),
    (["run", "templates.py:twice", *N], "'k'.*twice|twice.*'k'|already"),
    (["run", "templates.py:bad_schedule", *N], "factor"),
    (["run", "templates.py:asks_for_keyboard", *N], "EOFError|input"),
    (["show", "templates.py:raises", *N, "--source"], "it never"),
    (["build", "templates.py:raises", *N], "it never"),
    Mistake(["best", "templates.py:raises", *N, "--log", "good.jsonl"], "no valid", code=3),
    *(
        Mistake(["run", f"templates.py:{name}", *N, "--seed", "1"], said, printed=True)
        for name, said in {
            "reference_raises": "ZeroDivisionError",
            "reference_of_other_shape": "shape",
        }.items()
    ),
    Mistake(
        ["run", "templates.py:good", "--set", "n=2000000000", "--seed", "1"],
        "MemoryError",
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
            "binary.jsonl": "binary.jsonl is no log of records",
            "story.jsonl": "story.jsonl is no log of records.*line 1",
        }.items()
    ),
    *(
        (["records", "summary", name], said)
        for name, said in {
            "picture.jsonl": "is no log of records",
            "list.jsonl": "is no log of records",
            "deep.jsonl": "is no log of records",
            "long.jsonl": "is no log of records",
            "latin1.jsonl": "is no log of records",
            "nan.jsonl": "NaN",
            f"{'x' * 300}.jsonl": "File name too long",
            "plain_file/x.jsonl": "Not a directory",
        }.items()
    ),
    Mistake(["records", "summary", "unreadable.jsonl"], "Permission denied", unprivileged=True),
    Mistake(["best", "matmul", *SIZE, "--log", "empty.jsonl"], "no valid record", code=3),
    *(
        ([*MATMUL, "--log", name], said)
        for name, said in {
            "pipe.jsonl": "pipe.jsonl is a device or a pipe",
            "loop.jsonl": "loop.jsonl",
            "story.jsonl": "story.jsonl is no log of records",
            "picture.jsonl": "picture.jsonl is no log of records",
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
            "binary.jsonl": "binary.jsonl is no text",
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
    (["replay", "run", "good.jsonl", "--plot", "x.xyz"], r"--plot x\.xyz: .*suffix"),
    (["replay", "run", "good.jsonl", "--plot", "x"], "--plot x: .*suffix"),
    (["replay", "run", "good.jsonl", "--plot", "no/x.png"], "there is no folder no"),
    (["replay", "run", "good.jsonl", "--transfer", "missing.jsonl"], "--transfer missing.jsonl"),
    (["replay", "compare", "missing"], "missing is no folder"),
    (["replay", "compare", "good.jsonl"], "good.jsonl is no folder"),
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
            ("good.jsonl", "x.csv", "'curv' is no .*did you mean 'curve'", "--layout", "curv"),
            ("good.jsonl", "x.csv", "is no layout.*one of itervar", "--layout", "knob", "all"),
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
            ("binary.jsonl", "x.npz", "binary.jsonl is no text"),
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
    (["features", "describe", "--set", "n=4"], "--set needs a TEMPLATE"),
    (["features", "describe", "matmul"], "m, n, k"),
    (["features", "describe", "templates.py:raises", "--set", "n=4"], "RuntimeError: it never"),
    # the environment
    *(
        Mistake(words, f"{said}", variables={"AUTOTUNE_CACHE_DIR": "plain_file"})
        for words, said in (
            (["cache", "info"], "plain_file/objects: Not a directory; AUTOTUNE_CACHE_DIR"),
            (["cache", "clear"], "cannot clear the cache plain_file"),
        )
    ),
    *(
        Mistake(["templates"], said, variables={"AUTOTUNE_CONFIG_DIR": f"cfg_{name}"})
        for name, said in {
            "broken": "cfg_broken/config.toml is no TOML",
            "latin1": "cfg_latin1/config.toml: it is no text in UTF-8",
            "command": "no command rnu: did you mean 'run'",
            "option": r"\[run\] has no option trails: did you mean 'trials'",
            "kind": "run.trials must be one value",
            "folder": "config.toml is a folder",
        }.items()
    ),
    Mistake(MATMUL, "set in cfg_value/", variables={"AUTOTUNE_CONFIG_DIR": "cfg_value"}),
    *(
        Mistake(["frobnicate"], "frobnicate", variables={name: value})
        for name, value in {
            "TERM": "no-such-terminal",
            "COLUMNS": "1",
            "NO_COLOR": "1",
            "FORCE_COLOR": "1",
            "LANG": "tr_TR.ISO-8859-9",
            "PYTHONWARNINGS": "error",
            "HOME": "/no/such/home",
        }.items()
    ),
    # a system that refuses
    Mistake(MATMUL, "Too many open files", setup=FEW_FILES),
]
"""Rows, most as (words, what is said)."""

MISTAKES = [row if isinstance(row, Mistake) else Mistake(*row) for row in ROWS]
