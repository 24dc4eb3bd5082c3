"""Writes YAML by the event stream of libyaml. See also: `yaml`, which calls it; `yaml_order`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import yaml

from oarlock.codec import json, yaml_order
from oarlock.codec.yaml_scalars import reads_as_string

_PLAIN, _LITERAL, _DOUBLE = "", "|", '"'
_BOTH = (True, True)


def encode(tree: Any) -> bytes:
    """The tree in block style, its keys in the order of `yaml_order`."""
    output = io.BytesIO()
    emitter = yaml.CSafeDumper(output, allow_unicode=True, encoding="utf-8")
    emitter.emit(yaml.StreamStartEvent(encoding="utf-8"))
    emitter.emit(yaml.DocumentStartEvent(explicit=False))
    for event in _events(tree):
        emitter.emit(event)
    emitter.emit(yaml.DocumentEndEvent(explicit=False))
    emitter.emit(yaml.StreamEndEvent())
    return output.getvalue()


def _events(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=False)
        for key in yaml_order.ordered(value):
            yield _text(key)
            yield from _events(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for inner in value:
            yield from _events(inner)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        yield _text(value)
    else:
        yield yaml.ScalarEvent(None, None, _BOTH, _number(value), style=_PLAIN)


def _text(text: str) -> Any:
    style = _LITERAL if "\n" in text else _PLAIN if reads_as_string(text) else _DOUBLE
    return yaml.ScalarEvent(None, None, _BOTH, text, style=style)


def _number(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():
        mantissa, e, exponent = repr(value).partition("e")
        return mantissa.removesuffix(".0") + e + exponent
    return json.encode(value).decode()
