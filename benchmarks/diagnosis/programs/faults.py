"""The faults that `train.py` can have: each costs time in a place of its own."""

import copy
import gc
import json
import os
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def decode(milliseconds):
    """Decode an image in Python for some time."""
    end = time.perf_counter() + milliseconds / 1000
    total = 0
    while time.perf_counter() < end:
        total += sum(range(200))
    return total


def read(milliseconds):
    """Wait for a slow disk."""
    time.sleep(milliseconds / 1000)


class Fault:
    """No fault: what the program does when it does nothing wrong."""

    workers = 0
    decode_ms = read_ms = 0.0
    sizes = (0, 0, 0)

    def __init__(self, size, rank, watch):
        self.size, self.rank, self.watch = self.sizes[size], rank, watch
        self.folder = tempfile.mkdtemp()
        self.prepare()

    def prepare(self):
        """Set up what the fault needs."""

    def optimizer(self, model):
        """Return another optimizer than SGD."""

    def wrap(self, model, world):
        """Return the model as it is called."""
        return DistributedDataParallel(model) if world > 1 else model

    def inputs(self, batch):
        """Return the batch as the model gets it."""
        return batch

    def gradients(self, model):
        """Do something with the gradients."""

    def update(self, optimizer):
        """Take the optimizer's step."""
        optimizer.step()

    def after(self, step, model, inputs, targets, loss):
        """Do something at the end of the step."""


class SlowDecode(Fault):
    sizes = (10, 30, 100)

    def prepare(self):
        self.decode_ms = self.size


class FewWorkers(Fault):
    """One worker for a slow disk."""

    sizes = (60, 100, 200)
    workers = 1

    def prepare(self):
        self.read_ms = self.size


class ExtraMatmul(Fault):
    sizes = (600, 900, 1400)

    def prepare(self):
        self.weight = torch.randn(self.size, self.size)

    def inputs(self, batch):
        with self.watch.running():
            self.penalty = self.regularize()
        return batch

    def regularize(self):
        product = self.weight
        for _ in range(2):
            product = torch.mm(product, self.weight) * 1e-3
        return product.sum()


class Copies(Fault):
    sizes = (4, 12, 40)

    def prepare(self):
        self.image = torch.randn(512, 2048)

    def inputs(self, batch):
        with self.watch.running():
            self.rearrange()
        return batch

    def rearrange(self):
        for _ in range(self.size):
            self.turned = self.image.t().contiguous()


class DeepCopy(Fault):
    sizes = (4, 12, 40)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.keep_weights(model)

    def keep_weights(self, model):
        for _ in range(self.size):
            self.best = copy.deepcopy(model.state_dict())


