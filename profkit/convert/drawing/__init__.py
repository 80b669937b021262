"""Drawings that people open: flame graphs."""
