"""Arithmetic that several analyses use."""
