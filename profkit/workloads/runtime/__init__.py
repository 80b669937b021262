"""What the built-in programs share: their configuration, their process group, their data."""
