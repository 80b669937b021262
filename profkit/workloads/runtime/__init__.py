"""Shared by the built-in workloads: their configuration, their process group, their data."""
