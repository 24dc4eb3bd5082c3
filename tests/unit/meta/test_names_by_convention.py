"""Names of every kind, by cases of our own: the last that is right and the first that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta import names, names_more

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
    "port": (names_more.port_number, [1, 443, 65535], [0, -1, 65536]),
    "port name": (names_more.port_name, ["http", "h2-x", "p" * 15], ["", "80", "Http", "a--b", "-a", "a-", "p" * 16]),
    "header": (names_more.http_header_name, ["Accept", "x-y", "X9"], ["", "a b", "a:", "é", "a\n"]),
    "percent": (names_more.percent, ["0%", "50%", "100%"], ["", "%", "5", "-1%", "1.5%", "5%%", "x%"]),
    "config map key": (names_more.config_map_key, ["k", "K.v-1_2", ".hidden"], ["", ".", "..", "..x", "a/b", "a b"]),
    "wildcard": (names_more.wildcard_dns1123_subdomain, ["*.a", "*.a.b"], ["", "*", "a.b", "*a.b", "*.*.a", "a.*"]),
    "environment": (names_more.env_var_name, ["A", "a b", "9", "%"], ["", "=", "A=b"]),
    "domain": (lambda text: names_more.fully_qualified_domain_name("p", text), ["a.io", "a.b.c."], ["", "a", ".a.io"]),
    "full name": (lambda text: names_more.fully_qualified_name("p", text), ["a.b.c"], ["", "a", "a.b", "a.b.c."]),
    "path": (lambda text: names_more.domain_prefixed_path("p", text), ["a.io/b", "a/b/c"], ["", "a", "/a", "a/"]),
    "range": (lambda case: names_more.within(*case), [(1, 1, 3), (3, 1, 3)], [(0, 1, 3), (4, 1, 3)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_and_what_is_wrong(kind: str) -> None:
    check, right, wrong = KINDS[kind]
    assert [value for value in right if check(value)] == []
    assert [value for value in wrong if not check(value)] == []


def test_underscores_may_begin_a_segment_of_a_service_name() -> None:
    assert names_more.dns1123_subdomain_with_underscore("_sip._tcp.a.io") == []
    assert names_more.dns1123_subdomain_with_underscore("A")
    assert names_more.dns1123_subdomain_with_underscore("a" * 254) == [names.max_length(253)]


def test_a_full_name_has_three_segments_and_no_scheme() -> None:
    [error] = names_more.fully_qualified_name("p", "a.b")
    assert error.message.endswith("should be a domain with at least three segments separated by dots")
    [error] = names_more.fully_qualified_name("p", "https://a.b.c")
    assert "RFC 1123 subdomain" in error.message


def test_keys_with_a_domain_before_them() -> None:
    assert names_more.domain_prefixed_key("p", "a.io/key") == []
    for wrong in ("key", "a.io/", "A.io/key", "a.io/key/more", ""):
        assert names_more.domain_prefixed_key("p", wrong), wrong


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (
            names_more.ip,
            ["10.0.0.1", "::", "fd00::1"],
            ["", "10.0.0", "10.0.0.256", "10.0.0.01", "::g", "::ffff:1.2.3.4"],
        ),
        (names_more.cidr, ["10.0.0.0/8", "fd00::/64"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/08", "x/8"]),
        (names_more.interface_address, ["10.0.0.1/8", "fd00::1/64"], ["10.0.0.1", "10.0.0.1/33", "10.0.0.01/8"]),
    ],
)
def test_addresses(check: Callable[[str], list[str]], right: list[str], wrong: list[str]) -> None:
    assert [text for text in right if check(text)] == []
    assert [text for text in wrong if len(check(text)) != 1] == []


def test_addresses_that_others_may_read_otherwise_are_warned_of() -> None:
    assert names_more.ip_warnings("spec.ip", "10.0.0.1") == []
    assert names_more.cidr_warnings("spec.range", "10.0.0.0/8") == []
    for warned in (
        names_more.ip_warnings("spec.ip", "10.0.0.01"),
        names_more.ip_warnings("spec.ip", "FD00::1"),
        names_more.cidr_warnings("spec.range", "10.0.0.1/8"),
    ):
        [warning] = warned
        assert warning.startswith("spec.")


@pytest.mark.parametrize(("base", "masked"), [("web-", "wea"), ("web", "web"), ("-", "-"), ("", "")])
def test_a_trailing_dash_is_masked_before_a_prefix_is_judged(base: str, masked: str) -> None:
    assert names.mask_trailing_dash(base) == masked
