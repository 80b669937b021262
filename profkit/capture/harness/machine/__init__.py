"""The machine of a capture: hardware, software, permissions, limits, and disturbances."""
