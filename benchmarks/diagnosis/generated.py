"""A training step on GPUs with one fault in it, as traces that `recording` makes.

The clean step keeps the GPU busy: bf16 matmuls on tensor cores, cuDNN's attention, fused AdamW,
pinned batches, one number read at the end. Each fault is a knob; what it costs is the step with it
less the step without it, of the rank that is slowest.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .recording import BACKWARD, COMMUNICATION, Rank

_LAYERS = 12
_BUCKET_LAYERS = 4
_STEPS = 4
_ROWS, _WIDTH = 4096, 2048
_COLUMNS_PER_US = 41
"""Columns of a matmul of so many rows that takes a microsecond, at 70 % of an H100's bf16 peak."""
_FIRST_STEP = 5
_GEMM = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"
_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::"
_COLD = "void at::native::vectorized_elementwise_kernel<{}, at::native::MulFunctor<float> >"
_GELU = _ELEMENTWISE + "GeluCUDAKernelImpl(at::TensorIteratorBase&)>(int, at::detail::Array)"
_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
_ATTENTION = "cudnn_generated_fort_native_sdpa_sm90_flash_{}_wgmma_bf16_knob_6_64x64x128"
_ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
_NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_CUSTOM = "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int)"
_ACTIVATIONS = (_ROWS, _WIDTH)


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """The program: all of its faults, each off."""

    gpu_scale: float = 1.0
    """Kernel times, as a multiple of the clean program's."""
    dispatch_us: float = 8
    """CPU time of an operator."""
    small_kernels: int = 0
    """Kernels of 2 us in a loop over parameters."""
    fuses_small: bool = False
    """Whether the same work is one kernel instead."""
    items_per_layer: int = 0
    pageable_mib: int = 0
    """Size of the batch, if its memory is not pinned."""
    readback_mib: int = 0
    """Size of what is copied to pageable memory at the end."""
    frees: int = 0
    """Calls of cudaFree and cudaMalloc after each layer."""
    loader_ms: float = 0
    """Python in the dataset, in the main thread."""
    workers_ms: float = 0
    """Waiting for the queue of the loader's workers."""
    checkpoint_ms: float = 0
    """Python after the optimizer, when the GPU is done."""
    gc_ms: float = 0
    """Garbage collection in the middle of the forward pass."""
    cold_calls: int = 0
    """Launches that load their module first, 7 ms each, of kernels that are not launched again."""
    first_step_ms: float = 0
    """Initialisation in the first recorded step alone."""
    exposed_ms: float = 0
    """Transfer of gradients after the backward pass."""
    custom_ms: float = 0
    """Transfer by the all-reduce of a serving engine, on the compute stream."""
    late_gpu_ms: float = 0
    """Kernels that the last rank alone runs."""
    late_cpu_ms: float = 0
    """Loading that the last rank alone does."""
    overlapped_ms: float = 0
    """Transfer during the backward pass."""
    world: int = 1
    recorded: int = 0
    """Ranks with a trace; 0 is all."""
    late_rank: int = -1
    """Rank that is late; -1 is the last."""
    steps: int = _STEPS
    has_operators: bool = True
    reads_loss: bool = True
    """Whether each step ends with the loss on the CPU; otherwise the CPU runs ahead."""


