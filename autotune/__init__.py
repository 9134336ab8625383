"""autotune: schedules, features, search and measurement for kernels on CPUs and GPUs."""
