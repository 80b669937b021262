"""Used by every room: errors, settings, plugins, results, fingerprints, written files."""
