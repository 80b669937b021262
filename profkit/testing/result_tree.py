"""A result tree made by hand, for ``profkit convert`` and ``profkit analyze`` to work on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from profkit.analyze import analysis
from profkit.analyze.__main__ import main as analyze_job
from profkit.capture.base import Rank
from profkit.capture.harness.record import capture_json
from profkit.convert.__main__ import main as convert_job
from profkit.core import result
from profkit.tables import schema
from profkit.tables.loaded_run import LoadedRun
from profkit.testing.small_tables import Rows, frame


class ResultTree:
    """One run below ``results/runs/`` of a folder, such as pytest's ``tmp_path``."""

    def __init__(self, folder: Path, run: str = "demo") -> None:
        self.folder = folder / "results" / "runs" / run
        """``results/runs/<run>``."""

    def capture(
        self,
        tool: str,
        files: Mapping[str, str | bytes],
        *,
        repeat: int = 0,
        status: str = "ok",
        ranks: Sequence[str] = (Rank().label,),
    ) -> Path:
        """Leave a capture with these `files` by name, and return its folder.

        Names of files begin with a rank's label, which is ``rank0_dp0_tp0_pp0`` for the only one.
        """
        folder = self.folder / "capture" / tool / f"rep{repeat}"
        folder.mkdir(parents=True)
        reason = "" if status == "ok" else f"made to be {status}"
        record = {"tool": tool, "repeat": repeat, "attempt": 1, "status": status, "reason": reason}
        record |= {"settings": {}, "workload": {}, "ranks": list(ranks)}
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / name).write_bytes(data)
        capture_json.write(folder, {**record, "files": capture_json.files(folder)})
        return folder

    def table(self, tool: str, name: str, rows: Rows, columns: str = "") -> Path:
        """Leave table `name` as if converted from a capture of `tool`, and return its path."""
        path = self.folder / "tables" / tool / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = frame(name, rows, columns)
        own = schema.TABLES[name]
        pq.write_table(pa.Table.from_pandas(made, own, preserve_index=False), path)
        return path

    def convert(self, tool: str, *options: str) -> LoadedRun:
        """Convert the captures of `tool`, and return the run, with its tables."""
        captures = sorted((self.folder / "capture" / tool).glob("rep*"))
        where = ["--tables", f"{self.folder}/tables/{tool}", "--files"]
        where.append(f"{self.folder}/convert/{tool}")
        convert_job([tool, "--captures", *map(str, captures), *where, *options])
        return LoadedRun(self.folder)

    def notes(self, tool: str) -> list[dict[str, str]]:
        """Return what converting the captures of `tool` repaired or lost: file and text of each."""
        record = json.loads((self.folder / "tables" / tool / "convert.json").read_bytes())
        notes: list[dict[str, str]] = record["notes"]
        return notes

    def analyze(
        self,
        name: str,
        *,
        hardware: Mapping[str, Any] | None = None,
        behaviour: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> result.Result:
        """Run the installed analysis `name` on what is in the tree, and return its result."""
        needs = analysis(name)
        named = [f"*/{table}" for table in (*needs.tables, *needs.tables_by_tool)]
        named += [f"{of.tool}/{of.table}" for of in needs.tables_of_tools.values()]
        tables = [
            path
            for name in dict.fromkeys(named)
            for path in sorted(self.folder.glob(f"tables/{name}.parquet"))
        ]
        others = [*needs.results, *needs.results_if_there]
        results = [self.folder / "analyze" / f"{other}.json" for other in others]
        out = self.folder / "analyze" / f"{name}.json"
        analyze_job(
            [
                *(name, "--settings", json.dumps(settings), "--out", str(out)),
                *("--hardware", json.dumps(hardware or {})),
                *("--behaviour", json.dumps(behaviour or {})),
                *("--tables", *map(str, tables), "--results", *map(str, results)),
            ]
        )
        return result.read(out).result
