"""What a compressed file of others may unpack to: a small one must not fill memory or disk."""

from pathlib import Path

from profkit.core.errors import InputError

# Traces pack to a tenth or a thirtieth, databases that are half empty to less; zeros to 1/1000.
_TIMES = 100
_ALWAYS_BYTES = 256 << 20


def refuse_bomb(path: Path, unpacked_bytes: int) -> None:
    """Raise `InputError` if so many bytes are more than the file at `path` can honestly hold."""
    if unpacked_bytes <= _ALWAYS_BYTES:
        return
    packed = path.stat().st_size
    if unpacked_bytes > _TIMES * packed:
        raise InputError(
            f"{path}: refused: {packed:,} bytes unpack to more than {unpacked_bytes:,}, as those"
            " of a gzip bomb do",
            hint="unpack it yourself if you trust it, and give the plain file",
        )
