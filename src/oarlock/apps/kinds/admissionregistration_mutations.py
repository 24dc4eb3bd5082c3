"""``admissionregistration.k8s.io``: policies in CEL that change what is written, and where they are in force.

Source: Kubernetes API reference, v1; KEP-3962.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.admissionregistration import (
    BINDING_COLUMNS,
    GROUP,
    PARAM_KIND_COLUMN,
    MatchCondition,
    MatchResources,
    ParamKind,
    ParamRef,
    Variable,
    default_selectors,
)
from oarlock.apps.kinds.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, ListMap, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model


class PatchExpression(Model):
    """An expression that makes a patch."""

    expression: Text = ""


class Mutation(Model):
    """One patch: an apply configuration or a JSON patch, as `patch_type` says."""

    patch_type: str = ""
    apply_configuration: PatchExpression | None = None
    json_patch: PatchExpression | None = None


class MutatingAdmissionPolicySpec(Model):
    """Which requests, and what is changed of them."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    variables: Annotated[list[Variable], OmitEmpty, Atomic] = []
    mutations: Annotated[list[Mutation], OmitEmpty, Atomic] = []
    failure_policy: str = "Fail"
    match_conditions: Annotated[list[MatchCondition], OmitEmpty, ListMap("name"), PatchMerge("name")] = []
    reinvocation_policy: Text = ""


class MutatingAdmissionPolicy(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    plural="mutatingadmissionpolicies",
    unconditional_update=True,
    columns=[
        Column(
            "Mutations",
            type="integer",
            expression="has(self.spec.mutations) ? self.spec.mutations.size() : 0",
            description="Mutation indicates the number of mutations rules defined in this configuration",
        ),
        PARAM_KIND_COLUMN,
        AGE,
    ],
):
    """What is changed of requests; in force where a binding says so."""

    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()

    def default(self) -> None:
        default_selectors(self.spec.match_constraints)


class MutatingAdmissionPolicyBindingSpec(Model):
    """Which policy, with which parameters, for what."""

    policy_name: Text = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None


class MutatingAdmissionPolicyBinding(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    unconditional_update=True,
    columns=BINDING_COLUMNS,
):
    """Where a policy is in force."""

    spec: MutatingAdmissionPolicyBindingSpec = MutatingAdmissionPolicyBindingSpec()

    def default(self) -> None:
        default_selectors(self.spec.match_resources)
