"""Runs the operations of `oarlock.storage.sql` on a connection, in the calling thread.

Must not know: what is asked. See also: `oarlock.storage.sql.statements`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import apsw

from oarlock.storage.sql.statements import StatementSteps

__all__ = ["run", "run_in_snapshot", "snapshot"]

T = TypeVar("T")


def run(connection: apsw.Connection, steps: StatementSteps[T]) -> T:
    try:
        statement = next(steps)
        while True:
            try:
                rows = connection.execute(*statement).fetchall()
            except apsw.Error as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_in_snapshot(connection: apsw.Connection, steps: StatementSteps[T]) -> T:
    """The same for an operation of several statements, on one state of the store."""
    with snapshot(connection):
        return run(connection, steps)


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """A context manager: several statements on one state of the store."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # A COMMIT would fail once more where a page couldn't be read.
        connection.execute("ROLLBACK")
