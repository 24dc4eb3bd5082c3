"""Names of every kind, by cases of our own: the last that is right and the first that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta import names

Check = Callable[[Any], list[Any]]

KINDS: dict[str, tuple[Check, list[Any], list[Any]]] = {
    "label": (names.dns1123_label, ["x", "7", "web-1", "a" * 63], ["", "-x", "x-", "X", "a.b", "a_b", "ä", "a" * 64]),
    "subdomain": (
        names.dns1123_subdomain,
        ["x", "9", "a.b-c.d1", ".".join(["a" * 63] * 3) + "." + "b" * 61],
        ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a b", "a/b", "a" * 254],
    ),
    "dns1035 label": (names.dns1035_label, ["a", "a-9", "z" * 63], ["", "9a", "-a", "a-", "a.b", "A", "z" * 64]),
    "qualified name": (
        names.qualified_name,
        ["a", "A_b.c-9", "x.y/Name", "0/1", "a" * 63, "p" * 253 + "/n"],
        ["", "/", "a/", "/a", "a/b/c", "-a", "a.", "Upper/x", "a" * 64, "p" * 254 + "/n", "a b"],
    ),
    "label value": (names.label_value, ["", "a", "A-b_c.9", "v" * 63], ["-a", "a-", "a/b", "a b", "é", "v" * 64]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_and_what_is_wrong(kind: str) -> None:
    check, right, wrong = KINDS[kind]
    assert [value for value in right if check(value)] == []
    assert [value for value in wrong if not check(value)] == []


@pytest.mark.parametrize(("base", "masked"), [("web-", "wea"), ("web", "web"), ("-", "-"), ("", "")])
def test_a_trailing_dash_is_masked_before_a_prefix_is_judged(base: str, masked: str) -> None:
    assert names.mask_trailing_dash(base) == masked
