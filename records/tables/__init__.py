"""Records and features as tables: columns, frames of pandas, and files of tables.

In: logs, or rows. Out: frames, and CSV, NumPy and Parquet files. Read `table.py` first for files,
`frame.py` for frames.
"""
