"""What a capture leaves about itself."""
