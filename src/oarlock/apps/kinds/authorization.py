"""``authorization.k8s.io``: reviews of what somebody may do. Nothing of it is kept.

Source: Kubernetes API reference, v1.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.meta import Text
from oarlock.schema.markers import Atomic, Name, OmitEmpty, Proto
from oarlock.schema.resources import Resource
from oarlock.schema.shapes import Model

__all__ = [
    "GROUP",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceRule",
    "ResourceAttributes",
    "ResourceRule",
    "SelectorAttributes",
    "SelectorRequirement",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus",
]

GROUP = "authorization.k8s.io"

Texts = Annotated[list[str], OmitEmpty, Atomic]


class SelectorRequirement(Model):
    """What a field or label must be."""

    key: Annotated[str, Proto(1)] = ""
    operator: Annotated[str, Proto(2)] = ""
    values: Annotated[Texts, Proto(3)] = []


class SelectorAttributes(Model):
    """A selector of a request, as it was sent or read."""

    raw_selector: Annotated[Text, Proto(1)] = ""
    requirements: Annotated[list[SelectorRequirement], OmitEmpty, Atomic, Proto(2)] = []


class ResourceAttributes(Model):
    """A request for a resource."""

    namespace: Annotated[Text, Proto(1)] = ""
    verb: Annotated[Text, Proto(2)] = ""
    group: Annotated[Text, Proto(3)] = ""
    version: Annotated[Text, Proto(4)] = ""
    resource: Annotated[Text, Proto(5)] = ""
    subresource: Annotated[Text, Proto(6)] = ""
    name: Annotated[Text, Proto(7)] = ""
    field_selector: Annotated[SelectorAttributes | None, Proto(8)] = None
    label_selector: Annotated[SelectorAttributes | None, Proto(9)] = None


class NonResourceAttributes(Model):
    """A request for another path."""

    path: Annotated[Text, Proto(1)] = ""
    verb: Annotated[Text, Proto(2)] = ""


class SubjectAccessReviewSpec(Model):
    """Who would do what."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: Text = ""
    groups: Texts = []
    extra: Annotated[dict[str, list[str]], OmitEmpty] = {}
    uid: Text = ""


class SubjectAccessReviewStatus(Model):
    """Whether it is allowed, and why."""

    allowed: Annotated[bool, Proto(1)] = False
    denied: Annotated[bool, OmitEmpty, Proto(4)] = False
    reason: Annotated[Text, Proto(2)] = ""
    evaluation_error: Annotated[Text, Proto(3)] = ""


class SubjectAccessReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks whether somebody may do something."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(Resource, group=GROUP, version="v1", name_rule="none", generation=False):
    """Asks whether somebody may do something in a namespace."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReviewSpec(Model):
    """What the sender would do."""

    resource_attributes: Annotated[ResourceAttributes | None, Proto(1)] = None
    non_resource_attributes: Annotated[NonResourceAttributes | None, Proto(2)] = None


class SelfSubjectAccessReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks whether the sender may do something."""

    spec: Annotated[SelfSubjectAccessReviewSpec, Proto(2)] = SelfSubjectAccessReviewSpec()
    status: Annotated[SubjectAccessReviewStatus, Proto(3)] = SubjectAccessReviewStatus()


class ResourceRule(Model):
    """What may be done with resources."""

    verbs: Annotated[list[str], Atomic, Proto(1)] = []
    api_groups: Annotated[Texts, Proto(2)] = []
    resources: Annotated[Texts, Proto(3)] = []
    resource_names: Annotated[Texts, Proto(4)] = []


class NonResourceRule(Model):
    """What may be done with other paths."""

    verbs: Annotated[list[str], Atomic, Proto(1)] = []
    non_resource_urls: Annotated[list[str], Name("nonResourceURLs"), OmitEmpty, Atomic, Proto(2)] = []


class SelfSubjectRulesReviewSpec(Model):
    """In which namespace."""

    namespace: Annotated[Text, Proto(1)] = ""


class SubjectRulesReviewStatus(Model):
    """All that is allowed; `incomplete` if there may be more."""

    resource_rules: Annotated[list[ResourceRule], Atomic, Proto(1)] = []
    non_resource_rules: Annotated[list[NonResourceRule], Atomic, Proto(2)] = []
    incomplete: Annotated[bool, Proto(3)] = False
    evaluation_error: Annotated[Text, Proto(4)] = ""


class SelfSubjectRulesReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks for everything that the sender may do in a namespace."""

    spec: Annotated[SelfSubjectRulesReviewSpec, Proto(2)] = SelfSubjectRulesReviewSpec()
    status: Annotated[SubjectRulesReviewStatus, Proto(3)] = SubjectRulesReviewStatus()
