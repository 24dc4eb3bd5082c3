"""Executes a batch of writes inside one transaction that has the lock.

Must not know: how the lock is taken, threads, drivers. See also: `plan`, which decides.
"""

from __future__ import annotations

from oarlock.storage.backend import KV, Rev
from oarlock.storage.sql.dialect import Dialect
from oarlock.storage.sql.errors import HistoryLost
from oarlock.storage.sql.plan import BatchPlan, QueuedWrite, plan
from oarlock.storage.sql.statements import StatementSteps

__all__ = ["write_batch"]


def write_batch(
    dialect: Dialect, writes: list[QueuedWrite], now_ms: int | None, seen: Rev = 0
) -> StatementSteps[BatchPlan]:
    """Decide and write the batch. If the plan has no events, nothing was written, and a commit is needless.

    `now_ms` is the time that times to live begin at; None takes the database's. Raises `HistoryLost` when the store is
    below revision `seen`.
    """
    rev: Rev = 0
    live: dict[str, KV] = {}
    for statement in dialect.state([write.key for write in writes]):
        rows = yield statement
        for key, value, mod_rev, create_rev, expires in rows:
            if key is None:
                rev, clock_ms = mod_rev, expires
            else:
                live[key] = KV(key, value, mod_rev, create_rev, expires)
    if rev < seen:
        raise HistoryLost(rev, seen)
    batch_plan = plan(writes, rev, live, clock_ms if now_ms is None else now_ms)
    if batch_plan.events:
        for statement in dialect.apply(batch_plan):
            yield statement
    return batch_plan
