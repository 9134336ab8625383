"""Backends: text of a program in another language from a lowered function."""
