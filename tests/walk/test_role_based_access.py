"""A server with RBAC: a role or binding counts for the next request after its write."""

from __future__ import annotations

from typing import Any

import pytest
from walk_kit import walk

from oarlock import JSON, APIServer, Authorizer, Decision, Model, Resource, Target, User
from oarlock.server.config import ServerConfig
from oarlock.server.options.option import ConfigError
from oarlock.storage.cache.entry import TooOld
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

GROUP = "rbac.authorization.k8s.io"
ANN = User("ann", groups=("dev", "system:authenticated"))
RBAC = ServerConfig(storage="memory://", authorization_mode=("RBAC",))


class RoleReference(Model):
    """A role."""

    kind: str
    name: str


class Role(Resource, group=GROUP, version="v1"):
    """Rules in a namespace."""

    rules: list[JSON] = []


class ClusterRole(Resource, group=GROUP, version="v1", scope="Cluster"):
    """Rules everywhere."""

    rules: list[JSON] = []


class RoleBinding(Resource, group=GROUP, version="v1"):
    """Who has a role in a namespace."""

    role_ref: RoleReference
    subjects: list[JSON] = []


class ClusterRoleBinding(Resource, group=GROUP, version="v1", scope="Cluster"):
    """Who has a role everywhere."""

    role_ref: RoleReference
    subjects: list[JSON] = []


class Thing(Resource, group="things.example.com", version="v1"):
    """Anything."""


KINDS = [Role, ClusterRole, RoleBinding, ClusterRoleBinding, Thing]
ROLES = f"/apis/{GROUP}/v1/namespaces/x/roles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/x/rolebindings"
THINGS = "/apis/things.example.com/v1/namespaces/{}/things"
READERS: Any = {
    "metadata": {"name": "readers"},
    "rules": [{"verbs": ["get", "list"], "apiGroups": ["things.example.com"], "resources": ["things"]}],
}
DEVELOPERS_READ: Any = {
    "metadata": {"name": "devs"},
    "roleRef": {"kind": "Role", "name": "readers"},
    "subjects": [{"kind": "Group", "name": "dev"}],
}


@walk
async def test_a_binding_counts_for_the_next_request():
    async with InMemory(APIServer(serve=KINDS), config=RBAC, user=ANN) as api:
        root = api.client()
        things = THINGS.format("x")
        assert (await api.get(things)).status == 403
        await root.create(READERS, kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await api.get(things)).status == 200
        assert (await api.get(THINGS.format("y"))).status == 403
        assert (await api.post(things, {"metadata": {"name": "a"}})).status == 403
        await root.delete(Role, "readers", namespace="x")
        refused = await api.get(things)
        assert refused.status == 403
        assert refused.json["message"].endswith(
            'in the namespace "x": RBAC: role.rbac.authorization.k8s.io "readers" not found'
        )
        await root.create(READERS, kind=Role, namespace="x")
        assert (await api.get(things)).status == 200
        await root.delete(RoleBinding, "devs", namespace="x")
        assert (await api.get(things)).status == 403
        assert (await api.get(things)).json["message"].endswith('in the namespace "x"')


@walk
async def test_what_was_stored_before_counts_from_the_start():
    server = APIServer(serve=KINDS)
    async with InMemory(server, config=RBAC, user=ANN) as api:
        await api.client().create(READERS, kind=Role, namespace="x")
        await api.client().create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        before = api.parts.authorization.policy
        await api.replace(APIServer(serve=KINDS[:-1]).catalog)
        assert (await api.get(THINGS.format("x"))).status == 404, "allowed, and not there any more"
        await api.replace(server.catalog)
        assert (await api.get(THINGS.format("x"))).status == 200
        assert api.parts.authorization.policy is before


