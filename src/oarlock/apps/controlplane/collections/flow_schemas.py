"""What the server does with flow schemas and priority levels beyond storing them: what they may say.

Source: Kubernetes' validation of FlowSchema and PriorityLevelConfiguration. See also: ``controllers.flow_control``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oarlock.apps.kinds.flowcontrol import (
    ExemptPriorityLevelConfiguration,
    FlowSchema,
    FlowSchemaSpec,
    FlowSchemaStatus,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationStatus,
    QueuingConfiguration,
    ResourcePolicyRule,
    Subject,
)
from oarlock.apps.kinds.meta import MetaCondition
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.policy.fairness.builtin import MANDATORY_LEVELS, MANDATORY_SCHEMAS
from oarlock.policy.fairness.settings import EXEMPT, MOST_BITS, MOST_QUEUES, bits_of_hand
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.shapes import Model
from oarlock.schema.types.views import builtins_of, view

MOST_PRECEDENCE = 10_000
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_FIXED = {tree["metadata"]["name"]: view(tree, FlowSchema).spec for tree in MANDATORY_SCHEMAS}
_FIXED_LEVELS = {tree["metadata"]["name"]: view(tree, PriorityLevelConfiguration).spec for tree in MANDATORY_LEVELS}


class FlowSchemaCollection(StoredCollection[FlowSchema]):
    """Flow schemas make sense; the mandatory ones stay as they are."""

    def prepare(self, new: FlowSchema, old: FlowSchema | None, ctx: Context) -> None:
        new.status = new.status or FlowSchemaStatus()
        if new.spec.matching_precedence == 0:
            new.spec.matching_precedence = 1000

    def validate(self, new: FlowSchema, old: FlowSchema | None, ctx: Context) -> Iterator[FieldError]:
        yield from _schema(new.spec, new.metadata.name)
        fixed = _FIXED.get(new.metadata.name)
        if fixed is not None and new.spec != fixed:
            yield Invalid("spec", _in_go(new.spec), f"spec of '{new.metadata.name}' must equal the fixed value")
        yield from _conditions(new.status.conditions if new.status is not None else ())


class PriorityLevelCollection(StoredCollection[PriorityLevelConfiguration]):
    """Priority levels make sense; of the mandatory ones, only the seats of the exempt one can be changed."""

    def prepare(self, new: PriorityLevelConfiguration, old: PriorityLevelConfiguration | None, ctx: Context) -> None:
        new.status = new.status or PriorityLevelConfigurationStatus()

    def validate(
        self, new: PriorityLevelConfiguration, old: PriorityLevelConfiguration | None, ctx: Context
    ) -> Iterator[FieldError]:
        spec, name = new.spec, new.metadata.name
        if (name == EXEMPT) != (spec.type == "Exempt"):
            yield Invalid("spec.type", spec.type, "type must be 'Exempt' if and only if name is 'exempt'")
        if spec.type == "Exempt":
            if spec.limited is not None:
                yield Forbidden("spec.limited", "must be nil if the type is not Limited")
            if spec.exempt is not None:
                yield from _seats("spec.exempt", spec.exempt)
        elif spec.type == "Limited":
            if spec.exempt is not None:
                yield Forbidden("spec.exempt", "must be nil if the type is Limited")
            if spec.limited is None:
                yield Required("spec.limited", "must not be empty when type is Limited")
            else:
                yield from _limits(spec.limited)
        else:
            yield NotSupported("spec.type", spec.type, ("Exempt", "Limited"))
        fixed = _FIXED_LEVELS.get(name)
        if fixed is not None:
            exempt = name == EXEMPT
            if (spec.type, spec.limited) != (fixed.type, fixed.limited) or (not exempt and spec.exempt is not None):
                but = " except the 'spec.exempt' field" if exempt else ""
                yield Invalid("spec", _in_go(spec), f"spec of '{name}'{but} must equal the fixed value")
        yield from _conditions(new.status.conditions if new.status is not None else ())


def _in_go(model: Model) -> Any:
    """A value as Kubernetes shows it in errors: with the names that its fields have in Go."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key[:1].upper() + key[1:]: renamed(child) for key, child in value.items()}
        return [renamed(child) for child in value] if isinstance(value, list) else value

    return renamed(builtins_of(model))


