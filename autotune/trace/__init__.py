"""Tracing: a template runs with symbolic knobs, once per structure, not per candidate."""
