"""From a configuration to a plan: composed, checked against the plugins, kept."""
