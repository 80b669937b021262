"""Captures over several hosts."""