class LogToDisk(Fault):
    sizes = (2000, 6000, 24000)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.log_metrics(step, loss)

    def log_metrics(self, step, loss):
        rows = [{"step": step, "loss": loss.item(), "index": index} for index in range(self.size)]
        with open(f"{self.folder}/log.jsonl", "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


class Checkpoint(Fault):
    sizes = (1, 3, 10)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.save_checkpoint(model)

    def save_checkpoint(self, model):
        for index in range(self.size):
            with open(f"{self.folder}/model{index}.pt", "wb") as file:
                torch.save(model.state_dict(), file)
                os.fsync(file.fileno())


class GarbagePressure(Fault):
    sizes = (10_000, 50_000, 200_000)

    def prepare(self):
        self.cache = [{"index": index, "self": []} for index in range(self.size)]

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            gc.collect()


class GrowingHistory(Fault):
    sizes = (2_000_000, 5_000_000, 15_000_000)

    def prepare(self):
        self.history = torch.zeros(self.size)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.remember(loss)

    def remember(self, loss):
        self.history = torch.cat([self.history, loss.detach().reshape(1)])


class UnfusedOptimizer(Fault):
    sizes = (200, 600, 2000)

    def optimizer(self, model):
        self.extra = [nn.Parameter(torch.randn(64)) for _ in range(self.size)]
        for parameter in self.extra:
            parameter.grad = torch.randn(64)
        return torch.optim.Adam([*model.parameters(), *self.extra], foreach=False)

    def update(self, optimizer):
        for parameter in self.extra:
            parameter.grad = torch.ones(64)
        # A fused one takes 3.6 ms for 300 such parameters, this one 24.
        with self.watch.running(share=0.85):
            optimizer.step()


class DoublePrecision(Fault):
    sizes = (500, 800, 1300)

    def prepare(self):
        self.weight = torch.randn(self.size, self.size, dtype=torch.float64)

    def inputs(self, batch):
        # In float32 it takes half of the time.
        with self.watch.running(share=0.5):
            self.whiten()
        return batch

    def whiten(self):
        self.product = torch.mm(self.weight, self.weight)


class Conversions(Fault):
    sizes = (2, 6, 20)

    def prepare(self):
        self.image = torch.randn(1024, 2048)

    def inputs(self, batch):
        with self.watch.running():
            self.normalize()
        return batch

    def normalize(self):
        for _ in range(self.size):
            self.image = self.image.to(torch.float64).to(torch.float32)


class Oversubscribed(Fault):
    sizes = (16, 32, 64)

    def prepare(self):
        torch.set_num_threads(self.size)


class SlowRank(Fault):
    sizes = (20, 60, 150)

    def inputs(self, batch):
        if self.rank == 1:
            with self.watch.running():
                self.augment()
        return batch

    def augment(self):
        decode(self.size)


class LateRank(SlowRank):
    def augment(self):
        time.sleep(self.size / 1000)


class UnevenData(Fault):
    sizes = (4, 12, 40)

    def inputs(self, batch):
        if self.rank == 1:
            # Equal work leaves each of the two ranks half of it.
            with self.watch.running(share=0.5):
                self.pad(batch)
        return batch

    def pad(self, batch):
        weight = torch.ones(batch.shape[1], 1024)
        for _ in range(self.size):
            torch.mm(batch.repeat(4, 1), weight)


class SmallMessages(Fault):
    sizes = (50, 150, 400)

    def prepare(self):
        self.pieces = [torch.ones(64) for _ in range(self.size)]

    def gradients(self, model):
        dist.barrier()
        with self.watch.running():
            self.average_metrics()

    def average_metrics(self):
        for piece in self.pieces:
            dist.all_reduce(piece)


class LargeTransfer(Fault):
    sizes = (2_000_000, 6_000_000, 20_000_000)

    def prepare(self):
        self.table = torch.ones(self.size)

    def gradients(self, model):
        dist.barrier()
        with self.watch.running():
            self.share_table()

    def share_table(self):
        dist.all_reduce(self.table)


class HeldLock(Fault):
    sizes = (15, 50, 150)

    def prepare(self):
        self.lock = threading.Lock()

    def after(self, step, model, inputs, targets, loss):
        held = threading.Event()
        thread = threading.Thread(target=self.write_metrics, args=(held,))
        thread.start()
        held.wait()
        with self.watch.running():
            self.flush()
        thread.join()

    def write_metrics(self, held):
        with self.lock:
            held.set()
            time.sleep(self.size / 1000)

    def flush(self):
        with self.lock:
            pass


class BusyThread(Fault):
    """A thread that holds the GIL all the time."""

    sizes = (1, 2, 4)

    def prepare(self):
        for _ in range(self.size):
            threading.Thread(target=self.count, daemon=True).start()

    def count(self):
        total = 0
        while True:
            total += 1


class Recompiles(Fault):
    sizes = (1, 2, 4)

    def prepare(self):
        torch._dynamo.config.recompile_limit = 10_000
        torch._dynamo.config.accumulated_recompile_limit = 10_000
        torch._dynamo.config.automatic_dynamic_shapes = False
        self.compiled = torch.compile(self.score, backend="eager", dynamic=False)
        self.length = 8

    def score(self, values):
        return torch.tanh(values).sum()

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            for _ in range(self.size):
                self.length += 1
                self.compiled(torch.ones(self.length))


class PythonLoop(Fault):
    sizes = (1000, 3000, 10_000)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.accuracy(targets)

    def accuracy(self, targets):
        right = 0
        for index in range(self.size):
            if targets[index % 256] == 3:
                right += 1
        return right


class EvaluateEachStep(Fault):
    sizes = (1, 3, 10)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.evaluate(model, inputs)

    def evaluate(self, model, inputs):
        with torch.no_grad():
            for _ in range(self.size):
                model(inputs).argmax(-1)


class PythonMetrics(Fault):
    sizes = (100, 300, 1000)

    def after(self, step, model, inputs, targets, loss):
        predicted = targets.tolist()
        with self.watch.running():
            self.confusion(predicted)

    def confusion(self, predicted):
        counts = {}
        for _ in range(self.size):
            for value in predicted:
                key = (value, value // 2)
                counts[key] = counts.get(key, 0) + 1
        return counts


class OneHot(Fault):
    sizes = (4000, 12_000, 40_000)

    def prepare(self):
        self.table = torch.randn(self.size, 128)
        self.tokens = torch.arange(256) % self.size

    def inputs(self, batch):
        with self.watch.running():
            self.embed()
        return batch

    def embed(self):
        self.embedded = nn.functional.one_hot(self.tokens, self.size).float() @ self.table


class Anomaly(Fault):
    """Anomaly detection left on, in a program of many small operators."""

    sizes = (100, 300, 1000)

    def prepare(self):
        torch.autograd.set_detect_anomaly(True)

    def after(self, step, model, inputs, targets, loss):
        value = torch.ones(8, requires_grad=True)
        for _ in range(self.size):
            value = value * 1.0001
        value.sum().backward()


class HugeTable(Fault):
    sizes = (20_000, 50_000, 100_000)

    def optimizer(self, model):
        self.table = nn.Embedding(self.size, 64)
        self.adam = torch.optim.Adam(self.table.parameters())

    def update(self, optimizer):
        self.table(torch.arange(32)).sum().backward()
        with self.watch.running():
            self.adam.step()
        self.adam.zero_grad()
        optimizer.step()


class Sleeping(Fault):
    sizes = (10, 30, 100)

    def after(self, step, model, inputs, targets, loss):
        with self.watch.running():
            self.report_progress()

    def report_progress(self):
        time.sleep(self.size / 1000)


class Texts(nn.Module):
    """A classifier of texts: each token goes through the layers."""

    def __init__(self, layers):
        super().__init__()
        self.tokens, self.layers = nn.Embedding(1000, layers[0].in_features), layers

    def forward(self, tokens):
        return self.layers(self.tokens(tokens)).mean(dim=1)


class PaddedTexts(Fault):
    """Texts of other lengths in one batch: three quarters of it are padding."""

    sizes = (8, 16, 32)

    def wrap(self, model, world):
        return Texts(model)

    def inputs(self, batch):
        tokens = torch.randint(1, 1000, (len(batch), self.size))
        tokens[1:, self.size // 4 :] = 0
        self.padding = float((tokens == 0).float().mean())
        self.start = time.time_ns()
        return tokens

    def gradients(self, model):
        end = time.time_ns()
        self.watch.spans.append((self.start, self.start + int(self.padding * (end - self.start))))


FAULTS = {name: kind for name, kind in globals().items() if isinstance(kind, type)}
FAULTS["clean"] = Fault
