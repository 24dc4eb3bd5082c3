"""Kubernetes' own kinds in protobuf, which kubectl and client-go send for them."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from oarlock.apps import kinds
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds import authentication, authorization, coordination, events, flowcontrol, rbac
from oarlock.apps.kinds.core import objects as core
from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import Message
from oarlock.codec.protowire import fields_in
from oarlock.endpoints.http import BodySource
from oarlock.endpoints.in_protobuf import message_for
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.types.resources import Declared, declared
from oarlock.schema.types.views import object_schema
from oarlock.testing import InMemory

PROTOBUF = "application/vnd.kubernetes.protobuf"


def classes() -> list[Any]:
    modules = [importlib.import_module(f"{kinds.__name__}.{one.name}") for one in pkgutil.iter_modules(kinds.__path__)]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    return sorted(
        (one for one in found if isinstance(vars(one).get("__declared__"), Declared)),
        key=lambda one: (declared(one).group, one.__name__),
    )


def message(cls: Any) -> Message:
    what = declared(cls)
    made = message_for(GroupVersionKind(what.group, what.version, what.kind), object_schema(cls))
    assert made is not None, cls
    return made


@pytest.mark.parametrize("cls", classes(), ids=lambda one: f"{declared(one).group}-{one.__name__}")
def test_every_kind_has_a_message(cls: Any) -> None:
    assert message(cls).fields[0].name == "metadata"


SAMPLES: list[tuple[Any, dict[str, Any]]] = [
    (core.Secret, {"metadata": {"name": "a"}, "data": {"k": "MQ=="}, "type": "Opaque", "immutable": True}),
    (core.ServiceAccount, {"metadata": {}, "secrets": [{"kind": "Secret", "name": "s", "apiVersion": "v1"}]}),
    (core.Namespace, {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    (
        core.Event,
        {
            "metadata": {},
            "involvedObject": {"kind": "Node", "name": "n"},
            "source": {"component": "c"},
            "count": 3,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "eventTime": "2026-01-01T00:00:00.123456Z",
            "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000001Z"},
            "reportingComponent": "x",
            "reportingInstance": "y",
        },
    ),
    (events.Event, {"metadata": {}, "regarding": {"name": "n"}, "note": "hi", "deprecatedSource": {"host": "h"}}),
    (coordination.Lease, {"metadata": {}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0}}),
    (rbac.Role, {"metadata": {}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "apiGroups": [""]}]}),
    (rbac.RoleBinding, {"metadata": {}, "subjects": [{"kind": "User", "name": "u"}], "roleRef": {"kind": "Role"}}),
    (
        flowcontrol.FlowSchema,
        {"metadata": {}, "spec": {"rules": [{"subjects": [{"kind": "User", "user": {"name": "u"}}]}]}},
    ),
    (
        authentication.TokenReview,
        {"metadata": {}, "status": {"authenticated": True, "user": {"extra": {"a": ["b", "c"], "d": []}}}},
    ),
    (
        authorization.SubjectAccessReview,
        {"metadata": {}, "spec": {"extra": {"a": ["b"]}, "resourceAttributes": {"verb": "get"}, "uid": "u"}},
    ),
]


@pytest.mark.parametrize(("cls", "tree"), SAMPLES, ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_written_is_read_again(cls: Any, tree: dict[str, Any]) -> None:
    assert message(cls).read(message(cls).write(tree)) == tree


@pytest.mark.anyio
async def test_a_lease_is_created_and_read_in_protobuf() -> None:
    tree = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000500Z"}}
    lease = message(coordination.Lease)
    body = protobuf.envelope("coordination.k8s.io/v1", "Lease", lease.write(tree))
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    async with InMemory(ControlPlane()) as api:
        made = await api.request("POST", leases, body, {"content-type": PROTOBUF, "accept": PROTOBUF})
        assert (made.status, made.headers["content-type"]) == (201, PROTOBUF)
        assert made.body.startswith(b"k8s\0")
        assert (await api.get(f"{leases}/l")).json["spec"] == tree["spec"]


def test_everything_that_a_control_plane_serves_has_a_message() -> None:
    groups = ControlPlane().catalog.groups.values()
    entries = [entry for group in groups for version in group.versions for entry in group.of_version(version)]
    assert len(entries) > 50
    assert [entry for entry in entries if entry.protobuf is None] == []


@pytest.mark.anyio
async def test_a_long_list_is_joined_while_it_is_sent() -> None:
    """One copy of all of it would hold the event loop."""
    maps, piece_bytes = "/api/v1/namespaces/default/configmaps", 64 * 1024
    async with InMemory(ControlPlane()) as api:
        for number in range(60):
            text = "x" * (number * 800)  # some take several pieces
            answer = await api.post(maps, {"metadata": {"name": f"m{number:02}"}, "data": {"text": text}})
            assert answer.status == 201
        whole = (await api.get(maps)).json["items"]
        for again in range(2):
            response = await api._send("GET", maps, None, {"accept": PROTOBUF})
            assert isinstance(response.body, BodySource), again
            pieces = []
            while not response.body.done:
                pieces.append(response.body.read(piece_bytes))
            response.sent(True)
            assert max(map(len, pieces)) <= 2 * piece_bytes
            assert response.body.length == sum(map(len, pieces))
            (_, raw) = protobuf.opened(b"".join(pieces))
            items = [message(core.ConfigMap).read(item) for number, _, item in fields_in(raw) if number == 2]
            assert items == whole
