"""Merges the values of several sources, flags over the configuration file over defaults, into one `OptionGroup`.

Problems are told by the name that the user gave: the flag, or the file with line and field.
Must not know: how sources are read. See also: `flags`, `file`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, field
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import ConfigError, Option, OptionGroup, options_of, quoted_fields
from oarlock.server.options.unused import UnusedFlag

__all__ = ["Layer", "merged"]

G = TypeVar("G", bound=OptionGroup)


@dataclass(slots=True)
class Layer:
    """What one source says.

    `values` are by field; `places` says where each stands (``--secure-port=70000``, ``server.yaml:3: securePort``),
    `names` how the source calls any field. `problems` are lines about what couldn't be read, `failed` the fields that
    have none for that reason; `unused` are flags without effect that were given.
    """

    names: dict[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    unused: list[UnusedFlag] = field(default_factory=list)

    def refuse(self, declared: Option, place: str, why: object) -> None:
        """Note that the value at `place` can't be used."""
        self.failed.add(declared.field)
        self.problems.append(f"{place}: {why}")


def merged(group: type[G], layers: Sequence[Layer]) -> G:
    """The group with the values of the first layer that has each. Raises `ConfigError` with every problem."""
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values.update(layer.values)
    failed = {name for layer in layers for name in layer.failed}
    for declared in options_of(group):
        if declared.default is MISSING and declared.field not in values:  # an argument; its layer has told so
            values[declared.field] = ""
            failed.add(declared.field)
    lines = [line for layer in layers for line in layer.problems]
    try:
        found = group(**values)
    except ConfigError as error:
        for problem in error.problems:
            if not failed & {problem.field, *quoted_fields(problem.text)}:
                lines.append(_told(problem.field, problem.text, layers))
    if lines:
        raise ConfigError(lines)
    return found


def _told(name: str, text: str, layers: Sequence[Layer]) -> str:
    for quoted in quoted_fields(text):
        layer = next((layer for layer in layers if quoted in layer.values), layers[0])
        text = text.replace(f"`{quoted}`", layer.names.get(quoted, quoted))
    place = next((layer.places[name] for layer in layers if name in layer.places), layers[0].names[name])
    return f"{place}: {text}"
