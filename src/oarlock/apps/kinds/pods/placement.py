"""Where pods may run: node selectors, affinity, tolerations, topology spread constraints, gates.

Source: Kubernetes' validation of core/v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.apps.kinds.common.values import check_label_selector, check_qualified_name, check_text
from oarlock.meta import names
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_BAD_OPERATOR: Final = "not a valid selector operator"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


def check_tolerations(tolerations: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """The taints that a pod bears."""
    for i, toleration in enumerate(tolerations):
        where, value = f"{path}[{i}]", toleration.get("value") or ""
        key, operator, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
        if key:
            yield from check_qualified_name(key, f"{where}.key")
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield Invalid(f"{where}.operator", operator, why)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield Invalid(f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("Equal", ""):
            complaints = names.label_value(value)
            if complaints:
                yield Invalid(f"{where}.operator", value, ";".join(complaints))
        elif operator == "Exists":
            if value:
                yield Invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            yield NotSupported(f"{where}.operator", operator, known)
        if effect and effect not in _EFFECTS:
            yield NotSupported(f"{where}.effect", effect, _EFFECTS)


def check_gates(spec: Tree, path: str) -> Iterator[FieldError]:
    """What must be true before a pod is scheduled, or counts as ready."""
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        yield from check_qualified_name(gate.get("conditionType") or "", f"{path}.readinessGates[{i}].conditionType")
    known: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name, where = gate.get("name") or "", f"{path}.schedulingGates[{i}]"
        yield from check_qualified_name(name, where)
        if name in known:
            yield Duplicate(where, name)
        known.add(name)


def check_node_selector(selector: Tree, path: str) -> Iterator[FieldError]:
    """A NodeSelector, which has at least one term."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield Required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms):
        yield from _check_node_term(term, f"{path}.nodeSelectorTerms[{i}]", values=True)


def _check_node_term(term: Tree, path: str, *, values: bool) -> Iterator[FieldError]:
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _check_node_requirement(expression, f"{path}.matchExpressions[{i}]", values=values)
    for i, field in enumerate(term.get("matchFields") or ()):
        where, operator, given = f"{path}.matchFields[{i}]", field.get("operator", ""), field.get("values") or ()
        if operator not in ("In", "NotIn"):
            yield Invalid(f"{where}.operator", operator, _BAD_OPERATOR)
        elif len(given) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield Required(f"{where}.values", why)
        if field.get("key") != "metadata.name":
            yield Invalid(f"{where}.key", field.get("key", ""), "not a valid field selector key")
            continue
        for j, value in enumerate(given):
            yield from check_text(names.dns1123_subdomain, value, f"{where}.values[{j}]")


def _check_node_requirement(expression: Tree, path: str, *, values: bool) -> Iterator[FieldError]:
    operator, given = expression.get("operator", ""), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not given:
            yield Required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            yield Forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            yield Required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield Invalid(f"{path}.operator", operator, _BAD_OPERATOR)
    yield from check_qualified_name(expression.get("key", ""), f"{path}.key")
    for i, value in enumerate(given if values else ()):
        yield from check_text(names.label_value, value, f"{path}.values[{i}]")


def check_affinity(affinity: Tree | None, path: str) -> Iterator[FieldError]:
    """Affinity to nodes and to other pods, and its opposite."""
    if not affinity:
        return
    nodes = affinity.get("nodeAffinity") or {}
    if nodes.get(_REQUIRED) is not None:
        yield from check_node_selector(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for i, term in enumerate(nodes.get(_PREFERRED) or ()):
        where = f"{path}.nodeAffinity.{_PREFERRED}[{i}]"
        yield from _check_weight(term, where)
        yield from _check_node_term(term.get("preference") or {}, f"{where}.preference", values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for i, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _check_pod_term(term, f"{path}.{kind}.{_REQUIRED}[{i}]")
        for i, term in enumerate(pods.get(_PREFERRED) or ()):
            where = f"{path}.{kind}.{_PREFERRED}[{i}]"
            yield from _check_weight(term, where)
            yield from _check_pod_term(term.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _check_weight(term: Tree, path: str) -> Iterator[FieldError]:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield Invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_pod_term(term: Tree, path: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from check_label_selector(term.get(name), f"{path}.{name}")
    for namespace in term.get("namespaces") or ():
        yield from check_text(names.dns1123_label, namespace, f"{path}.namespace")
    yield from _check_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield Required(f"{path}.topologyKey", "can not be empty")
    yield from check_qualified_name(key, f"{path}.topologyKey")


def _check_label_keys(term: Tree, path: str) -> Iterator[FieldError]:
    """The keys whose values are those of the pod itself: only with a selector, in one list, and not merged already."""
    match, mismatch = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    selector = term.get("labelSelector")
    selected = {expression.get("key") for expression in (selector or {}).get("matchExpressions") or ()}
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield Forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        for i, key in enumerate(keys):
            yield from check_qualified_name(key, f"{path}.{field}[{i}]")
            if key in selected:
                yield Invalid(f"{path}.{field}[{i}]", key, "exists in both matchLabelKeys and labelSelector")
    others = set(mismatch)
    for i, key in enumerate(match):
        if key in others:
            yield Invalid(f"{path}.matchLabelKeys[{i}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def check_spread(constraints: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """How evenly pods are spread over a topology."""
    last = {
        (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")): i
        for i, constraint in enumerate(constraints)
    }
    for i, constraint in enumerate(constraints):
        where = f"{path}[{i}]"
        skew, key, action = (constraint.get(name) for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
        if (skew or 0) <= 0:
            yield Invalid(f"{where}.maxSkew", skew or 0, "must be greater than zero")
        if not key:
            yield Required(f"{where}.topologyKey", "can not be empty")
        else:
            yield from check_qualified_name(key, f"{where}.topologyKey")
        if action not in _ACTIONS:
            yield NotSupported(f"{where}.whenUnsatisfiable", action or "", _ACTIONS)
        if last[key, action] > i:
            yield Duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _check_domains(constraint.get("minDomains"), action or "", f"{where}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name) is not None and constraint[name] not in _POLICIES:
                yield NotSupported(f"{where}.{name}", constraint[name], _POLICIES)
        yield from _check_label_keys(constraint, where)
        yield from check_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector")


def _check_domains(least: int | None, action: str, path: str) -> Iterator[FieldError]:
    if least is None:
        return
    if least <= 0:
        yield Invalid(path, least, "must be greater than zero")
    if action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield Invalid(path, least, why)
