"""``format: byte``: base64 that every Python takes alike, as Go does."""

from __future__ import annotations

import pytest

from oarlock.schema.structural.formats import checker

is_byte = checker("byte")


@pytest.mark.parametrize("text", ["", "YQ==", "YWI=", "YWJj", "+/+/"])
def test_base64(text: str) -> None:
    assert is_byte is not None
    assert is_byte(text)


@pytest.mark.parametrize(
    "text", ["Y", "YQ", "YQ=", "YWJj=", "YWJj==", "YWJj====", "YQ==YQ==", "=", "====", "a*bc", "YW\nJj", "_-_-"]
)
def test_what_is_none(text: str) -> None:
    assert is_byte is not None
    assert not is_byte(text)
