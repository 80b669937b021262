"""The tables that all stages share: their columns, and what rows of several ranks share."""
