"""What may be in a webhook configuration. Messages are Kubernetes'.

Source: Kubernetes' ``pkg/apis/admissionregistration/validation``. See also: `configurations`, which calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oarlock.apps.controlplane.collections.roles import selector_errors
from oarlock.apps.controlplane.collections.webhook_client_errors import webhook_service_errors, webhook_url_errors
from oarlock.apps.kinds.admissionregistration import (
    AdmissionClientConfig,
    MatchCondition,
    MutatingWebhook,
    RuleWithOperations,
    ValidatingWebhook,
)
from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required, TooMany
from oarlock.policy.admission.expressions import FaultyExpression
from oarlock.policy.admission.webhooks.review import REVIEW_VERSIONS
from oarlock.policy.admission.webhooks.rules import call_condition

MOST_CONDITIONS = 64


def condition_errors(
    path: str, conditions: Sequence[MatchCondition], compiled: Callable[[str, str], Iterable[FieldError]]
) -> Iterator[FieldError]:
    """Every mistake in `conditions`, which are at `path`; `compiled` tells those of an expression at a place."""
    if len(conditions) > MOST_CONDITIONS:
        yield TooMany(path, len(conditions), MOST_CONDITIONS)
    for at, condition in enumerate(conditions):
        place = f"{path}[{at}]"
        if condition.expression.strip():
            yield from compiled(f"{place}.expression", condition.expression)
        else:
            yield Required(f"{place}.expression")
        if not condition.name:
            yield Required(f"{place}.name")
            continue
        for complaint in names.qualified_name(condition.name):
            yield Invalid(f"{place}.name", condition.name, complaint)


Webhook = ValidatingWebhook | MutatingWebhook

LONGEST_TIMEOUT_S = 30
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")


def webhook_errors(webhooks: Sequence[Webhook], old: Sequence[Webhook]) -> Iterator[FieldError]:
    """Every mistake in `webhooks`, which take the place of `old`. Repeated names are the schema's to find."""
    tolerant = bool(old) and not all(_known(webhook.admission_review_versions or ()) for webhook in old)
    conditions = {(webhook.name, condition.expression) for webhook in old for condition in webhook.match_conditions}
    for at, hook in enumerate(webhooks):
        path = f"webhooks[{at}]"
        yield from _hook(path, hook, conditions)
        yield from _review_versions(f"{path}.admissionReviewVersions", hook.admission_review_versions or [], tolerant)


def _hook(path: str, hook: Webhook, stored: set[tuple[str, str]]) -> Iterator[FieldError]:
    yield from _name(f"{path}.name", hook.name)
    for at, rule in enumerate(hook.rules):
        yield from _rule(f"{path}.rules[{at}]", rule)
    if hook.failure_policy not in ("Fail", "Ignore"):
        yield NotSupported(f"{path}.failurePolicy", hook.failure_policy, ("Fail", "Ignore"))
    if hook.match_policy not in ("Equivalent", "Exact"):
        yield NotSupported(f"{path}.matchPolicy", hook.match_policy, ("Equivalent", "Exact"))
    if hook.side_effects is None:
        yield Required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif hook.side_effects not in _SIDE_EFFECTS:
        yield NotSupported(f"{path}.sideEffects", hook.side_effects, _SIDE_EFFECTS)
    if not 1 <= hook.timeout_seconds <= LONGEST_TIMEOUT_S:
        text = f"the timeout value must be between 1 and {LONGEST_TIMEOUT_S} seconds"
        yield Invalid(f"{path}.timeoutSeconds", hook.timeout_seconds, text)
    yield from selector_errors(f"{path}.namespaceSelector", hook.namespace_selector)
    yield from selector_errors(f"{path}.objectSelector", hook.object_selector)
    if isinstance(hook, MutatingWebhook) and hook.reinvocation_policy not in ("IfNeeded", "Never"):
        yield NotSupported(f"{path}.reinvocationPolicy", hook.reinvocation_policy, ("IfNeeded", "Never"))
    yield from _client(f"{path}.clientConfig", hook.client_config)
    known = {expression for name, expression in stored if name == hook.name}
    yield from _conditions(f"{path}.matchConditions", hook.match_conditions, known)


