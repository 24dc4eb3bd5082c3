"""``flowcontrol.apiserver.k8s.io``: how requests share a server.

Source: Kubernetes API reference, v1; KEP-1040.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Int32, MetaCondition
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, ListMap, ListSet, Name, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "flowcontrol.apiserver.k8s.io"

ConditionList = Annotated[list[MetaCondition], OmitEmpty, ListMap("type"), PatchMerge("type")]


class UserSubject(Model):
    """A user; ``*`` is every user."""

    name: str = ""


class GroupSubject(Model):
    """A group; ``*`` is every group."""

    name: str = ""


class ServiceAccountSubject(Model):
    """A service account; the name ``*`` is every account of the namespace."""

    namespace: str = ""
    name: str = ""


class Subject(Model):
    """Whose requests."""

    kind: str = ""
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Model):
    """Which requests for resources."""

    verbs: Annotated[list[str], ListSet] = []
    api_groups: Annotated[list[str], ListSet] = []
    resources: Annotated[list[str], ListSet] = []
    cluster_scope: Annotated[bool, OmitEmpty] = False
    namespaces: Annotated[list[str], OmitEmpty, ListSet] = []


class NonResourcePolicyRule(Model):
    """Which requests for other paths."""

    verbs: Annotated[list[str], ListSet] = []
    non_resource_urls: Annotated[list[str], Name("nonResourceURLs"), ListSet] = []


class PolicyRulesWithSubjects(Model):
    """Whose requests, and which of them."""

    subjects: Annotated[list[Subject], Atomic] = []
    resource_rules: Annotated[list[ResourcePolicyRule], OmitEmpty, Atomic] = []
    non_resource_rules: Annotated[list[NonResourcePolicyRule], OmitEmpty, Atomic] = []


class PriorityLevelConfigurationReference(Model):
    """A priority level."""

    name: str = ""


class FlowDistinguisherMethod(Model):
    """How requests of one schema are told apart: ByUser or ByNamespace."""

    type: str = ""


class FlowSchemaSpec(Model):
    """Which requests belong to a flow, and to which priority level it belongs."""

    priority_level_configuration: PriorityLevelConfigurationReference = PriorityLevelConfigurationReference()
    matching_precedence: Int32 = 1000
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: Annotated[list[PolicyRulesWithSubjects], OmitEmpty, Atomic] = []


class FlowSchemaStatus(Model):
    """Whether the priority level is there."""

    conditions: ConditionList = []


class FlowSchema(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    unconditional_update=True,
    status_subresource=True,
    columns=[
        Column(
            "PriorityLevel",
            ".spec.priorityLevelConfiguration.name",
            description="`name` is the name of the priority level configuration being referenced Required.",
        ),
        Column(
            "MatchingPrecedence",
            expression="self.spec.matchingPrecedence",
            description=(
                "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen "
                "FlowSchema is among those with the numerically lowest (which we take to be logically highest) "
                "MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that if the "
                "precedence is not specified, it will be set to 1000 as default."
            ),
        ),
        Column(
            "DistinguisherMethod",
            expression="has(self.spec.distinguisherMethod) ? self.spec.distinguisherMethod.type : '<none>'",
            description=(
                "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this "
                "schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty string."
            ),
        ),
        AGE,
        Column(
            "MissingPL",
            expression=(
                "has(self.status) && has(self.status.conditions) && "
                "self.status.conditions.exists(c, c.type == 'Dangling') ? "
                "self.status.conditions.filter(c, c.type == 'Dangling')[0].status : '?'"
            ),
            description="references a broken or non-existent PriorityLevelConfiguration",
        ),
    ],
):
    """Which requests share a queue."""

    spec: FlowSchemaSpec = FlowSchemaSpec()
    status: FlowSchemaStatus | None = None


class QueuingConfiguration(Model):
    """How many queues, how long they are, and how many of them a flow has."""

    queues: Int32 = 64
    hand_size: Int32 = 8
    queue_length_limit: Int32 = 50


class LimitResponse(Model):
    """What happens to requests that there is no seat for: Queue or Reject."""

    type: str = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Model):
    """The seats of a level, what it lends and borrows, and what happens at the limit."""

    nominal_concurrency_shares: Int32 = 30
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: Int32 = 0
    borrowing_limit_percent: Int32 | None = None


class ExemptPriorityLevelConfiguration(Model):
    """The seats of a level without limits, and what it lends of them."""

    nominal_concurrency_shares: Int32 = 0
    lendable_percent: Int32 = 0


class PriorityLevelConfigurationSpec(Model):
    """Whether a level is Exempt or Limited, and how."""

    type: str = ""
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None


class PriorityLevelConfigurationStatus(Model):
    """What is known of the level."""

    conditions: ConditionList = []


def _limited(path: str, guard: str) -> str:
    return f"has(self.spec.limited) && {guard} ? dyn(self.spec.limited.{path}) : dyn('<none>')"


_QUEUING = "has(self.spec.limited.limitResponse.queuing)"


class PriorityLevelConfiguration(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    unconditional_update=True,
    status_subresource=True,
    columns=[
        Column("Type", ".spec.type", description="Whether requests of this level are limited."),
        Column(
            "NominalConcurrencyShares",
            expression=_limited("nominalConcurrencyShares", "true"),
            description="The level's share of the server's seats.",
        ),
        Column("Queues", expression=_limited("limitResponse.queuing.queues", _QUEUING), description="How many queues."),
        Column(
            "HandSize",
            expression=_limited("limitResponse.queuing.handSize", _QUEUING),
            description="How many queues a flow has.",
        ),
        Column(
            "QueueLengthLimit",
            expression=_limited("limitResponse.queuing.queueLengthLimit", _QUEUING),
            description="How long a queue may be.",
        ),
        AGE,
    ],
):
    """A share of the server for flows that share it."""

    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()
    status: PriorityLevelConfigurationStatus | None = None

    def default(self) -> None:
        if self.spec.type == "Exempt" and self.spec.exempt is None:
            self.spec.exempt = ExemptPriorityLevelConfiguration()
