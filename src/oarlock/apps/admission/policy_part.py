"""The policies in CEL, as a control plane takes them."""

from __future__ import annotations

from oarlock.apps.admission.mutating_policies import MutatingPolicyBindingCollection, MutatingPolicyCollection
from oarlock.apps.admission.mutation_plugin import MutatingPolicies
from oarlock.apps.admission.param_permissions import (
    BindingParamPermission,
    MutatingBindingParamPermission,
    MutatingPolicyParamPermission,
    PolicyParamPermission,
)
from oarlock.apps.admission.policies import ValidatingPolicyBindingCollection, ValidatingPolicyCollection
from oarlock.apps.admission.policy_params import ParamReader
from oarlock.apps.admission.policy_plugin import ValidatingPolicies
from oarlock.apps.controllers.policy_status import PolicyStatus
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.admissionregistration_mutations import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from oarlock.apps.kinds.admissionregistration_policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.policy.admission.expressions.waiting import ExpressionRunner

__all__ = ["policies_part"]


def policies_part(
    around: PartSurroundings, namespaces: Informer[Namespace], runner: ExpressionRunner
) -> ControlPlanePart:
    """What must be true of requests, in CEL. Asked when every object is final, and before quotas are charged.

    `namespaces` are those of the server, in an informer that another part runs.
    """
    access, live, counts = around.access, around.live, around.admission_counts.policies
    policies = Informer(ValidatingAdmissionPolicy)
    bindings = Informer(ValidatingAdmissionPolicyBinding)
    mutating, mutating_bindings = Informer(MutatingAdmissionPolicy), Informer(MutatingAdmissionPolicyBinding)
    params = ParamReader(live)

    async def start(client: Client) -> None:
        params.client = client

    return ControlPlanePart(
        "policies",
        serve=[
            ValidatingPolicyCollection,
            ValidatingPolicyBindingCollection,
            MutatingPolicyCollection,
            MutatingPolicyBindingCollection,
        ],
        admission=[
            PolicyParamPermission(access, params),
            BindingParamPermission(access, params, policies),
            MutatingPolicyParamPermission(access, params),
            MutatingBindingParamPermission(access, params, mutating),
            MutatingPolicies(mutating, mutating_bindings, namespaces, runner, params, counts),
            ValidatingPolicies(policies, bindings, namespaces, runner, params, counts),
        ],
        informers=[policies, bindings, mutating, mutating_bindings],
        controllers={"validatingadmissionpolicy-status-controller": PolicyStatus(live, policies)},
        needs=("namespaces",),
        start=start,
    )
