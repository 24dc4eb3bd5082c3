"""Requests about berths that every home must answer alike: each verb, good and bad, in each version.

`Step` is one request, `STEPS` are all in their order, `told` is what counts of an answer.
"""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

from webhook_home import GROUP, wreck_known

from oarlock.registry.kept_fields import ANNOTATION
from oarlock.testing.client import HTTPClient

__all__ = ["DIFFERENT", "STEPS", "Step", "all_told", "all_told_over_http", "told"]

Tree = dict[str, Any]

BERTHS = f"/apis/{GROUP}/v1/namespaces/default/berths"
OLD_BERTHS = f"/apis/{GROUP}/v1alpha1/namespaces/default/berths"
WRECKS = f"/apis/{GROUP}/v1/namespaces/default/wrecks"
MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"


class Step(NamedTuple):
    """One request. `live` says that the body is the live object, changed by `body`."""

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    live: bool = False

    @property
    def object_path(self) -> str:
        """Where the live object is."""
        return self.path.partition("?")[0]

    def body_on(self, live: Tree) -> Any:
        """The body of the request, where `live` is the object, if that counts."""
        if not self.live:
            return self.body
        return {**live, **{name: {**live.get(name, {}), **value} for name, value in self.body.items()}}


def berth(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Berth",
        "metadata": {"name": name},
        "spec": {"ship": "argo", **spec},
    }


def old_berth(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Berth",
        "metadata": {"name": name},
        "spec": {"vessel": "argo", **spec},
    }


def generated() -> Tree:
    tree = berth("")
    tree["metadata"] = {"generateName": "b-"}
    return tree


def held(name: str) -> Tree:
    tree = berth(name)
    tree["metadata"]["finalizers"] = ["harbour.example.com/held"]
    return tree


ROPES = [{"knot": "bowline"}, {"length": 20}]
WRECK = {"apiVersion": f"{GROUP}/v1", "kind": "Wreck", "metadata": {"name": "w"}, "spec": {"ship": "titanic"}}

