"""Which names are fine, and what is said of the others: Kubernetes' own tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import names, names_more

Vectors = Callable[[str], Any]

# Of the shared table these groups are tested elsewhere: dry run, patch options and field managers in `test_options`,
# match expressions in `test_label_selectors`. Left out are managed fields (kept as they come until apply is served),
# `ValidateConditions` (a rule for authors of types that nothing here offers) and options of unreadable objects.

PLAIN: list[tuple[str, Callable[[Any], list[Any]]]] = [
    ("IsDNS1123Label", names.dns1123_label),
    ("IsDNS1123Subdomain", names.dns1123_subdomain),
    ("IsDNS1035Label", names.dns1035_label),
    ("IsValidPortNum", names_more.port_number),
    ("IsValidPortName", names_more.port_name),
    ("IsQualifiedName", names.qualified_name),
    ("IsValidLabelValue", names.label_value),
    ("IsHTTPHeaderName", names_more.http_header_name),
    ("IsValidPercent", names_more.percent),
    ("IsConfigMapKey", names_more.config_map_key),
    ("IsWildcardDNS1123Subdomain", names_more.wildcard_dns1123_subdomain),
    ("IsFullyQualifiedDomainName", lambda text: names_more.fully_qualified_domain_name("x", text)),
    ("IsFullyQualifiedName", lambda text: names_more.fully_qualified_name("x", text)),
    ("IsDomainPrefixedPath", lambda text: names_more.domain_prefixed_path("x", text)),
    ("IsRelaxedEnvVarName", names_more.env_var_name),
    ("IsInRange", lambda case: names_more.within(case["value"], case["min"], case["max"])),
]


@pytest.mark.parametrize(("name", "check"), PLAIN, ids=[name for name, _ in PLAIN])
def test_good_and_bad_values(name: str, check: Callable[[Any], list[Any]], shared_vectors: Vectors) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    good = groups.get(f"{name}.goodValues") or groups[f"{name}.successCases"]
    bad = groups.get(f"{name}.badValues") or groups.get(f"{name}.errorCases") or groups.get(f"{name}.failureCases", [])
    assert [value for value in good if check(_text(value))] == []
    assert [value for value in bad if not check(_text(value))] == []


def _text(value: Any) -> Any:
    """The tables keep a few Go expressions."""
    if not isinstance(value, dict) or "$go" not in value:
        return value
    if value["$go"] == '"a." + string(make([]byte, 251)) + ".com"':
        return "a." + "\0" * 251 + ".com"
    number, rest = re.fullmatch(r'string\(rune\((\d+)\)\) \+ "(.*)"', value["$go"]).groups()  # type: ignore[union-attr]
    return chr(int(number)) + rest


def test_the_words_for_fully_qualified_names(shared_vectors: Vectors) -> None:
    for case in shared_vectors("validation_names.json")["groups"]["IsFullyQualifiedName.messageTests"]:
        found = names_more.fully_qualified_name("x", case["targetName"])
        assert case["err"] in found[0].message


def test_subdomains_with_underscores(shared_vectors: Vectors) -> None:
    for case in shared_vectors("validation_names.json")["groups"]["IsDNS1123SubdomainWithUnderscore.tests"]:
        expected = [
            names.max_length(*one["args"]) if one["$call"] == "MaxLenError" else names.regex_complaint(*one["args"])
            for one in case["expected"] or ()
        ]
        assert names_more.dns1123_subdomain_with_underscore(_text(case["value"])) == expected


def test_domain_prefixed_keys(shared_vectors: Vectors) -> None:
    for case in shared_vectors("validation_names.json")["groups"]["IsDomainPrefixedKey.tests"]:
        found = [error.body for error in names_more.domain_prefixed_key("test", case["value"])]
        expected = case["expected"]["$v"] if case["expected"] else []
        assert len(found) == len(expected)
        for body, call in zip(found, expected, strict=True):
            assert call["args"][-1] in body


@pytest.mark.parametrize(
    ("group", "check"),
    [
        ("IsValidIP.testCases", names_more.ip),
        ("IsValidCIDR.testCases", names_more.cidr),
        ("IsValidInterfaceAddress.range", names_more.interface_address),
    ],
)
def test_addresses(group: str, check: Callable[[str], list[str]], shared_vectors: Vectors) -> None:
    # The laxer rules of old fields (legacyErr, legacyStrictErr) aren't offered: no resource here has such a field.
    for case in shared_vectors("validation_names.json")["groups"][group]:
        found = check(case["in"])
        if "err" in case:
            assert len(found) == 1, case
            assert case["err"] in found[0], case
        else:
            assert found == [], case


@pytest.mark.parametrize(
    ("group", "field", "check"),
    [
        ("GetWarningsForIP.tests", "address", names_more.ip_warnings),
        ("GetWarningsForCIDR.tests", "cidr", names_more.cidr_warnings),
    ],
)
def test_warnings_of_addresses(
    group: str, field: str, check: Callable[[str, str], list[str]], shared_vectors: Vectors
) -> None:
    for case in shared_vectors("validation_names.json")["groups"][group]:
        path = (case["want"] or ["x:"])[0].partition(":")[0]
        assert check(path, case[field]) == (case["want"] or []), case


def test_a_trailing_dash_of_generate_name_is_masked(shared_vectors: Vectors) -> None:
    for case in shared_vectors("validation_names.json")["groups"]["MaskTrailingDash.testCases"]:
        assert names.mask_trailing_dash(case["beforeMasking"]) == case["expectedAfterMasking"]


def test_labels(shared_vectors: Vectors) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    for labels in groups["ValidateLabels.successCases"]:
        for key, value in labels.items():
            assert names.qualified_name(key) == []
            assert names.label_value(value) == []
    for case in groups["ValidateLabels.labelNameErrorCases"]:
        assert any(case["expect"] in text for key in case["labels"] for text in names.qualified_name(key))
    for case in groups["ValidateLabels.labelValueErrorCases"]:
        assert any(case["expect"] in text for value in case["labels"].values() for text in names.label_value(value))


def test_the_words_clients_know() -> None:
    assert names.dns1123_subdomain("A") == [
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]
    assert names.dns1123_label("a.b") == ["must not contain dots"]
    assert names.dns1123_label("Bad_NS") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert names.dns1123_subdomain("a" * 254) == ["must be no more than 253 bytes"]
    assert names.qualified_name("") == ["name part must be non-empty", *names.qualified_name("-")]
    assert names.qualified_name("/a") == ["prefix part must be non-empty"]


@pytest.mark.parametrize(
    ("name", "complaints"),
    [
        ("a", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b", ["may not contain '/'"]),
        ("a/%", ["may not contain '/'", "may not contain '%'"]),
        ("system:node", []),
    ],
)
def test_path_segments(name: str, complaints: list[str]) -> None:
    assert names.path_segment_name(name) == complaints


def test_generated_names() -> None:
    assert names.generate_name("web-", lambda: "abcde") == "web-abcde"
    assert names.generate_name("x" * 80, bytes(range(5))) == "x" * 58 + "bcdfg"
    with pytest.raises(ValueError, match="five random characters"):
        names.generate_name("a", b"abc")


@given(st.binary(min_size=5, max_size=5))
def test_generated_names_are_names(random: bytes) -> None:
    made = names.generate_name("a-", random)
    assert names.dns1123_label(made) == []
    assert not set(made[2:]) & set("aeiou013")


@pytest.mark.parametrize("hostile", ["a" * 100_000, "-" * 100_000, "a." * 50_000, "a-" * 50_000 + "!", "é" * 10_000])
def test_no_text_takes_long(hostile: str) -> None:
    for _, check in PLAIN[:3] + PLAIN[4:7]:
        assert check(hostile)
    assert names_more.ip(hostile)
    assert names_more.cidr(hostile)
