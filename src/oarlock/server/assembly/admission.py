"""The admission chain of a server: its plugins, and what they may ask about access."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.policy.admission.chain import AdmissionChain, AdmissionPlugin
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.policy.authz.authorizer import Authorizer, forbidden
from oarlock.server.description import ServerDescription

__all__ = ["admission_of"]


def admission_of(server: ServerDescription, authorizer: Authorizer) -> AdmissionChain:
    """The chain of the server's plugins. `authorizer` decides about verbs that a write needs besides its own."""

    async def authorize(ctx: Context, verb: str) -> None:
        target = replace(ctx.target, verb=verb)
        decision = await authorizer.decide(ctx.user, target)
        if not decision.allowed:
            raise forbidden(ctx.user, target, decision.reason)

    return AdmissionChain(map(_member, server.admission), authorize, server.admission_counts)


def _member(plugin: Admission[Any] | AdmissionPlugin) -> AdmissionPlugin:
    return TypedPlugin(plugin) if isinstance(plugin, Admission) else plugin