STEPS = (
    # create
    Step("create", "POST", BERTHS, berth("a", ropes=ROPES)),
    Step("create, a plugin changes it", "POST", BERTHS, berth("mine", pilot="me")),
    Step("create, with a generated name", "POST", BERTHS, generated()),
    Step("create again", "POST", BERTHS, berth("a")),
    Step("create, two errors of validate", "POST", BERTHS, berth("b", ship="ghost", ropes=[{"length": 500}])),
    Step("create, an error of the schema", "POST", BERTHS, berth("b", depth=-1)),
    Step("create, errors of schema and validate", "POST", BERTHS, berth("b", depth=-1, ship="ghost")),
    Step("create, of the wrong type", "POST", BERTHS, berth("b", ship=3)),
    Step("create, without what is required", "POST", BERTHS, {**berth("b"), "spec": {}}),
    Step("create, with an unknown field", "POST", BERTHS, berth("unknown", colour="red")),
    Step(
        "create, strictly, with an unknown field", "POST", f"{BERTHS}?fieldValidation=Strict", berth("b", colour="red")
    ),
    Step("create, a plugin refuses", "POST", BERTHS, berth("b", ship="titanic")),
    Step("create, with a warning", "POST", BERTHS, berth("deep", depth=60)),
    Step("create, dry run", "POST", f"{BERTHS}?dryRun=All", berth("dry", pilot="me")),
    Step("create, dry run, bad", "POST", f"{BERTHS}?dryRun=All", berth("dry", ship="ghost")),
    Step("create, with a status", "POST", BERTHS, {**berth("stated"), "status": {"note": "lie"}}),
    Step("create, of the old version", "POST", OLD_BERTHS, old_berth("old", depth=4)),
    Step("create, of the old version, bad", "POST", OLD_BERTHS, old_berth("b", vessel="ghost")),
    Step("create, of the old version, bad by its schema", "POST", OLD_BERTHS, old_berth("b", depth=-1)),
    Step("create, without hooks", "POST", WRECKS, {**WRECK, "metadata": {"name": "other"}, "spec": {"ship": "x"}}),
    # read
    Step("get", "GET", f"{BERTHS}/a"),
    Step("get, of the old version", "GET", f"{OLD_BERTHS}/a"),
    # update
    Step("update", "PUT", f"{BERTHS}/a", {"spec": {"depth": 7}}, live=True),
    Step("update, bad", "PUT", f"{BERTHS}/a", {"spec": {"depth": 1}}, live=True),
    Step("update, nothing changes", "PUT", f"{BERTHS}/a", {}, live=True),
    Step("update, of another revision", "PUT", f"{BERTHS}/a", {"metadata": {"resourceVersion": "1"}}, live=True),
    Step("update, without a revision", "PUT", f"{BERTHS}/a", berth("a")),
    Step("update, dry run", "PUT", f"{BERTHS}/a?dryRun=All", {"spec": {"depth": 9}}, live=True),
    Step("update, of the old version", "PUT", f"{OLD_BERTHS}/a", {"spec": {"vessel": "nautilus"}}, live=True),
    Step("get, ropes are there still", "GET", f"{BERTHS}/a"),
    Step("update, nobody is there", "PUT", f"{BERTHS}/nobody", berth("nobody")),
    Step("update, of the status alone", "PUT", f"{BERTHS}/a", {"status": {"note": "lie"}}, live=True),
    # patch
    Step("merge patch", "PATCH", f"{BERTHS}/a", {"spec": {"pilot": None}}, MERGE),
    Step("merge patch, bad", "PATCH", f"{BERTHS}/a", {"spec": {"ship": "ghost"}}, MERGE),
    Step("merge patch, of metadata", "PATCH", f"{BERTHS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    Step("merge patch, of the old version", "PATCH", f"{OLD_BERTHS}/a", {"spec": {"depth": 8}}, MERGE),
    Step("merge patch, of the old version, bad", "PATCH", f"{OLD_BERTHS}/a", {"spec": {"depth": 2}}, MERGE),
    Step("merge patch, dry run", "PATCH", f"{BERTHS}/a?dryRun=All", {"spec": {"depth": 30}}, MERGE),
    Step("json patch", "PATCH", f"{BERTHS}/a", [{"op": "add", "path": "/spec/ropes/-", "value": {}}], JSON),
    Step("json patch, bad", "PATCH", f"{BERTHS}/a", [{"op": "replace", "path": "/spec/depth", "value": 1}], JSON),
    Step("json patch, doesn't apply", "PATCH", f"{BERTHS}/a", [{"op": "remove", "path": "/spec/x"}], JSON),
    # apply
    Step("apply, creates", "PATCH", f"{BERTHS}/applied?fieldManager=m", berth("applied", depth=5), APPLY),
    Step("apply, changes", "PATCH", f"{BERTHS}/applied?fieldManager=m", berth("applied", depth=6), APPLY),
    Step("apply, again", "PATCH", f"{BERTHS}/applied?fieldManager=m", berth("applied", depth=6), APPLY),
    Step("apply, bad", "PATCH", f"{BERTHS}/applied?fieldManager=m", berth("applied", depth=2), APPLY),
    Step("apply, conflicts", "PATCH", f"{BERTHS}/applied?fieldManager=n", berth("applied", depth=9), APPLY),
    Step("apply, dry run", "PATCH", f"{BERTHS}/dry?fieldManager=m&dryRun=All", berth("dry", pilot="me"), APPLY),
    Step("apply, dry run, bad", "PATCH", f"{BERTHS}/dry?fieldManager=m&dryRun=All", berth("dry", ship="ghost"), APPLY),
    Step(
        "apply, of the old version", "PATCH", f"{OLD_BERTHS}/old?fieldManager=m", old_berth("old", pilot="ann"), APPLY
    ),
    # status
    Step("status", "PATCH", f"{BERTHS}/a/status", {"status": {"free": True}}, MERGE),
    Step("status, bad", "PATCH", f"{BERTHS}/a/status", {"status": {"note": "lie"}}, MERGE),
    Step("status, of the wrong type", "PATCH", f"{BERTHS}/a/status", {"status": {"free": "yes"}}, MERGE),
    Step("status, of the old version", "PATCH", f"{OLD_BERTHS}/a/status", {"status": {"note": "fine"}}, MERGE),
    Step("status, changes no spec", "PATCH", f"{BERTHS}/a/status", {"spec": {"depth": 99}}, MERGE),
    Step("get, after status", "GET", f"{BERTHS}/a"),
    # delete
    Step("create, of the navy", "POST", BERTHS, berth("navy", ship="navy-1")),
    Step("delete, a plugin refuses", "DELETE", f"{BERTHS}/navy"),
    Step("delete, dry run", "DELETE", f"{BERTHS}/a?dryRun=All"),
    Step("delete", "DELETE", f"{BERTHS}/a"),
    Step("delete, of the old version", "DELETE", f"{OLD_BERTHS}/old"),
    Step("delete, nobody is there", "DELETE", f"{BERTHS}/a"),
    Step("create, with a finalizer", "POST", BERTHS, held("held")),
    Step("delete, something holds it", "DELETE", f"{BERTHS}/held"),
    Step("merge patch, of what is being deleted, bad", "PATCH", f"{BERTHS}/held", {"spec": {"depth": 1}}, MERGE),
    Step("merge patch, of what is being deleted", "PATCH", f"{BERTHS}/held", {"spec": {"depth": 9}}, MERGE),
    Step("merge patch, nothing holds it", "PATCH", f"{BERTHS}/held", {"metadata": {"finalizers": None}}, MERGE),
    Step("get, it is gone", "GET", f"{BERTHS}/held"),
)

DIFFERENT = {
    "create, of the wrong type": "400 here, 422 of custom resources",
    "create, errors of schema and validate": "webhooks are asked once the schema holds",
    "status, of the wrong type": "400 here, 422 of custom resources",
}
"""What a definition can't have, by step: its code, causes or text. docs/which-home.md says so."""

_DENIED = re.compile(r'admission webhook "[^"]*" denied the request: ')
_SUFFIX = re.compile(r"b-[a-z0-9]{5}")
_CHANGING = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")


def told(answer: Any) -> Tree:
    """What counts of an answer: code, text, causes, warnings, and the object without what each server makes itself."""
    tree = copy.deepcopy(answer.json) if answer.body else None
    found: Tree = {"code": answer.status, "warnings": sorted(answer.warnings)}
    if not isinstance(tree, dict):
        return found
    if tree.get("kind") == "Status":
        details = tree.get("details") or {}
        details.pop("uid", None)
        message = _DENIED.sub("", tree.get("message") or "")
        return {**found, "reason": tree.get("reason"), "message": message, "details": details}
    metadata = tree["metadata"]
    for name in _CHANGING:
        metadata.pop(name, None)
    annotations = metadata.get("annotations") or {}
    annotations.pop(ANNOTATION, None)
    if not annotations:
        metadata.pop("annotations", None)
    metadata["name"] = _SUFFIX.sub("b-…", metadata["name"])
    owned = {}
    for entry in metadata.pop("managedFields", ()):
        owned[f"{entry['manager']} {entry['operation']} {entry.get('subresource', '')}"] = _without_selves(
            entry["fieldsV1"]
        )
    return {**found, "object": tree, "owners": owned}


def _without_selves(fields: Tree) -> Tree:
    """Owned fields without the objects themselves, which are owned of custom resources only."""
    return {name: _without_selves(below) for name, below in fields.items() if name != "."}


async def all_told(api: Any) -> dict[str, Tree]:
    """What a home answers to all steps, by name. `api` is an `InMemory`, or asks as one does."""
    made = await api.post(WRECKS, WRECK)
    assert made.status == 201
    await wreck_known(api)
    found = {}
    for step in STEPS:
        live = (await api.get(step.object_path)).json if step.live else {}
        body = step.body_on(live)
        headers = {"content-type": step.content_type} if body else {}
        found[step.name] = told(await api.request(step.method, step.path, body, headers))
    return found


def all_told_over_http(client: HTTPClient) -> dict[str, Tree]:
    """The same of a real cluster, whose wreck is there and known. It names the field manager by the user agent."""
    found = {}
    for step in STEPS:
        live = client.get(step.object_path).json if step.live else {}
        body = step.body_on(live)
        headers = {"user-agent": "unknown/1", **({"content-type": step.content_type} if body else {})}
        found[step.name] = told(client.request(step.method, step.path, body, headers))
    return found
