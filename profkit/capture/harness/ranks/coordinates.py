"""The parallel coordinates of this process, as the program itself has set them up.

They come from these sources, each for the axes that those before it do not know: Megatron's
parallel state, DeepSpeed's grid of pipelines, PyTorch's device meshes, the environment
(`VARIABLES`), the key ``parallel``.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args

from profkit.capture.base import Rank
from profkit.core.parallel_layout import Axis, Coordinate, Parallel

VARIABLES: Mapping[Coordinate, str] = MappingProxyType(
    {
        "dp": "PROFKIT_DP_RANK",
        "tp": "PROFKIT_TP_RANK",
        "pp": "PROFKIT_PP_RANK",
        "ep": "PROFKIT_EP_RANK",
    }
)
"""Environment variables with the coordinates of a rank, for launchers of users."""

_MEGATRON = ("megatron.core.parallel_state", "megatron.core.mpu", "megatron.mpu")
# Names that programs give to the dimensions of a device mesh. Data parallelism may have two,
# replicas of shards: the first of these varies slower.
_DP = (
    *("dp", "data", "data_parallel", "batch"),
    *("dp_replicate", "replicate", "ddp", "dp_shard", "shard", "fsdp", "dp_shard_cp"),
)
_NAMES: Mapping[Coordinate, tuple[str, ...]] = MappingProxyType(
    {
        "dp": _DP,
        "tp": ("tp", "tensor", "tensor_parallel", "model", "model_parallel", "mp"),
        "pp": ("pp", "pipe", "pipeline", "pipeline_parallel", "stage"),
        "ep": ("ep", "expert", "expert_parallel"),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownCoordinates:
    """Coordinates that one source knows."""

    source: str
    """Name of the source, for people."""

    coordinates: Mapping[Coordinate, int]
    """Coordinates, of some axes or all."""

    sizes: Mapping[Coordinate, int]
    """Number of ranks along each of these axes, as far as it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocatedRank:
    """A rank with its coordinates, their source, and whether they may be wrong."""

    rank: Rank

    source: str
    """Name of the first source with a coordinate, for people."""

    doubt: str = ""
    """Why it may be wrong, and how to correct it; "" if there is no sign of that."""


def library_coordinates() -> list[KnownCoordinates]:
    """Return the coordinates that the libraries in this process know, the most reliable first."""
    if "torch.distributed" not in sys.modules:
        return []
    modules = sys.modules
    sources = (_megatron(modules), _deepspeed(modules), *_of_objects(gc.get_objects()))
    return [source for source in sources if source is not None]


def locate_rank(
    rank: Rank,
    found: Iterable[KnownCoordinates],
    environment: Mapping[str, str],
    parallel: Parallel,
) -> LocatedRank:
    """Return `rank` with its coordinates and their source, by the order of this module."""
    sources = [*found, _of_environment(environment)]
    coordinates: dict[Coordinate, int] = {}
    sizes: dict[Coordinate, int] = {"tp": parallel.tp, "pp": parallel.pp}
    first_source = ""
    for source in sources:
        new = {axis: value for axis, value in source.coordinates.items() if axis not in coordinates}
        first_source = first_source or (source.source if new else "")
        coordinates |= new
        sizes |= {axis: source.sizes[axis] for axis in new if axis in source.sizes}
    layout = Parallel(tp=sizes["tp"], pp=sizes["pp"], order=parallel.order)
    configured = layout.coordinates(rank.rank, rank.world_size)
    coordinates = {axis: configured[axis] for axis in get_args(Axis)} | coordinates
    same = {"rank": rank.rank, "world_size": rank.world_size, "local_rank": rank.local_rank}
    return LocatedRank(rank=Rank(**same, **coordinates), source=first_source or "configuration")


def doubt(located: LocatedRank, sizes: Iterable[int], parallel: Parallel) -> str:
    """Return why `located` may be wrong in a program with groups of `sizes` ranks, or ""."""
    parts = sorted({size for size in sizes if 1 < size < located.rank.world_size})
    if located.source != "configuration" or not parts or parallel.tp * parallel.pp > 1:
        return ""
    return (
        f"ranks are named as data-parallel replicas, but the program has groups of "
        f"{', '.join(map(str, parts))} of {located.rank.world_size} ranks that nothing names; "
        f"if they are tensor or pipeline groups, set parallel.tp and parallel.pp"
    )


def _group_sizes() -> list[int]:
    """Return the number of ranks in each process group of the program."""
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None:
        return []
    # There is no public list of the groups.
    return [len(ranks) for ranks in distributed._world.pg_group_ranks.values()]  # noqa: SLF001


def configured_rank(rank: int, world_size: int, local_rank: int, parallel: Parallel) -> Rank:
    """Return the rank with the coordinates that the configuration gives it."""
    coordinates = parallel.coordinates(rank, world_size)
    return Rank(rank=rank, world_size=world_size, local_rank=local_rank, **coordinates)