# Flow schemas


def _schema(spec: FlowSchemaSpec, name: str) -> Iterator[FieldError]:
    precedence, place = spec.matching_precedence, "spec.matchingPrecedence"
    if precedence <= 0:
        yield Invalid(place, precedence, "must be a positive value")
    if precedence > MOST_PRECEDENCE:
        yield Invalid(place, precedence, f"must not be greater than {MOST_PRECEDENCE}")
    if precedence == 1 and name != EXEMPT:
        yield Invalid(place, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.distinguisher_method
    if method is not None and method.type not in ("ByNamespace", "ByUser"):
        yield NotSupported("spec.distinguisherMethod.type", _in_go(method), ("ByNamespace", "ByUser"))
    level, place = spec.priority_level_configuration.name, "spec.priorityLevelConfiguration.name"
    if not level:
        yield Required(place, "must reference a priority level")
    for complaint in names.dns1123_subdomain(level) if level else ():
        yield Invalid(place, level, complaint)
    for at, rule in enumerate(spec.rules):
        yield from _rule(rule, f"spec.rules[{at}]")


def _rule(rule: PolicyRulesWithSubjects, place: str) -> Iterator[FieldError]:
    if not rule.subjects:
        yield Required(f"{place}.subjects", "subjects must contain at least one value")
    for at, subject in enumerate(rule.subjects):
        yield from _subject(subject, f"{place}.subjects[{at}]")
    if not rule.resource_rules and not rule.non_resource_rules:
        yield Required(place, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for at, resource_rule in enumerate(rule.resource_rules):
        yield from _resource_rule(resource_rule, f"{place}.resourceRules[{at}]")
    for at, path_rule in enumerate(rule.non_resource_rules):
        yield from _path_rule(path_rule, f"{place}.nonResourceRules[{at}]")


def _subject(subject: Subject, place: str) -> Iterator[FieldError]:
    given = {"User": subject.user, "ServiceAccount": subject.service_account, "Group": subject.group}
    if subject.kind not in given:
        yield NotSupported(f"{place}.kind", subject.kind, sorted(given))
        return
    field = _SUBJECTS[subject.kind]
    named = given.pop(subject.kind)
    if named is None:
        yield Required(f"{place}.{field}", f"{field} is required when subject kind is '{subject.kind}'")
    else:
        if not named.name:
            yield Required(f"{place}.{field}.name")
        if subject.service_account is not None and subject.kind == "ServiceAccount":
            yield from _account(named.name, subject.service_account.namespace, f"{place}.{field}")
    for kind, other in given.items():
        if other is not None:
            name = _SUBJECTS[kind]
            yield Forbidden(f"{place}.{name}", f"{name} is forbidden when subject kind is not '{kind}'")


def _account(name: str, namespace: str, place: str) -> Iterator[FieldError]:
    for complaint in names.dns1123_subdomain(name) if name and name != "*" else ():
        yield Invalid(f"{place}.name", name, complaint)
    if not namespace:
        yield Required(f"{place}.namespace", "must specify namespace for service account")
    for complaint in names.dns1123_label(namespace) if namespace else ():
        yield Invalid(f"{place}.namespace", namespace, complaint)


def _resource_rule(rule: ResourcePolicyRule, place: str) -> Iterator[FieldError]:
    yield from _verbs(rule.verbs, place)
    missing = "resource rules must supply at least one {}"
    yield from _listed(rule.api_groups, f"{place}.apiGroups", "api groups", missing.format("api group"))
    yield from _listed(rule.resources, f"{place}.resources", "resources", missing.format("resource"))
    place = f"{place}.namespaces"
    if not rule.namespaces and not rule.cluster_scope:
        yield Required(place, "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in rule.namespaces:
        yield from _listed(rule.namespaces, place, "namespaces", "")
    else:
        for at, namespace in enumerate(rule.namespaces):
            for complaint in names.dns1123_label(namespace):
                yield Invalid(f"{place}[{at}]", namespace, _NAMESPACE + complaint)


def _path_rule(rule: NonResourcePolicyRule, place: str) -> Iterator[FieldError]:
    yield from _verbs(rule.verbs, place)
    paths, place = rule.non_resource_urls, f"{place}.nonResourceURLs"
    yield from _listed(paths, place, "non-resource URLs", "nonResourceURLs must contain at least one value")
    for at, path in enumerate(paths if "*" not in paths else ()):
        complaint = _path_complaint(path)
        if complaint:
            yield Invalid(f"{place}[{at}]", path, complaint)


def _path_complaint(path: str) -> str:
    if not path:
        return "must not be empty"
    if path == "/":
        return ""
    if not path.startswith("/"):
        return "must start with slash"
    if " " in path:
        return "must not contain white-space"
    if "//" in path:
        return "must not contain double slash"
    if "*" in path.removesuffix("/*"):
        return "wildcard can only do suffix matching"
    return ""


def _verbs(verbs: Sequence[str], place: str) -> Iterator[FieldError]:
    yield from _listed(verbs, f"{place}.verbs", "verbs", "verbs must contain at least one value")
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield NotSupported(f"{place}.verbs", list(verbs), _VERBS)


def _listed(given: Sequence[str], place: str, what: str, missing: str) -> Iterator[FieldError]:
    if not given:
        yield Required(place, missing)
    elif "*" in given and len(given) > 1:
        yield Invalid(place, list(given), f"if '*' is present, must not specify other {what}")


def _conditions(conditions: Sequence[MetaCondition]) -> Iterator[FieldError]:
    known: set[str] = set()
    for at, condition in enumerate(conditions):
        place = f"status.conditions[{at}].type"
        if condition.type in known:
            yield Duplicate(place, condition.type)
        known.add(condition.type)
        if not condition.type:
            yield Required(place, "must not be empty")


# Priority levels


def _limits(limited: LimitedPriorityLevelConfiguration) -> Iterator[FieldError]:
    yield from _seats("spec.limited", limited)
    borrowed = limited.borrowing_limit_percent
    if borrowed is not None and borrowed < 0:
        place = "spec.limited.borrowingLimitPercent"
        yield Invalid(place, borrowed, "if specified, must be a non-negative integer")
    yield from _response(limited.limit_response)


def _seats(
    place: str, seats: LimitedPriorityLevelConfiguration | ExemptPriorityLevelConfiguration
) -> Iterator[FieldError]:
    shares, lendable = seats.nominal_concurrency_shares, seats.lendable_percent
    if shares < 0:
        yield Invalid(f"{place}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= lendable <= 100:
        yield Invalid(f"{place}.lendablePercent", lendable, "must be between 0 and 100, inclusive")


def _response(response: LimitResponse) -> Iterator[FieldError]:
    place = "spec.limited.limitResponse"
    if response.type == "Reject":
        if response.queuing is not None:
            text = "must be nil if limited.limitResponse.type is not Limited"
            yield Forbidden(f"{place}.queuing", text)
    elif response.type == "Queue":
        if response.queuing is None:
            yield Required(f"{place}.queuing", "must not be empty if limited.limitResponse.type is Limited")
        else:
            yield from _queuing(response.queuing, f"{place}.queuing")
    else:
        yield NotSupported(f"{place}.type", response.type, ("Queue", "Reject"))


def _queuing(queuing: QueuingConfiguration, place: str) -> Iterator[FieldError]:
    queues, hand = queuing.queues, queuing.hand_size
    if queuing.queue_length_limit <= 0:
        yield Invalid(f"{place}.queueLengthLimit", queuing.queue_length_limit, "must be positive")
    if queues <= 0:
        yield Invalid(f"{place}.queues", queues, "must be positive")
    elif queues > MOST_QUEUES:
        yield Invalid(f"{place}.queues", queues, f"must not be greater than {MOST_QUEUES}")
    if hand <= 0:
        yield Invalid(f"{place}.handSize", hand, "must be positive")
    elif hand > queues:
        yield Invalid(f"{place}.handSize", hand, f"should not be greater than queues ({queues})")
    elif bits_of_hand(queues, hand) > MOST_BITS:
        bits = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MOST_BITS}"
        yield Invalid(f"{place}.handSize", hand, bits)
