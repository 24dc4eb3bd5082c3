"""Namespaces, and what they ask of every object in them."""

from __future__ import annotations

from oarlock.apps.controllers.namespaces.deletion import NamespaceDeletion
from oarlock.apps.controlplane.collections.namespaces import (
    NamespaceCollection,
    NamespaceLifecycle,
    create_system_namespaces,
)
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["namespaces_part"]


def namespaces_part(live: LiveCatalog, known: Informer[Namespace]) -> ControlPlanePart:
    """Namespaces, and what they ask of every object in them. `known` are those that there are, for other parts too."""
    return ControlPlanePart(
        "namespaces",
        serve=[NamespaceCollection],
        admission=[NamespaceLifecycle(known)],
        informers=[known],
        controllers={"namespace-controller": NamespaceDeletion(live)},
        start=create_system_namespaces,
    )
