"""The checks of pods and of templates of pods, in Kubernetes' order and words.

Not all of Kubernetes' rules: those that clients and people run into. See also: `checking`, for other kinds.
Source: Kubernetes' validation of core/v1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotFoundValue, NotSupported, Required

__all__ = ["check_pod", "check_template"]

RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_PORT: Final = "must be between 1 and 65535, inclusive"
_PORT_NAME: Final = "must be at most 15 characters of a-z, 0-9 and -, one of them a letter, and - at neither end"
_POSITIVE: Final = "must be greater than or equal to 0"
_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESIZES: Final = "only cpu and memory resources are mutable"


def check_pod(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    """The errors in a pod."""
    part = ctx.target.subresource
    if part in ("status", "binding"):
        return
    spec = new.get("spec") or {}
    yield from _check_spec(spec, "spec", RESTARTS)
    if old is not None:
        before = old.get("spec") or {}
        if part == "resize":
            yield from _check_resize(spec, before)
        elif part == "ephemeralcontainers":
            yield from _check_ephemeral(spec, before)
        else:
            yield from _check_update(spec, before)
    elif spec.get("ephemeralContainers"):
        yield Forbidden("spec.ephemeralContainers", "cannot be set on create")


def check_template(
    template: Tree | None, path: str, restarts: Sequence[str] = ("Always",), claims: Iterable[str] = ()
) -> Iterator[FieldError]:
    """The errors in a template, whose pods may be restarted as `restarts` says, and get volumes for `claims` too."""
    spec = (template or {}).get("spec") or {}
    yield from _check_spec(spec, f"{path}.spec", restarts, claims)
    if spec.get("ephemeralContainers"):
        yield Forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _check_spec(spec: Tree, path: str, restarts: Sequence[str], claims: Iterable[str] = ()) -> Iterator[FieldError]:
    """The errors in the specification of pods."""
    volumes: set[str] = set()
    yield from _check_volumes(spec.get("volumes") or (), f"{path}.volumes", volumes)
    volumes.update(claims)  # a claim takes the place of a volume of its name
    if not spec.get("containers"):
        yield Required(f"{path}.containers")
    used: set[str] = set()
    for name in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(name) or ()):
            yield from _check_container(container, f"{path}.{name}[{i}]", used, volumes)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        yield from _check_name(container, f"{path}.ephemeralContainers[{i}].name", used)
    if spec.get("restartPolicy") not in restarts:
        yield NotSupported(f"{path}.restartPolicy", spec.get("restartPolicy", ""), restarts)
    if spec.get("dnsPolicy", "") not in _DNS:
        yield NotSupported(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS)
    if spec.get("dnsPolicy") == "None" and not at(spec, "dnsConfig.nameservers"):
        why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield Required(f"{path}.dnsConfig.nameservers", why)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield Invalid(f"{path}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], _POSITIVE)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        yield Invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    for name in ("serviceAccountName", "nodeName", "priorityClassName"):
        for complaint in names.dns1123_subdomain(spec[name]) if spec.get(name) else ():
            yield Invalid(f"{path}.{name}", spec[name], complaint)
    for name in ("hostname", "subdomain"):
        for complaint in names.dns1123_label(spec[name]) if spec.get(name) else ():
            yield Invalid(f"{path}.{name}", spec[name], complaint)


def _check_volumes(volumes: Sequence[Tree], path: str, known: set[str]) -> Iterator[FieldError]:
    for i, volume in enumerate(volumes):
        name, where = volume.get("name", ""), f"{path}[{i}].name"
        if not name:
            yield Required(where)
        elif complaints := names.dns1123_label(name):
            yield from (Invalid(where, name, one) for one in complaints)
        elif name in known:
            yield Duplicate(where, name)
        known.add(name)
        sources = sorted(volume.keys() - {"name"})
        for source in sources[1:]:
            yield Forbidden(f"{path}[{i}].{source}", "may not specify more than 1 volume type")


def _check_name(container: Tree, path: str, used: set[str]) -> Iterator[FieldError]:
    name = container.get("name", "")
    if not name:
        yield Required(path)
    elif complaints := names.dns1123_label(name):
        yield from (Invalid(path, name, one) for one in complaints)
    elif name in used:
        yield Duplicate(path, name)
    used.add(name)


def _check_container(container: Tree, path: str, used: set[str], volumes: set[str]) -> Iterator[FieldError]:
    yield from _check_name(container, f"{path}.name", used)
    image = container.get("image", "")
    if not image:
        yield Required(f"{path}.image")
    elif image != image.strip():
        yield Invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for name, known in (("terminationMessagePolicy", _MESSAGES), ("imagePullPolicy", _PULLS)):
        if container.get(name) not in known:
            yield NotSupported(f"{path}.{name}", container.get(name, ""), known)
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    for i, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield Required(f"{path}.env[{i}].name")
        if variable.get("value") and variable.get("valueFrom"):
            why = "may not be specified when `value` is not empty"
            yield Invalid(f"{path}.env[{i}].valueFrom", "", why)
    yield from _check_mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)


def _check_ports(ports: Sequence[Tree], path: str) -> Iterator[FieldError]:
    named: set[str] = set()
    for i, port in enumerate(ports):
        name, number = port.get("name", ""), port.get("containerPort", 0)
        if name and (len(name) > 15 or names.dns1123_label(name) or not any(map(str.isalpha, name))):
            yield Invalid(f"{path}[{i}].name", name, _PORT_NAME)
        elif name and name in named:
            yield Duplicate(f"{path}[{i}].name", name)
        named.add(name)
        if not number:
            yield Required(f"{path}[{i}].containerPort")
        elif not 1 <= number <= 65535:
            yield Invalid(f"{path}[{i}].containerPort", number, _PORT)
        host = port.get("hostPort")
        if host and not 1 <= host <= 65535:
            yield Invalid(f"{path}[{i}].hostPort", host, _PORT)
        if port.get("protocol") not in _PROTOCOLS:
            yield NotSupported(f"{path}[{i}].protocol", port.get("protocol", ""), _PROTOCOLS)


def _check_mounts(mounts: Sequence[Tree], path: str, volumes: set[str]) -> Iterator[FieldError]:
    places: set[str] = set()
    for i, mount in enumerate(mounts):
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield Required(f"{path}[{i}].name")
        elif name not in volumes:
            yield NotFoundValue(f"{path}[{i}].name", name)
        if not place:
            yield Required(f"{path}[{i}].mountPath")
        elif place in places:
            yield Invalid(f"{path}[{i}].mountPath", place, "must be unique")
        places.add(place)


def _check_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            yield Forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    allowed = copy.deepcopy(spec)
    for name in ("containers", "initContainers"):
        for container, live in zip(allowed.get(name) or (), before.get(name) or (), strict=True):
            container["image"] = live.get("image", "")
    deadline, limit = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline != limit and limit is not None and (deadline is None or deadline > limit):
        yield Invalid("spec.activeDeadlineSeconds", deadline, f"must be less than or equal to previous value ({limit})")
    _keep(allowed, before, "activeDeadlineSeconds")
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _keep(allowed, before, "terminationGracePeriodSeconds")
    tolerations = before.get("tolerations") or []
    if all(one in (spec.get("tolerations") or ()) for one in tolerations):
        _keep(allowed, before, "tolerations")
    if before.get("schedulingGates"):
        gates = before["schedulingGates"]
        if all(one in gates for one in spec.get("schedulingGates") or ()):
            _keep(allowed, before, "schedulingGates")
        for name in ("nodeSelector", "affinity"):
            _keep(allowed, before, name)
    if allowed != before:
        yield Forbidden("spec", _UPDATES)


def _keep(tree: Tree, before: Tree, name: str) -> None:
    if name in before:
        tree[name] = before[name]
    else:
        tree.pop(name, None)


def _check_resize(spec: Tree, before: Tree) -> Iterator[FieldError]:
    if _without_resources(spec) != _without_resources(before):
        yield Forbidden("spec", _RESIZES)


def _without_resources(spec: Tree) -> Any:
    rest = {**spec, "resources": None}
    for name in ("containers", "initContainers"):
        rest[name] = [{**one, "resources": None, "resizePolicy": None} for one in spec.get(name) or ()]
    return rest


def _check_ephemeral(spec: Tree, before: Tree) -> Iterator[FieldError]:
    now = {one.get("name"): one for one in spec.get("ephemeralContainers") or ()}
    for one in before.get("ephemeralContainers") or ():
        if one.get("name") not in now:
            yield Forbidden("spec.ephemeralContainers", "existing ephemeral containers may not be removed\n")
        elif now[one.get("name")] != one:
            yield Forbidden("spec.ephemeralContainers", "existing ephemeral containers may not be changed\n")
