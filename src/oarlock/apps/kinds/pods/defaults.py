"""The defaults of pods and of templates of pods that depend on something. Source: Kubernetes' defaults of core/v1.

Pure functions that change an object in place; fixed defaults are in ``apps.kinds.released``. See also: `defaulting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.apps.kinds.pods.security import each_container
from oarlock.meta.context import MOST_WARNINGS, Context
from oarlock.meta.json_trees import Tree

_TAG = re.compile(r":(?P<tag>[\w][\w.-]{0,127})$", re.ASCII)
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$", re.ASCII)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def settle_pod(tree: Tree) -> None:
    """A pod of its own."""
    spec = tree.get("spec")
    if spec is None:
        return
    spec.setdefault("enableServiceLinks", True)
    _same_account(spec)
    _settle_spec(spec)
    for container in _containers(spec):
        _request_limits(container)
    _request_together(spec)
    _host_ports(spec)


def settle_template(template: Tree | None) -> None:
    """A template in another kind."""
    if template is not None:
        template.setdefault("metadata", {})
    spec = (template or {}).get("spec")
    if spec is not None:
        _same_account(spec)
        _settle_spec(spec)
        _host_ports(spec)


def _settle_spec(spec: Tree) -> None:
    """What pods and templates have in common."""
    for container in _containers(spec):
        if "stopSignal" in (container.get("lifecycle") or ()):
            _without_signal(container)
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
        for variable in container.get("env") or ():
            _divide(at(variable, "valueFrom.resourceFieldRef"))
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            probe = container.get(name)
            if probe and "httpGet" in probe:
                probe["httpGet"].setdefault("scheme", "HTTP")
    for volume in spec.get("volumes") or ():
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}
        claim = at(volume, "ephemeral.volumeClaimTemplate")
        if claim is not None:
            claim.setdefault("metadata", {})
            if claim.get("spec") is not None:
                claim["spec"].setdefault("volumeMode", "Filesystem")
        image = volume.get("image")
        if image is not None:
            image.setdefault("pullPolicy", _pull_policy(image.get("reference") or ""))
        for item in at(volume, "downwardAPI.items", ()):
            _divide(item.get("resourceFieldRef"))
        for source in at(volume, "projected.sources", ()):
            for item in at(source, "downwardAPI.items", ()):
                _divide(item.get("resourceFieldRef"))


def _without_signal(container: Tree) -> None:
    """A signal to stop by is an early feature of Kubernetes, which is off."""
    del container["lifecycle"]["stopSignal"]
    if not container["lifecycle"]:
        del container["lifecycle"]


def _divide(resource: Tree | None) -> None:
    """Go writes a quantity also where there is none."""
    if resource is not None:
        resource.setdefault("divisor", "0")


def _containers(spec: Tree) -> Iterator[Tree]:
    for name in _CONTAINERS:
        yield from spec.get(name) or ()


def _pull_policy(image: str) -> str:
    """Always for an image without a fixed tag; not for what is no image."""
    if "@" in image or not _IMAGE.match(image):
        return "IfNotPresent"
    tag = _TAG.search(image.rpartition("/")[2])
    return "Always" if tag is None or tag["tag"] == "latest" else "IfNotPresent"


def _request_limits(container: Tree) -> None:
    """What is limited but not requested is requested up to the limit."""
    limits = at(container, "resources.limits")
    if limits:
        requests = below(container["resources"], "requests")
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _request_together(spec: Tree) -> None:
    """A pod that limits cpu or memory as a whole requests what its containers do, or else the limit."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = {**(resources.get("requests") or {})}
    for name, limit in resources["limits"].items():
        wanted = [
            quantity(at(container, "resources.requests", {}).get(name)) for container in spec.get("containers") or ()
        ]
        given = [amount for amount in wanted if amount]
        requests.setdefault(name, str(sum(given[1:], start=given[0])) if given else limit)
    resources["requests"] = requests


