"""``admissionregistration.k8s.io``: webhooks that change or refuse what is written.

Source: Kubernetes API reference, v1. See also: ``apps.admission``, what may be in them.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Int32, LabelSelector, MetaCondition, Text, Texts
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, ListMap, ListSet, NullIfAbsent, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "admissionregistration.k8s.io"


class AdmissionServiceReference(Model):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: str | None = None
    port: Int32 = 443


class AdmissionClientConfig(Model):
    """Where a webhook is: a URL or a Service."""

    url: str | None = None
    service: AdmissionServiceReference | None = None
    ca_bundle: Annotated[bytes, OmitEmpty] = b""


class RuleWithOperations(Model):
    """Which operations on which resources."""

    operations: Texts = []
    api_groups: Texts = []
    api_versions: Texts = []
    resources: Texts = []
    scope: str = "*"


class MatchCondition(Model):
    """A condition in CEL: a webhook or a policy is asked about a request only if it holds."""

    name: str = ""
    expression: str = ""


RuleList = Annotated[list[RuleWithOperations], OmitEmpty, Atomic]
Versions = Annotated[list[str] | None, NullIfAbsent, Atomic]
MatchConditions = Annotated[list[MatchCondition], OmitEmpty, ListMap("name"), PatchMerge("name")]


class ValidatingWebhook(Model):
    """A webhook that may refuse what is written."""

    name: str = ""
    client_config: AdmissionClientConfig = AdmissionClientConfig()
    rules: RuleList = []
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    side_effects: str | None = None
    timeout_seconds: Int32 = 10
    admission_review_versions: Versions = None
    match_conditions: MatchConditions = []


class MutatingWebhook(Model):
    """A webhook that may also change what is written."""

    name: str = ""
    client_config: AdmissionClientConfig = AdmissionClientConfig()
    rules: RuleList = []
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    side_effects: str | None = None
    timeout_seconds: Int32 = 10
    admission_review_versions: Versions = None
    reinvocation_policy: str = "Never"
    match_conditions: MatchConditions = []


_COLUMNS = [
    Column(
        "Webhooks",
        type="integer",
        expression="has(self.webhooks) ? self.webhooks.size() : 0",
        description="Webhooks indicates the number of webhooks registered in this configuration",
    ),
    AGE,
]


class ValidatingWebhookConfiguration(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    unconditional_update=True,
    columns=_COLUMNS,
):
    """Webhooks that are asked, side by side, whether something may be written."""

    webhooks: Annotated[list[ValidatingWebhook], OmitEmpty, ListMap("name"), PatchMerge("name")] = []


class MutatingWebhookConfiguration(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    unconditional_update=True,
    columns=_COLUMNS,
):
    """Webhooks that are asked, one after the other, what to change of what is written."""

    webhooks: Annotated[list[MutatingWebhook], OmitEmpty, ListMap("name"), PatchMerge("name")] = []


PARAM_KIND_COLUMN = Column(
    "ParamKind",
    expression=(
        "!has(self.spec.paramKind) ? '<unset>' : "
        "(has(self.spec.paramKind.apiVersion) ? self.spec.paramKind.apiVersion : '') + '/' + "
        "(has(self.spec.paramKind.kind) ? self.spec.paramKind.kind : '')"
    ),
    description="ParamKind specifies the kind of resources used to parameterize this policy",
)

BINDING_COLUMNS = [
    Column(
        "PolicyName",
        ".spec.policyName",
        description="PolicyName indicates the policy definition which the policy binding binded to",
    ),
    Column(
        "ParamRef",
        expression=(
            "!has(self.spec.paramRef) ? '<unset>' : has(self.spec.paramRef.name) ? "
            "(has(self.spec.paramRef.namespace) ? self.spec.paramRef.namespace + '/' : '*/') + "
            "self.spec.paramRef.name : has(self.spec.paramRef.selector) ? 'selector' : '<unset>'"
        ),
        description="ParamRef indicates the param resource which sets the configuration param",
    ),
    AGE,
]


class NamedRuleWithOperations(Model):
    """Which requests: operations on resources, or on those of them that have certain names."""

    resource_names: Texts = []
    operations: Texts = []
    api_groups: Texts = []
    api_versions: Texts = []
    resources: Texts = []
    scope: str = "*"


class MatchResources(Model):
    """Which requests and objects: by rules, and by the labels of the object and its namespace."""

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: Annotated[list[NamedRuleWithOperations], OmitEmpty, Atomic] = []
    exclude_resource_rules: Annotated[list[NamedRuleWithOperations], OmitEmpty, Atomic] = []
    match_policy: str = "Equivalent"


def default_selectors(matched: MatchResources | None) -> None:
    """Without selectors all are meant."""
    if matched is not None:
        matched.namespace_selector = matched.namespace_selector or LabelSelector()
        matched.object_selector = matched.object_selector or LabelSelector()


class ParamKind(Model):
    """The kind of the objects that parameterize a policy."""

    api_version: Text = ""
    kind: Text = ""


class ParamRef(Model):
    """The objects that parameterize a policy where it is bound: one by name, or several by labels."""

    name: Text = ""
    namespace: Text = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: Text = ""


class Validation(Model):
    """An expression that must be true, and what is told if it isn't."""

    expression: str = ""
    message: Text = ""
    reason: Text = ""
    message_expression: Text = ""


