"""The rules of pods and of templates of pods, in Kubernetes' order and words.

See also: `containers`, `volumes`, `security`, `placement`, `resources`, for the parts; `updates`, for what may change.
Source: Kubernetes' validation of core/v1, ``ValidatePodSpec``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from oarlock.apps.kinds.common.claims import check_claim_spec
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import NON_NEGATIVE, check_ip, check_labels, check_range, check_text
from oarlock.apps.kinds.pods.containers import PodSurroundings, check_containers, check_ephemeral_containers
from oarlock.apps.kinds.pods.defaults import warn_of_pod
from oarlock.apps.kinds.pods.placement import check_affinity, check_gates, check_spread, check_tolerations
from oarlock.apps.kinds.pods.resources import check_pod_resources, check_quantity, check_resource_name
from oarlock.apps.kinds.pods.security import check_host_users, check_os, check_pod_security
from oarlock.apps.kinds.pods.updates import check_ephemeral_update, check_resize, check_update
from oarlock.apps.kinds.pods.volumes import check_volumes
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required, TooLong
from oarlock.meta.json_trees import Tree

RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMES: Final = ("serviceAccountName", "nodeName")
_MIRROR: Final = "kubernetes.io/config.mirror"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP: Final = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/")
_LONGEST_HOSTNAME: Final = 64
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def check_pod(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    """The errors in a pod, and warnings about it."""
    part = ctx.target.subresource
    if part in ("binding", "eviction"):
        return
    spec = new.get("spec") or {}
    if old is None or not part:
        warn_of_pod(new, None if old is None else old.get("spec"), ctx)
    yield from _check_annotations(new, spec)
    yield from _check_spec(spec, "spec", RESTARTS, new)
    if old is None:
        if spec.get("ephemeralContainers"):
            yield Forbidden("spec.ephemeralContainers", "cannot be set on create")
        if spec.get("schedulingGates") and spec.get("nodeName"):
            yield Forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    elif not part:
        yield from check_update(spec, old.get("spec") or {})
    elif part == "resize":
        yield from check_resize(new, old)
    elif part == "ephemeralcontainers":
        yield from check_ephemeral_update(spec, old.get("spec") or {})


def check_template(
    template: Tree | None, path: str, restarts: Sequence[str] = ("Always",), claims: Iterable[str] = ()
) -> Iterator[FieldError]:
    """The errors in a template, whose pods may be restarted as `restarts` says, and get volumes for `claims` too."""
    metadata, spec = (template or {}).get("metadata") or {}, (template or {}).get("spec") or {}
    yield from check_labels(metadata.get("labels"), f"{path}.labels")
    for key in sorted(metadata.get("annotations") or {}):
        for complaint in names.qualified_name(key.lower()):
            yield Invalid(f"{path}.annotations", key, complaint)
    yield from _check_spec(spec, f"{path}.spec", restarts, None, claims)
    if spec.get("ephemeralContainers"):
        yield Forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _check_annotations(pod: Tree, spec: Tree) -> Iterator[FieldError]:
    annotations, path = at(pod, "metadata.annotations", {}), "metadata.annotations"
    if _MIRROR in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield Invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], why)
    cost = annotations.get(_COST)
    if cost is not None and not _is_int32(cost):
        yield Invalid(f"{path}[{_COST}]", cost, "must be a 32bit integer")
    for key, value in sorted(annotations.items()):
        local = value.startswith("localhost/")
        if key == _SECCOMP[0] or key.startswith(_SECCOMP[1]):
            if value not in ("docker/default", "runtime/default", "unconfined") and not local:
                yield Invalid(f"{path}.{key}", value, "must be a valid seccomp profile")
        elif key.startswith(_APP_ARMOR) and value not in ("", "runtime/default", "unconfined") and not local:
            yield Invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"')


def _is_int32(text: str) -> bool:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 12):
        return False
    return (digits == "0" or not digits.startswith("0")) and text != "-0" and -(2**31) <= int(text) < 2**31


def _check_spec(
    spec: Tree, path: str, restarts: Sequence[str], pod: Tree | None, claims: Iterable[str] = ()
) -> Iterator[FieldError]:
    """The errors in the specification of a pod, or of a template if `pod` is None."""
    volumes = spec.get("volumes") or ()
    name = "" if pod is None else at(pod, "metadata.name", "")
    bad = list(check_volumes(volumes, f"{path}.volumes", name, check_claim_spec))
    yield from bad
    yield from _check_claims(spec, pod, f"{path}.resourceClaims")
    grace = spec.get("terminationGracePeriodSeconds")
    surroundings = PodSurroundings(
        volumes=_usable(volumes, bad, f"{path}.volumes") | dict.fromkeys(claims, _CLAIMED),
        claims=frozenset(claim.get("name") or "" for claim in spec.get("resourceClaims") or ()),
        grace_s=grace,
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
        in_template=pod is None,
    )
    yield from check_containers(spec, surroundings, path)
    yield from check_ephemeral_containers(spec, surroundings, path)
    yield from check_pod_resources(spec, surroundings.claims, path)
    if spec.get("hostNetwork"):
        yield from _check_host_ports(spec, path, any_port=pod is not None)
    yield from _check_policies(spec, path, restarts)
    yield from check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from check_pod_security(spec, path)
    yield from check_affinity(spec.get("affinity"), f"{path}.affinity")
    yield from _check_dns(spec, f"{path}.dnsConfig")
    yield from check_gates(spec, path)
    yield from check_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    yield from check_host_users(spec, path)
    yield from _check_names(spec, path)
    yield from _check_overhead(spec, path)
    yield from check_os(spec, path)
    if (grace or 0) < 0 and pod is None:
        yield Invalid(f"{path}.terminationGracePeriodSeconds", grace, NON_NEGATIVE)


def _usable(volumes: Sequence[Tree], bad: Sequence[FieldError], path: str) -> dict[str, Tree]:
    """The volumes by name in which there is no error: containers can use no others."""
    wrong = tuple(error.path for error in bad)
    return {
        volume.get("name", ""): volume
        for i, volume in enumerate(volumes)
        if not wrong or not any(wrong_path.startswith(f"{path}[{i}]") for wrong_path in wrong)
    }


_CLAIMED: Final[Tree] = {"persistentVolumeClaim": {}}
"""What a claim of a StatefulSet is to its containers."""


def _check_claims(spec: Tree, pod: Tree | None, path: str) -> Iterator[FieldError]:
    """The devices that a pod asks for."""
    if spec.get("resourceClaims") and _MIRROR in at(pod, "metadata.annotations", {}):
        yield Forbidden("", "static pods do not support resource claims")
        return
    known: set[str] = set()
    for i, claim in enumerate(spec.get("resourceClaims") or ()):
        where, name = f"{path}[{i}]", claim.get("name") or ""
        if not name:
            yield Required(f"{where}.name")
        elif name in known:
            yield Duplicate(f"{where}.name", name)
        else:
            yield from check_text(names.dns1123_label, name, f"{where}.name")
            known.add(name)
        own, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if own is not None and template is not None:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield Invalid(where, go_value("PodResourceClaim", claim), why)
        if own is None and template is None:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield Invalid(where, go_value("PodResourceClaim", claim), why)
        for field, text in (("resourceClaimName", own), ("resourceClaimTemplateName", template)):
            if text is not None:
                yield from check_text(names.dns1123_subdomain, text, f"{where}.{field}")


def _check_host_ports(spec: Tree, path: str, *, any_port: bool) -> Iterator[FieldError]:
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (any_port or host) and host != port.get("containerPort", 0):
                where = f"{path}.containers[{i}].ports[{j}].hostPort"
                yield Invalid(where, host, "must match `containerPort` when `hostNetwork` is true")


def _check_policies(spec: Tree, path: str, restarts: Sequence[str]) -> Iterator[FieldError]:
    policy, dns = spec.get("restartPolicy", ""), spec.get("dnsPolicy", "")
    if restarts == ("OnFailure", "Never") and policy in ("", "Always"):
        yield Required(f"{path}.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in restarts:
        yield NotSupported(f"{path}.restartPolicy", policy, restarts)
    if dns not in _DNS:
        yield NotSupported(f"{path}.dnsPolicy", dns, _DNS)


def _check_dns(spec: Tree, path: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield Required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield Required(f"{path}.nameservers", why)
            return
    servers, searches = (config or {}).get("nameservers") or (), (config or {}).get("searches") or ()
    if len(servers) > 3:
        yield Invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for i, server in enumerate(servers):
        yield from check_ip(server, f"{path}.nameservers[{i}]")
    if len(searches) > 32:
        yield Invalid(f"{path}.searches", searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        why = "must not have more than 2048 characters (including spaces) in the search list"
        yield Invalid(f"{path}.searches", searches, why)
    for i, search in enumerate(searches):
        text = search.removesuffix(".") if search != "." else "a"
        yield from check_text(names.dns1123_subdomain_with_underscore, text, f"{path}.searches[{i}]")
    for i, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            yield Required(f"{path}.options[{i}]", "must not be empty")


def _check_names(spec: Tree, path: str) -> Iterator[FieldError]:
    for name in _NAMES:
        if spec.get(name):
            yield from check_text(names.dns1123_subdomain, spec[name], f"{path}.{name}")
    yield from check_range(spec.get("activeDeadlineSeconds"), 1, 2**31 - 1, f"{path}.activeDeadlineSeconds")
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from check_text(names.dns1123_label, spec[name], f"{path}.{name}")
    yield from _check_hostname(spec, f"{path}.hostnameOverride")
    yield from check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        yield from check_ip(alias.get("ip") or "", f"{path}.hostAliases[{i}].ip")
        for j, hostname in enumerate(alias.get("hostnames") or ()):
            yield from check_text(names.dns1123_subdomain, hostname, f"{path}.hostAliases[{i}].hostnames[{j}]")
    for name in ("priorityClassName", "runtimeClassName"):
        if spec.get(name) or (name == "runtimeClassName" and spec.get(name) is not None):
            yield from check_text(names.dns1123_subdomain, spec[name], f"{path}.{name}")
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in ("Never", "PreemptLowerPriority"):
        yield NotSupported(f"{path}.preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))


def _check_hostname(spec: Tree, path: str) -> Iterator[FieldError]:
    """A name of the host that stands for all others."""
    name = spec.get("hostnameOverride")
    if name is None:
        return
    if spec.get("setHostnameAsFQDN"):
        yield Forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield Forbidden(path, "may not be specified when hostNetwork is true")
    if len(name) > _LONGEST_HOSTNAME:
        yield TooLong(path, _LONGEST_HOSTNAME)
    yield from check_text(names.dns1123_subdomain, name, path)


def _check_overhead(spec: Tree, path: str) -> Iterator[FieldError]:
    for name, value in sorted((spec.get("overhead") or {}).items()):
        where = f"{path}.overhead[{name}]"
        yield from check_resource_name(name, where)
        yield from check_quantity(name, value, where)
