"""`autotune records`: looks into logs of measurements, and makes new logs of them."""

from __future__ import annotations

from autotune.cli.options.multi_value_options import Command
from autotune.cli.options.shared_options import command_app
from autotune.cli.record_commands.records_check import diff, validate
from autotune.cli.record_commands.records_convert import export_records, import_records
from autotune.cli.record_commands.records_list import list_records
from autotune.cli.record_commands.records_rewrite import compact_logs, merge_logs, prune_logs
from autotune.cli.record_commands.records_summary import summary_of

app = command_app()

app.command("list", cls=Command)(list_records)
app.command("summary", cls=Command)(summary_of)
app.command("merge", cls=Command)(merge_logs)
app.command("compact", cls=Command)(compact_logs)
app.command("prune", cls=Command)(prune_logs)
app.command("validate", cls=Command)(validate)
app.command("diff", cls=Command)(diff)
app.command("import", cls=Command)(import_records)
app.command("export", cls=Command)(export_records)
