"""Data sets for research: records of logs with features, as a table that pandas reads.

`export` writes one, `load` reads it, `explain_columns` explains its columns. In: logs. Out: a
table, its schema and its card. Read `dataset_writer.py` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.dataset.data_card import read_schema
from autotune.dataset.dataset_columns import feature_field, fixed_columns
from autotune.dataset.dataset_writer import Exported, NothingToExportError, export
from autotune.extract.structure_features import column_names
from autotune.feature import knob_statistics
from autotune.task.task import Task
from features import FEATURE_LAYOUTS, patterns, versioned
from records.tables.table import Field

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Exported", "NothingToExportError", "explain_columns", "export", "load"]


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """Return a data set as a pandas frame with the dtypes of its schema.

    Raises
    ------
    UsageError, RecordError
        If the file or its schema cannot be read.
    """
    from records.tables.frame import read_frame

    data = Path(path)
    return read_frame(data, read_schema(data))


def explain_columns(
    layouts: Sequence[str] = FEATURE_LAYOUTS, task: Task | None = None
) -> list[Field]:
    """Return the columns of a data set with their explanations.

    Parameters
    ----------
    layouts : sequence of str
        Which features.
    task : Task, optional
        List the features of its configurations; without a task, the variable parts of names are in
        capitals.

    Raises
    ------
    UsageError
        If the template fails.
    FeatureError
        If there is no such layout.
    """
    fields = [column.field for column in fixed_columns()]
    for layout in layouts:
        if task is None:
            fields += [
                Field(name, "float32", unit, meaning, "feature")
                for name, meaning, unit in patterns(layout)
            ]
        elif layout == "knob":
            names = knob_statistics(task.space).layout().names
            fields += [feature_field(versioned(layout, name)) for name in names]
        else:
            fields += map(feature_field, column_names(task, layout))
    return fields
