"""memory_layers: the memory of each layer, as a table, a log and sunburst pages."""

from pathlib import Path

from profkit.convert.base import Converted, Raw, converter
from profkit.convert.memory_layers import layers_file, log, sunburst


@converter("layers", pattern="rank*.layers.json", after_oom=True)
def convert(raw: Raw, out: Path) -> Converted:
    """Read the record of one rank; leave ``memory_trace/<rank>/`` in `out`."""
    layers = layers_file.read(raw.path)
    # Repeats hold the same, so that the first has the plain name.
    name = raw.label if raw.repeat == 0 else f"{raw.label}.rep{raw.repeat}"
    folder = out / "memory_trace" / name
    folder.mkdir(parents=True, exist_ok=True)
    title = f"{raw.label}, repeat {raw.repeat}"
    files = {"memory.log": log.text(layers, title), **sunburst.pages(layers, title)}
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    notes = () if layers.states else ("No point of a step was reached: there is nothing to show.",)
    return Converted(tables={"layers": layers_file.table(layers, raw)}, notes=notes)
