"""What a model holds, in bytes of each kind."""

from profkit.capture.model_memory import find_tensors
from profkit.capture.model_memory.claimed_memory import ClaimedMemory

KINDS = ("parameters", "gradients", "masters", "states")


def sizes_bytes(model, optimizers):
    """Return the bytes of each kind; memory that two tensors share counts once."""
    found = list(find_tensors({"": model}, optimizers))
    return {kind: _union(part.tensor for part in found if part.kind == kind) for kind in KINDS}


def _union(tensors):
    claimed = ClaimedMemory()
    return sum(claimed.claim(tensor) for tensor in tensors)
