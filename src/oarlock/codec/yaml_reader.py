"""Reads YAML 1.1 from the event stream of libyaml as Kubernetes does, without recursion.

Limits the nesting, and the expansion of aliases in nodes and in bytes. Of plain scalars, ``yes`` and ``on`` are true,
``0777`` is octal, ``1_000`` is a thousand, ``1e3`` a number; a date, ``12:30:45`` and ``=`` are strings.
See also: `yaml`, which calls it. Source: go-yaml v2 as kept in sigs.k8s.io/yaml.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import yaml

from oarlock.codec import duplicate_fields, json
from oarlock.codec.errors import DecodeError
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import copy_json

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


MAX_ALIASED_NODES = 100_000
"""How many nodes all aliases of a document may stand for together."""

MAX_ALIASED_BYTES = 3 * 1024 * 1024
"""How many bytes of JSON all aliases of a document may stand for together: as many as a body may have by default."""

_TAG = "tag:yaml.org,2002:"
_UNSET: Any = object()


def decode(data: bytes) -> tuple[Any, list[str]]:
    """The first document, and its duplicate keys. Raises DecodeError."""
    try:
        return _Builder(data).document()
    except (yaml.YAMLError, UnicodeError) as error:
        raise _refusal(_problem(error)) from None


def _refusal(problem: str) -> DecodeError:
    return DecodeError(f"error converting YAML to JSON: {problem}")


def _problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        if (error.problem or "").startswith(_LIBYAMLS_DEPTH):
            return "yaml: exceeded max depth"
        line = error.problem_mark.line if error.problem_mark else 0
        # go-yaml counts lines from 0, except in what its scanner finds.
        if line and isinstance(error, yaml.scanner.ScannerError):
            line += 1
        elif not line and error.context_mark:
            line = error.context_mark.line
        where = f"line {line}: " if line else ""
        return f"yaml: {where}{error.problem or 'unknown problem parsing YAML content'}"
    return f"yaml: {getattr(error, 'reason', None) or 'invalid UTF-8'}"


_LIBYAMLS_DEPTH = "exceeded maximum nesting depth"
"""libyaml from 0.2.6 has a limit of its own, which it meets before its reader has counted as far."""


class _Open:
    """A list or mapping whose end event hasn't come yet."""

    __slots__ = ("anchor", "before", "given", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.before = before
        self.key: Any = _UNSET
        self.given: set[str] = set()
        self.merged: list[Any] = []


class _Anchor:
    """A value that aliases may refer to: its number of nodes, -1 until its end, and the bytes of its JSON."""

    __slots__ = ("_bytes", "nodes", "value")

    def __init__(self, value: Any, nodes: int) -> None:
        self.value = value
        self.nodes = nodes
        self._bytes = -1

    def bytes(self) -> int:
        """Computed on first use: most anchors have no alias."""
        if self._bytes < 0:
            self._bytes = len(json.encode(self.value))
        return self._bytes


class _Builder:
    """Builds a tree from a stream of events, with an explicit stack of open containers."""

    def __init__(self, data: bytes) -> None:
        self.parser = yaml.CSafeLoader(data)
        self.open: list[_Open] = []
        self.anchors: dict[str, _Anchor] = {}
        self.duplicates: list[str] = []
        self.nodes = 0
        self.aliased_nodes = 0
        self.aliased_bytes = 0
        self.root: Any = None

    def document(self) -> tuple[Any, list[str]]:
        while True:
            event = self.parser.get_event()
            if isinstance(event, yaml.ScalarEvent):
                self.nodes += 1
                value = self.scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = _Anchor(value, 1)
                self.put(value, event, plain_text=event.value if event.implicit[0] else None)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self.begin(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self.end(event)
            elif isinstance(event, yaml.AliasEvent):
                self.put(self.alias(event.anchor), event)
            elif isinstance(event, (yaml.DocumentEndEvent, yaml.StreamEndEvent)):
                return self.root, self.duplicates

    def begin(self, event: Any) -> None:
        if len(self.open) >= json.MAX_DEPTH:
            raise _refusal("yaml: exceeded max depth")
        if self.expects_key():
            raise self.bad_key(event)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        container = _Open(value, event.anchor, self.nodes)
        self.nodes += 1
        if event.anchor:
            self.anchors[event.anchor] = _Anchor(value, -1)
        self.put(value, event)
        self.open.append(container)

    def end(self, event: Any) -> None:
        container = self.open.pop()
        if container.merged:
            _merge(container)
        if container.anchor:
            self.anchors[container.anchor] = _Anchor(container.value, self.nodes - container.before)

    def expects_key(self) -> bool:
        return bool(self.open) and type(self.open[-1].value) is dict and self.open[-1].key is _UNSET

    def bad_key(self, event: Any) -> DecodeError:
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "list"
        return _refusal(f"yaml: invalid map key: a {kind} in line {event.start_mark.line + 1}")

    def put(self, value: Any, event: Any, plain_text: str | None = None) -> None:
        if not self.open:
            self.root = _finite(value)
            return
        container = self.open[-1]
        if type(container.value) is list:
            container.value.append(_finite(value))
            return
        if container.key is _UNSET:
            container.key = MERGE if plain_text == MERGE else _MappingKey(_key_text(value))
            return
        key, container.key = container.key, _UNSET
        if key is MERGE:
            container.merged.append(value)
            return
        name = key.text
        if name in container.given and len(self.duplicates) < duplicate_fields.MAX_FOUND:
            line = event.start_mark.line + 1
            self.duplicates.append(f"line {line}: key {quote(name)} already set in map")
        container.given.add(name)
        container.value[name] = _finite(value)

    def alias(self, name: str | None) -> Any:
        anchor = self.anchors.get(name or "")
        if anchor is None:
            raise _refusal(f"yaml: unknown anchor '{name}' referenced")
        if anchor.nodes < 0:
            raise _refusal(f"yaml: anchor '{name}' value contains itself")
        self._charge(anchor)
        value = anchor.value
        if isinstance(value, (dict, list)):
            if self.expects_key():
                raise _refusal(f"yaml: invalid map key: anchor '{name}'")
            if json.depth_exceeds(value, json.MAX_DEPTH - len(self.open)):
                raise _refusal("yaml: exceeded max depth")
        return copy_json(value)

    def _charge(self, anchor: _Anchor) -> None:
        """Refuse aliases that expand too far, before they are expanded."""
        self.nodes += anchor.nodes
        self.aliased_nodes += anchor.nodes
        if self.aliased_nodes <= MAX_ALIASED_NODES:
            self.aliased_bytes += anchor.bytes()
        if self.aliased_nodes > MAX_ALIASED_NODES or self.aliased_bytes > MAX_ALIASED_BYTES:
            raise _refusal("yaml: document contains excessive aliasing")

    def scalar(self, event: Any) -> Any:
        if event.implicit[0]:
            return resolve(event.value)
        tag = event.tag
        if tag is None or not tag.startswith(_TAG) or tag == _TAG + "str":
            return event.value
        return _tagged(tag[len(_TAG) :], event.value)


class _MappingKey:
    """A key that has been read; distinct from the merge key and from no key."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        words = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
        return words.get(str(key)) or json.encode(key).decode()
    raise _refusal("unsupported map key of type: %!s(<nil>)")


def _finite(value: Any) -> Any:
    """A number as JSON gives it: whole numbers are integers, infinities and NaN are refused."""
    if type(value) is not float:
        return value
    if value != value or value in (float("inf"), float("-inf")):
        name = {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
        raise _refusal(f"json: unsupported value: {name}")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _merge(container: _Open) -> None:
    """Add the keys of merged mappings that the mapping itself doesn't have. The first of several mappings wins."""
    for merged in container.merged:
        sources = merged if isinstance(merged, list) else [merged]
        for source in sources:
            if not isinstance(source, dict):
                raise _refusal("yaml: map merge requires map or sequence of maps as the value")
            for key, value in source.items():
                container.value.setdefault(key, value)


_KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),)}


def _tagged(name: str, text: str) -> Any:
    """The value of a scalar with a standard YAML tag."""
    if name == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _refusal("yaml: !!binary value contains invalid base64 data") from None
    kinds = _KINDS.get(name)
    value = resolve(text)
    if kinds is None:
        return text
    if type(value) not in kinds:
        raise _refusal(f"yaml: cannot decode `{text}` as a !!{name}")
    return value
