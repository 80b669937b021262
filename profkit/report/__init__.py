"""Results in, one HTML file out, which opens without a network."""
