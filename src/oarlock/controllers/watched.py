"""`Watched`: objects of another kind whose changes call a controller, and whose keys they stand for.

See also: `controller`, which declares them; `loop`, which follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oarlock.client.kinds import split_kind
from oarlock.controllers.predicates import Predicate
from oarlock.meta.dataclass import dataclass
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import KeywordError
from oarlock.schema.types.resources import declared

__all__ = ["EVERYTHING", "ObjectSelection", "Watched", "check_kind", "shown_kind"]


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """Which objects of a kind: of a namespace (all of them when empty), with these labels and fields.

    With `include_uninitialized` also those that wait for their initializers.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    include_uninitialized: bool = False


EVERYTHING = ObjectSelection()


@dataclass(frozen=True)
class Watched:
    """Objects of `kind`, and for which keys of the controller's own kind each of them matters.

    `to` returns the keys for one object; or it is the name of a method of the controller that does, which can look at
    ``self.informer``. It is asked for the object before and after a change, and may not wait. `when` says which changes
    count.
    """

    kind: Any
    to: Callable[[Any], Iterable[Any]] | str
    when: Predicate | None = None
    selection: ObjectSelection = EVERYTHING


def check_kind(subject: str, kind: Any) -> None:
    """Raise KeywordError unless `kind` is a declared class, a `Foreign`, or ``group/version/Kind``."""
    if isinstance(kind, str):
        try:
            split_kind(kind)
        except ValueError as error:
            raise KeywordError(subject, str(error)) from None
    elif not isinstance(kind, Foreign):
        try:
            declared(kind)
        except (TypeError, AttributeError):
            advice = "a declared class, or a text such as 'apps/v1/Deployment'"
            raise KeywordError(subject, f"{kind!r:.200} is no kind", advice) from None


def shown_kind(kind: Any) -> str:
    """A kind as messages show it."""
    if isinstance(kind, str):
        return kind.rpartition("/")[2]
    return str(kind.declaration.kind if isinstance(kind, Foreign) else declared(kind).kind)