def _name(path: str, name: str) -> Iterator[FieldError]:
    if not name:
        yield Required(path)
        return
    complaints = names.dns1123_subdomain(name)
    if complaints:
        yield Invalid(path, name, ",".join(complaints))
    elif name.count(".") < 2:
        yield Invalid(path, name, "should be a domain with at least three segments separated by dots")


def _rule(path: str, rule: RuleWithOperations) -> Iterator[FieldError]:
    yield from _listed(f"{path}.operations", rule.operations, "operations")
    for at, operation in enumerate(rule.operations):
        if operation not in _OPERATIONS:
            yield NotSupported(f"{path}.operations[{at}]", operation, _OPERATIONS)
    yield from _listed(f"{path}.apiGroups", rule.api_groups, "API groups")
    yield from _listed(f"{path}.apiVersions", rule.api_versions, "API versions")
    for at, version in enumerate(rule.api_versions):
        if not version:
            yield Required(f"{path}.apiVersions[{at}]")
    yield from _resources(f"{path}.resources", rule.resources)
    if rule.scope not in ("*", "Cluster", "Namespaced"):
        yield NotSupported(f"{path}.scope", rule.scope, ("*", "Cluster", "Namespaced"))


def _listed(path: str, given: Sequence[str], what: str) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    elif len(given) > 1 and "*" in given:
        yield Invalid(path, list(given), f"if '*' is present, must not specify other {what}")


def _resources(path: str, given: Sequence[str]) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    all_of: set[str] = set()
    of_all: set[str] = set()
    for at, item in enumerate(given):
        if not item:
            yield Required(f"{path}[{at}]")
        resource, slash, subresource = item.partition("/")
        if not slash:
            continue
        if resource in all_of:
            yield Invalid(f"{path}[{at}]", item, f"if '{resource}/*' is present, must not specify {item}")
        if subresource in of_all:
            yield Invalid(f"{path}[{at}]", item, f"if '*/{subresource}' is present, must not specify {item}")
        if subresource == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(subresource)
    if len(given) > 1 and "*/*" in given:
        yield Invalid(path, list(given), "if '*/*' is present, must not specify other resources")
    if "*" in given and any(resource not in ("", "*") and "/" not in resource for resource in given):
        yield Invalid(path, list(given), "if '*' is present, must not specify other resources without subresources")


def _client(path: str, config: AdmissionClientConfig) -> Iterator[FieldError]:
    if (config.url is None) is (config.service is None):
        yield Required(path, "exactly one of url or service is required")
    elif config.url is not None:
        yield from webhook_url_errors(f"{path}.url", config.url)
    elif config.service is not None:
        named = config.service
        yield from webhook_service_errors(f"{path}.service", named.namespace, named.name, named.port, named.path or "")


def _conditions(path: str, conditions: Sequence[MatchCondition], stored: set[str]) -> Iterator[FieldError]:
    def compiled(place: str, expression: str) -> Iterator[FieldError]:
        if expression in stored:
            return
        try:
            call_condition(expression, place)
        except FaultyExpression as error:
            yield Invalid(place, error.fault.expression, str(error))

    yield from condition_errors(path, conditions, compiled)


def _review_versions(path: str, versions: Sequence[str], tolerant: bool) -> Iterator[FieldError]:
    known = ", ".join(REVIEW_VERSIONS)
    if not versions:
        yield Required(path, f"must specify one of {known}")
        return
    seen: set[str] = set()
    for at, version in enumerate(versions):
        if version in seen:
            yield Invalid(f"{path}[{at}]", version, "duplicate version")
            continue
        seen.add(version)
        for complaint in names.dns1035_label(version):
            yield Invalid(f"{path}[{at}]", version, complaint)
    if not tolerant and not _known(versions):
        yield Invalid(path, list(versions), f"must include at least one of {known}")


def _known(versions: Sequence[str]) -> bool:
    return any(version in REVIEW_VERSIONS for version in versions)
