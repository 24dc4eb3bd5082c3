"""`PolicyStatus`: the controller that checks the types in policies' expressions, and tells of them in their status.

kube-controller-manager's validatingadmissionpolicy-status-controller. Beyond that, it looks again when what is served
changes. Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (typechecking), ``cel/openapi/resolver``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from oarlock.apps.kinds.admissionregistration import GROUP, ValidatingAdmissionPolicy
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.transport import TransportError
from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.kinds import META
from oarlock.meta.errors import NotFound, StatusError
from oarlock.policy.admission.policies.engine import MOST_TYPES, CheckedType, TypeWarning, type_warnings
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.released.published import meta_types
from oarlock.schema.structural.nodes import Node, SchemaError, parse
from oarlock.schema.types.views import wire
from oarlock.server.description import LiveCatalog


def checked_entries(catalog: Catalog, spec: Mapping[str, Any]) -> tuple[CatalogEntry, ...]:
    """What the rules of a policy name and is served here, at most `MOST_TYPES`, by group, version and kind.

    Rules with wildcards, and subresources, name nothing.
    """
    found: dict[tuple[str, str, str], CatalogEntry] = {}
    for group, version, resource in _named(spec):
        entry = catalog.find(group, version, resource)
        if entry is not None:
            found[entry.gvk.group, entry.gvk.version, entry.gvk.kind] = entry
            if len(found) == MOST_TYPES:
                break
    return tuple(found[name] for name in sorted(found))


def _named(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = _exact(rule.get("apiGroups")), _exact(rule.get("apiVersions"))
        resources = [
            resource for resource in rule.get("resources") or () if "*" not in resource and "/" not in resource
        ]
        for group in groups:
            for version in versions:
                for resource in sorted(resources):
                    yield group, version, resource


def _exact(names: Sequence[str] | None) -> list[str]:
    given = names or ()
    return [] if any("*" in name for name in given) else sorted(given)


def params_entry(catalog: Catalog, spec: Mapping[str, Any]) -> CatalogEntry | None:
    """What serves the kind of a policy's parameters."""
    kind = spec.get("paramKind") or {}
    name, _, version = str(kind.get("apiVersion", "")).rpartition("/")
    group = catalog.group(name)
    entries = [] if group is None else group.of_version(version)
    return next((entry for entry in entries if entry.gvk.kind == kind.get("kind")), None)


class ObjectTypes:
    """Makes a type of an entry's schema, once. May be used in a thread."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[CatalogEntry, DeclaredVariable | None] = WeakKeyDictionary()
        self._metadata = parse(_resolved(meta_types()[f"{META}ObjectMeta"]))

    def checked(self, entries: Sequence[CatalogEntry]) -> list[CheckedType]:
        """The types of those that have one."""
        return [CheckedType(entry.gvk, variable) for entry in entries if (variable := self.variable(entry)) is not None]

    def variable(self, entry: CatalogEntry) -> DeclaredVariable | None:
        """An object as a variable; None where nothing is known of it."""
        if entry not in self._made:
            self._made[entry] = self._variable(entry)
        return self._made[entry]

    def _variable(self, entry: CatalogEntry) -> DeclaredVariable | None:
        try:
            node = parse(entry.version.schema)
        except SchemaError:
            return None
        if not node.properties:
            return None
        text = Node(type="string")
        node.properties = {**node.properties, "apiVersion": text, "kind": text, "metadata": self._metadata}
        decl = declare(node, root=True, path=entry.gvk.kind)
        return None if decl is None else DeclaredVariable(decl.type, decl)


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of the types that every server has, with what it refers to in place."""
    named = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None)
    if named is not None:
        return _resolved(meta_types()[named])
    made = dict(schema)
    if "properties" in schema:
        made["properties"] = {name: _resolved(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _resolved(schema[key])
    return made


FIELD_MANAGER = "validatingadmissionpolicy-status"

MOST_TIME_S = 5.0
"""How long one policy is checked. What isn't checked by then isn't warned of."""

RETRY_S = 5.0
log = logging.getLogger("oarlock.controllers.validatingadmissionpolicy-status")
Entries = tuple[CatalogEntry | None, ...]


class PolicyStatus:
    """A `Runnable`. `live` has the schemas, `policies` are those of the server. It checks in a thread."""

    def __init__(self, live: LiveCatalog, policies: Informer[ValidatingAdmissionPolicy]) -> None:
        self._live = live
        self._policies = policies
        self._types = ObjectTypes()
        self._checked: dict[str, tuple[int, Entries]] = {}
        """By which schemas each generation was checked."""
        self._wake = Flag()
        policies.add_handler(lambda old, new: self._wake.set())

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        self._checked.clear()
        catalog = await self._live.after(None)
        while True:
            self._wake.clear()
            if await self._check_all(client, catalog):
                catalog = await self._live.after_or(catalog, self._wake)
            else:
                await clock.sleep(RETRY_S)

    async def _check_all(self, client: Client, catalog: Catalog) -> bool:
        """Whether the status of every policy could be written."""
        done = True
        policies = {policy.metadata.name: policy for policy in self._policies}
        self._checked = {name: checked for name, checked in self._checked.items() if name in policies}
        for name, policy in policies.items():
            try:
                await self._check(client, catalog, policy)
            except NotFound:
                continue
            except (StatusError, TransportError) as error:
                log.warning("the status of the policy %s can't be written: %s", name, error)
                done = False
            await asyncio.sleep(0)
        return done

    async def _check(self, client: Client, catalog: Catalog, policy: ValidatingAdmissionPolicy) -> None:
        name, generation = policy.metadata.name, policy.metadata.generation or 0
        tree = wire(policy)
        status, spec = tree.get("status") or {}, tree.get("spec") or {}
        entries = (params_entry(catalog, spec), *checked_entries(catalog, spec))
        if self._checked.get(name) == (generation, entries) and status.get("observedGeneration") == generation:
            return
        warnings = await asyncio.to_thread(self._warnings, name, spec, entries)
        type_checking = {
            "expressionWarnings": [{"fieldRef": warning.path, "warning": warning.text} for warning in warnings]
        }
        wanted = {"observedGeneration": generation, "typeChecking": type_checking if warnings else {}}
        if {key: status.get(key) for key in wanted} != wanted:
            applied: dict[str, Any] = {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "status": wanted,
            }
            await client.apply(applied, subresource="status", field_manager=FIELD_MANAGER, force=True)
        self._checked[name] = (generation, entries)

    def _warnings(self, name: str, spec: dict[str, Any], entries: Entries) -> list[TypeWarning]:
        until = time.monotonic() + MOST_TIME_S

        def go_on() -> bool:
            return time.monotonic() < until

        params, *rest = entries
        checked = self._types.checked([checked_type for checked_type in rest if checked_type is not None])
        found = type_warnings(spec, checked, None if params is None else self._types.variable(params), go_on)
        if not go_on():
            log.warning("the policy %s takes more than %g s to check: some of it isn't", name, MOST_TIME_S)
        return found
