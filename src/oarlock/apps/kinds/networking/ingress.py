"""Ingresses of networking.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, age, age_of, first_few, text
from oarlock.apps.kinds.common.first_status import check_load_balancer, empty_load_balancer
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import (
    check_ip,
    check_port_name,
    check_port_number,
    check_required_name,
    check_text,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_ANNOTATION: Final = "kubernetes.io/ingress.class"
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_SUFFIXES: Final = ("/..", "/.")


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec, annotations = new.get("spec") or {}, at(new, "metadata.annotations", {})
    annotated, name = annotations.get(_ANNOTATION), spec.get("ingressClassName")
    if old is None and annotated is not None and name is not None and annotated != name:
        why = "must match `ingressClassName` when both are specified"
        yield Invalid(f"annotations.{_ANNOTATION}", annotated, why)
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield Invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for i, rule in enumerate(spec.get("rules") or ()):
        yield from _check_rule(rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            yield from _check_host(host, f"spec.tls[{i}].hosts[{j}]")
        if tls.get("secretName"):
            yield from check_text(names.dns1123_subdomain, tls["secretName"], f"spec.tls[{i}].secretName")
    if name is not None:
        yield from check_text(names.dns1123_subdomain, name, "spec.ingressClassName")
    if _ANNOTATION in annotations:
        text = "please use 'spec.ingressClassName' instead"
        ctx.warn(f'annotation "{_ANNOTATION}" is deprecated, {text}')


def _check_host(host: str, path: str) -> Iterator[FieldError]:
    yield from check_text(names.wildcard_subdomain if "*" in host else names.dns1123_subdomain, host, path)


def _check_rule(rule: Tree, path: str) -> Iterator[FieldError]:
    host = rule.get("host") or ""
    if host:
        if not list(check_ip(host, "", strict=False)):
            yield Invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from _check_host(host, f"{path}.host")
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or ()
    if not paths:
        yield Required(f"{path}.http.paths")
    for i, path_tree in enumerate(paths):
        yield from _check_path(path_tree, f"{path}.http.paths[{i}]")


def _check_path(path_tree: Tree, path: str) -> Iterator[FieldError]:
    kind, text = path_tree.get("pathType"), path_tree.get("path") or ""
    if kind is None:
        yield Required(f"{path}.pathType", "pathType must be specified")
    elif kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            yield Invalid(f"{path}.path", text, "must be an absolute path")
        for part in _SEQUENCES if text else ():
            if part in text:
                yield Invalid(f"{path}.path", text, f"must not contain '{part}'")
        for suffix in _SUFFIXES:
            if text.endswith(suffix):
                yield Invalid(f"{path}.path", text, f"cannot end with '{suffix}'")
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            yield Invalid(f"{path}.path", text, "must be an absolute path")
    else:
        yield NotSupported(f"{path}.pathType", kind, _PATH_TYPES)
    yield from _check_backend(path_tree.get("backend") or {}, f"{path}.backend")


def _check_backend(backend: Tree, path: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield Invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for field in ("kind", "name"):
            if not resource.get(field):
                yield Required(f"{path}.resource.{field}")
    elif service is None:
        yield Invalid(path, "", "resource or service backend is required")
    else:
        yield from check_required_name(names.dns1123_label, service.get("name"), f"{path}.service.name")
        yield from _check_backend_port(service.get("port") or {}, path)


def _check_backend_port(port: Tree, path: str) -> Iterator[FieldError]:
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        yield Invalid(path, "", "cannot set both port name & port number")
    elif name:
        yield from check_port_name(name, f"{path}.service.port.name")
    elif number:
        yield from check_port_number(number, f"{path}.service.port.number")
    else:
        yield Required(path, "port name or number is required")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    yield from check_load_balancer(at(new, "status.loadBalancer", {}), "status.loadBalancer", modes=False)


def _row(tree: Tree, now: float) -> list[Any]:
    hosts = [rule["host"] for rule in at(tree, "spec.rules", []) if rule.get("host")]
    shown = [
        ingress.get("ip") or ingress.get("hostname", "") for ingress in at(tree, "status.loadBalancer.ingress", [])
    ]
    ports = "80, 443" if at(tree, "spec.tls") else "80"
    return [
        at(tree, "spec.ingressClassName", NONE),
        first_few(hosts) if hosts else "*",
        ",".join(shown),
        ports,
        age_of(tree, now),
    ]


INGRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    short_names=("ing",),
    status=True,
    generation=True,
    columns=(text("Class"), text("Hosts"), text("Address"), text("Ports"), age()),
    complete=empty_load_balancer,
    row=_row,
    validate=_validate,
    validate_status=_check_status,
)
