"""The list of all parts of a control plane.

Whoever adds to the control plane writes a module beside this one, or ``part`` in an app of its own, with a function
that makes its part, and lists it here. A part is made anew for each control plane: informers and plugins belong to one
server.
"""

from __future__ import annotations

from dataclasses import replace

from oarlock.apps.admission.part import webhooks_part
from oarlock.apps.admission.permissions import permissions_of
from oarlock.apps.admission.policy_part import policies_part
from oarlock.apps.aggregation.part import aggregation_part
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.controlplane.parts.access import access_part
from oarlock.apps.controlplane.parts.certificates import certificates_part
from oarlock.apps.controlplane.parts.identities import identities_part
from oarlock.apps.controlplane.parts.namespaces import namespaces_part, own_objects_part
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
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.description import ServerAddress

__all__ = ["standard_parts"]


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
            "ControlPlane", f"root_ca_file={file}", f"it holds no certificates in PEM: {error}"
        ) from error

    def with_authorities() -> ServerAddress | None:
        found = address()
        return None if found is None else replace(found, ca=text)

    return replace(around, address=with_authorities)
