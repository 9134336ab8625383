"""`autotune records`: looks into logs of measurements, and makes new logs of them."""

from __future__ import annotations

from autotune.cli.commands.records_check import diff, validate
from autotune.cli.commands.records_convert import export_records, import_records
from autotune.cli.commands.records_list import list_records
from autotune.cli.commands.records_rewrite import compact_logs, merge_logs, prune_logs
from autotune.cli.commands.records_summary import summary_of
from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import command_app

app = command_app()

for name, command in {
    "list": list_records,
    "summary": summary_of,
    "merge": merge_logs,
    "compact": compact_logs,
    "prune": prune_logs,
    "validate": validate,
    "diff": diff,
    "import": import_records,
    "export": export_records,
}.items():
    app.command(name, cls=Command)(command)
