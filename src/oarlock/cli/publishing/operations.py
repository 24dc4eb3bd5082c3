"""What can be done with a kind, as curl, kubectl and Python say it."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.schema.definition import VersionDefinition


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation, with the request it is and three ways to make it. kubectl has no word for some."""

    title: str
    request: str
    curl: str
    kubectl: str
    python: str


_CURL = 'curl --cacert ca.crt --header "Authorization: Bearer $TOKEN"'
_JSON = "--header 'Content-Type: application/json' --data @object.json"
_MERGE = '--header \'Content-Type: application/merge-patch+json\' --data \'{"metadata": {"labels": {"a": "b"}}}\''


def operations_of(served: Served, version: VersionDefinition) -> Iterator[ShownOperation]:
    """The operations of one version."""
    definition, verbs = served.definition, {*served.verbs()}
    gvk = definition.gvk(version.name)
    plural = definition.names.plural
    full = ".".join(filter(None, (plural, gvk.version if gvk.group else "", gvk.group)))
    root = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
    path = f"{root}/namespaces/NAMESPACE/{plural}" if definition.namespaced else f"{root}/{plural}"
    spaced = " --namespace NAMESPACE" if definition.namespaced else ""
    argument = ', namespace="NAMESPACE"' if definition.namespaced else ""
    typed = f'"{gvk.api_version}/{gvk.kind}"'
    name, listed, kind = f"{path}/NAME", f"client.list({typed}{argument})", f'{typed}, "NAME"{argument}'
    known = {
        "create": (
            "Create",
            f"POST {path}",
            _JSON,
            f"create --filename object.yaml{spaced}",
            "await client.create(tree)",
        ),
        "get": ("Read one", f"GET {name}", "", f"get {full} NAME{spaced}", f"await client.get({kind})"),
        "list": ("List", f"GET {path}", "", f"get {full}{spaced}", f"[tree async for tree in {listed}]"),
        "watch": (
            "Watch",
            f"GET {path}?watch=true",
            "",
            f"get {full} --watch{spaced}",
            f"async for event in client.watch({typed}{argument}): ...",
        ),
        "update": (
            "Replace",
            f"PUT {name}",
            _JSON,
            f"replace --filename object.yaml{spaced}",
            "await client.update(tree)",
        ),
        "patch": (
            "Change a part",
            f"PATCH {name}",
            _MERGE,
            f"label {full} NAME a=b{spaced}",
            f'await client.patch({typed}, "NAME", {{"metadata": {{"labels": {{"a": "b"}}}}}}{argument})',
        ),
        "delete": ("Delete", f"DELETE {name}", "", f"delete {full} NAME{spaced}", f"await client.delete({kind})"),
    }
    for verb, (title, request, data, words, python) in known.items():
        if verb in verbs:
            yield _operation(title, request, data, f"kubectl {words}", python)
    yield from _subresources(version, name, full, spaced, kind)


def _subresources(version: VersionDefinition, name: str, full: str, spaced: str, kind: str) -> Iterator[ShownOperation]:
    if version.status:
        words = f"kubectl get {full} NAME --subresource status{spaced}"
        python = f'await client.request("GET", "{name}/status")'
        yield _operation("Read the status", f"GET {name}/status", "", words, python)
    if version.scale is not None:
        words = f"kubectl scale {full} NAME --replicas 3{spaced}"
        body = '{"spec": {"replicas": 3}}'
        data = f"--header 'Content-Type: application/merge-patch+json' --data '{body}'"
        python = f"await client.scale({kind}, replicas=3)"
        yield _operation("Scale", f"PATCH {name}/scale", data, words, python)
    for subresource in version.subresources:
        for verb in subresource.verbs:
            method = {"create": "POST", "get": "GET", "update": "PUT", "patch": "PATCH"}.get(verb, "")
            if method:
                path = f"{name}/{subresource.name}"
                data = _JSON if method in ("POST", "PUT") else _MERGE if method == "PATCH" else ""
                python = f'await client.request("{method}", "{path}")'
                words = f"kubectl get --raw {path}" if method == "GET" else ""
                yield _operation(f"{verb.capitalize()} {subresource.name}", f"{method} {path}", data, words, python)


def _operation(title: str, request: str, data: str, kubectl: str, python: str) -> ShownOperation:
    method, _, path = request.partition(" ")
    shown = "" if method == "GET" else f" --request {method}"
    curl = f'{_CURL}{shown}{f" {data}" if data else ""} "$SERVER{path}"'
    return ShownOperation(title, request, curl, kubectl, python)
