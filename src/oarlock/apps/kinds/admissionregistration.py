"""``admissionregistration.k8s.io``: webhooks that change or refuse what is written.

Source: Kubernetes API reference, v1. See also: ``apps.admission``, what may be in them.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.columns import AGE
from oarlock.apps.kinds.meta import Int32, LabelSelector, Texts
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, ListMap, NullIfAbsent, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

__all__ = [
    "GROUP",
    "AdmissionClientConfig",
    "AdmissionServiceReference",
    "MatchCondition",
    "MatchConditions",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "RuleWithOperations",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
]

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
