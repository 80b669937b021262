"""What users should know of the ranks that tools record, where these are not simply all."""

from collections.abc import Iterator, Mapping
from typing import Any

from profkit.capture import tool as tool_named
from profkit.capture.base import Wrapper
from profkit.capture.launchers.base import RankLauncher
from profkit.core.parallel_layout import CHOICE, REPRESENTATIVE
from profkit.core.settings import checked
from profkit.planning.chosen_tools import FEW_RANKS, LIGHT, choosing, recorded_ranks
from profkit.planning.configuration import Configuration


def notes(
    config: Configuration, launcher: RankLauncher, chosen: Mapping[str, dict[str, Any]]
) -> Iterator[str]:
    """Yield what is recorded of the ranks by the tools `chosen`, with their settings."""
    names = choosing(chosen)
    if names:
        is_by_count = config.ranks == "auto" and config.world_size > FEW_RANKS
        why = f" of more than {FEW_RANKS} ranks" if is_by_count else ""
        yield (
            f"ranks={REPRESENTATIVE}{why}, for {', '.join(names)}: {CHOICE} chooses them from"
            f" captures with {LIGHT}, which come first; ranks=all records all"
        )
    elif config.ranks == "auto" and config.world_size > FEW_RANKS:
        yield (
            f"all {config.world_size} ranks are recorded, as tools are named;"
            f" ranks={REPRESENTATIVE} records a few"
        )
    if recorded_ranks(config, chosen) == REPRESENTATIVE:
        for name, values in chosen.items():
            own = values.get("ranks", "all")
            if own not in ("all", REPRESENTATIVE):
                numbers = own if isinstance(own, str) else ",".join(map(str, own))
                yield f"tool {name} records ranks {numbers}, not those of ranks={REPRESENTATIVE}"
    for name, values in chosen.items() if recorded_ranks(config, chosen) != "all" else ():
        tool = checked(f"tools.{name}", tool_named(name), values)
        if isinstance(tool, Wrapper) and launcher.finds_ranks:
            yield f"tool {name} records all ranks: it runs the command as a whole"
        elif isinstance(tool, Wrapper) and tool.wraps_launcher:
            yield f"tool {name} records all ranks of each host: it runs their launcher"
