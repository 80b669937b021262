"""What several analyses use: arithmetic, steps, launches, stacks and counters."""
