"""What fills the memory of a GPU, and what to do about it."""

import re
from typing import NamedTuple

from profkit.analyze._memory_contents import CONTENTS, OF_UPDATE, TEMPORARIES, WITHOUT_GRADIENTS
from profkit.analyze.shared.allocation_origins import BEFORE

OF_ATTENTION = re.compile(r"softmax", re.IGNORECASE)
OF_OPTIMIZER = re.compile(r"[\\/]optim|optimizer", re.IGNORECASE)
OF_OWN_UPDATE = "temporaries of an optimizer of the program"
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
        "Keep the weights in bf16, if they are in FP32, for inference in 8 or 4 bits. Several GPUs "
        "can share them: `fully_shard` (FSDP) or ZeRO-3.",
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
    ),
    TEMPORARIES: Remedy(
        "They shrink with the batch, and so do activations: compute it in several parts "
        "(gradient accumulation).",
        TUNING,
    ),
    OF_UPDATE: Remedy(
        "Create the optimizer with `fused=True`, or `foreach=False`: neither makes copies of many "
        "parameters at once.",
        "https://docs.pytorch.org/docs/stable/optim.html#algorithms",
    ),
    OF_OWN_UPDATE: Remedy(
        "Compute the update in place (`mul_`, `addcdiv_`), or take an optimizer of `torch.optim` "
        "with `fused=True`: neither makes copies of parameters.",
        "https://docs.pytorch.org/docs/stable/optim.html#algorithms",
    ),
    WITHOUT_GRADIENTS: Remedy(
        "Nothing is kept for backward here: delete results (`del`) before the next ones are "
        "made, compute in place (`inplace=True`) or in parts, or take a smaller batch or shorter "
        "sequences.",
        TUNING,
    ),
    "input batches": Remedy(
        "Move one batch at a time to the GPU, and drop the last one before the next.", TUNING
    ),
    CONTENTS[BEFORE]: Remedy(
        "What was there before is mostly the model and, in training, the optimizer's states. "
        "Record before they are made: `torch.cuda.memory._record_memory_history()` first "
        "(`tools.memory_snapshot.start_up=true`).",
        "https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",
    ),
}
OTHER_ACTIVATIONS = (
    "The other activations shrink with activation checkpointing "
    "(`torch.utils.checkpoint.checkpoint`) or a smaller batch."
)
KEEP_IT = (
    "call no `torch.cuda.empty_cache()` in the loop, and set "
    "`PYTORCH_ALLOC_CONF=expandable_segments:True`, where sizes change or memory is nearly full."
)
UNUSED = (
    "which an earlier peak needed, such as that of loading the model: call "
    "`torch.cuda.empty_cache()` once after it."
)
ATTENTION = Remedy(
    "Use `torch.nn.functional.scaled_dot_product_attention`, which keeps no matrix of scores.",
    "https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.functional.scaled_dot_product_attention.html",
)
INFERENCE = (
    "For inference, `torch.inference_mode()` keeps none of the activations: no backward was "
    "recorded."
)
FORWARD_ONLY = Remedy(
    f"{INFERENCE} In training, use activation checkpointing (`torch.utils.checkpoint.checkpoint`).",
    "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html",
)
CAST = Remedy(
    "Keep the weights in bf16, `model.to(torch.bfloat16)`, without autocast, which holds a second "
    "copy of them, in 16 bits, until backward has used it. To train them so, take an optimizer "
    "that rounds for it, as `AdamW8bit(..., bf16_stochastic_round=True)` of torchao.",
    "https://docs.pytorch.org/docs/stable/amp.html",
)
CAST_FORWARD = Remedy(
    "For inference keep the weights in bf16, `model.to(torch.bfloat16)`, without autocast, which "
    "holds a second copy of them, in 16 bits, as long as it is on.",
    CAST.source,
)
LOSS = Remedy(
    "Compute the loss over parts of the tokens (chunked or fused linear cross-entropy), so "
    "that the logits of all are never there at once.",
    "https://docs.pytorch.org/torchtune/stable/generated/"
    "torchtune.modules.loss.LinearCrossEntropyLoss.html",
)
