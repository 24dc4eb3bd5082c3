"""Which names a CustomResourceDefinition gets: those that no other definition of its group has, nor a built-in kind.

Names of resources (plural, singular, short) and names of kinds (kind, list kind) are two spaces. Pure.
Source: Kubernetes' naming controller of CustomResourceDefinitions. See also: `status`, which writes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from oarlock.apps.kinds.apiextensions import CustomResourceDefinition, CustomResourceDefinitionNames
from oarlock.meta.dataclass import dataclass
from oarlock.schema.definition import Names
from oarlock.schema.types.shapes import replace

__all__ = ["NamesDecision", "claims_of", "decide_names", "resource_claims"]


@dataclass(frozen=True, slots=True)
class NamesDecision:
    """The names that a definition has now. With a conflict, its `reason` and `message`; else these are empty."""

    accepted: CustomResourceDefinitionNames
    reason: str = ""
    message: str = ""


def claims_of(group: str, names: CustomResourceDefinitionNames) -> Iterator[str]:
    """The names in their group and space, as one text each."""
    for name in (names.plural, names.singular, *names.short_names):
        if name:
            yield f"{group}/resource/{name}"
    for name in (names.kind, names.list_kind):
        if name:
            yield f"{group}/kind/{name}"


def resource_claims(group: str, names: Names) -> Iterable[str]:
    """The same of a resource that is served otherwise."""
    given = CustomResourceDefinitionNames(
        plural=names.plural, singular=names.singular, kind=names.kind, list_kind=names.list_kind
    )
    return claims_of(group, replace(given, short_names=list(names.short_names)))


def decide_names(crd: CustomResourceDefinition, is_taken: Callable[[str], bool]) -> NamesDecision:
    """What of the wanted names the definition gets. `is_taken` says whether another has a name, as `claims_of` has it.

    A name that it has already stays its own. Where a name is taken, the former one is kept.
    """
    wanted, accepted = crd.spec.names, replace(crd.status.accepted_names)
    group = crd.spec.group
    conflict = ("", "")

    def refused(space: str, name: str, own: Iterable[str]) -> str:
        taken = bool(name) and name not in own and is_taken(f"{group}/{space}/{name}")
        return f'"{name}" is already in use' if taken else ""

    if why := refused("resource", wanted.plural, (accepted.plural,)):
        conflict = "PluralConflict", why
    else:
        accepted.plural = wanted.plural
    if why := refused("resource", wanted.singular, (accepted.singular,)):
        conflict = "SingularConflict", why
    else:
        accepted.singular = wanted.singular
    taken = [why for name in wanted.short_names if (why := refused("resource", name, accepted.short_names))]
    if taken:
        conflict = "ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]"
    else:
        accepted.short_names = list(wanted.short_names)
    if why := refused("kind", wanted.kind, (accepted.kind,)):
        conflict = "KindConflict", why
    else:
        accepted.kind = wanted.kind
    if why := refused("kind", wanted.list_kind, (accepted.list_kind,)):
        conflict = "ListKindConflict", why
    else:
        accepted.list_kind = wanted.list_kind
    accepted.categories = list(wanted.categories)
    return NamesDecision(accepted, *conflict)
