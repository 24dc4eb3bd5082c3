"""What one request runs through stays as small as ARCHITECTURE.md says."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_verb_runs_through_more_files_and_functions_than_the_architecture_says() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "trace_requests.py"))
    row = re.compile(r"^\| (GET|LIST|CREATE|PATCH|DELETE|WATCH) \| (\d+) \| (\d+) \|$", re.MULTILINE)
    told = {
        verb: (int(files), int(functions))
        for verb, files, functions in row.findall((ROOT / "ARCHITECTURE.md").read_text())
    }
    found = {verb: tool["counts"](found) for verb, found in asyncio.run(tool["trace_verbs"]()).items()}
    assert told.keys() == found.keys()
    assert all(files <= told[verb][0] and functions <= told[verb][1] for verb, (files, functions) in found.items()), (
        found
    )
