"""The workflow's questions: inputs of rules, what is stale and why."""
