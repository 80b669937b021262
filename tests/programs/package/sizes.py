"""What the module beside it imports by a relative name."""

WIDTH = 4