class Job:
    """All ranks of the program, in step."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.ranks = [
            Rank(rank=rank, world=knobs.world, has_operators=knobs.has_operators)
            for rank in range(knobs.world)
        ]
        self.ends = [self.ranks[0].now]
        """When each step ended, on the slowest rank."""
        for index in range(knobs.steps):
            with ExitStack() as stack:
                for rank in self.ranks:
                    for name in ("train.py(1): <module>", "train.py(60): main"):
                        stack.enter_context(rank.frame(name))
                    stack.enter_context(rank.step(_FIRST_STEP + index))
                self._step(is_first=index == 0)
            self.ends.append(max(max(rank.now, *rank.busy_until.values()) for rank in self.ranks))
        for rank in self.ranks:
            rank.synchronize()

    def step_ms(self) -> float:
        """Return the time of a steady step."""
        first = min(1, len(self.ends) - 2)
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first) / 1e6

    def write(self, folder: Path) -> None:
        """Write the traces of the ranks that are recorded."""
        for rank in self.ranks[: self.knobs.recorded or None]:
            rank.write(folder / f"rank{rank.rank}.pt.trace.json")

    def _step(self, *, is_first: bool) -> None:
        for rank in self.ranks:
            self._data(rank)
            if is_first and self.knobs.first_step_ms:
                self._initialise(rank)
            self._forward(rank)
        self._backward()
        for rank in self.ranks:
            self._optimizer(rank)
            self._end(rank)

    def _is_late(self, rank: Rank) -> bool:
        return rank.rank == self.knobs.late_rank % self.knobs.world

    def _data(self, rank: Rank) -> None:
        knobs = self.knobs
        loader_ms = knobs.loader_ms + knobs.late_cpu_ms * self._is_late(rank)
        workers = "MultiProcessing" if knobs.workers_ms else "SingleProcess"
        iterator = f"_{workers}DataLoaderIter"
        with (
            rank.annotation(f"enumerate(DataLoader)#{iterator}.__next__"),
            rank.frame("torch/utils/data/dataloader.py(722): __next__"),
        ):
            rank.spend(60)
            if loader_ms:
                with (
                    rank.frame("torch/utils/data/_utils/fetch.py(47): fetch"),
                    rank.frame("dataset.py(31): __getitem__"),
                    rank.frame("dataset.py(12): decode"),
                ):
                    rank.spend(loader_ms * 1000)
            if knobs.workers_ms:
                with (
                    rank.frame("torch/utils/data/dataloader.py(1275): _get_data"),
                    rank.frame("queue.py(154): get"),
                    rank.frame("threading.py(589): wait"),
                    rank.frame("<built-in method acquire of _thread.lock object at 0x7f10>"),
                ):
                    rank.spend(knobs.workers_ms * 1000)
        with rank.operator("aten::to"), rank.operator("aten::copy_", dims=[_ACTIVATIONS]):
            if knobs.pageable_mib:
                rank.copy("HtoD", "Pageable", knobs.pageable_mib << 20, 6)
            else:
                rank.copy("HtoD", "Pinned", 65_536, 20)

    def _initialise(self, rank: Rank) -> None:
        with rank.frame("train.py(70): warm_up"), rank.operator("aten::empty"):
            rank.call("cudaMalloc", self.knobs.first_step_ms * 1000, drains=True)

    def _forward(self, rank: Rank) -> None:
        with rank.frame("nn.Module: Transformer_0"), rank.frame("model.py(80): forward"):
            for layer in range(_LAYERS):
                with rank.frame(f"nn.Module: Block_{layer}"), rank.frame("model.py(52): forward"):
                    self._layer(rank)
                    for number in range(self.knobs.cold_calls if layer == 0 else 0):
                        self._operator(rank, "aten::mul", _COLD.format(number), 2, call_us=7000)
                if self.knobs.gc_ms and layer == _LAYERS // 2:
                    with rank.frame("<built-in function collect>"):
                        rank.synchronize()
                        rank.spend(self.knobs.gc_ms * 1000)

    def _layer(self, rank: Rank) -> None:
        knobs = self.knobs
        self._operator(rank, "aten::layer_norm", _NORM, 15)
        self._matmul(rank, "aten::linear", "aten::addmm", 200)
        attention = "aten::_scaled_dot_product_cudnn_attention"
        self._operator(rank, attention, _ATTENTION.format("fprop"), 120)
        self._matmul(rank, "aten::linear", "aten::addmm", 250)
        self._operator(rank, "aten::gelu", _GELU, 15)
        self._matmul(rank, "aten::linear", "aten::addmm", 250)
        for _ in range(knobs.frees):
            with rank.operator("aten::empty", cost_us=4):
                rank.call("cudaFree", 150, drains=True)
                rank.call("cudaMalloc", 250)
        if knobs.items_per_layer:
            with rank.frame("model.py(61): log_norm"):
                for _ in range(knobs.items_per_layer):
                    rank.item()
        if knobs.custom_ms:
            with rank.operator("_C_custom_ar::all_reduce"):
                rank.launch(_CUSTOM, knobs.custom_ms * 1000 / _LAYERS)

    def _operator(
        self, rank: Rank, name: str, kernel: str, gpu_us: float, *, call_us: float = 4
    ) -> None:
        with rank.operator(name, cost_us=self.knobs.dispatch_us, dims=[_ACTIVATIONS]):
            rank.launch(kernel, gpu_us * self.knobs.gpu_scale, call_us=call_us)

    def _matmul(self, rank: Rank, outer: str, inner: str, gpu_us: float) -> None:
        rows = 128 * round(_ROWS * self.knobs.gpu_scale / 128)
        columns = 128 * round(gpu_us * _COLUMNS_PER_US / 128)
        dims = [(columns,), (rows, _WIDTH), (_WIDTH, columns)][
            -3 if inner == "aten::addmm" else -2 :
        ]
        with (
            rank.operator(outer, cost_us=self.knobs.dispatch_us),
            rank.operator(inner, cost_us=4, dims=dims),
        ):
            rank.launch(_GEMM, gpu_us * self.knobs.gpu_scale, call="cudaLaunchKernelExC")

    def _backward(self) -> None:
        knobs = self.knobs
        with ExitStack() as stack:
            for rank in self.ranks:
                stack.enter_context(rank.frame("torch/autograd/__init__.py(243): backward"))
                stack.enter_context(rank.on_thread(BACKWARD))
            for layer in range(_LAYERS):
                for rank in self.ranks:
                    self._backward_layer(rank)
                if knobs.overlapped_ms and (layer + 1) % _BUCKET_LAYERS == 0:
                    self._all_reduce(knobs.overlapped_ms * _BUCKET_LAYERS / _LAYERS)
            if knobs.world > 1:
                self._late_work()
                self._all_reduce(knobs.exposed_ms + 0.05)
                for rank in self.ranks:
                    rank.await_stream(COMMUNICATION)

    def _late_work(self) -> None:
        for rank in filter(self._is_late, self.ranks):
            if self.knobs.late_gpu_ms:
                self._operator(rank, "aten::cumsum", _NORM, self.knobs.late_gpu_ms * 1000)

    def _backward_layer(self, rank: Rank) -> None:
        for gpu_us in (250, 250, 200):
            for half in range(2):
                inner = "aten::mm"
                outer = "autograd::engine::evaluate_function: AddmmBackward0"
                self._matmul(rank, outer if not half else "aten::matmul", inner, gpu_us)
        attention = "aten::_scaled_dot_product_cudnn_attention_backward"
        self._operator(rank, attention, _ATTENTION.format("bprop"), 300)
        self._operator(rank, "aten::gelu_backward", _GELU, 25)
        self._operator(rank, "aten::native_layer_norm_backward", _NORM, 30)

    def _all_reduce(self, transfer_ms: float) -> None:
        size = 4_194_304
        args = {
            "Collective name": "allreduce",
            "In msg nelems": size,
            "Out msg nelems": size,
            "In split size": "[]",
            "Out split size": "[]",
            "Group size": self.knobs.world,
            "dtype": "BFloat16",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self.knobs.world))),
        }
        entered = []
        with ExitStack() as stack:
            for rank in self.ranks:
                stack.enter_context(rank.operator("c10d::allreduce_"))
                recorded = rank.operator("record_param_comms", dims=[(size,)], metadata=args)
                stack.enter_context(recorded)
                stack.enter_context(rank.annotation("nccl:all_reduce"))
                entered.append(rank.enter_collective(COMMUNICATION))
            end = max(start for _, start in entered) + round(transfer_ms * 1e6)
            for rank, entry in zip(self.ranks, entered, strict=True):
                rank.leave_collective(_NCCL, entry, end, stream=COMMUNICATION, args=args)

    def _optimizer(self, rank: Rank) -> None:
        with (
            rank.annotation("Optimizer.step#AdamW.step"),
            rank.frame("torch/optim/adamw.py(220): step"),
        ):
            for _ in range(4):
                self._operator(rank, "aten::_fused_adamw_", _ADAM, 300)

    def _end(self, rank: Rank) -> None:
        knobs = self.knobs
        if knobs.reads_loss:
            rank.item()
        if knobs.small_kernels:
            self._average(rank)
        if knobs.readback_mib:
            with rank.frame("train.py(47): metrics"), rank.operator("aten::copy_"):
                rank.copy("DtoH", "Pageable", knobs.readback_mib << 20, 6)
        if knobs.checkpoint_ms:
            with (
                rank.frame("train.py(52): checkpoint"),
                rank.frame("torch/serialization.py(943): save"),
            ):
                rank.spend(knobs.checkpoint_ms * 1000)
        rank.spend(40)

    def _average(self, rank: Rank) -> None:
        """Average the weights, parameter by parameter or at once."""
        count = self.knobs.small_kernels
        calls, gpu_us = (1, 2 * count) if self.knobs.fuses_small else (count, 2)
        with rank.frame("train.py(41): update_average"):
            for _ in range(calls):
                self._operator(rank, "aten::lerp_", _GELU, gpu_us)
