"""The time of a step divided among its causes, without overlap and without rest."""