class AuditAnnotation(Model):
    """An expression whose text is added to the audit event."""

    key: str = ""
    value_expression: str = ""


class Variable(Model):
    """An expression with a name, for others to use: ``variables.name``."""

    name: str = ""
    expression: str = ""


class ValidatingAdmissionPolicySpec(Model):
    """Which requests, and what must be true of them."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: Annotated[list[Validation], OmitEmpty, Atomic] = []
    failure_policy: str = "Fail"
    audit_annotations: Annotated[list[AuditAnnotation], OmitEmpty, Atomic] = []
    match_conditions: MatchConditions = []
    variables: Annotated[list[Variable], OmitEmpty, ListMap("name"), PatchMerge("name")] = []


class ExpressionWarning(Model):
    """What is wrong with an expression for one of the kinds that it is about."""

    field_ref: str = ""
    warning: str = ""


class TypeChecking(Model):
    """What the types of the objects say of a policy's expressions."""

    expression_warnings: Annotated[list[ExpressionWarning], OmitEmpty, Atomic] = []


class ObservedCondition(MetaCondition):
    """One aspect of a policy's state, and the generation of the policy that it is about."""

    observed_generation: Annotated[int, OmitEmpty] = 0


class ValidatingAdmissionPolicyStatus(Model):
    """What is known of a policy."""

    observed_generation: Annotated[int, OmitEmpty] = 0
    type_checking: TypeChecking | None = None
    conditions: Annotated[list[ObservedCondition], OmitEmpty, ListMap("type")] = []


class ValidatingAdmissionPolicy(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    plural="validatingadmissionpolicies",
    unconditional_update=True,
    status_subresource=True,
    columns=[
        Column(
            "Validations",
            type="integer",
            expression="has(self.spec.validations) ? self.spec.validations.size() : 0",
            description="Validations indicates the number of validation rules defined in this configuration",
        ),
        PARAM_KIND_COLUMN,
        AGE,
    ],
):
    """What must be true of requests; in force where a binding says so."""

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus | None = None

    def default(self) -> None:
        default_selectors(self.spec.match_constraints)


class ValidatingAdmissionPolicyBindingSpec(Model):
    """Which policy, with which parameters, for what, and what happens to requests that don't fulfil it."""

    policy_name: Text = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: Annotated[list[str], OmitEmpty, ListSet] = []


class ValidatingAdmissionPolicyBinding(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    categories=["api-extensions"],
    unconditional_update=True,
    columns=BINDING_COLUMNS,
):
    """Where a policy is in force."""

    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()

    def default(self) -> None:
        default_selectors(self.spec.match_resources)


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
