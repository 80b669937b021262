"""HTA on our tables and HTA on the JSON, for tests that compare what they say."""

import gzip
import json
import shutil
import warnings

import pandas as pd
from hta.trace_analysis import TraceAnalysis

from profkit.analyze import hta
from profkit.analyze._hta_trace import TABLES, trace


def pair(paths, converted, folder):
    # HTA writes beside its input.
    copies = {rank: str(shutil.copy(path, folder)) for rank, path in paths.items()}
    tables = joined([rounded(converted(path, rank), path) for rank, path in paths.items()])
    with warnings.catch_warnings(action="ignore"):
        theirs = TraceAnalysis(trace_files=copies, trace_dir=str(folder))
        return hta.over(trace(tables)), theirs


def rounded(tables, path):
    """Return the tables with times as HTA rounds them where a trace has fractions of a µs."""
    content = gzip.decompress(path.read_bytes())
    base = json.loads(content).get("baseTimeNanoseconds", 0)
    found = {}
    for name in TABLES:
        start, end = tables[name]["start_ns"] - base, tables[name]["end_ns"] - base
        found[name] = tables[name].assign(
            start_ns=-(-start // 1000) * 1000 + base, end_ns=end // 1000 * 1000 + base
        )
    return found


def joined(every):
    found = {}
    for name in TABLES:
        kinds = every[0][name].dtypes.to_dict()
        rows = pd.concat([each[name].astype(object) for each in every], ignore_index=True)
        found[name] = rows.astype({key: "category" if kind == "category" else kind
                                   for key, kind in kinds.items()})  # fmt: skip
    return found
