"""Label and field selectors over the trees of a virtual resource, which has no cache.

Metadata is the same in every version; other fields are compared in the request version, so the caller converts first.
Must not know: methods, paging. See also: `virtual.resource`; `selection`, the same for stored resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from oarlock.meta import fields, labels
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import ListOptions
from oarlock.registry.read.selection import COMPILED_AT_ONCE, SelectedKind, unknown_field
from oarlock.schema.compiled import CompiledVersion
from oarlock.storage.pacing import Pacer

__all__ = ["Choice", "choose", "chosen"]

_STEP = 63
"""The clock is looked at after every 64th tree."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A selector: `metadata` tests metadata, `content` the object in the request version; None tests nothing."""

    metadata: Callable[[Tree], bool]
    content: Callable[[Tree], bool] | None
    everything: bool

    def matches(self, shown: Tree) -> bool:
        """Whether an object in the request version is selected."""
        return self.metadata(shown["metadata"]) and (self.content is None or self.content(shown))


async def choose(
    options: ListOptions, selectable: tuple[str, ...], compiled: CompiledVersion, kind: SelectedKind
) -> Choice:
    """Compile the selectors of a list or watch; long ones in a thread.

    Raises BadRequest for a selector that can't be parsed, has too many terms or names a field not in `selectable`.
    """
    if len(options.label_selector) + len(options.field_selector) <= COMPILED_AT_ONCE:
        return _choice(options, selectable, compiled, kind)
    return await asyncio.get_running_loop().run_in_executor(None, _choice, options, selectable, compiled, kind)


def _choice(options: ListOptions, selectable: tuple[str, ...], compiled: CompiledVersion, kind: SelectedKind) -> Choice:
    try:
        wanted = labels.parse(options.label_selector)
        conditions = fields.parse(options.field_selector).conditions()
    except ValueError as error:
        raise BadRequest(str(error)) from None
    places = {path.removeprefix("."): at for at, path in enumerate(selectable)}
    of_metadata: list[tuple[str, fields.FieldCondition]] = []
    of_content: list[tuple[int, fields.FieldCondition]] = []
    for condition in conditions:
        field = condition.field
        if not kind.selects(field, places):
            raise BadRequest(unknown_field(field, places))
        if field in ("metadata.name", "metadata.namespace"):
            of_metadata.append((field.partition(".")[2], condition))
        else:
            of_content.append((places[field], condition))

    def metadata(tree: Tree) -> bool:
        if not wanted.matches(tree.get("labels") or {}):
            return False
        return all(condition.holds(tree.get(field, "")) for field, condition in of_metadata)

    def content(tree: Tree) -> bool:
        values = compiled.selectable_values(tree)
        return all(condition.holds(values[at]) for at, condition in of_content)

    return Choice(metadata, content if of_content else None, wanted.empty and not conditions)


async def chosen(trees: Iterable[Tree], test: Callable[[Tree], bool]) -> list[Tree]:
    """The trees that pass `test`, in slices between which the event loop runs."""
    pacer, found = Pacer(), []
    for number, tree in enumerate(trees):
        if test(tree):
            found.append(tree)
        if not number & _STEP:
            await pacer.turn()
    return found
