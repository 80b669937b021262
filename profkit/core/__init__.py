"""What every room stands on: errors, settings, plugins, results, fingerprints, written files."""
