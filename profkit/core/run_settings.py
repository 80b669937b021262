"""Settings of the whole run: the same for all that is captured, and handed to each job whole."""

import argparse
import json
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

import msgspec
from annotated_types import Ge, Gt, Le

from profkit.core.errors import ConfigError
from profkit.core.settings import from_json, known

FLAG = "--run-settings"
"""Option of each job that takes them."""

# Each bound is stated for pydantic, which checks plans, and for msgspec, which a conversion has
# loaded anyway: pydantic would take it a tenth of a second.
_Positive = Annotated[int, Gt(0), msgspec.Meta(gt=0)]
_NonNegative = Annotated[int, Ge(0), msgspec.Meta(ge=0)]
_Repeats = Annotated[int, Gt(0), Le(1000), msgspec.Meta(gt=0, le=1000)]


# Without slots, since `profkit.planning.configuration` inherits these and others.
@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Keys of ``conf/config.yaml`` that make no other run, and so cannot be swept."""

    repeats: _Repeats = 3
    """How often each tool captures the same run; those that only count do so once."""

    capture: Literal["renew", "keep"] = "renew"
    """What is done with captures of files that have changed since, such as the script: renew makes
    them again, keep leaves them and says so in the report."""

    exclusive: bool = True
    """Whether a capture has the machine to itself, or other jobs may run beside it."""

    timeout_s: _Positive = 1800
    """Seconds after which a capture is ended and counted as failed."""

    memory_limit_mb: _NonNegative = 0
    """MB of memory (10^6 bytes) of all ranks together beyond which a capture is ended and counted
    as failed, before the machine stalls; 0 is all that is available when it begins."""

    trace_block_mb: _Positive = 4
    """MB (2^20 bytes) of a trace that are read at a time: the memory of a conversion follows that,
    not the size of the trace."""

    scratch: str = ""
    """Folder on a disk of each host, such as /local/$SLURM_JOB_ID, that captures write their raw
    files to, and which is left empty; none writes to the result tree. Variables are of the host."""

    keep_raw: Literal["all", "none"] | tuple[int, ...] = "all"
    """Ranks whose raw files come back from the scratch: all, none, or numbers such as 0,3. Those of
    the others are converted there, and nothing can convert them again."""

    max_bytes: _NonNegative = 50_000_000_000
    """Bytes that the raw files of a capture may take, of all ranks together: what its first step
    predicts to be more is recorded in fewer steps, by torch_profiler and marks; 0 is no bound."""

    ranks_per_job: _Positive = 128
    """Ranks that one job converts, or sums up for an analysis, of a run with more than these; each
    job of a cluster takes 10 to 20 s to start."""

    imports: tuple[str, ...] = ()
    """Runs that ``profkit import`` made, to work on instead of capturing anything."""


NAMES = tuple(field.name for field in fields(RunSettings))
"""Names of all settings of the whole run."""


def of(configuration: RunSettings) -> RunSettings:
    """Return the settings of the whole run alone, of a configuration that inherits them."""
    return RunSettings(**{name: getattr(configuration, name) for name in NAMES})


def as_argument(settings: RunSettings) -> str:
    """Return `settings` as the value of `FLAG`."""
    return json.dumps(asdict(settings), sort_keys=True)


def from_argument(text: str) -> RunSettings:
    """Return the settings in `text`, a JSON object; those left out have their defaults."""
    values: dict[str, Any] = from_json(FLAG, text)
    for name in values:
        known("setting of the whole run", name, dict.fromkeys(NAMES))
    try:
        return msgspec.convert(values, RunSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{FLAG}: {error}") from None


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Let the command of `parser` take `FLAG`."""
    about = 'settings of the whole run as JSON, such as {"timeout_s": 60}; see conf/config.yaml'
    parser.add_argument(FLAG, type=from_argument, default=RunSettings(), help=about)
