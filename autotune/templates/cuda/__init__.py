"""Templates for GPUs; `autotune.templates` finds them by name and target."""
