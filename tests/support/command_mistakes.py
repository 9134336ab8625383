"""Wrong command lines and inputs: a table of users' mistakes.

Each row is a command line and what its one line must say.
"""

from __future__ import annotations

from support import file_mistakes
from support.command_mistake import MATMUL, SIZE, Mistake, N, Row

FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))"

ROWS: list[Row] = [
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
    ([*MATMUL, "--timeout", "1e300"], "--timeout must be at most 1000000 seconds"),
    ([*MATMUL, "--tuner", "modle"], "did you mean 'model'"),
    ([*MATMUL, "--tuner", "oracle"], "model, random, grid"),
    ([*MATMUL, "--tuner", "optuna:TPE"], "did you mean 'optuna:tpe'"),
    ([*MATMUL, "--tuner", ""], "unknown tuner ''"),
    ([*MATMUL, "--tuner", "model", "grid"], "grid"),
    ([*MATMUL, "--tuner", "grid", "--patience", "0.1"], "use --tuner model"),
    ([*MATMUL, "--patience", "3"], "between 0 and 1"),
    ([*MATMUL, "--transfer", "missing.jsonl"], "--transfer missing.jsonl: No such file"),
    ([*MATMUL, "--tuner", "local", "--transfer", "x.jsonl"], "only the model tuner"),
    ([*MATMUL, "--storage", "sqlite:///x.db"], "does not use --storage"),
    # arguments of the template
    (["run", "matmul", "--set"], "--set"),
    (["run", "matmul", "--set", "m"], "NAME=VALUE"),
    (["run", "matmul", "--set", "=8"], "NAME=VALUE"),
    (["run", "matmul", "--set", "m="], "NAME=VALUE"),
    (["run", "matmul", "--set", "m=8", "n=8"], "value for k"),
    (["run", "matmul", "--set", "m=8", "--set", "m=9"], "m twice"),
    (["run", "matmul", "--set", "m=8"], "n, k"),
    ([*MATMUL, "--set", "stride=2"], "'stride'.*m, n, k, transpose_a"),
    ([*MATMUL, "--set", "dtpye=float32"], "did you mean 'dtype'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=eight"], "k must be an integer, got 'eight'"),
    (["run", "matmul", *SIZE[:4], "--set", "k=8.5"], "k must be an integer"),
    ([*MATMUL, "--set", "dtype=floaty"], "float32.*got 'floaty'"),
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
    ([*MATMUL, "--target", "llvm -mcpu=help"], "LLVM knows no CPU 'help'"),
    ([*MATMUL, "--target", "llvm -mcpu=i486"], "-mcpu=i486.*no 64-bit instructions"),
    (["run", "templates.py:bad_flops", "--target", "cuda"], "for 'llvm' targets, not 'cuda'"),
    (["run", "templates.py:for_cuda", "--set", "n=4"], "'cuda' targets, not 'llvm'"),
    (["run", "templates.py:for_cuda", "--set", "n=4", "--target", "cuda"], "cannot be measured"),
    # templates
    (["run", "matmull", *SIZE], "matmull.*matmul"),
    (["run", "", *SIZE], "there is no template ''"),
    (["run", "templates.py", *SIZE], "choose one of its templates, templates.py:good \\(n, "),
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
    ([*MATMUL, "--log", "dangling.jsonl"], "dangling.jsonl: there is no folder .*/no_folder"),
    (["bench", "matmul", *SIZE, "--log", ""], "--log is empty"),
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
    (["build", "matmul", *SIZE, "-o", "templates.py"], "something else has this name"),
    (["build", "matmul", *SIZE, "-o", "f.h"], "f.so"),
    (["build", "matmul", *SIZE, "--target", "llvm -mcpu=nehalem"], "nehalem.*not known"),
    (["build", "matmul", *SIZE, "--target", "cuda"], "built for a GPU"),
    (["records", "summary"], "FILE"),
    (["records", "summary", "missing.jsonl"], "missing.jsonl"),
    (["records", "summary", "folder.py"], "folder.py is a folder"),
    (["records", "summary", "newer.jsonl", "--json"], "99"),
    (["records", "merg", "x"], "merg.*merge"),
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
            "_latin1.toml": "not text in UTF-8",
            "_bomb.yaml": "job_bomb.yaml",
            "_key.toml": "job_key.toml, workload 1: trails: .*'trials'",
            "_log.toml": "job_log.toml, workload 1: .*pipe.jsonl is a device or a pipe",
            "_size.toml": "job_size.toml, workload 1: matmul: k must be at least 1, got 0",
            "_mark.toml": "job_mark.toml, workload 1: matmul: k must be at least 1, got 0",
            "_digits.toml": "job_digits.toml is not valid TOML: Exceeds the limit",
            "_digits.yaml": "job_digits.yaml is not valid YAML: 9{40} is not of type int .line 1",
            "_large.toml": "job_large.toml: it has 2000000 bytes, more than any file of options",
            "_single.toml": r"workload must be a list of tables.*write \[\[workload\]\]",
            "_single.yaml": "workload must be a list of tables.*after a dash",
            "_comment.yaml": "job_comment.yaml has no workload: .*a list named workload",
            "_date.yaml": "job_date.yaml is not valid YAML: 2026-13-45 is not of type timestamp "
            ".line 1",
            "_integer.yaml": "job_integer.yaml is not valid YAML: many is not of type int .line 1",
            "_names.yaml": "workload 1: set: names must be text, not True: write it in quotes",
            "_nul.toml": r"job_nul.toml, workload 1: --log a\\x00b: .*NUL",
            "_unused.toml": "job_unused.toml, defaults: set must be a table",
        }.items()
    ),
    Mistake(
        ["run", "--job", "job_goal.toml"],
        "job_goal.toml, workload 1: goal '5 GFLOPS': .*how many operations",
        printed=True,
    ),
    (["run", "--job", ""], "--job"),
    (["run", "--job", "folder.py"], "folder.py is a folder"),
    (["run", "--job", "pipe.toml"], "pipe.toml is a device or a pipe"),
    (["run", "--job", "/dev/zero"], "/dev/zero is a device"),
    (["run", "--job"], "--job"),
    (["run", "matmul", "--job", "job.toml"], "--job and TEMPLATE cannot be given together"),
    (["run", "--job", "job.toml", "--set", "m=8"], "--job and --set cannot be given together"),
    (["run", "--job", "job.toml", "--trials", "0"], "--trials"),
    (["run", "--job", "job.toml", "--until", "soon"], "until: a goal is"),
    (["run", "--job", "job.yaml", "--time", "0s"], "time must be a time > 0"),
    (["run", "--job", "job.yaml", "--weight", "2"], "--weight"),
    # what to print
    ([*MATMUL, "--quiet", "--json-lines"], "--quiet and --json-lines cannot be given together"),
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
    *file_mistakes.ROWS,
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
            "latin1": "cfg_latin1/config.toml: it is not text in UTF-8",
            "folder": "config.toml is a folder",
        }.items()
    ),
    Mistake(
        MATMUL,
        "cfg_time/config.toml: run.time must be a time",
        variables={"AUTOTUNE_CONFIG_DIR": "cfg_time"},
    ),
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

MISTAKES = [row if isinstance(row, Mistake) else Mistake(*row) for row in ROWS]
