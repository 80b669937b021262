"""Train a small transformer with DeepSpeed's engine on random data.

deepspeed --num_gpus 2 examples/deepspeed_engine.py --zero 2
"""

import argparse

import deepspeed
import torch
from torch import nn


class Classifier(nn.Module):
    """A transformer encoder that sorts sequences of tokens into classes."""

    def __init__(self, vocabulary, width, layers, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, classes)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, tokens, labels):
        return self.loss(self.head(self.encoder(self.embedding(tokens)).mean(dim=1)), labels)


def configuration(args):
    return {
        "train_micro_batch_size_per_gpu": args.batch_size,
        "gradient_accumulation_steps": args.accumulate,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "torch_adam": True}},
        "bf16": {"enabled": args.bf16},
        "zero_optimization": {
            "stage": args.zero,
            "reduce_bucket_size": 500_000,
            "allgather_bucket_size": 500_000,
        },
        "steps_per_print": 10,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--zero", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    # The deepspeed launcher adds this one by itself.
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()

    torch.manual_seed(0)
    if not torch.cuda.is_available():
        # On CPUs DeepSpeed would begin by compiling an all-reduce of its own, for minutes.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    model = Classifier(vocabulary=2048, width=128, layers=4, classes=10)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=configuration(args)
    )

    generator = torch.Generator().manual_seed(engine.global_rank)
    for _ in range(args.steps * args.accumulate):
        tokens = torch.randint(2048, (args.batch_size, 64), generator=generator)
        labels = torch.randint(10, (args.batch_size,), generator=generator)
        loss = engine(tokens.to(engine.device), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
        if engine.global_rank == 0 and engine.is_gradient_accumulation_boundary():
            print(f"step {engine.global_steps}: loss {loss.item():.3f}")

    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
