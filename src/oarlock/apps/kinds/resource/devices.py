"""What claims ask of devices, in a claim of its own and in a template: defaults and rules.

See also: `selectors`, the conditions in CEL. Source: Kubernetes' validation and defaults of resource.k8s.io/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_qualified_name, check_text
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.apps.kinds.resource.selectors import check_selectors
from oarlock.meta import names
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree

_MOST: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MODES: Final = ("All", "ExactCount")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_ONE: Final = "exactly one of `exactly` or `firstAvailable` is required"
UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def fill_in_claim(spec: Tree | None) -> None:
    """A request is for exactly one device unless it says otherwise."""
    for request in at(spec, "devices.requests", ()):
        for alternative in _alternatives(request):
            alternative.setdefault("allocationMode", "ExactCount")
            if alternative["allocationMode"] == "ExactCount" and not alternative.get("count"):
                alternative["count"] = 1
            for toleration in alternative.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def _alternatives(request: Tree) -> Iterator[Tree]:
    if request.get("exactly") is not None:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def check_claim(spec: Tree, path: str) -> Iterator[FieldError]:
    """The specification of a claim."""
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    requests, known = devices.get("requests") or (), set()
    if len(requests) > _MOST:
        yield TooMany(f"{path}.requests", len(requests), _MOST)
        return
    for i, request in enumerate(requests):
        where, name = f"{path}.requests[{i}]", request.get("name") or ""
        yield from check_text(names.dns1123_label, name, f"{where}.name")
        yield from _check_request(request, where)
        if name in known:
            yield Duplicate(where, name)
        known.add(name)
    places = requests_of(requests)
    for kind, check in (("constraints", _check_constraint), ("config", _check_configuration)):
        given = devices.get(kind) or ()
        if len(given) > _MOST:
            yield TooMany(f"{path}.{kind}", len(given), _MOST)
            continue
        for i, item in enumerate(given):
            yield from _check_names(item.get("requests") or (), places, f"{path}.{kind}[{i}].requests")
            yield from check(item, f"{path}.{kind}[{i}]")


def requests_of(requests: Sequence[Tree]) -> set[str]:
    """What the requests of a claim are called elsewhere in it: those with alternatives by each of them too."""
    names = {request.get("name") or "" for request in requests}
    return names | {
        f"{request.get('name')}/{alternative.get('name')}"
        for request in requests
        for alternative in request.get("firstAvailable") or ()
    }


def _check_request(request: Tree, path: str) -> Iterator[FieldError]:
    exactly, first = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is not None and first:
        yield Invalid(path, None, f"{_ONE}, but multiple fields are set")
    elif exactly is None and not first:
        yield Required(path, _ONE)
    if exactly is not None:
        yield from _check_devices(exactly, f"{path}.exactly")
    if len(first) > _MOST_ALTERNATIVES:
        yield TooMany(f"{path}.firstAvailable", len(first), _MOST_ALTERNATIVES)
        return
    known: set[str] = set()
    for i, alternative in enumerate(first):
        where, name = f"{path}.firstAvailable[{i}]", alternative.get("name") or ""
        yield from check_text(names.dns1123_label, name, f"{where}.name")
        yield from _check_devices(alternative, where)
        if name in known:
            yield Duplicate(where, name)
        known.add(name)


def _check_devices(request: Tree, path: str) -> Iterator[FieldError]:
    """Of which class devices are to be, how many, and what they have to have."""
    kind, mode, count = request.get("deviceClassName") or "", request.get("allocationMode") or "", request.get("count")
    if not kind:
        yield Required(f"{path}.deviceClassName")
    else:
        yield from check_text(names.dns1123_subdomain, kind, f"{path}.deviceClassName")
    yield from check_selectors(request.get("selectors") or (), f"{path}.selectors")
    if mode == "All":
        if count:
            yield Invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if (count or 0) <= 0:
            yield Invalid(f"{path}.count", count or 0, "must be greater than zero")
    else:
        yield NotSupported(f"{path}.allocationMode", mode, _MODES)
    for i, toleration in enumerate(request.get("tolerations") or ()):
        yield from _check_toleration(toleration, f"{path}.tolerations[{i}]")


def _check_toleration(toleration: Tree, path: str) -> Iterator[FieldError]:
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    if key:
        yield from check_qualified_name(key, f"{path}.key")
    if operator == "Exists":
        if value:
            yield Invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        if not key:
            yield Required(f"{path}.key", "must be set for operator `Equal`")
        yield from check_text(names.label_value, value, f"{path}.value")
    else:
        yield NotSupported(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    if effect and effect not in _EFFECTS:
        yield NotSupported(f"{path}.effect", effect, _EFFECTS)


def _check_names(given: Sequence[str], known: set[str], path: str) -> Iterator[FieldError]:
    used: set[str] = set()
    for i, name in enumerate(given):
        if name in used:
            yield Duplicate(f"{path}[{i}]", name)
        used.add(name)
        if name not in known:
            yield Invalid(f"{path}[{i}]", name, UNKNOWN_REQUEST)


def _check_constraint(constraint: Tree, path: str) -> Iterator[FieldError]:
    given = [name for name in ("matchAttribute", "distinctAttribute") if constraint.get(name) is not None]
    if len(given) != 1:
        why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        yield Required(path, why)
    for name in given:
        attribute = constraint[name]
        yield from check_attribute_name(attribute, f"{path}.{name}")
        if attribute and "/" not in attribute:
            yield Invalid(f"{path}.{name}", attribute, "must include a domain")


_LONGEST_NAME: Final = 32
_C_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_BAD_C_NAME: Final = names.regex_complaint(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'",
    _C_NAME,
    "my_name",
    "MY_NAME",
    "MyName",
)


def check_attribute_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of an attribute or a capacity of devices, after its domain if it has one."""
    if not name:
        yield Required(path, "name required")
        return
    domain, slash, rest = name.rpartition("/")
    if slash and not domain:
        yield Required(path, "the domain must not be empty")
    elif slash:
        yield from check_text(names.dns1123_subdomain, domain, path)
    if slash and not rest:
        yield Required(path, "the name must not be empty")
        return
    if len(rest.encode()) > _LONGEST_NAME:
        yield TooLong(path, _LONGEST_NAME)
    if not re.fullmatch(_C_NAME, rest, re.ASCII):
        yield Invalid(path, rest, _BAD_C_NAME)


def _check_configuration(configuration: Tree, path: str) -> Iterator[FieldError]:
    opaque = configuration.get("opaque")
    if opaque is None:
        yield Required(f"{path}.opaque")
        return
    yield from check_csi_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    if opaque.get("parameters") is None:
        yield Required(f"{path}.opaque.parameters")


def check_configurations(configurations: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """Check the configuration that is passed to the drivers of devices."""
    if len(configurations) > _MOST:
        yield TooMany(path, len(configurations), _MOST)
        return
    for i, configuration in enumerate(configurations):
        yield from _check_configuration(configuration, f"{path}[{i}]")
