"""Writes docs/metrics.md from the metrics that servers have: ``python tools/metrics_page.py``.

A control plane is asked for its metrics, in memory. Metrics that only some servers have are added from the parts that
count them: audit, reloaded configurations, several workers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from oarlock import ControlPlane
from oarlock.meta.metrics import MetricFamily
from oarlock.server.audit.sink import AuditCounts
from oarlock.server.files.reloaded import ReloadCounts
from oarlock.server.metrics.page import verdict_families
from oarlock.server.metrics.processes import WorkerProcess, process_families
from oarlock.testing import InMemory

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

GROUPS = (
    ("Requests", r"apiserver_(request|current_inflight|longrunning|watch_events|storage|resource)|etcd_|oarlock_[us]"),
    ("Authentication", r"authenticat|apiserver_(delegated_authn|authentication)"),
    ("Authorization", r"authorization|apiserver_authorization"),
    ("Admission", r"apiserver_(admission|validating|mutating)"),
    ("Priority and fairness", r"apiserver_flowcontrol"),
    ("Audit", r"apiserver_audit"),
    ("Encryption", r"apiserver_encryption|oarlock_encryption"),
    ("Controllers", r"workqueue|controller_runtime|leader_election|aggregator|oarlock_workqueue"),
    ("Health, in /metrics/slis", r"kubernetes_health"),
    ("Processes of a server with several workers", r"python_gc|oarlock_worker"),
    ("Others", r""),
)

LAST_TO_APPEAR = "aggregator_unavailable_apiservice"
"""The controllers that count it run some turns of the loop after the start."""

HEAD = """\
# Metrics

`/metrics` of a server has these metrics, in the text format of Prometheus. [Operating](operating.md#metrics) explains
the most important ones. (`tools/metrics_page.py` generates this page.)

- A metric appears when the part of the server that counts it is in use: audit metrics with an audit policy, encryption
  metrics with an encryption configuration.
- The type `untyped` is a counter whose name doesn't end with `_total`, because kube-apiserver's doesn't.
- `process_*` and `python_*` are those of the library prometheus_client.
"""


async def families() -> list[MetricFamily]:
    """Every metric once, by its name."""
    async with InMemory(ControlPlane()) as api:
        found: list[MetricFamily] = []
        while not any(family.name == LAST_TO_APPEAR for family in found):
            await asyncio.sleep(0)
            found = [*api.parts.pages.families()]
    found += verdict_families({})
    found += AuditCounts().families()
    found += ReloadCounts().key_families()
    found += process_families([WorkerProcess("1", 1)])
    return sorted({family.name: family for family in found}.values(), key=lambda family: family.name)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_groups(asyncio.run(families()))]) + "\n"


def _groups(every: Iterable[MetricFamily]) -> Iterator[str]:
    left = list(every)
    for title, pattern in GROUPS:
        group = [family for family in left if re.match(pattern, family.name)]
        left = [family for family in left if family not in group]
        if group:
            yield from (f"## {title}", "", "| metric | type | labels | |", "|---|---|---|---|")
            yield from map(_row, group)
            yield ""


def _row(family: MetricFamily) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.about} |"


if __name__ == "__main__":
    PAGE.write_text(page())
