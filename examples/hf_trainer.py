"""Train a small, randomly initialised GPT-2 with Hugging Face's Trainer on random tokens.

accelerate launch --num_processes 2 examples/hf_trainer.py --steps 20
"""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class RandomTokens(Dataset):
    """Sequences of random tokens."""

    def __init__(self, samples, context, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(vocabulary, (samples, context), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()

    config = GPT2Config(vocab_size=2048, n_positions=64, n_embd=128, n_layer=4, n_head=4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=GPT2LMHeadModel(config),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulate,
                dataloader_num_workers=args.workers,
                use_cpu=not torch.cuda.is_available(),
                logging_steps=5,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=RandomTokens(1024, 64, 2048),
        )
        trainer.train()


if __name__ == "__main__":
    main()
