"""Topics of a run: analyses of one subject under one heading, with the files of each rank."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from profkit.report import view
from profkit.report.place import Place
from profkit.report.settings import Settings, Topic

_RANK = re.compile(r"rank(\d+)_dp\d+_tp\d+_pp\d+")
_REPEAT = re.compile(r"\.rep(\d+)[./]")


def arranged(
    place: Place, sections: Mapping[str, view.Section], settings: Settings
) -> tuple[tuple[view.Section, ...], tuple[view.Topic, ...]]:
    """Return the sections, by analysis, that belong to no topic, and the topics of this run.

    A topic whose analyses only abstain is there for the files that go with it, if it has any.
    """
    topics = (
        view.Topic(
            anchor=f"{place.anchor}-{name}",
            title=topic.title,
            sections=tuple(sections[each] for each in topic.analyses if each in sections),
            opened=tuple(_opened(place, topic, settings.max_files_per_folder)),
        )
        for name, topic in settings.topics.items()
        if any(each in place.run.selected.analyses for each in topic.analyses)
    )
    taken = {name for topic in settings.topics.values() for name in topic.analyses}
    others = tuple(each for name, each in sections.items() if name not in taken)
    return others, tuple(each for each in topics if each.sections or each.opened)


def _opened(place: Place, topic: Topic, most: int) -> Iterator[view.RankFiles]:
    """Yield links to what the topic's tools left for people to open, by rank and repeat."""
    tools = [each for each in topic.tools if each in place.run.selected.tools]
    grouped: dict[tuple[int, int, str], list[view.Link]] = defaultdict(list)
    for tool in tools:
        for file in place.run.files:
            rank = _RANK.search(file.path)
            if rank is None or not file.path.startswith(f"convert/{tool}/"):
                continue
            repeat = _REPEAT.search(file.path)
            key = (int(rank[1]), int(repeat[1]) if repeat else 0, rank[0])
            # The rank, the repeat and what an imported file was called are said beside it.
            short = file.path[repeat.end() :] if repeat else PurePosixPath(file.path).name
            grouped[key].append(view.Link(text=short, href=place.link(file.path).href))
    for (_, number, label), links in sorted(grouped.items()):
        yield view.RankFiles(rank=label, repeat=number, links=tuple(links[:most]))
