"""memory_layers: what each layer holds, as a table, a log and rings to click through."""

from pathlib import Path

from profkit.convert.base import Converted, Raw, converter
from profkit.convert.memory_layers import log, recorded, sunburst


@converter("layers", pattern="rank*.layers.json", after_oom=True)
def convert(raw: Raw, out: Path) -> Converted:
    """Read what one rank recorded; leave ``memory_trace/<rank>/`` in `out`."""
    read = recorded.read(raw.path)
    # Repeats hold the same, so that the first has the plain name.
    name = raw.label if raw.repeat == 0 else f"{raw.label}.rep{raw.repeat}"
    folder = out / "memory_trace" / name
    folder.mkdir(parents=True, exist_ok=True)
    title = f"{raw.label}, repeat {raw.repeat}"
    files = {"memory.log": log.text(read, title), **sunburst.pages(read, title)}
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    notes = () if read.states else ("No point of a step was reached: there is nothing to show.",)
    return Converted(tables={"layers": recorded.table(read, raw)}, notes=notes)
