"""The protobuf field numbers of Kubernetes' own types: facts of its API, which never change.

A message is a text of ``name=number`` or ``name=number:message``, where the field, or what it holds, is a message.
Every whole object has its metadata in field 1. See also: ``proto_numbers``. Source: the generated.proto files of
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["BUILT_IN_FIELDS"]

BUILT_IN_FIELDS: Final[Mapping[str, str]] = {
    "authentication.v1.BoundObjectReference": "kind=1 apiVersion=2 name=3 uid=4",
    "authentication.v1.ExtraValue": "items=1",
    "authentication.v1.SelfSubjectReview": "status=2:authentication.v1.SelfSubjectReviewStatus",
    "authentication.v1.SelfSubjectReviewStatus": "userInfo=1:authentication.v1.UserInfo",
    "authentication.v1.TokenRequest": (
        "spec=2:authentication.v1.TokenRequestSpec status=3:authentication.v1.TokenRequestStatus"
    ),
    "authentication.v1.TokenRequestSpec": (
        "audiences=1 expirationSeconds=4 boundObjectRef=3:authentication.v1.BoundObjectReference"
    ),
    "authentication.v1.TokenRequestStatus": "token=1 expirationTimestamp=2",
    "authentication.v1.TokenReview": (
        "spec=2:authentication.v1.TokenReviewSpec status=3:authentication.v1.TokenReviewStatus"
    ),
    "authentication.v1.TokenReviewSpec": "token=1 audiences=2",
    "authentication.v1.TokenReviewStatus": "authenticated=1 user=2:authentication.v1.UserInfo audiences=4 error=3",
    "authentication.v1.UserInfo": "username=1 uid=2 groups=3 extra=4:authentication.v1.ExtraValue",
    "authorization.v1.ExtraValue": "items=1",
    "authorization.v1.FieldSelectorAttributes": "rawSelector=1 requirements=2:meta.v1.FieldSelectorRequirement",
    "authorization.v1.LabelSelectorAttributes": "rawSelector=1 requirements=2:meta.v1.LabelSelectorRequirement",
    "authorization.v1.LocalSubjectAccessReview": (
        "spec=2:authorization.v1.SubjectAccessReviewSpec status=3:authorization.v1.SubjectAccessReviewStatus"
    ),
    "authorization.v1.NonResourceAttributes": "path=1 verb=2",
    "authorization.v1.NonResourceRule": "verbs=1 nonResourceURLs=2",
    "authorization.v1.ResourceAttributes": (
        "namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7 "
        "fieldSelector=8:authorization.v1.FieldSelectorAttributes "
        "labelSelector=9:authorization.v1.LabelSelectorAttributes"
    ),
    "authorization.v1.ResourceRule": "verbs=1 apiGroups=2 resources=3 resourceNames=4",
    "authorization.v1.SelfSubjectAccessReview": (
        "spec=2:authorization.v1.SelfSubjectAccessReviewSpec status=3:authorization.v1.SubjectAccessReviewStatus"
    ),
    "authorization.v1.SelfSubjectAccessReviewSpec": (
        "resourceAttributes=1:authorization.v1.ResourceAttributes "
        "nonResourceAttributes=2:authorization.v1.NonResourceAttributes"
    ),
    "authorization.v1.SelfSubjectRulesReview": (
        "spec=2:authorization.v1.SelfSubjectRulesReviewSpec status=3:authorization.v1.SubjectRulesReviewStatus"
    ),
    "authorization.v1.SelfSubjectRulesReviewSpec": "namespace=1",
    "authorization.v1.SubjectAccessReview": (
        "spec=2:authorization.v1.SubjectAccessReviewSpec status=3:authorization.v1.SubjectAccessReviewStatus"
    ),
    "authorization.v1.SubjectAccessReviewSpec": (
        "resourceAttributes=1:authorization.v1.ResourceAttributes "
        "nonResourceAttributes=2:authorization.v1.NonResourceAttributes user=3 groups=4 "
        "extra=5:authorization.v1.ExtraValue uid=6"
    ),
    "authorization.v1.SubjectAccessReviewStatus": "allowed=1 denied=4 reason=2 evaluationError=3",
    "authorization.v1.SubjectRulesReviewStatus": (
        "resourceRules=1:authorization.v1.ResourceRule nonResourceRules=2:authorization.v1.NonResourceRule "
        "incomplete=3 evaluationError=4"
    ),
    "coordination.v1.Lease": "spec=2:coordination.v1.LeaseSpec",
    "coordination.v1.LeaseSpec": (
        "holderIdentity=1 leaseDurationSeconds=2 acquireTime=3 renewTime=4 leaseTransitions=5 strategy=6 "
        "preferredHolder=7"
    ),
    "core.v1.ConfigMap": "immutable=4 data=2 binaryData=3",
    "core.v1.Event": (
        "involvedObject=2:core.v1.ObjectReference reason=3 message=4 source=5:core.v1.EventSource "
        "firstTimestamp=6 lastTimestamp=7 count=8 type=9 eventTime=10 series=11:core.v1.EventSeries action=12 "
        "related=13:core.v1.ObjectReference reportingComponent=14 reportingInstance=15"
    ),
    "core.v1.EventSeries": "count=1 lastObservedTime=2",
    "core.v1.EventSource": "component=1 host=2",
    "core.v1.LocalObjectReference": "name=1",
    "core.v1.Namespace": "spec=2:core.v1.NamespaceSpec status=3:core.v1.NamespaceStatus",
    "core.v1.NamespaceCondition": "type=1 status=2 lastTransitionTime=4 reason=5 message=6",
    "core.v1.NamespaceSpec": "finalizers=1",
    "core.v1.NamespaceStatus": "phase=1 conditions=2:core.v1.NamespaceCondition",
    "core.v1.ObjectReference": "kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7",
    "core.v1.Secret": "immutable=5 data=2 stringData=4 type=3",
    "core.v1.ServiceAccount": (
        "secrets=2:core.v1.ObjectReference imagePullSecrets=3:core.v1.LocalObjectReference "
        "automountServiceAccountToken=4"
    ),
    "events.v1.Event": (
        "eventTime=2 series=3:events.v1.EventSeries reportingController=4 reportingInstance=5 action=6 "
        "reason=7 regarding=8:core.v1.ObjectReference related=9:core.v1.ObjectReference note=10 type=11 "
        "deprecatedSource=12:core.v1.EventSource deprecatedFirstTimestamp=13 deprecatedLastTimestamp=14 "
        "deprecatedCount=15"
    ),
    "events.v1.EventSeries": "count=1 lastObservedTime=2",
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": "nominalConcurrencyShares=1 lendablePercent=2",
    "flowcontrol.v1.FlowDistinguisherMethod": "type=1",
    "flowcontrol.v1.FlowSchema": "spec=2:flowcontrol.v1.FlowSchemaSpec status=3:flowcontrol.v1.FlowSchemaStatus",
    "flowcontrol.v1.FlowSchemaCondition": "type=1 status=2 lastTransitionTime=3 reason=4 message=5",
    "flowcontrol.v1.FlowSchemaSpec": (
        "priorityLevelConfiguration=1:flowcontrol.v1.PriorityLevelConfigurationReference matchingPrecedence=2 "
        "distinguisherMethod=3:flowcontrol.v1.FlowDistinguisherMethod "
        "rules=4:flowcontrol.v1.PolicyRulesWithSubjects"
    ),
    "flowcontrol.v1.FlowSchemaStatus": "conditions=1:flowcontrol.v1.FlowSchemaCondition",
    "flowcontrol.v1.GroupSubject": "name=1",
    "flowcontrol.v1.LimitResponse": "type=1 queuing=2:flowcontrol.v1.QueuingConfiguration",
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": (
        "nominalConcurrencyShares=1 limitResponse=2:flowcontrol.v1.LimitResponse lendablePercent=3 "
        "borrowingLimitPercent=4"
    ),
    "flowcontrol.v1.NonResourcePolicyRule": "verbs=1 nonResourceURLs=6",
    "flowcontrol.v1.PolicyRulesWithSubjects": (
        "subjects=1:flowcontrol.v1.Subject resourceRules=2:flowcontrol.v1.ResourcePolicyRule "
        "nonResourceRules=3:flowcontrol.v1.NonResourcePolicyRule"
    ),
    "flowcontrol.v1.PriorityLevelConfiguration": (
        "spec=2:flowcontrol.v1.PriorityLevelConfigurationSpec status=3:flowcontrol.v1.PriorityLevelConfigurationStatus"
    ),
    "flowcontrol.v1.PriorityLevelConfigurationCondition": "type=1 status=2 lastTransitionTime=3 reason=4 message=5",
    "flowcontrol.v1.PriorityLevelConfigurationReference": "name=1",
    "flowcontrol.v1.PriorityLevelConfigurationSpec": (
        "type=1 limited=2:flowcontrol.v1.LimitedPriorityLevelConfiguration "
        "exempt=3:flowcontrol.v1.ExemptPriorityLevelConfiguration"
    ),
    "flowcontrol.v1.PriorityLevelConfigurationStatus": (
        "conditions=1:flowcontrol.v1.PriorityLevelConfigurationCondition"
    ),
    "flowcontrol.v1.QueuingConfiguration": "queues=1 handSize=2 queueLengthLimit=3",
    "flowcontrol.v1.ResourcePolicyRule": "verbs=1 apiGroups=2 resources=3 clusterScope=4 namespaces=5",
    "flowcontrol.v1.ServiceAccountSubject": "namespace=1 name=2",
    "flowcontrol.v1.Subject": (
        "kind=1 user=2:flowcontrol.v1.UserSubject group=3:flowcontrol.v1.GroupSubject "
        "serviceAccount=4:flowcontrol.v1.ServiceAccountSubject"
    ),
    "flowcontrol.v1.UserSubject": "name=1",
    "meta.v1.FieldSelectorRequirement": "key=1 operator=2 values=3",
    "meta.v1.LabelSelector": "matchLabels=1 matchExpressions=2:meta.v1.LabelSelectorRequirement",
    "meta.v1.LabelSelectorRequirement": "key=1 operator=2 values=3",
    "rbac.v1.AggregationRule": "clusterRoleSelectors=1:meta.v1.LabelSelector",
    "rbac.v1.ClusterRole": "rules=2:rbac.v1.PolicyRule aggregationRule=3:rbac.v1.AggregationRule",
    "rbac.v1.ClusterRoleBinding": "subjects=2:rbac.v1.Subject roleRef=3:rbac.v1.RoleRef",
    "rbac.v1.PolicyRule": "verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5",
    "rbac.v1.Role": "rules=2:rbac.v1.PolicyRule",
    "rbac.v1.RoleBinding": "subjects=2:rbac.v1.Subject roleRef=3:rbac.v1.RoleRef",
    "rbac.v1.RoleRef": "apiGroup=1 kind=2 name=3",
    "rbac.v1.Subject": "kind=1 apiGroup=2 name=3 namespace=4",
}
