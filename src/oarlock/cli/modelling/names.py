"""Python names for fields and classes that have names on the wire.

Must not know: schemas, how classes are written.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator
from itertools import count

from oarlock.schema.types.shapes import camel, is_snake_case

_USED_IN_BODIES = frozenset(
    {"bool", "bytes", "classmethod", "datetime", "dict", "field", "float", "int", "list", "str"}
)
"""A field of such a name would stand for it in the rest of its class."""

_METHODS = frozenset({"default", "from_hub", "to_hub"})
"""What a `Resource` or `Spoke` may define."""


def _words(wire: str) -> str:
    """``podCIDRs`` → ``pod_cidrs``; at worst a name that is none."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", wire)
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", plain)
    return re.sub(r"_+", "_", parted).strip("_").lower()


LONGEST_NAME = 48
LONGEST_CLASS = 40
"""Above that, the name of the class around it isn't put before a name that is taken."""


class FieldNames:
    """The names of the fields of one class."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = {*taken}

    def add(self, wire: str, *, whole_object: bool = False) -> tuple[str, bool]:
        """The name for a field, and whether its name on the wire has to be said beside it."""
        name = _words(wire)
        if not name or not name[0].isalpha() or not name.isascii():
            name = f"field_{name}".rstrip("_") if name.isascii() else "field_"
        if keyword.iskeyword(name) or name in _USED_IN_BODIES or (whole_object and name in _METHODS):
            name += "_"
        free = name
        number = 2
        while free in self._taken:
            free = f"{name.rstrip('_')}_{number}"
            number += 1
        self._taken.add(free)
        return free, not is_snake_case(free) or camel(free) != wire


def pascal(wire: str) -> str:
    """``issuerRef`` → ``IssuerRef``."""
    plain = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", wire))
    ascii_only = plain[:LONGEST_NAME] if plain.isascii() else ""
    return ascii_only if ascii_only[:1].isalpha() else f"Field{ascii_only}"


def singular(name: str) -> str:
    """What an item of ``Policies`` or ``Routes`` is called."""
    if name.endswith("ies") and len(name) > 4:
        return name[:-3] + "y"
    if re.search(r"(ss|sh|ch|x)es$", name):
        return name[:-2]
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2:
        return name[:-1]
    return name


def class_name(parent: str, name: str, taken: Collection[str]) -> str:
    """A free name for a class that is in `parent` as `name`."""
    for candidate in _candidates(parent, name):
        if candidate not in taken:
            return candidate
    raise AssertionError("there are always more candidates")


def _candidates(parent: str, name: str) -> Iterator[str]:
    yield name
    longer = name if name.startswith(parent) else parent + name
    if len(longer) > LONGEST_CLASS:
        longer = name
    yield longer
    for number in count(2):
        yield f"{longer}{number}"
