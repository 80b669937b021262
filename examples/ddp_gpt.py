"""Train a small GPT with DistributedDataParallel on random tokens.

torchrun --nproc-per-node 2 examples/ddp_gpt.py --steps 20
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class RandomTokens(Dataset):
    """Sequences of random tokens; the target is the sequence moved by one."""

    def __init__(self, samples, context, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(vocabulary, (samples, context + 1), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index, :-1], self.tokens[index, 1:]


class Block(nn.Module):
    """Attention and an MLP, each behind a layer norm."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2)
            for each in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer."""

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position(positions))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=2048)
    args = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)

    samples = args.steps * args.accumulate * args.batch_size * dist.get_world_size()
    dataset = RandomTokens(samples, args.context, args.vocabulary)
    loader = DataLoader(dataset, args.batch_size, sampler=DistributedSampler(dataset))
    model = GPT(args.vocabulary, args.context, args.layers, 4, args.width).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for index, (tokens, targets) in enumerate(loader):
        logits = model(tokens.to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten())
        (loss / args.accumulate).backward()
        if (index + 1) % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                print(f"step {(index + 1) // args.accumulate}: loss {loss.item():.3f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
