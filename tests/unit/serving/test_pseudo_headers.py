"""The pseudo-headers of a request: each once, in front of the other fields, and none that is unknown (RFC 9113 §8.3).

Every head is tried twice: taken apart, and after all others, when the server remembers those that were taken apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from oarlock.http2.header_blocks import HeaderFields
from oarlock.meta.memo import Memo
from oarlock.server.serving.http2.heads import MalformedRequest, RequestHead, known_request_head, request_head

METHOD, SCHEME, AUTHORITY, PATH = (
    (b":method", b"GET", False),
    (b":scheme", b"https", False),
    (b":authority", b"h", False),
    (b":path", b"/a", False),
)
HOST, ACCEPT = (b"host", b"h", False), (b"accept", b"a", False)
NEEDED = (METHOD, SCHEME, AUTHORITY, PATH)
OTHERS: tuple[tuple[bytes, bytes, bool], ...] = (
    HOST,
    ACCEPT,
    (b":path", b"/b?c", False),
    (b":path", b"", False),
    (b":method", b"", False),
    (b":scheme", b"", False),
    (b":authority", b"", False),
    (b":status", b"200", False),
    (b":protocol", b"websocket", False),
)


def heads() -> Iterator[HeaderFields]:
    """Every order of every choice of the four with up to one other field, and pairs of others behind the four."""
    for size in range(len(NEEDED) + 1):
        for chosen in itertools.combinations(NEEDED, size):
            yield from itertools.permutations(chosen)
            for other in (*OTHERS, *NEEDED):
                yield from itertools.permutations((*chosen, other))
    for pair in itertools.permutations(OTHERS, 2):
        for at in range(len(NEEDED) + 1):
            yield (*NEEDED[:at], pair[0], *NEEDED[at:], pair[1])


def is_right(head: HeaderFields) -> bool:
    """The rules once more, said in another way."""
    names = [name for name, _, _ in head]
    pseudo = [name for name in names if name.startswith(b":")]
    values = {name: value for name, value, _ in head}
    return (
        names[: len(pseudo)] == pseudo
        and len(set(pseudo)) == len(pseudo)
        and {b":method", b":scheme", b":path"} <= set(pseudo) <= {name for name, _, _ in NEEDED}
        and all(values[name] for name in (b":method", b":scheme", b":path"))
        and (b":authority" in names or b"host" in names)
        and values.get(b":authority", b"h") == values.get(b"host", values.get(b":authority", b"h"))
    )


def outcome(make: Any, *arguments: Any) -> RequestHead | None:
    try:
        method, target, headers, lines = make(*arguments)
    except MalformedRequest:
        return None
    return method, target, dict(headers), list(lines)


def test_every_choice_and_order_of_pseudo_headers() -> None:
    remembered: Memo[Any, Any] = Memo(2**30, entry_bytes=1, longest_bytes=4096)
    every = list(dict.fromkeys(heads()))
    for head in every * 2:
        plain = outcome(request_head, head)
        assert (plain is not None) == is_right(head), head
        assert outcome(known_request_head, head, 100, remembered) == plain, head
    assert sum(is_right(head) for head in every) > 50


@pytest.mark.parametrize("missing", range(len(NEEDED)), ids=[field[0].decode() for field in NEEDED])
def test_what_is_remembered_of_a_request_makes_up_for_nothing(missing: int) -> None:
    remembered: Memo[Any, Any] = Memo(2**20, entry_bytes=1, longest_bytes=4096)
    known_request_head(NEEDED, 100, remembered)
    with pytest.raises(MalformedRequest):
        known_request_head(NEEDED[:missing] + NEEDED[missing + 1 :], 100, remembered)
