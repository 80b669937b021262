"""Programs and traces with one known fault each, and what profkit says of them."""
