"""`PolicyPart`: the policies in CEL, as a control plane takes them. See also: ``controlplane.parts``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from oarlock.client.informer import Informer
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.policy.admission.policy_counts import PolicyCounts
from oarlock.policy.authz.access import Access
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["PolicyPart"]


class PolicyPart:
    """What `APIServer` is given for policies; `live` is what that server serves, `access` who may do what there.

    `namespaces` are those of the server, in an informer that another part runs. What policies do counts in `counts`.
    """

    def __init__(
        self,
        live: LiveCatalog,
        access: Access,
        runner: ExpressionRunner,
        namespaces: Informer[Namespace],
        counts: PolicyCounts,
    ) -> None:
        policies = Informer(ValidatingAdmissionPolicy)
        bindings = Informer(ValidatingAdmissionPolicyBinding)
        self._params = ParamReader(live)
        mutating, mutating_bindings = Informer(MutatingAdmissionPolicy), Informer(MutatingAdmissionPolicyBinding)
        self.serve: Sequence[Any] = [
            ValidatingPolicyCollection,
            ValidatingPolicyBindingCollection,
            MutatingPolicyCollection,
            MutatingPolicyBindingCollection,
        ]
        self.admission: Sequence[Any] = [
            PolicyParamPermission(access, self._params),
            BindingParamPermission(access, self._params, policies),
            MutatingPolicyParamPermission(access, self._params),
            MutatingBindingParamPermission(access, self._params, mutating),
            MutatingPolicies(mutating, mutating_bindings, namespaces, runner, self._params, counts),
            ValidatingPolicies(policies, bindings, namespaces, runner, self._params, counts),
        ]
        self.informers: Sequence[Informer[Any]] = [policies, bindings, mutating, mutating_bindings]
        self.controllers = {"validatingadmissionpolicy-status-controller": PolicyStatus(live, policies)}

    async def start(self, client: Client) -> None:
        self._params.client = client