def _of_environment(environment: Mapping[str, str]) -> KnownCoordinates:
    texts = {axis: environment.get(name, "") for axis, name in VARIABLES.items()}
    coordinates = {axis: int(text) for axis, text in texts.items() if text.isdigit()}
    return KnownCoordinates(source="environment", coordinates=coordinates, sizes={})


def _megatron(modules: Mapping[str, Any]) -> KnownCoordinates | None:
    """Ask Megatron's parallel state, if this program uses it and has set it up."""
    for name in _MEGATRON:
        state = modules.get(name)
        if state is not None and state.model_parallel_is_initialized():
            return _ask_grid("Megatron", state)
    return None


def _deepspeed(modules: Mapping[str, Any]) -> KnownCoordinates | None:
    """Ask the model-parallel unit that the program has handed to DeepSpeed, if there is one."""
    units = getattr(modules.get("deepspeed.utils.groups"), "mpu", None)
    return _ask_grid("DeepSpeed", units) if units is not None else None


def _ask_grid(source: str, units: Any) -> KnownCoordinates:
    """Ask an object with the methods that Megatron and DeepSpeed's grid have in common."""
    words: dict[Coordinate, tuple[str, ...]] = {
        "dp": ("data_parallel",),
        # Old versions know no pipelines, or call them otherwise.
        "tp": ("tensor_model_parallel", "slice_parallel", "model_parallel"),
        "pp": ("pipeline_model_parallel", "pipe_parallel"),
        "ep": ("expert_model_parallel",),
    }
    known = {
        axis: next(word for word in some if hasattr(units, f"get_{word}_rank"))
        for axis, some in words.items()
        if any(hasattr(units, f"get_{word}_rank") for word in some)
    }
    return KnownCoordinates(
        source=source,
        coordinates={
            axis: int(getattr(units, f"get_{word}_rank")()) for axis, word in known.items()
        },
        sizes={
            axis: int(getattr(units, f"get_{word}_world_size")()) for axis, word in known.items()
        },
    )


def _of_objects(objects: Iterable[Any]) -> Iterator[KnownCoordinates]:
    """Yield the coordinates of DeepSpeed's grids and PyTorch's meshes, the largest mesh first.

    Neither library keeps a list of these, so all objects of the process are searched: 0.1 s,
    before the first step.
    """
    deepspeed, meshes = sys.modules.get("deepspeed.runtime.pipe.topology"), []
    grid = getattr(deepspeed, "PipelineParallelGrid", None)
    mesh = getattr(sys.modules.get("torch.distributed.device_mesh"), "DeviceMesh", None)
    for candidate in objects:
        # The class itself: asking a lazy module or a proxy with isinstance runs its code.
        if grid is not None and type(candidate) is grid:
            yield _ask_grid("DeepSpeed", candidate)
        elif mesh is not None and type(candidate) is mesh:
            meshes.append(candidate)
    yield from map(_of_mesh, sorted(meshes, key=lambda mesh: (-mesh.size(), -mesh.ndim)))


def _of_mesh(mesh: Any) -> KnownCoordinates:
    """Read the named dimensions of one mesh; a rank that is not in it has no coordinates."""
    names, coordinate = mesh.mesh_dim_names or (), mesh.get_coordinate()
    coordinates: dict[Coordinate, int] = {}
    sizes: dict[Coordinate, int] = {}
    for axis in get_args(Coordinate) if coordinate is not None else ():
        dimensions = sorted(
            (position for position, name in enumerate(names) if name.lower() in _NAMES[axis]),
            key=lambda position: _NAMES[axis].index(names[position].lower()),
        )
        for position in dimensions:
            size = mesh.size(position)
            coordinates[axis] = coordinates.get(axis, 0) * size + int(coordinate[position])
            sizes[axis] = sizes.get(axis, 1) * size
    return KnownCoordinates(source="device mesh", coordinates=coordinates, sizes=sizes)


class CoordinatesListener:
    """Listens for the first step, when the program has set up its groups."""

    def __init__(self, rank: Rank, parallel: Parallel, at_first_step: Callable[[], None]) -> None:
        self.rank = rank
        self.parallel = parallel
        self.at_first_step = at_first_step
        self.found: list[KnownCoordinates] = []
        self.group_sizes: list[int] = []

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.found, self.group_sizes = library_coordinates(), _group_sizes()
        self.at_first_step()

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""

    def resume(self) -> None:
        """See `profkit.marks.Listener`."""

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""

    def located(self) -> LocatedRank:
        """Return this rank with its coordinates and their source."""
        found = self.found or library_coordinates()
        located = locate_rank(self.rank, found, os.environ, self.parallel)
        return replace(located, doubt=doubt(located, self.group_sizes, self.parallel))
