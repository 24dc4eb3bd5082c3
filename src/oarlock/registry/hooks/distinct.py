"""Checks that names of resources (plural, singular, short names, kinds) are unique within a group.

Must not know: classes. See also: `declare`, which calls it. Source: the naming rules of CustomResourceDefinitions,
which accept only the first resource with a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarlock.registry.served import Served
from oarlock.schema.definition import Names
from oarlock.schema.types.declaring import DuplicateError

__all__ = ["check_distinct"]


_OTHER_VERSIONS = (
    "another version is a Spoke[…] of the Resource class, and a Foreign type has one; another kind has another plural= "
    "and kind="
)


def check_distinct(declared: Iterable[tuple[Served, str]]) -> None:
    """Raise DuplicateError for the first name that is taken. The text with each resource is its ``file:line`` or ""."""
    kinds: set[tuple[str, str]] = set()
    taken: dict[tuple[str, str], tuple[int, str]] = {}
    for at, (served, place) in enumerate(declared):
        definition = served.definition
        group, names = definition.group, definition.names
        subject = str(definition.group_resource)
        if (group, names.kind) in kinds:
            what = f"two declarations of the kind {names.kind!r}"
            raise DuplicateError(subject, what, _OTHER_VERSIONS, place)
        kinds.add((group, names.kind))
        for keyword, name in _names_of(names):
            other, of_other = taken.setdefault((group, name), (at, f"{keyword} of {names.kind}"))
            if other != at:
                what = f"its {keyword} {name!r} is taken: it is the {of_other}"
                raise DuplicateError(subject, what, "names are looked up in one table: choose another", place)


def _names_of(names: Names) -> Iterator[tuple[str, str]]:
    """Every name that clients may use for the resource, with what kind of name it is."""
    yield "plural", names.plural
    yield "singular", names.singular
    yield "kind", names.kind.lower()
    for name in names.short_names:
        yield "short name", name
