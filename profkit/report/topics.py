"""Views of a run: analyses of one subject, with the files of each rank."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from profkit.core import registry
from profkit.report import view
from profkit.report.settings import Settings, Topic
from profkit.report.shown_run import ShownRun

_RANK = re.compile(r"rank(\d+)_dp\d+_tp\d+_pp\d+")
OTHERS = "*"
"""Among the analyses of a topic: all that no topic names."""

_REPEAT = re.compile(r"\.rep(\d+)[./]")


def by_topic(
    shown_run: ShownRun, sections: Mapping[str, view.Section], settings: Settings
) -> tuple[view.Topic, ...]:
    """Return the topics of this run, with the sections, by analysis, that belong to each.

    A topic whose analyses only abstain is there for the files that go with it, if it has any.
    """
    taken = {name for topic in settings.topics for name in topic.analyses}
    others = tuple(name for name in sections if name not in taken)
    topics = (
        view.Topic(
            anchor=f"{shown_run.anchor}-{topic.name}",
            name=topic.name,
            title=topic.title,
            sections=tuple(
                sections[analysis]
                for name in topic.analyses
                for analysis in (others if name == OTHERS else (name,))
                if analysis in sections
            ),
            opened=tuple(_opened(shown_run, topic, settings.max_files_per_folder)),
        )
        for topic in settings.topics
    )
    return tuple(topic for topic in topics if topic.sections or topic.opened)


def _opened(shown_run: ShownRun, topic: Topic, most: int) -> Iterator[view.RankFiles]:
    """Yield links to the files of the topic's tools that a viewer opens, by rank and repeat."""
    chosen = shown_run.run.selected.tools
    tools = [tool for own in topic.tools for tool in chosen if registry.tool_plugin(tool) == own]
    grouped: dict[tuple[int, int, str], list[view.Link]] = defaultdict(list)
    for tool in tools:
        for file in shown_run.run.files:
            rank = _RANK.search(file.path)
            if rank is None or not file.path.startswith(f"convert/{tool}/"):
                continue
            repeat = _REPEAT.search(file.path)
            key = (int(rank[1]), int(repeat[1]) if repeat else 0, rank[0])
            # Rank, repeat and the name of an imported file stand beside the link.
            short = file.path[repeat.end() :] if repeat else PurePosixPath(file.path).name
            *_, settings = tool.partition(registry.VARIANT)
            text = f"{short} ({settings})" if settings else short
            grouped[key].append(view.Link(text=text, href=shown_run.file_link(file.path).href))
    for (_, number, label), links in sorted(grouped.items()):
        yield view.RankFiles(rank=label, repeat=number, links=tuple(links[:most]))
