"""From schedules to loops: bound inference, loop nests, flattening and finalising."""
