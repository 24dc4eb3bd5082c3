"""Values in the text of a statement: only what was meant to end a literal ends it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.storage.mysql.driver import MysqlDialect
from oarlock.storage.mysql.session import literal, render, size_of
from oarlock.storage.sql.dialect import BatchPlan

LITERAL = re.compile(rb"_binary'((?:[^'\\]|\\\\|'')*)'", re.DOTALL)


@given(st.binary() | st.text(alphabet="'\\\0\"\n%_?é"))
def test_a_literal_is_one_and_has_every_byte(value: bytes | str) -> None:
    text = literal(value)
    match = LITERAL.fullmatch(text)
    assert match is not None
    read = re.sub(rb"\\\\|''", lambda pair: pair[0][:1], match[1])
    assert read == (value if isinstance(value, bytes) else value.encode())
    assert len(text) <= size_of(value)


def test_numbers_and_nothing() -> None:
    assert [literal(value) for value in (0, -1, 2**63 - 1, None, True)] == [
        b"0",
        b"-1",
        b"9223372036854775807",
        b"NULL",
        b"1",
    ]
    with pytest.raises(TypeError):
        literal(1.5)


def test_placeholders_in_values_are_none() -> None:
    assert render("a = ? AND b = ?", ("?", b"?")) == b"a = _binary'?' AND b = _binary'?'"
    with pytest.raises(TypeError):
        render("a = ?", ())


def test_statements_of_a_batch_are_bounded_in_bytes() -> None:
    value = b"x" * 100_000
    log: list[object] = []
    for rev in range(1, 101):
        log += (rev, f"/t/{rev}", 1, rev, 0, None, value)
    statements = list(MysqlDialect().apply(BatchPlan([], [], log, {}, 100)))
    sizes = [len(render(*statement)) for statement in statements]
    assert max(sizes) < 1024 * 1024
    assert sum(sizes) > 100 * 100_000
    assert b"".join(render(*statement) for statement in statements).count(b"_binary'/t/") == 100
