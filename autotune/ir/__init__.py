"""The loop IR: expressions, statements, passes over them, and their meaning."""
