"""Which names are fine, and what is said of the others: Kubernetes' own tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import names

Vectors = Callable[[str], Any]

# Of the shared table these groups are tested elsewhere: dry run, patch options and field managers in `test_options`,
# match expressions in `test_label_selectors`. Left out are managed fields (kept as they come until apply is served),
# `ValidateConditions` (a rule for authors of types that nothing here offers), options of unreadable objects, and names
# in fields of kinds that aren't served here (ports, headers, addresses, keys of ConfigMaps).

PLAIN: list[tuple[str, Callable[[Any], list[Any]]]] = [
    ("IsDNS1123Label", names.dns1123_label),
    ("IsDNS1123Subdomain", names.dns1123_subdomain),
    ("IsDNS1035Label", names.dns1035_label),
    ("IsQualifiedName", names.qualified_name),
    ("IsValidLabelValue", names.label_value),
]


@pytest.mark.parametrize(("name", "check"), PLAIN, ids=[name for name, _ in PLAIN])
def test_good_and_bad_values(name: str, check: Callable[[Any], list[Any]], shared_vectors: Vectors) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    good = groups.get(f"{name}.goodValues") or groups[f"{name}.successCases"]
    bad = groups.get(f"{name}.badValues") or groups.get(f"{name}.errorCases") or groups.get(f"{name}.failureCases", [])
    assert [value for value in good if check(value)] == []
    assert [value for value in bad if not check(value)] == []


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
    for _, check in PLAIN:
        assert check(hostile)
