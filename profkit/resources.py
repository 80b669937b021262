"""Where the workflow and the configuration lie: in a checkout, or inside an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).parent
_SHIPPED = _PACKAGE / "_shipped"
_HOME = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent

CONF = _HOME / "conf"
"""Folder of the configuration groups."""

SNAKEFILE = _HOME / "workflow" / "Snakefile"
"""The workflow."""

PROFILE = _HOME / "workflow" / "profiles" / "default"
"""Snakemake's settings for every machine; it finds them itself beside the workflow."""
