"""The record of a capture: outcome, warnings, and ``capture.json``."""
