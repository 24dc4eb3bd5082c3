"""Runs the suites that are at hand, and writes docs/conformance.md: ``make conformance``.

    tools/conformance/run.py [SUITE …]      only these; without any, all of them
    tools/conformance/run.py --page         writes the page from the results that there are

results.json has the last result of every suite, with the day and the commit. A suite that isn't at hand keeps its
last result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suites import SUITES, NotAtHand, Suite

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
RESULTS = Path(__file__).with_name("results.json")

HEAD = """\
# Conformance

This page counts what suites that others wrote, recordings of real servers, and real clients find. `make conformance` runs
those that are at hand and writes this page. Suites that need other programs keep their last result.

| suite | what it compares | passed | when | why not the rest |
|---|---|---|---|---|
"""

TAIL = """\

- "When" has the day and the commit that was measured.
- The recordings of real servers and the tools that replay them aren't part of the repository. `make conformance` finds them in
  `../shared`, and leaves out what it doesn't find.
- A recorded exchange passes if status, headers, warnings and body are the recorded ones, except for times, uids, resource
  versions and the like.
- [Differences](differences.md) has the exchanges that are deliberately answered otherwise. [Critiques](critiques.md) lists what
  is missing.
"""


def main(arguments: list[str]) -> int:
    wanted = [name for name in arguments if name != "--page"]
    unknown = set(wanted) - {suite.name for suite in SUITES}
    if unknown:
        print(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(suite.name for suite in SUITES)}")
        return 2
    failed = False
    for suite in SUITES if "--page" not in arguments else ():
        if suite.run is None or (wanted and suite.name not in wanted):
            continue
        result = measured(suite)
        if result is None:
            continue
        results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())
        before = results.get(suite.name)
        failed |= before is not None and result["of"] - result["passed"] > before["of"] - before["passed"]
        RESULTS.write_text(json.dumps(results | {suite.name: result}, indent=2) + "\n")
    PAGE.write_text(page())
    return int(failed)


def measured(suite: Suite) -> dict[str, Any] | None:
    """The result of a suite, None if it isn't at hand. Prints one line."""
    assert suite.run is not None
    print(f"{suite.title} …", flush=True)
    began = time.monotonic()
    try:
        count = suite.run()
    except NotAtHand as error:
        print(f"  not at hand: {error}", flush=True)
        return None
    print(f"  {count.passed} of {count.of} in {time.monotonic() - began:.0f} s", flush=True)
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"passed": count.passed, "of": count.of, "left_out": count.left_out, "day": day, "commit": commit}


def page() -> str:
    """The whole page, from the results that there are."""
    results = json.loads(RESULTS.read_text())
    return HEAD + "".join(_row(suite, results.get(suite.name)) for suite in SUITES) + TAIL


def _row(suite: Suite, result: dict[str, Any] | None) -> str:
    if result is None:
        return f"| {suite.title} | {suite.about} | not measured | | {suite.why_not} |\n"
    passed = f"{result['passed']:,} of {result['of']:,}"
    reasons = [suite.why_not] if result["passed"] < result["of"] and suite.why_not else []
    if result.get("left_out"):
        reasons.append(f"{result['left_out']} were left out, because a program that they need isn't at hand")
    return (
        f"| {suite.title} | {suite.about} | {passed} | {result['day']}, {result['commit']} | {'; '.join(reasons)} |\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
