"""Models that learn from measurements which candidates run fast."""
