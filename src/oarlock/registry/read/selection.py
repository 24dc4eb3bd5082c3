"""Label and field selectors over cache entries, compiled to one predicate and one list filter.

A filter is a chain of list comprehensions, one for each kind of test, so filtering 10,000 entries takes about a
millisecond; where a value is required of a label or field, the leaves of the cache soon have an index for it. The time
for one entry depends on its labels, not on the number of the selector's terms (see `labels`). A selector's text is
never executed as code; what it is compiled to is remembered, within bounds in bytes (`SelectionMemo`).
Must not know: HTTP. See also: `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from oarlock.meta import errors, fields, labels
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import Leaf, LeafColumn
from oarlock.storage.pacing import Pacer

Matches = Callable[[Entry], bool]
Pick = Callable[[Sequence[Entry]], list[Entry]]

COMPILED_AT_ONCE = 4096
"""Selectors up to this many characters are compiled at once, in a millisecond or two; longer ones in a thread."""

_STEP = 256
"""How many entries are filtered between two looks at the clock."""

_CHAINED = 4
"""Up to this many equality terms are tested one after the other: the first leaves few entries for the next."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled selector: `matches` tests one entry, `pick` filters many.

    `namespace` and `name` are the values that field selectors require, if any. `version` is the one whose selectable
    fields are compared, empty if none are. `required` is a value that one label or field must have, with `rest` for
    the entries that have it.
    """

    matches: Matches
    pick: Pick
    everything: bool = False
    namespace: str | None = None
    name: str | None = None
    version: str = ""
    required: tuple[LeafColumn, str] | None = None
    rest: Pick | None = None

    async def filter(self, chunks: Iterable[Sequence[Entry]], pacer: Pacer | None = None) -> list[Entry]:
        """Filter many entries, in slices between which the event loop runs."""
        pacer, chosen = pacer or Pacer(), list[Entry]()
        required, rest = self.required, self.rest
        for chunk in chunks:
            if required is not None and isinstance(chunk, Leaf):
                found = chunk.having(*required)
                chosen += rest(found) if rest is not None and found else found
                if pacer.due:
                    await pacer.turn()
                continue
            for start in range(0, len(chunk), _STEP):
                chosen += self.pick(chunk if len(chunk) <= _STEP else chunk[start : start + _STEP])
                await pacer.turn()
        return chosen


EVERYTHING = Selection(lambda entry: True, list, everything=True)


class SelectionMemo:
    """The compiled selectors of recent requests, of all resources of a server."""

    __slots__ = ("remembered",)

    def __init__(self, limit_bytes: int = 4 * 1024 * 1024) -> None:
        self.remembered: Memo[tuple[object, ...], Selection] = Memo(limit_bytes, entry_bytes=4096, per_byte=400)

    def compiled(
        self, label_text: str, field_text: str, selectable: Mapping[str, int], version: str, kind: SelectedKind
    ) -> Selection:
        """As `compile_selection`."""
        key = (label_text, field_text, version, *kind, *selectable.items())
        selection = self.remembered.get(key)
        if selection is None:
            selection = compile_selection(label_text, field_text, selectable, version, kind)
            self.remembered.put(key, selection, len(label_text) + len(field_text))
        return selection


class _Test(NamedTuple):
    """One condition, as a predicate and as a filter. `required`: the only value that a label or field may have."""

    matches: Matches
    pick: Pick
    required: tuple[LeafColumn, str] | None = None


class SelectedKind(NamedTuple):
    """What the fields are of: a `typed` kind or a custom resource, in namespaces or not."""

    typed: bool = True
    namespaced: bool = True

    def selects(self, field: str, selectable: Collection[str]) -> bool:
        """Whether objects can be selected by this field label.

        Objects without a namespace can be selected by it too, where nothing else is selectable.
        """
        if field == "metadata.namespace":
            return self.namespaced or (self.typed and not selectable)
        return field == "metadata.name" or field in selectable


_BUILT_IN = SelectedKind()


def compile_selection(
    label_text: str,
    field_text: str,
    selectable: Mapping[str, int],
    version: str = "",
    kind: SelectedKind = _BUILT_IN,
) -> Selection:
    """Compile both selectors.

    `selectable` says where in `Entry.fields` the value of each field label (``spec.reference``) of the request
    `version` is; metadata.name is always selectable. Raises BadRequest for a selector that can't be parsed, has too
    many terms or names another field, in the words for such a `kind`.
    """
    if not label_text and not field_text:
        return EVERYTHING
    try:
        by_labels = labels.parse(label_text)
        by_fields = fields.parse(field_text)
    except ValueError as error:
        raise errors.BadRequest(str(error)) from None
    tests = _label_tests(by_labels)
    of_version = False
    for condition in by_fields.conditions():
        if not kind.selects(condition.field, selectable):
            raise errors.BadRequest(unknown_field(condition.field, selectable, kind.typed))
        tests.append(_field_test(condition, selectable))
        of_version |= condition.field not in ("metadata.name", "metadata.namespace")
    if not tests:
        return EVERYTHING
    tests.sort(key=lambda test: test.required is None)
    matches, pick, _ = tests[0] if len(tests) == 1 else _all(tests)
    pinned = by_fields.exact("metadata.namespace"), by_fields.exact("metadata.name")
    rest = None if len(tests) == 1 else _all(tests[1:]).pick
    return Selection(matches, pick, False, *pinned, version if of_version else "", tests[0].required, rest)


def _all(tests: list[_Test]) -> _Test:
    every = [test.matches for test in tests]
    picks = [test.pick for test in tests]
    first, second = every[0], every[-1]

    def matches(entry: Entry) -> bool:
        for requirement in every:  # noqa: SIM110  (a generator costs more than the loop)
            if not requirement(entry):
                return False
        return True

    def pick(entries: Sequence[Entry]) -> list[Entry]:
        for pick in picks:
            entries = pick(entries)
        return list(entries)

    return _Test(matches if len(every) > 2 else lambda e: first(e) and second(e), pick)


def _label_tests(selector: labels.Selector) -> list[_Test]:
    if selector.empty:
        return []
    pairs = [(key, values[0]) for key, operator, values in selector.requirements if _is_equality(operator, values)]
    if len(pairs) == len(selector.requirements) <= _CHAINED:
        return [_label_is(key, value) for key, value in pairs]
    test = selector.matches
    return [_Test(lambda e: test(e.labels), lambda es: [e for e in es if test(e.labels)])]


def _is_equality(operator: str, values: tuple[str, ...]) -> bool:
    return operator in ("=", "==", "in") and len(values) == 1


def _label_is(key: str, value: str) -> _Test:
    """The most common selector, without a function call for each entry."""
    return _Test(
        lambda e: e.labels.get(key) == value,
        lambda es: [e for e in es if e.labels.get(key) == value],
        (key, value),
    )


def _field_test(condition: fields.FieldCondition, selectable: Mapping[str, int]) -> _Test:
    field, holds, value = condition.field, condition.holds, condition.exact
    if field == "metadata.name":
        if value is not None:
            return _Test(lambda e: e.name == value, lambda es: [e for e in es if e.name == value])
        return _Test(lambda e: holds(e.name), lambda es: [e for e in es if holds(e.name)])
    if field == "metadata.namespace":
        if value is not None:
            return _Test(lambda e: e.namespace == value, lambda es: [e for e in es if e.namespace == value])
        return _Test(lambda e: holds(e.namespace), lambda es: [e for e in es if holds(e.namespace)])
    at = selectable[field]
    if value is not None:
        return _Test(lambda e: e.fields[at] == value, lambda es: [e for e in es if e.fields[at] == value], (at, value))
    return _Test(lambda e: holds(e.fields[at]), lambda es: [e for e in es if holds(e.fields[at])])


def unknown_field(field: str, selectable: Collection[str], typed: bool = True) -> str:
    """The error message for an unsupported field label: kinds with selectable fields have another one."""
    if selectable or not typed:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def initialized_only(selection: Selection) -> Selection:
    """The same selection without uninitialized objects; of a resource with initializers."""
    matches, pick = selection.matches, selection.pick

    def picked(entries: Sequence[Entry]) -> list[Entry]:
        return pick([entry for entry in entries if not entry.fields[-1]])

    return replace(
        selection,
        matches=lambda entry: not entry.fields[-1] and matches(entry),
        pick=picked,
        everything=False,
        required=None,  # else only the label or field is looked at
        rest=None,
    )
