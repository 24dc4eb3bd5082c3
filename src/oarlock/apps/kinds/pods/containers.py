"""The containers of pods: regular, initial and ephemeral ones, with their probes, hooks and ports.

Source: Kubernetes' validation of core/v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec

from oarlock.apps.kinds.common.values import (
    check_not_negative,
    check_port,
    check_port_name,
    check_port_number,
    check_required_name,
    check_whether_supported,
)
from oarlock.apps.kinds.pods.resources import check_container_resources
from oarlock.apps.kinds.pods.security import check_security_context
from oarlock.apps.kinds.pods.sources import check_env, check_env_from
from oarlock.apps.kinds.pods.volumes import check_mounts_and_devices
from oarlock.meta import names
from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import (
    Duplicate,
    FieldError,
    Forbidden,
    Invalid,
    NotFoundValue,
    NotSupported,
    Required,
    TooMany,
)
from oarlock.meta.json_trees import Tree

_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_NOT_OF_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_HEADER: Final = names.regex_complaint(
    "a valid HTTP header must consist of alphanumeric characters or '-'", "[-A-Za-z0-9]+", "X-Header-Name"
)

_PLACED: Final = ("volumeMounts", "volumeDevices")
_REMEMBERED_BYTES: Final = 4096
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class PodSurroundings:
    """What rules for a container need of its pod: volumes by name, the names of its claims, and fields of its spec.

    `grace_s` is None if the pod's grace period is one that another rule refuses. `in_template` says that it is a
    template of pods.
    """

    volumes: Mapping[str, Tree]
    claims: frozenset[str]
    grace_s: int | None
    restart_policy: str
    host_users: bool
    in_template: bool


def check_containers(spec: Tree, pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    """The regular and the initial containers of a pod."""
    containers = spec.get("containers") or ()
    if not containers:
        yield Required(f"{path}.containers")
    used: set[str] = set()
    for i, container in enumerate(containers):
        where = f"{path}.containers[{i}]"
        sound = _is_known_as_sound(container, pod)
        if sound:
            yield from check_mounts_and_devices(container, pod.volumes, where)
        else:
            yield from _check_container(container, pod, where)
        if container.get("name", "") in used:
            yield Duplicate(f"{where}.name", container.get("name", ""))
        used.add(container.get("name", ""))
        if not sound:
            yield from _check_running(container, pod, where)
            yield from _check_restarts(container, where)
    yield from _check_host_ports(containers, f"{path}.containers", set())
    for i, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{i}]"
        yield from _check_container(container, pod, where)
        yield from _check_restarts(container, where)
        if container.get("name", "") in used:
            yield Duplicate(f"{where}.name", container["name"])
        elif container.get("name"):
            used.add(container["name"])
        yield from _check_host_ports([container], f"{path}.initContainers", set())
        if container.get("restartPolicy") == "Always":
            yield from _check_running(container, pod, where)
        else:
            for field in ("lifecycle", *_PROBES):
                if container.get(field) is not None:
                    yield Forbidden(f"{where}.{field}", _SIDECARS)


def check_ephemeral_containers(spec: Tree, pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    """The containers that a running pod was given for debugging."""
    others = {
        container.get("name", "") for kind in ("containers", "initContainers") for container in spec.get(kind) or ()
    }
    used = set(others)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        where, name = f"{path}.ephemeralContainers[{i}]", container.get("name", "")
        yield from _check_container(container, pod, where)
        if name in used:
            yield Duplicate(f"{where}.name", name)
        used.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            yield NotFoundValue(f"{where}.targetContainerName", target)
        for field in _NOT_OF_EPHEMERAL:
            if container.get(field) or (field not in ("resources", "ports") and container.get(field) is not None):
                yield Forbidden(f"{where}.{field}", _EPHEMERAL)
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield Forbidden(f"{where}.volumeMounts[{j}].{field}", _EPHEMERAL)


def _is_known_as_sound(container: Tree, pod: PodSurroundings) -> bool:
    """Whether there is no error in a regular container besides those of its mounts and devices.

    The pods of a controller have the same containers, except for the name of the volume with their token.
    """
    text = _encode({name: value for name, value in container.items() if name not in _PLACED})
    if len(text) > _REMEMBERED_BYTES or b"fileKeyRef" in text:  # such a variable is of a volume
        return False
    return _is_sound(text, pod.claims, pod.grace_s, pod.restart_policy, pod.host_users, pod.in_template)


@lru_cache(256)
def _is_sound(
    text: bytes, claims: frozenset[str], grace_s: int | None, restart_policy: str, host_users: bool, in_template: bool
) -> bool:
    container: Tree = _decode(text)
    pod = PodSurroundings({}, claims, grace_s, restart_policy, host_users, in_template)
    checks = (_check_container(container, pod, ""), _check_running(container, pod, ""), _check_restarts(container, ""))
    return next(chain(*checks), None) is None


def _check_container(container: Tree, pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    """What containers of all sorts have in common."""
    yield from check_required_name(names.dns1123_label, container.get("name"), f"{path}.name")
    image = container.get("image") or ""
    if not image:
        yield Required(f"{path}.image")
    elif not pod.in_template and image != image.strip():
        yield Invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("terminationMessagePolicy")
    yield from check_whether_supported(policy, _MESSAGES, f"{path}.terminationMessagePolicy")
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    yield from check_env(container.get("env") or (), f"{path}.env")
    yield from _check_files(container.get("env") or (), pod, f"{path}.env")
    yield from check_env_from(container.get("envFrom") or (), f"{path}.envFrom")
    yield from check_mounts_and_devices(container, pod.volumes, path)
    yield from check_whether_supported(container.get("imagePullPolicy"), _PULLS, f"{path}.imagePullPolicy")
    yield from check_container_resources(container.get("resources"), pod.claims, f"{path}.resources")
    yield from _check_resizes(container.get("resizePolicy") or (), pod.restart_policy, f"{path}.resizePolicy")
    yield from check_security_context(container.get("securityContext"), pod.host_users, f"{path}.securityContext")


def _check_files(variables: Sequence[Tree], pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    """The volumes that variables are read from."""
    for i, variable in enumerate(variables):
        name = ((variable.get("valueFrom") or {}).get("fileKeyRef") or {}).get("volumeName")
        if name and name not in pod.volumes:
            yield NotFoundValue(f"{path}[{i}].valueFrom.fileKeyRef.volumeName", name)


def _check_ports(ports: Sequence[Tree], path: str) -> Iterator[FieldError]:
    named: set[str] = set()
    for i, port in enumerate(ports):
        name, number, host = port.get("name") or "", port.get("containerPort") or 0, port.get("hostPort") or 0
        where = f"{path}[{i}]"
        complaints = list(check_port_name(name, f"{where}.name")) if name else []
        yield from complaints
        if name and not complaints:
            if name in named:
                yield Duplicate(f"{where}.name", name)
            named.add(name)
        if not number:
            yield Required(f"{where}.containerPort")
        else:
            yield from check_port_number(number, f"{where}.containerPort")
        if host:
            yield from check_port_number(host, f"{where}.hostPort")
        yield from check_whether_supported(port.get("protocol"), _PROTOCOLS, f"{where}.protocol")


def _check_host_ports(containers: Sequence[Tree], path: str, used: set[str]) -> Iterator[FieldError]:
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in used:
                    yield Duplicate(f"{path}[{i}].ports[{j}].hostPort", key)
                used.add(key)


def _check_resizes(policies: Sequence[Tree], restart_policy: str, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for i, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in known:
            yield Duplicate(f"{path}[{i}]", name)
        known.add(name)
        yield from check_whether_supported(name, ("cpu", "memory"), path)
        yield from check_whether_supported(restart, ("NotRequired", "RestartContainer"), path)
        if restart_policy == "Never" and restart != "NotRequired":
            yield Invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _check_restarts(container: Tree, path: str) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and rules:
        yield Required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy is not None and policy not in _RESTARTS:
        yield NotSupported(f"{path}.restartPolicy", policy, _RESTARTS)
    if len(rules) > 20:
        yield TooMany(f"{path}.restartPolicyRules", len(rules), 20)
    for i, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{i}]", rule.get("exitCodes")
        actions = ("Restart", "RestartAllContainers")
        if rule.get("action") not in actions:
            yield NotSupported(f"{where}.action", rule.get("action", ""), actions)
        if codes is None:
            yield Required(f"{where}.exitCodes", "must be specified")
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            yield NotSupported(f"{where}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn"))
        if len(codes.get("values") or ()) > 255:
            yield TooMany(f"{where}.exitCodes.values", len(codes["values"]), 255)


def _check_running(container: Tree, pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    """The hooks and probes of a container that goes on."""
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            yield from _check_handler(lifecycle[name], pod.grace_s, f"{path}.lifecycle.{name}")
    for name in _PROBES:
        if container.get(name) is not None:
            yield from _check_probe(name, container[name], pod, f"{path}.{name}")


def _check_probe(kind: str, probe: Tree, pod: PodSurroundings, path: str) -> Iterator[FieldError]:
    yield from _check_handler({**probe, "sleep": None}, pod.grace_s, path)
    fields = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    yield from check_not_negative(probe, path, *fields)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield Invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            yield Invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield Invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def _check_handler(handler: Tree, grace_s: int | None, path: str) -> Iterator[FieldError]:
    """One way to act on a container or to ask it."""
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield Required(path, "must specify a handler type")
    for name in given[1:]:
        yield Forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    for name in given[:1]:
        yield from _check_action(name, handler[name], grace_s, f"{path}.{name}")


def _check_action(kind: str, action: Tree, grace_s: int | None, path: str) -> Iterator[FieldError]:
    if kind == "exec" and not action.get("command"):
        yield Required(f"{path}.command")
    elif kind == "httpGet":
        yield from _check_http(action, path)
    elif kind in ("tcpSocket", "grpc"):
        yield from check_port(action.get("port", 0), f"{path}.port")
    elif kind == "sleep" and grace_s is not None:
        seconds: Any = action.get("seconds") or 0
        if not 0 <= seconds <= grace_s:
            why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
            yield Invalid(path, seconds, why)


def _check_http(action: Tree, path: str) -> Iterator[FieldError]:
    if not action.get("path"):
        yield Required(f"{path}.path")
    yield from check_port(action.get("port", 0), f"{path}.port")
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        yield NotSupported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not name or not all(char.isascii() and (char.isalnum() or char == "-") for char in name):
            yield Invalid(f"{path}.httpHeaders", name, _HEADER)
