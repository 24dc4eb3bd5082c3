"""What a server may do with objects of its cluster: as its controllers declare it, and as ``--allow`` says.

See also: `rights`, which makes a role of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any

from oarlock.client.kinds import ref_of_class, split_kind
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.cluster import ClusterControllers
from oarlock.meta.kinds import GroupVersion
from oarlock.policy.authz.known_rules import AccessRule
from oarlock.schema.types.definitions import plural_of
from oarlock.server.app import APIServer

__all__ = ["allowed_rule", "cluster_needs", "reached"]

READ = ("get", "list", "watch")
CHANGE = (*READ, "patch", "update")
OWN = (*READ, "create", "delete", "patch", "update")
EVENTS = AccessRule(("create", "patch"), ("events.k8s.io", ""), ("events",))
LEASES = AccessRule(("create", "get", "update"), ("coordination.k8s.io",), ("leases",))


def cluster_needs(server: APIServer) -> Iterator[AccessRule]:
    """What controllers on the cluster need, a rule for each resource."""
    groups = [group for group in server.controllers if isinstance(group, ClusterControllers)]
    verbs: dict[tuple[str, str], set[str]] = {}
    for controller in (controller for group in groups for controller in group.controllers):
        for resource, needed in _of_controller(controller):
            verbs.setdefault(resource, set()).update(needed)
    for (group, plural), all_verbs in sorted(verbs.items()):
        yield AccessRule(tuple(sorted(all_verbs)), (group,), (plural,))
    if groups:
        yield EVENTS
    if any(group.election is not None for group in groups):
        yield LEASES


def _of_controller(controller: ControllerBase[Any]) -> Iterator[tuple[tuple[str, str], Iterable[str]]]:
    options = controller.__options__
    group, resource = _resource(controller.__kind__)
    yield (group, resource), CHANGE
    yield (group, f"{resource}/status"), ("patch", "update")
    if options.finalizer or options.owns:
        yield (group, f"{resource}/finalizers"), ("update",)  # who may set owners that block their deletion
    for kind in options.owns:
        yield _resource(kind), OWN
    for watched in options.watches:
        yield _resource(watched.kind), READ


def _resource(kind: Any) -> tuple[str, str]:
    """Group and plural of a declared class, or of ``group/version/Kind``."""
    if isinstance(kind, str):
        api_version, name = split_kind(kind)
        return GroupVersion.parse(api_version).group, plural_of(name)
    ref = ref_of_class(kind)
    return ref.group, ref.plural


def reached(text: str) -> tuple[str, int]:
    """``5432`` or ``10.0.0.0/8:5432`` as a block of addresses, empty for all, and a port. Raises ValueError."""
    block, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: write PORT or CIDR:PORT, such as 5432 or 10.0.0.0/8:5432")
    return (str(ip_network(block.strip("[]"))) if block else ""), int(port)


def allowed_rule(text: str) -> AccessRule:
    """``get,list:pods,deployments.apps`` as a rule; all resources of one rule in one group. Raises ValueError."""
    verbs, colon, resources = text.partition(":")
    named = [resource.partition(".")[::2] for resource in resources.split(",")]
    if not colon or not all(verbs.split(",")) or not all(name for name, _ in named):
        raise ValueError(f"{text!r}: write VERBS:RESOURCES, such as get,list,watch:nodes or get:deployments.apps")
    groups = {group for _, group in named}
    if len(groups) > 1:
        raise ValueError(f"{text!r} has resources of several groups: give it once for each")
    return AccessRule(tuple(verbs.split(",")), tuple(groups), tuple(name for name, _ in named))
