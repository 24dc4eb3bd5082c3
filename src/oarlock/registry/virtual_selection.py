"""Which objects of a virtual resource a request selects: trees are looked at, since there is no cache to ask.

Metadata is the same in every version; the other fields are those of the request version, so whoever asks converts
first. Must not know: methods, paging. Next: `virtual_resource`; `selection` is the same for stored resources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oarlock.meta import fields, labels
from oarlock.meta.errors import BadRequest
from oarlock.meta.options import ListOptions
from oarlock.registry.selection import unknown_field
from oarlock.registry.served import Tree
from oarlock.schema.compiled import CompiledVersion

__all__ = ["Choice", "choose"]


@dataclass(frozen=True, slots=True)
class Choice:
    """`metadata` looks at an object's metadata, `content` at the object in the request version; None: at nothing."""

    metadata: Callable[[Tree], bool]
    content: Callable[[Tree], bool] | None
    everything: bool

    def matches(self, shown: Tree) -> bool:
        """Whether an object in the request version is selected."""
        return self.metadata(shown["metadata"]) and (self.content is None or self.content(shown))


def choose(options: ListOptions, selectable: tuple[str, ...], compiled: CompiledVersion) -> Choice:
    """Raises BadRequest for a selector that can't be read or names a field that isn't `selectable`."""
    try:
        wanted = labels.parse(options.label_selector)
        requirements = fields.parse(options.field_selector).requirements
    except ValueError as error:
        raise BadRequest(str(error)) from None
    places = {path.removeprefix("."): at for at, path in enumerate(selectable)}
    of_metadata: list[tuple[str, bool, str]] = []
    of_content: list[tuple[int, bool, str]] = []
    for field, operator, value in requirements:
        if field in ("metadata.name", "metadata.namespace"):
            of_metadata.append((field.partition(".")[2], operator != "!=", value))
        elif field in places:
            of_content.append((places[field], operator != "!=", value))
        else:
            raise BadRequest(unknown_field(field, places))

    def metadata(tree: Tree) -> bool:
        if not wanted.matches(tree.get("labels") or {}):
            return False
        return all((tree.get(field, "") == value) is equal for field, equal, value in of_metadata)

    def content(tree: Tree) -> bool:
        values = compiled.selectable_values(tree)
        return all((values[at] == value) is equal for at, equal, value in of_content)

    return Choice(metadata, content if of_content else None, wanted.empty and not requirements)
