"""PostgreSQL's dialect: a batch is read with one statement and written with one.

The batch is decided here and not in a function on the server: that would be a second copy of the decision, in another
language and with rights of its own, for a few microseconds a write.

Must not know: the driver. See also: `oarlock.storage.sql.dialect`, and `tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from oarlock.storage.sql.dialect import BatchPlan, Dialect, KeyRange, Statement

__all__ = ["PostgresDialect"]

_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_STATE = (
    f"SELECT NULL::text, NULL::bytea, meta.rev, 0::bigint, {_NOW_MS} FROM meta UNION ALL"
    " SELECT kv.key, log.value, kv.rev, kv.create_rev, kv.expires FROM kv JOIN log ON log.rev = kv.rev"
    " WHERE kv.key = ANY($1::text[])"
)

_INSERT_LOG = (
    "INSERT INTO log (rev, key, op, create_rev, prev_rev, expires, value) SELECT * FROM unnest("
    "$1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[])"
)
_UPSERT_KV = (
    "INSERT INTO kv (key, rev, create_rev, expires)"
    " SELECT * FROM unnest($8::text[], $9::bigint[], $10::bigint[], $11::bigint[]) ON CONFLICT (key)"
    " DO UPDATE SET rev = excluded.rev, create_rev = excluded.create_rev, expires = excluded.expires"
)
_DELETE_KV = "DELETE FROM kv WHERE kv.key = ANY($12::text[])"

_LOG_COLUMNS = 7


class PostgresDialect(Dialect):
    """`channel` is what commits are told on, with the revision."""

    now_ms = _NOW_MS

    def __init__(self, channel: str) -> None:
        super().__init__()
        self.channel = channel
        self._apply = (
            f"WITH changes AS ({_INSERT_LOG}), live AS ({_UPSERT_KV}), deleted AS ({_DELETE_KV})"
            f" UPDATE meta SET rev = $13 RETURNING pg_notify('{channel}', $13::bigint::text)"
        )

    def marked(self, text: str) -> str:
        first, *others = text.split("?")
        numbers = count(1)
        return first + "".join(f"${next(numbers)}{other}" for other in others)

    def bounds(self, span: KeyRange) -> KeyRange:
        start, end = span
        return _without_nul(start), _without_nul(end)

    def unindexed(self, column: str) -> str:
        return f"({column} || '')"

    def differ(self, left: str, right: str) -> str:
        return f"{left} IS DISTINCT FROM {right}"

    def state(self, keys: Sequence[str]) -> Iterator[Statement]:
        yield Statement(_STATE, (keys,))

    def apply(self, plan: BatchPlan) -> Iterator[Statement]:
        live = [kv for kv in plan.live.values() if kv is not None]
        log = plan.log
        yield Statement(
            self._apply,
            (
                *(log[column::_LOG_COLUMNS] for column in range(_LOG_COLUMNS)),
                [kv.key for kv in live],
                [kv.mod_rev for kv in live],
                [kv.create_rev for kv in live],
                [kv.expires for kv in live],
                [key for key, kv in plan.live.items() if kv is None],
                plan.rev,
            ),
        )


def _without_nul(bound: str) -> str:
    """A text here has no NUL: what follows ``a\\0``, the first key after ``a``, begins at ``a\\1``."""
    before, nul, _ = bound.partition("\0")
    return f"{before}\1" if nul else bound
