"""Where the fields of a configuration file are, for messages about them. See also: `file`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


def lines_of(data: bytes) -> tuple[dict[str, int], int]:
    """The line of each key of the outermost mapping, and how many documents there are. `data` can be decoded."""
    lines: dict[str, int] = {}
    begun, ended, depth, is_key = 0, 0, 0, True
    try:
        for event in _events(data):
            if isinstance(event, yaml.DocumentStartEvent):
                begun += 1
            elif isinstance(event, yaml.DocumentEndEvent):
                ended += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.NodeEvent):
                if depth == 1 and begun == 1:
                    if is_key and isinstance(event, yaml.ScalarEvent) and event.start_mark is not None:
                        lines[event.value] = event.start_mark.line + 1
                    is_key = not is_key
                depth += isinstance(event, yaml.CollectionStartEvent)
    except yaml.YAMLError:  # in JSON that isn't YAML, or after the first document, which alone was decoded
        begun = max(begun, ended + 1)
    return lines, begun


def _events(data: bytes) -> Iterator[Any]:
    parser = yaml.CSafeLoader(data)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()
