"""The list of all parts of a control plane.

Whoever adds to the control plane writes a module beside this one, or ``part`` in an app of its own, with a function
that makes its part, and lists it here. A part is made anew for each control plane: informers and plugins belong to one
server.
"""

from __future__ import annotations

from dataclasses import replace

from oarlock.apps.admission.part import webhooks_part
from oarlock.apps.admission.policy_part import permissions_of, policies_part
from oarlock.apps.aggregation.part import aggregation_part
from oarlock.apps.controllers.namespaces import NamespaceDeletion
from oarlock.apps.controllers.own_objects import OwnObjects, PublishedTrust, Upkeep, keep_tracking
from oarlock.apps.controlplane.collections.namespaces import (
    NamespaceCollection,
    NamespaceLifecycle,
    create_system_namespaces,
)
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.controlplane.parts.identities import access_part, certificates_part, identities_part
from oarlock.apps.controlplane.parts.objects import (
    configuration_part,
    coordination_part,
    flow_control_part,
    garbage_collection_part,
    migration_part,
    quotas_part,
)
from oarlock.apps.crds.part import definitions_part
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.apps.workloads.part import workloads_part
from oarlock.client.informers.informer import Informer
from oarlock.net.trust import trusting
from oarlock.policy.admission.expressions import ExpressionRunner
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.description import LiveCatalog, ServerAddress


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


def own_objects_part(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """What the server says of itself in objects, and brings back when it is removed."""
    own = OwnObjects(around.address, around.options)
    steps = (create_system_namespaces, trust.publish, own.publish, keep_tracking)
    return ControlPlanePart(
        "systemobjects",
        controllers={"system-objects-controller": Upkeep(own.renew, steps)},
        everywhere=("system-objects-controller",),
        needs=("namespaces", "configuration", "coordination"),
        start=own.start,
    )


def standard_parts(around: PartSurroundings) -> list[ControlPlanePart]:
    """Every part, in the order in which their admission plugins are asked and their `start` is called."""
    around = _with_address(around)
    namespaces, runner = Informer(Namespace), ExpressionRunner(permissions_of(around.access))
    trust = PublishedTrust(around.identities)
    return [
        definitions_part(around.live, around.store),
        aggregation_part(around, trust),
        namespaces_part(around.live, namespaces),
        configuration_part(),
        identities_part(around, trust),
        coordination_part(),
        access_part(around.access),
        flow_control_part(),
        workloads_part(around),
        garbage_collection_part(around),
        own_objects_part(around, trust),
        certificates_part(around),
        migration_part(around),
        policies_part(around, namespaces, runner),
        webhooks_part(around, namespaces, runner),
        quotas_part(around.live),
    ]


def _with_address(around: PartSurroundings) -> PartSurroundings:
    """`around` whose address has the CAs of ``--root-ca-file``, if they are given. Raises KeywordError."""
    file, address = around.options.root_ca_file, around.address
    if file is None:
        return around
    try:
        text = file.read_bytes()
        trusting(text)
    except (OSError, ValueError) as error:
        raise KeywordError(
            "ControlPlane", f"root_ca_file={file}", f"it contains no PEM certificates: {error}"
        ) from error

    def with_authorities() -> ServerAddress | None:
        found = address()
        return None if found is None else replace(found, ca=text)

    return replace(around, address=with_authorities)
