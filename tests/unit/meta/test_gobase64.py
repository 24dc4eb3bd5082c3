"""Base64 as Go reads it: line breaks are ignored, errors name the byte, and each value has one spelling."""

from __future__ import annotations

import pytest

from oarlock.meta.go import gobase64


@pytest.mark.parametrize(
    ("text", "value"),
    [("", b""), ("\r\n", b""), ("YQ==", b"a"), ("Y\nQ\r=\n=\n", b"a"), ("YWJj\nZGVm", b"abcdef"), ("YR==", b"a")],
)
def test_line_breaks_are_ignored(text: str, value: bytes) -> None:
    assert gobase64.decode(text) == value
    assert gobase64.canonical(gobase64.canonical(text)) == gobase64.canonical(text)
    assert gobase64.is_canonical(gobase64.canonical(text))


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("a", 0),
        ("ab", 0),
        ("abc", 0),
        ("abcdef", 4),
        ("ab\ncde", 5),
        ("=", 0),
        ("a=", 1),
        ("ab=", 3),
        ("ab=c", 2),
        ("ab=\n\nc", 4),
        ("ab==c", 4),
        ("abc=\n=", 5),
        ("abcd=", 4),
        ("abcd====", 4),
        ("ab-_", 2),
        ("abé=", 2),
        ("ab c", 2),
        ("\udc00", 0),
    ],
)
def test_an_error_names_the_byte_where_gos_decoder_stops(text: str, byte: int) -> None:
    with pytest.raises(gobase64.IllegalBase64, match=f"^illegal base64 data at input byte {byte}$"):
        gobase64.decode(text)
    assert not gobase64.is_base64(text)
    assert gobase64.canonical(text) == text
    assert not gobase64.is_canonical(text)
