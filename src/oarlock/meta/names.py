"""Name validation: each check returns a list of error messages, empty when the name is valid.

The messages are those of Kubernetes. Lengths are in UTF-8 bytes. Knows nothing of objects or fields; the
caller adds the path.
Source: k8s.io/apimachinery ``util/validation``, RFC 1123, RFC 1035.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_UNDERSCORED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_underscored = re.compile(_UNDERSCORED).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch

_EMPTY = "must be non-empty"
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What generated names end in: no vowels, nothing that looks like something else."""
_MAX_GENERATED_BASE = 58
_RANDOM_CHARS = 5


def regex_complaint(message: str, pattern: str, *examples: str) -> str:
    """The error message for a text that doesn't match `pattern`."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    alternatives = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {alternatives}regex used for validation is '{pattern}')"


def max_length(limit: int) -> str:
    """The error message for a text of more than `limit` bytes."""
    return f"must be no more than {limit} bytes"


_BAD_SUBDOMAIN = regex_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_BAD_WILDCARD = regex_complaint(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_BAD_UNDERSCORED = regex_complaint(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _UNDERSCORED,
    "example.com",
)
_BAD_LABEL = regex_complaint(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_BAD_LABEL_1035 = regex_complaint(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QUALIFIED_RULE = regex_complaint(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)
_BAD_VALUE = regex_complaint(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def _longer(text: str, limit: int) -> bool:
    # A text of few characters can't be too long; this avoids the cost of encoding it.
    return len(text) * 4 > limit and len(text.encode("utf-8", "surrogatepass")) > limit


def dns1123_subdomain(text: str) -> list[str]:
    """``example.com``: labels joined by dots, at most 253 bytes; the usual rule for object names."""
    if len(text) <= 253 and _is_subdomain(text):
        return []
    complaints = [max_length(253)] if _longer(text, 253) else []
    if not _is_subdomain(text):
        complaints.append(_BAD_SUBDOMAIN)
    return complaints


def dns1123_subdomain_with_underscore(text: str) -> list[str]:
    """The same with ``_`` among the characters: what DNS searches may be."""
    complaints = [max_length(253)] if _longer(text, 253) else []
    if not _is_underscored(text):
        complaints.append(_BAD_UNDERSCORED)
    return complaints


def wildcard_subdomain(text: str) -> list[str]:
    """``*.example.com``: any name below a domain."""
    complaints = [max_length(253)] if _longer(text, 253) else []
    if not _is_wildcard(text):
        complaints.append(_BAD_WILDCARD)
    return complaints


def dns1123_label(text: str) -> list[str]:
    """``my-name``: at most 63 bytes, may begin with a digit; the rule for namespaces."""
    complaints = ["must be no more than 63 characters"] if _longer(text, 63) else []
    if not _is_label(text):
        complaints.append("must not contain dots" if _is_subdomain(text) else _BAD_LABEL)
    return complaints


def dns1035_label(text: str) -> list[str]:
    """``my-name``: at most 63 bytes, begins with a letter."""
    complaints = [max_length(63)] if _longer(text, 63) else []
    if not _is_label_1035(text):
        complaints.append(_BAD_LABEL_1035)
    return complaints


def path_segment_name(text: str) -> list[str]:
    """Any single segment of a URL path. The minimum for the name of any object."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def qualified_name(text: str) -> list[str]:
    """``example.com/MyName``: keys of labels and annotations, and finalizers. The prefix is optional."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE}{optional}"]
    complaints = []
    if slash and not prefix:
        complaints.append(f"prefix part {_EMPTY}")
    elif slash:
        complaints.extend(f"prefix part {complaint}" for complaint in dns1123_subdomain(prefix))
    if not name:
        complaints.append(f"name part {_EMPTY}")
    elif _longer(name, 63):
        complaints.append(f"name part {max_length(63)}")
    if not _is_qualified(name):
        complaints.append(f"name part {_QUALIFIED_RULE}")
    return complaints


def label_value(text: str) -> list[str]:
    """Label values: empty, or at most 63 bytes that begin and end with an alphanumeric character."""
    if not text or (len(text) <= 63 and _is_qualified(text)):
        return []
    complaints = [max_length(63)] if _longer(text, 63) else []
    if text and not _is_qualified(text):
        complaints.append(_BAD_VALUE)
    return complaints


def mask_trailing_dash(text: str) -> str:
    """`text` as ``generateName`` is validated: a trailing dash is allowed, because random characters follow it."""
    if len(text) > 1 and text.endswith("-"):
        return text[:-2] + "a"
    return text


def generate_name(base: str, random_chars: Callable[[], str] | bytes) -> str:
    """`base`, cut to 58 characters, and five random characters from an alphabet without vowels.

    `random_chars` is either a function that returns the five characters, or at least five random bytes,
    from which the characters are chosen.
    """
    if callable(random_chars):
        suffix = random_chars()
    else:
        suffix = "".join(ALPHABET[byte % len(ALPHABET)] for byte in random_chars)
    if len(suffix) < _RANDOM_CHARS:
        raise ValueError(f"five random characters are needed, not {len(suffix)}")
    return base[:_MAX_GENERATED_BASE] + suffix[:_RANDOM_CHARS]
