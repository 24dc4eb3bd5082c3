"""`PolicyStatus`: the controller that checks the types in policies' expressions, and tells of them in their status.

kube-controller-manager's validatingadmissionpolicy-status-controller. Beyond that, it looks again when what is served
changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from oarlock.apps.admission.policy_types import ObjectTypes, checked_entries, params_entry
from oarlock.apps.kinds.admissionregistration import GROUP, ValidatingAdmissionPolicy
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.transport import TransportError
from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.meta.errors import NotFound, StatusError
from oarlock.policy.admission.policies.engine import TypeWarning, type_warnings
from oarlock.schema.types.views import wire
from oarlock.server.live_catalog import LiveCatalog

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
