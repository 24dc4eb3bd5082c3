"""`DefinitionNaming`: gives CustomResourceDefinitions their names, and says whether they are served.

A definition becomes ``Established`` in the same write that accepts its names, and only after this server serves it: who
sees it may use it. Other servers of the store bring their catalog up to date before they say that something is unknown.
Source: Kubernetes' naming and establishing controllers. See also: `serving`.
"""

from __future__ import annotations

import copy
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from oarlock.apps.controllers.definitions.serving import DefinitionServing
from oarlock.apps.crds.conditions import (
    ESTABLISHED,
    NAMES_ACCEPTED,
    NON_STRUCTURAL,
    TERMINATING,
    ConditionValue,
    condition_of,
    is_true,
    set_condition,
    take_off,
)
from oarlock.apps.crds.conversion import CannotServe
from oarlock.apps.crds.validation import approval_condition
from oarlock.apps.kinds.apiextensions import (
    CLEANUP_FINALIZER,
    GROUP,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.kinds import ResourceRef
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.watched import Watched, any_of, deletion_changed, generation_changed
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Conflict, NotFound, StatusError
from oarlock.meta.kinds import GroupResource
from oarlock.net.trust import trusting
from oarlock.schema.definition import Names
from oarlock.schema.structural.nodes import SchemaError, parse
from oarlock.schema.structural.patterns import structural_errors
from oarlock.schema.types.shapes import replace
from oarlock.schema.types.views import builtins_of
from oarlock.server.description import LiveCatalog


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


KIND = f"{GROUP}/v1/CustomResourceDefinition"
_BAD_CA = ConditionValue(ESTABLISHED, "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
_CLAIMS, _REFUSED = "names in use", "definitions without their names"
_MOST_TOLD = 10


def _has_sound_ca(crd: CustomResourceDefinition) -> bool:
    """Whether the CA of the conversion webhook, if it names one, has a certificate."""
    webhook = crd.spec.conversion.webhook if crd.spec.conversion is not None else None
    config = webhook.client_config if webhook is not None else None
    if config is None or not config.ca_bundle:
        return True
    try:
        trusting(config.ca_bundle)
    except (ValueError, ssl.SSLError):
        return False
    return True


def _structural_mistakes(crd: CustomResourceDefinition) -> str:
    """Why the schemas of a definition aren't structural; empty if they are."""
    found: list[str] = []
    for at, version in enumerate(crd.spec.versions or ()):
        path = f"spec.versions[{at}].schema.openAPIV3Schema"
        schema = None if version.validation is None else version.validation.open_api_v3_schema
        try:
            found += [error.message for error in structural_errors(parse(schema, path), path, complete=False)]
        except SchemaError as error:
            found.append(str(error))
    more = f", and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return ", ".join(found[:_MOST_TOLD]) + more


class DefinitionNaming(
    Controller[CustomResourceDefinition],
    name="crd-naming",
    watches=[Watched(CustomResourceDefinition, to="others_refused")],
):
    """`definitions` is the informer that `serving` reads too."""

    def __init__(
        self, live: LiveCatalog, definitions: Informer[CustomResourceDefinition], serving: DefinitionServing
    ) -> None:
        self._live = live
        self._definitions = definitions
        self._serving = serving
        self._clock: TimerClock
        definitions.add_index(_CLAIMS, lambda crd: claims_of(crd.spec.group, crd.status.accepted_names))
        definitions.add_index(_REFUSED, lambda crd: () if is_true(crd, NAMES_ACCEPTED) else (crd.spec.group,))

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    def others_refused(self, crd: CustomResourceDefinition) -> Iterable[ObjectKey]:
        """The definitions of the same group that may get their names now."""
        others = self._definitions.by_index(_REFUSED, crd.spec.group)
        return [ObjectKey("", other.metadata.name) for other in others if other.metadata.name != crd.metadata.name]

    async def reconcile(self, key: ObjectKey) -> None:
        crd = self._definitions.get(key.name)
        if crd is None or crd.metadata.deletion_timestamp:
            return
        wanted = self._decided(crd)
        if is_true(wanted, ESTABLISHED) and not is_true(crd, ESTABLISHED):
            try:
                await self._serving.serve(wanted)
            except CannotServe as error:
                why = ConditionValue(ESTABLISHED, "False", "CannotServe", str(error))
                set_condition(wanted, why, self._clock.now())
        violations = _structural_mistakes(crd) if self._serving.failure(key.name) else ""
        if violations:
            condition = ConditionValue(NON_STRUCTURAL, "True", "Violations", violations)
            set_condition(wanted, condition, self._clock.now())
        else:
            take_off(wanted, NON_STRUCTURAL)
        if wanted.status == crd.status:
            return

        try:
            await self.client.patch(KIND, key.name, _status_patch(crd, wanted), subresource="status")
        except (Conflict, NotFound):
            pass  # it has changed, of which the informer tells, or is gone

    def _decided(self, crd: CustomResourceDefinition) -> CustomResourceDefinition:
        """A copy with the status that it should have."""
        decision = decide_names(crd, lambda claim: self._is_taken(crd, claim))
        made = replace(crd, status=copy.deepcopy(crd.status))
        made.status.accepted_names = decision.accepted
        now = self._clock.now()
        for value in _values(decision, established=is_true(crd, ESTABLISHED)):
            set_condition(made, value, now)
        approval = approval_condition(crd.spec.group, crd.metadata.annotations)
        if approval is not None:
            set_condition(made, approval, now)
        if is_true(made, ESTABLISHED) and not is_true(crd, ESTABLISHED) and not _has_sound_ca(crd):
            set_condition(made, _BAD_CA, now)
        return made

    def _is_taken(self, crd: CustomResourceDefinition, claim: str) -> bool:
        name = crd.metadata.name
        others = self._definitions.by_index(_CLAIMS, claim)
        return any(other.metadata.name != name for other in others) or claim in self._of_kinds(crd.spec.group)

    def _of_kinds(self, group: str) -> frozenset[str]:
        """The names in a group of what isn't defined by an object."""
        catalog = self._live.current
        found = None if catalog is None else catalog.groups.get(group)
        claims: set[str] = set()
        for plural, served in found.resources.items() if found is not None else ():
            if not self._serving.has(f"{plural}.{group}"):
                claims.update(resource_claims(group, served.definition.names))
        return frozenset(claims)


def _status_patch(crd: CustomResourceDefinition, wanted: CustomResourceDefinition) -> dict[str, Any]:
    """A patch of what `crd` says, at that revision, to the names and conditions of `wanted`."""
    status = builtins_of(wanted.status)
    names = {**dict.fromkeys(("singular", "shortNames", "listKind", "categories")), **status["acceptedNames"]}
    version = crd.metadata.resource_version
    return {
        "metadata": {"resourceVersion": version},
        "status": {"acceptedNames": names, "conditions": status["conditions"]},
    }


def _values(decision: NamesDecision, *, established: bool) -> Iterable[ConditionValue]:
    """The conditions after a decision on names."""
    if decision.reason:
        yield ConditionValue(NAMES_ACCEPTED, "False", decision.reason, decision.message)
        if not established:
            yield ConditionValue(ESTABLISHED, "False", "NotAccepted", "not all names are accepted")
        return
    yield ConditionValue(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found")
    if not established:
        yield ConditionValue(ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted")


FAILED = "InstanceDeletionFailed"
KEPT = Result(1.0, longest_s=60.0)
"""Objects that somebody's finalizers keep are looked at again."""


class InstanceDeletion(
    Controller[CustomResourceDefinition],
    name="crd-finalizer",
    when=any_of(deletion_changed, generation_changed),
):
    """Objects that have finalizers are waited for. The resource is withdrawn before its definition goes.

    `forget` is told of each resource of which nothing is stored any more.
    """

    _clock: TimerClock

    def __init__(self, serving: DefinitionServing, forget: Callable[[GroupResource], Awaitable[None]]) -> None:
        self._serving = serving
        self._forget = forget

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        crd = self.informer.get(key.name)
        if crd is None or not crd.metadata.deletion_timestamp or CLEANUP_FINALIZER not in crd.metadata.finalizers:
            return None
        if not is_true(crd, ESTABLISHED):
            await self._update_condition(key.name, ConditionValue(TERMINATING, "False", "NeverEstablished", _NEVER))
            await self._remove_finalizer(key.name)
            return None
        before = condition_of(crd, TERMINATING)
        if before is None or before.reason != FAILED:
            await self._update_condition(
                key.name, ConditionValue(TERMINATING, "True", "InstanceDeletionInProgress", _IN_PROGRESS)
            )
        try:
            left = await self._delete_objects(crd)
        except StatusError as error:
            why = f"could not list instances: {error.message}"
            await self._update_condition(key.name, ConditionValue(TERMINATING, "True", FAILED, why))
            raise
        if left:
            await self._update_condition(
                key.name, ConditionValue(TERMINATING, "True", "InstanceDeletionInProgress", _IN_PROGRESS)
            )
            return KEPT
        await self._update_condition(
            key.name, ConditionValue(TERMINATING, "False", "InstanceDeletionCompleted", _COMPLETED)
        )
        await self._serving.caught_up()
        await self._forget(GroupResource(crd.spec.group, crd.status.accepted_names.plural))
        await self._remove_finalizer(key.name)
        return None

    async def _delete_objects(self, crd: CustomResourceDefinition) -> int:
        """Delete all objects; returns how many are left."""
        await self._serving.caught_up()
        stored = next((version.name for version in crd.spec.versions or () if version.storage), "")
        names, namespaced = crd.status.accepted_names, crd.spec.scope == "Namespaced"
        kind = ResourceRef(GroupResource(crd.spec.group, names.plural), stored, names.kind, namespaced)
        namespaces: dict[str, None] = {}
        async for obj in self.client.list(kind):
            namespaces[obj["metadata"].get("namespace", "")] = None
        for namespace in namespaces:
            await self.client.delete_collection(kind, namespace=namespace)
        left = 0
        async for _ in self.client.list(kind):
            left += 1
        return left

    async def _update_condition(self, name: str, value: ConditionValue) -> None:
        def change(crd: CustomResourceDefinition) -> None:
            set_condition(crd, value, self._clock.now())

        try:
            await self.client.change(CustomResourceDefinition, name, change, subresource="status")
        except NotFound:
            pass  # it is gone already

    async def _remove_finalizer(self, name: str) -> None:
        def change(crd: CustomResourceDefinition) -> None:
            crd.metadata.finalizers = [
                finalizer for finalizer in crd.metadata.finalizers if finalizer != CLEANUP_FINALIZER
            ]

        try:
            await self.client.change(CustomResourceDefinition, name, change)
        except NotFound:
            pass  # another server was faster


_NEVER = "resource was never established"
_IN_PROGRESS = "CustomResource deletion is in progress"
_COMPLETED = "removed all instances"
