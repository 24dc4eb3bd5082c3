"""The value of a plain YAML scalar, by YAML 1.1 as Kubernetes reads it.

``yes`` and ``on`` are true, ``0777`` is octal, ``1_000`` is a thousand, ``1e3`` a number; a date, ``12:30:45``
and ``=`` are strings. See also: `yaml`.
Source: go-yaml v2 as kept in sigs.k8s.io/yaml.
"""

from __future__ import annotations

import re

YamlScalar = str | int | float | bool | None

MERGE = "<<"
"""The key whose value is merged into the mapping that holds it."""

_WORDS: dict[str, YamlScalar] = {}
for _word in ("y", "yes", "true", "on"):
    _WORDS.update({_word: True, _word.capitalize(): True, _word.upper(): True})
for _word in ("n", "no", "false", "off"):
    _WORDS.update({_word: False, _word.capitalize(): False, _word.upper(): False})
_WORDS.update(dict.fromkeys(("", "~", "null", "Null", "NULL")))
for _word in (".inf", ".Inf", ".INF"):
    _WORDS.update({_word: float("inf"), "+" + _word: float("inf"), "-" + _word: float("-inf")})
_WORDS.update(dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")))

_STARTS = frozenset("+-.0123456789yYnNtTfFoO~")
_is_float = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?").fullmatch
_is_int = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
).fullmatch
_is_date = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
    r"| +[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?)?"
).fullmatch
_is_base_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?").fullmatch
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_MAX_DIGITS = 400


def resolve(text: str) -> YamlScalar:
    """The value of the plain scalar `text`."""
    if text and text[0] not in _STARTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0].isalpha() or text[0] == "~":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    match = _is_int(plain)
    if match is not None and len(plain) <= _MAX_DIGITS:
        base = match.lastgroup or "dec"
        number = int(match["sign"] + match[base], _BASES[base])
        if -(2**63) <= number < 2**64:
            return number if number < 2**63 else float(number)
    if _is_float(plain):
        number_or_infinity = float(plain)
        return text if abs(number_or_infinity) == float("inf") else number_or_infinity
    return text


def reads_as_string(text: str) -> bool:
    """Whether the string `text` would be read back as a string when written without quotes."""
    if text == MERGE or text in _WORDS:
        return False
    if not text or text[0] not in _STARTS:
        return True
    return isinstance(resolve(text), str) and not _is_base_60(text) and not _is_date(text)
