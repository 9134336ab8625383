"""Measuring on GPUs: what a runner does that owns a device, and what is known of the device."""
