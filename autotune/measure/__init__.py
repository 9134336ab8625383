"""Measuring: worker processes build, check and time candidates on behalf of the tuning process."""
