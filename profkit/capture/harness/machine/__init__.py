"""The machine that a capture runs on: what it has, and what disturbs it."""