def _same_account(spec: Tree) -> None:
    """``serviceAccount`` is the old name of ``serviceAccountName``; both say the same."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _host_ports(spec: Tree) -> None:
    if spec.get("hostNetwork"):
        for container in _containers(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


GONE_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
SHOWN_VOLUMES: Final = {"storageos": "storageOS"}
_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_COMPARED: Final = 8
"""With so many ports of one number another one is compared."""

_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def warn_of_pod(pod: Tree, old: Tree | None, ctx: Context) -> None:
    """Warn of a new pod; of one that changes, nothing is said that was so before."""
    _warn(pod.get("spec") or {}, pod.get("metadata") or {}, "", old, ctx)


def warn_of_template(template: Tree | None, path: str, old: Tree | None, ctx: Context) -> None:
    """The same for a template, which is at `path`; `old` is the template before."""
    if template and (old is None or template != old):
        _warn(template.get("spec") or {}, template.get("metadata") or {}, f"{path}.", (old or {}).get("spec"), ctx)


def _warn(spec: Tree, metadata: Tree, prefix: str, old: Tree | None, ctx: Context) -> None:
    if old is not None and spec == old:
        return
    texts = chain(_of_spec(spec, f"{prefix}spec"), _of_annotations(spec, metadata, prefix))
    for text in islice(texts, MOST_WARNINGS):
        ctx.warn(text)


def _of_spec(spec: Tree, path: str) -> Iterator[str]:
    for key in sorted((spec.get("nodeSelector") or {}).keys() & _LABELS.keys()):
        yield f"{path}.nodeSelector[{key}]: {_LABELS[key]}"
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        key, where = constraint.get("topologyKey"), f"{path}.topologySpreadConstraints[{i}]"
        if key in _LABELS:
            yield f"{where}.topologyKey: {key} is {_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: a null labelSelector results in matching no pod"
    yield from _of_volumes(spec.get("volumes") or (), f"{path}.volumes")
    yield from _of_repeats(spec.get("hostAliases") or (), "ip", f"{path}.hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _of_repeats(secrets, "name", f"{path}.imagePullSecrets")
    for i, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{i}].name: invalid empty name ""'
    yield from _of_fractions(spec.get("overhead"), f"{path}.overhead")
    for container, where in each_container(spec, path):
        for what in ("limits", "requests"):
            yield from _of_fractions(at(container, f"resources.{what}"), f"{where}.resources.{what}")
        yield from _of_variables(container.get("env") or (), f"{where}.env")
    yield from _of_ports(spec, path)
    yield from _of_affinity(spec, path)


def _of_volumes(volumes: Sequence[Tree], path: str) -> Iterator[str]:
    for i, volume in enumerate(volumes):
        for name, text in GONE_VOLUMES.items():
            if volume.get(name) is not None:
                yield f"{path}[{i}].{SHOWN_VOLUMES.get(name, name)}: {text}"
        projected = volume.get("projected")
        if projected is not None:
            for source in projected.get("sources") or ():
                if not source:
                    yield f'volume "{volume.get("name", "")}" (Projected) has no sources provided'


def _of_repeats(things: Sequence[Tree], field: str, path: str) -> Iterator[str]:
    known = set()
    for i, thing in enumerate(things):
        value = thing.get(field) or ""
        if value in known:
            yield f'{path}[{i}].{field}: duplicate {field} "{value}"'
        known.add(value)


def _of_fractions(amounts: Tree | None, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        amount = quantity(amounts[name]) if amounts and name in amounts else None
        if amount is not None and not amount.is_whole():
            shown = amount.rounded(-3)
            yield f'{path}[{name}]: fractional byte value "{shown}" is invalid, must be an integer'


def _of_variables(variables: Sequence[Tree], path: str) -> Iterator[str]:
    known = set()
    for i, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        itself = f"$({name})"
        if name not in known:
            known.add(name)
        elif variable.get("valueFrom") is not None or value == itself or itself not in value:
            yield f'{path}[{i}]: hides previous definition of "{name}", which may be dropped when using apply'


def _of_ports(spec: Tree, path: str) -> Iterator[str]:
    known: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    named: dict[str, str] = {}
    for container, where in each_container(spec, path):
        for i, port in enumerate(container.get("ports") or ()):
            place, number, protocol = f"{where}.ports[{i}]", port.get("containerPort", 0), port.get("protocol", "")
            address, host = port.get("hostIP") or "", port.get("hostPort") or 0
            if address and not host:
                shown = f"Name:{port.get('name', '')} HostPort:0 ContainerPort:{number} Protocol:{protocol}"
                yield f"{place}: hostIP set without hostPort: {{{shown} HostIP:{address}}}"
            others = known.setdefault((number, protocol), [])
            for other, other_address, other_host in others:
                if (address, host) == (other_address, other_host):
                    yield f"{place}: duplicate port definition with {other}"
                elif not host or not other_host:
                    yield f"{place}: overlapping port definition with {other}"
                elif host == other_host and bool(address) != bool(other_address):
                    yield f"{place}: dangerously ambiguous port definition with {other}"
            if len(others) < _COMPARED:
                others.append((place, address, host))
            name = port.get("name")
            if name and name in named:
                which = f"services and probes that select ports by name will use {named[name]}"
                yield f'{place}: duplicate port name "{name}" with {named[name]}, {which}'
            elif name:
                named[name] = place


def _of_affinity(spec: Tree, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = at(spec, f"affinity.{kind}", {})
        for i, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _of_term(term, f"{path}.affinity.{kind}.{_REQUIRED}[{i}]")
        for i, term in enumerate(pods.get(_PREFERRED) or ()):
            inner = term.get("podAffinityTerm") or {}
            yield from _of_term(inner, f"{path}.affinity.{kind}.{_PREFERRED}[{i}].podAffinityTerm")


def _of_term(term: Tree, path: str) -> Iterator[str]:
    if term.get("labelSelector") is None:
        yield f"{path}.labelSelector: a null labelSelector results in matching no pod"


def _of_annotations(spec: Tree, metadata: Tree, prefix: str) -> Iterator[str]:
    annotations = metadata.get("annotations") or {}
    for container, _ in each_container(spec, ""):
        key = f"{_APP_ARMOR}{container.get('name', '')}"
        if key in annotations and at(container, "securityContext.appArmorProfile") is None:
            yield (
                f'{prefix}metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
            )
