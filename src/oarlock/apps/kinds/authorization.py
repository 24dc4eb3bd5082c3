"""``authorization.k8s.io``: reviews of what somebody may do. Nothing of it is kept.

Source: Kubernetes API reference, v1.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.meta import Text, Texts
from oarlock.schema.types.markers import Atomic, Name, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "authorization.k8s.io"


class SelectorRequirement(Model):
    """What a field or label must be."""

    key: str = ""
    operator: str = ""
    values: Texts = []


class SelectorAttributes(Model):
    """A selector of a request, as it was sent or read."""

    raw_selector: Text = ""
    requirements: Annotated[list[SelectorRequirement], OmitEmpty, Atomic] = []


class ResourceAttributes(Model):
    """A request for a resource."""

    namespace: Text = ""
    verb: Text = ""
    group: Text = ""
    version: Text = ""
    resource: Text = ""
    subresource: Text = ""
    name: Text = ""
    field_selector: SelectorAttributes | None = None
    label_selector: SelectorAttributes | None = None


class NonResourceAttributes(Model):
    """A request for another path."""

    path: Text = ""
    verb: Text = ""


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

    allowed: bool = False
    denied: Annotated[bool, OmitEmpty] = False
    reason: Text = ""
    evaluation_error: Text = ""


class SubjectAccessReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks whether a user may perform an action."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(Resource, group=GROUP, version="v1", name_rule="none", generation=False):
    """Asks whether a user may perform an action in a namespace."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReviewSpec(Model):
    """What the sender would do."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SelfSubjectAccessReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks whether the sender may do something."""

    spec: SelfSubjectAccessReviewSpec = SelfSubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class ResourceRule(Model):
    """What may be done with resources."""

    verbs: Annotated[list[str], Atomic] = []
    api_groups: Texts = []
    resources: Texts = []
    resource_names: Texts = []


class NonResourceRule(Model):
    """What may be done with other paths."""

    verbs: Annotated[list[str], Atomic] = []
    non_resource_urls: Annotated[list[str], Name("nonResourceURLs"), OmitEmpty, Atomic] = []


class SelfSubjectRulesReviewSpec(Model):
    """The namespace to list the rules for."""

    namespace: Text = ""


class SubjectRulesReviewStatus(Model):
    """All that is allowed; `incomplete` if there may be more."""

    resource_rules: Annotated[list[ResourceRule], Atomic] = []
    non_resource_rules: Annotated[list[NonResourceRule], Atomic] = []
    incomplete: bool = False
    evaluation_error: Text = ""


class SelfSubjectRulesReview(Resource, group=GROUP, version="v1", scope="Cluster", name_rule="none", generation=False):
    """Asks for everything that the sender may do in a namespace."""

    spec: SelfSubjectRulesReviewSpec = SelfSubjectRulesReviewSpec()
    status: SubjectRulesReviewStatus = SubjectRulesReviewStatus()
