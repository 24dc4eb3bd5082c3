"""What is wrong with the rules and selectors of a policy or a binding.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1`` MatchResources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oarlock.apps.controlplane.collections.selector_errors import selector_errors
from oarlock.apps.kinds.admissionregistration_policies import MatchResources, NamedRuleWithOperations
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required
from oarlock.meta.names import path_segment_name

__all__ = ["match_errors"]

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")


def match_errors(path: str, matched: MatchResources, *, rules: bool) -> Iterator[FieldError]:
    """Every mistake in `matched`, which is at `path`; with `rules` there must be some."""
    if not matched.match_policy:
        yield Required(f"{path}.matchPolicy")
    elif matched.match_policy not in ("Equivalent", "Exact"):
        yield NotSupported(f"{path}.matchPolicy", matched.match_policy, ("Equivalent", "Exact"))
    if matched.namespace_selector is None:
        yield Required(f"{path}.namespaceSelector")
    else:
        yield from selector_errors(f"{path}.namespaceSelector", matched.namespace_selector)
    if matched.object_selector is None:
        yield Required(f"{path}.objectSelector")
    else:
        yield from selector_errors(f"{path}.objectSelector", matched.object_selector)
    if rules and not matched.resource_rules:
        yield Required(f"{path}.resourceRules")
    for at, rule in enumerate(matched.resource_rules):
        yield from _rule(f"{path}.resourceRules[{at}]", rule)
    for at, rule in enumerate(matched.exclude_resource_rules):
        yield from _rule(f"{path}.excludeResourceRules[{at}]", rule)


def _rule(path: str, rule: NamedRuleWithOperations) -> Iterator[FieldError]:
    known: set[str] = set()
    for at, name in enumerate(rule.resource_names):
        for complaint in path_segment_name(name):
            yield Invalid(f"{path}.resourceNames[{at}]", name, complaint)
        if name in known:
            yield Duplicate(f"{path}.resourceNames[{at}]", name)
        known.add(name)
    if not rule.operations:
        yield Required(f"{path}.operations")
    if len(rule.operations) > 1 and "*" in rule.operations:
        text = "if '*' is present, must not specify other operations"
        yield Invalid(f"{path}.operations", list(rule.operations), text)
    for at, operation in enumerate(rule.operations):
        if operation not in OPERATIONS:
            yield NotSupported(f"{path}.operations[{at}]", operation, OPERATIONS)
    yield from _wildcards(f"{path}.apiGroups", rule.api_groups, "API groups", empty=True)
    yield from _wildcards(f"{path}.apiVersions", rule.api_versions, "API versions")
    yield from _resources(f"{path}.resources", rule.resources)
    if rule.scope not in SCOPES:
        yield NotSupported(f"{path}.scope", rule.scope, SCOPES)


def _wildcards(path: str, given: Sequence[str], what: str, *, empty: bool = False) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    if len(given) > 1 and "*" in given:
        yield Invalid(path, list(given), f"if '*' is present, must not specify other {what}")
    for at, condition in enumerate(given):
        if not condition and not empty:
            yield Required(f"{path}[{at}]")


def _resources(path: str, given: Sequence[str]) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    of_all: set[str] = set()
    with_all: set[str] = set()
    for at, rule in enumerate(given):
        if not rule:
            yield Required(f"{path}[{at}]")
            continue
        resource, slash, subresource = rule.partition("/")
        place = f"{path}[{at}]"
        if rule == "*/*" and len(given) > 1:
            yield Invalid(path, list(given), "if '*/*' is present, must not specify other resources")
        if resource in with_all and slash and subresource != "*":
            yield Invalid(place, rule, f"if '{resource}/*' is present, must not specify {rule}")
        if subresource in of_all and resource != "*":
            yield Invalid(place, rule, f"if '*/{subresource}' is present, must not specify {rule}")
        if slash and subresource == "*":
            with_all.add(resource)
        if slash and resource == "*":
            of_all.add(subresource)
    if len(given) > 1 and "*" in given and any("/" not in resource and resource != "*" for resource in given):
        text = "if '*' is present, must not specify other resources without subresources"
        yield Invalid(path, list(given), text)
