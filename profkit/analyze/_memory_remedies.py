"""What fills the memory of a GPU, and what to do about it."""

import re
from typing import NamedTuple

from profkit.analyze.shared.allocation_origins import AFTER, BEFORE, UNKNOWN

CONTENTS = {
    "forward": "activations",
    "backward": "gradients",
    "optimizer": "optimizer states",
    "data": "input batches",
    "set-up": "parameters",
    BEFORE: "blocks from before the history",
    AFTER: "blocks from after the window",
    UNKNOWN: "blocks of unknown origin",
}
OF_ATTENTION = re.compile(r"softmax", re.IGNORECASE)
OF_LOSS = re.compile(r"log_softmax|cross_entropy|logits", re.IGNORECASE)
TUNING = "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management"


class Remedy(NamedTuple):
    advice: str
    source: str


REMEDIES = {
    "activations": Remedy(
        "Use activation checkpointing (`torch.utils.checkpoint.checkpoint`) around the largest "
        "blocks, or a smaller batch; for inference alone, `torch.inference_mode()`.",
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
    ),
    "gradients": Remedy(
        "Free them before the next forward, `optimizer.zero_grad(set_to_none=True)`; those of "
        "activations shrink with the batch. Several GPUs can share them: `fully_shard` (FSDP) or "
        "ZeRO-2.",
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
    ),
    "optimizer states": Remedy(
        "Keep them in 8 bits, as `AdamW8bit` of torchao or bitsandbytes does. Several GPUs can "
        "share them: `ZeroRedundancyOptimizer`, ZeRO-1 or `fully_shard`.",
        "https://docs.pytorch.org/docs/stable/distributed.optim.html",
    ),
    "parameters": Remedy(
        "Keep the weights in bf16. Several GPUs can share them: `fully_shard` (FSDP) or ZeRO-3.",
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
    ),
    "input batches": Remedy(
        "Move one batch at a time to the GPU, and drop the last one before the next.", TUNING
    ),
    CONTENTS[BEFORE]: Remedy(
        "Mostly these are the model and, in training, the optimizer's states. Record before they "
        "are made to see them: `torch.cuda.memory._record_memory_history()` first "
        "(`tools.memory_snapshot.start_up=true`).",
        "https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",
    ),
}
ATTENTION = Remedy(
    "Use `torch.nn.functional.scaled_dot_product_attention`, which keeps no matrix of scores.",
    "https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.functional.scaled_dot_product_attention.html",
)
LOSS = Remedy(
    "Compute the loss over parts of the tokens (chunked or fused linear cross-entropy): "
    "logits of all tokens at once do not fit.",
    "https://docs.pytorch.org/torchtune/stable/generated/"
    "torchtune.modules.loss.LinearCrossEntropyLoss.html",
)
