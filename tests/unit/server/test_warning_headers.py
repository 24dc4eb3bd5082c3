"""The value of ``Warning`` headers: escaping, de-duplication, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.server.filters.answer_headers import warning_headers


def test_the_shared_cases(shared_vectors: Callable[[str], Any]) -> None:
    cases = shared_vectors("http_requests.json")["groups"]["warning_recorder"]
    tried = 0
    for case in cases:
        if any(arg["agent"] for arg in case["args"]):
            continue  # this server names no agent
        tried += 1
        assert warning_headers([arg["text"] for arg in case["args"]]) == (case["expect"] or []), case["name"]
    assert tried >= 4


def test_control_characters_never_reach_the_header() -> None:
    assert warning_headers(["a\r\nset-cookie: x", "b\x00", "c\x85", "fine"]) == ['299 - "fine"']


def test_above_4096_characters_each_is_cut_to_256() -> None:
    fits = ["a" * 2000, "b" * 2096]
    assert [len(v) for v in warning_headers(fits)] == [2000 + 8, 2096 + 8]
    cut = warning_headers([*fits, "c"])
    assert cut == [f'299 - "{"a" * 256}"', f'299 - "{"b" * 256}"', '299 - "c"']


def test_after_4096_cut_characters_the_rest_is_left_out() -> None:
    many = [f"{i:04}" + "x" * 400 for i in range(40)]
    cut = warning_headers(many)
    assert len(cut) == 16
    assert cut[15] == f'299 - "0015{"x" * 252}"'


def test_other_scripts_travel_as_utf8() -> None:
    [value] = warning_headers(["naïve ☃"])
    assert value == '299 - "naïve ☃"'


def test_what_no_utf8_can_be_made_of_is_replaced() -> None:
    assert warning_headers(["a\ud800b"]) == ['299 - "a?b"']


def test_quotes_and_backslashes_are_escaped() -> None:
    assert warning_headers(['a "b" \\ c']) == ['299 - "a \\"b\\" \\\\ c"']


def test_of_more_than_64_the_last_says_how_many_there_are_besides() -> None:
    assert len(warning_headers([f"w{i}" for i in range(64)])) == 64
    headers = warning_headers([f"w{i}" for i in range(100)])
    assert len(headers) == 64
    assert headers[62] == '299 - "w62"'
    assert headers[63] == '299 - "37 more warnings"'
