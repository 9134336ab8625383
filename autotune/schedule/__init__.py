"""Schedules: how a computation is carried out, changed step by step by primitives."""