@walk
async def test_a_cache_that_lost_its_place_is_read_again():
    async with InMemory(APIServer(serve=KINDS), config=RBAC, user=ANN) as api:
        root = api.client()
        await root.create(READERS, kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 200
        for resource in api.parts.resources.live.resources.values():
            resource.cache.end_subscriptions(TooOld(1))
        await root.delete(RoleBinding, "devs", namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 403
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 200, "and is followed again"


@walk
async def test_until_roles_and_bindings_are_loaded_nobody_is_told_that_something_is_forbidden():
    api = InMemory(APIServer(serve=KINDS), config=RBAC, user=ANN)
    early = await api.get(THINGS.format("x"))
    assert (early.status, early.headers["retry-after"]) == (503, "1")
    assert early.json["reason"] == "ServiceUnavailable"
    assert (await api.get("/livez")).status != 403
    async with api:
        root = api.client()
        assert (await api.get(THINGS.format("x"))).status == 403
        await root.create(READERS, kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 200


@walk
async def test_an_object_that_is_no_role_gives_nobody_anything(caplog: pytest.LogCaptureFixture):
    async with InMemory(APIServer(serve=KINDS), config=RBAC, user=ANN) as api:
        root = api.client()
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        await root.create({"metadata": {"name": "readers"}, "rules": ["everything"]}, kind=Role, namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 403
        assert "is unreadable and grants no permissions" in caplog.text


@walk
async def test_paths_and_the_servers_own_authorizer_join():
    class Porter(Authorizer):
        waits = False

        async def decide(self, user: User, target: Target) -> Decision:
            return Decision.allow() if target.namespace == "open" else Decision.no_opinion("the porter says no")

    config = ServerConfig(
        storage="memory://", authorization_mode=("RBAC",), authorization_always_allow_paths=("/livez", "/openapi/*")
    )
    async with InMemory(APIServer(serve=KINDS, authorizer=Porter()), config=config, user=ANN) as api:
        assert (await api.get("/livez")).status == 200
        assert (await api.get("/openapi/v3")).status == 200
        assert (await api.get("/livez/ping")).status == 403
        assert (await api.get(THINGS.format("open"))).status == 200
        refused = await api.get(THINGS.format("x"))
        assert (refused.status, refused.json["message"].rpartition(": ")[2]) == (403, "the porter says no")
        await api.client().create(READERS, kind=Role, namespace="x")
        await api.client().create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await api.get(THINGS.format("x"))).status == 200


def test_rbac_without_its_kinds_is_no_server():
    with pytest.raises(ConfigError, match="RBAC needs roles, clusterroles, rolebindings, clusterrolebindings"):
        InMemory(APIServer(serve=[Thing]), config=RBAC)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"authorization_mode": ("ABAC",)}, "the mode ABAC isn't implemented: write an Authorizer instead"),
        ({"authorization_mode": ("rbac",)}, "rbac is not one of AlwaysAllow, AlwaysDeny, RBAC"),
        ({"authorization_mode": ("RBAC", "RBAC")}, "names one mode twice"),
        ({"authorization_always_allow_paths": ("livez",)}, "livez is not a path"),
    ],
)
def test_options_that_make_no_sense(given: Any, problem: str):
    with pytest.raises(ConfigError, match=problem):
        ServerConfig(storage="memory://", **given)


@walk
async def test_each_mode_by_itself():
    for mode, status in {"AlwaysAllow": 200, "AlwaysDeny": 403}.items():
        config = ServerConfig(storage="memory://", authorization_mode=(mode,))
        async with InMemory(APIServer(serve=[Thing]), config=config, user=ANN) as api:
            assert (await api.get(THINGS.format("x"))).status == status


@walk
async def test_how_requests_were_decided_is_on_the_page_of_metrics() -> None:
    async with InMemory(APIServer(serve=KINDS), config=RBAC) as api:
        who = {"impersonate-user": "ann"}
        assert (await api.request("GET", "/apis/things.example.com/v1/things", None, who)).status == 403
        page = (await api.get("/metrics")).body.decode()
        assert 'authorization_attempts_total{result="no-opinion"} 1.0' in page
        assert 'authorization_attempts_total{result="allowed"}' in page


@walk
async def test_a_right_that_is_taken_away_on_another_server_of_the_store_is_gone_here():
    clock = VirtualClock()
    store = MemoryBackend(clock=clock)
    there = InMemory(APIServer(serve=KINDS), config=RBAC, backend=store, clock=clock)
    here = InMemory(APIServer(serve=KINDS), config=RBAC, backend=store, clock=clock, user=ANN)
    async with there, here:
        root, things = there.client(), THINGS.format("x")
        await root.create(READERS, kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await here.get(things)).status == 200
        await root.delete(RoleBinding, "devs", namespace="x")
        assert (await here.get(things)).status == 403
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        assert (await here.get(things)).status == 200


class Slip(Resource, group="things.example.com", version="v1", create_on_update=True):
    """Made by whoever updates it, if they may create."""


SLIPS = "/apis/things.example.com/v1/namespaces/x/slips"


@walk
@pytest.mark.parametrize(
    ("verb", "path", "headers"),
    [
        ("patch", THINGS.format("x"), {"content_type": "application/apply-patch+yaml"}),
        ("update", SLIPS, {}),
    ],
)
async def test_who_may_change_what_is_there_makes_nothing_new(verb: str, path: str, headers: dict[str, str]):
    kind = "Thing" if path.endswith("things") else "Slip"
    plural = path.rpartition("/")[2]
    body = {"apiVersion": "things.example.com/v1", "kind": kind, "metadata": {"name": "a"}}
    rule = {"verbs": [verb], "apiGroups": ["things.example.com"], "resources": [plural]}
    async with InMemory(APIServer(serve=[*KINDS, Slip]), config=RBAC, user=ANN) as api:

        async def write() -> Any:
            if verb == "update":
                return await api.put(f"{path}/a", body)
            return await api.patch(f"{path}/a?fieldManager=me", body, **headers)

        root = api.client()
        await root.create({"metadata": {"name": "readers"}, "rules": [rule]}, kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        refused = await write()
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert f'User "ann" cannot create resource "{plural}"' in refused.json["message"]
        assert [one async for one in root.list(Slip if verb == "update" else Thing, namespace="x")] == []
        rules = [rule, {**rule, "verbs": ["create"]}]
        await root.delete(Role, "readers", namespace="x")
        await root.create({"metadata": {"name": "readers"}, "rules": rules}, kind=Role, namespace="x")
        assert (await write()).status == 201
