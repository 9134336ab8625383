"""Pieces of schedules and of search spaces that templates and Tile functions have in common."""
