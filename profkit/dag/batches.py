"""The jobs that a run of many ranks is divided into: what each leaves, and which ranks it takes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.core.rank_spans import RankSpan, spans
from profkit.dag.attempts import of_map
from profkit.planning.model import Plan, Run


@dataclass(frozen=True)
class Batches:
    """Gives the batches of ranks of each run of a plan; none of one that a single job can do."""

    plan: Plan

    def mapped_analyses(self) -> list[str]:
        """Return the analyses that can sum up batches of ranks in jobs of their own."""
        return [name for name, needs in self.plan.analyses.items() if needs.map_code]

    def spans(self, run: Run) -> dict[str, RankSpan]:
        """Return the ranks of each batch of `run`, by its name: the first and the last of them.

        Other batches have other names, so that Snakemake and `profkit why` see that they are.
        """
        ranks = int(run.behaviour.get("world_size", 1))
        divided = spans(ranks, self.plan.run_settings.ranks_per_job)
        return {f"{span.first or 0}-{(span.end or ranks) - 1}": span for span in divided}

    def ranks(self, wildcards: Any) -> str:
        """Return the ranks of one batch, as its job takes them."""
        return str(self.spans(self.plan.run(wildcards.run))[wildcards.batch])

    def parts(self, tool: str) -> Callable[[Any], list[str]]:
        """Return the input function for what the conversions of the batches leave."""
        return lambda wildcards: self.parts_of(self.plan.run(wildcards.run), tool)

    def maps(self, analysis: str) -> Callable[[Any], list[str]]:
        """Return the input function for the sums that `analysis` is made of."""
        if not self.plan.analyses[analysis].map_code:
            return lambda _: []
        return lambda wildcards: self.maps_of(self.plan.run(wildcards.run), analysis)

    def map_settings(self, analysis: str) -> Callable[[Any], str]:
        """Return the params function for the settings that the map of `analysis` reads."""
        return lambda wildcards: json.dumps(
            self.settings(self.plan.run(wildcards.run), analysis), sort_keys=True
        )

    def settings(self, run: Run, analysis: str) -> dict[str, Any]:
        """Return the settings that the map of `analysis` reads."""
        names = self.plan.analyses[analysis].map_settings
        return {name: run.analyses[analysis][name] for name in names}

    def map_attempt(self, analysis: str) -> Callable[[Any], int]:
        """Return the params function that makes sums stale that have to be made again."""
        return lambda wildcards: of_map(
            Path(f"results/runs/{wildcards.run}/maps/{analysis}/{wildcards.batch}.json")
        )

    def parts_of(self, run: Run, tool: str) -> list[str]:
        """Return the folder that the conversion of each batch leaves."""
        folder = f"results/runs/{run.name}/parts/{tool}"
        batches = self.spans(run) if self.plan.tools[tool].has_converter else ()
        return [f"{folder}/{batch}" for batch in batches]

    def maps_of(self, run: Run, analysis: str) -> list[str]:
        """Return the file that the map of `analysis` leaves of each batch."""
        folder = f"results/runs/{run.name}/maps/{analysis}"
        batches = self.spans(run) if self.plan.analyses[analysis].map_code else ()
        return [f"{folder}/{batch}.json" for batch in batches]


def flags(wildcards: Any, input: Any) -> list[str]:  # noqa: A002 - Snakemake's name
    """Return the flag that hands the conversions of batches to the job that joins them, if any."""
    del wildcards
    return ["--batches", *input.batches] if input.batches else []
