"""Search strategies: they propose candidates and learn from what is measured."""
