"""Operations on a SQL store as generators: they yield statements and are sent rows.

    def count(dialect, span) -> Steps[int]:
        rows = yield Statement(dialect.count, span)
        return rows[0][0]

So each is written once. SQLite runs them in its threads (`sqlite.steps`), a database server's driver on the event
loop (`server.session`). An error of a statement is raised at its ``yield``.

Must not know: databases, drivers. See also: `dialect` for the texts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

__all__ = ["Rows", "Statement", "StatementSteps"]

T = TypeVar("T")

Rows = Sequence[Any]
"""The rows a statement returned, each a sequence of its columns; empty for one that returns none."""


class Statement(NamedTuple):
    """A text in the dialect of the database, and the values of its placeholders in order."""

    text: str
    values: Sequence[object] = ()


StatementSteps = Generator[Statement, Rows, T]
"""An operation that returns a `T`."""
