"""A group and version that another server serves: found in discovery and OpenAPI, and its requests are handed on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from test_one_definition_changes import AGGREGATED, TOYS, path, thing
from walk_kit import BOATS, GROUP, boat, everything, failure, fleet, made, walk

from oarlock.endpoints.catalog import Catalog, CatalogError, Proxied
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Target, User
from oarlock.meta.kinds import GroupResource, GroupVersion
from oarlock.policy.authz.authorizer import ALLOWED, Authorizer, Decision
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

METRICS = "metrics.example.com"
PODS = f"/apis/{METRICS}/v1/namespaces/default/pods"


class Elsewhere:
    """Another server, in this process: says what it was asked, and what it has."""

    def __init__(self, group: str = METRICS, version: str = "v1", text: str = "one") -> None:
        self.group, self.version, self.text = group, version, text
        self.asked: list[tuple[str, str, str]] = []
        self.arrived, self.release = asyncio.Event(), asyncio.Event()

    def proxied(self, **priorities: int) -> Proxied:
        return Proxied(self.group, self.version, self.answer, self, **priorities)

    async def answer(self, state: RequestState) -> Response:
        request = state.request
        self.asked.append((request.method, request.path, state.user.name))
        if "slow" in request.path:
            self.arrived.set()
            await self.release.wait()
        return Response(200, [("content-type", "application/json")], json.dumps({"from": self.text}).encode())

    def discovery(self) -> dict[str, Any]:
        pods = {"resource": "pods", "responseKind": {"group": "", "version": "", "kind": "PodMetrics"}}
        more = {"scope": "Namespaced", "singularResource": "pod", "verbs": ["get", "list"]}
        return {"version": self.version, "resources": [{**pods, **more}], "freshness": "Stale"}

    def openapi_v2(self) -> bytes:
        return b""

    def openapi_hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest().upper()


async def discovered(api: InMemory) -> dict[str, list[str]]:
    items = (await api.get("/apis", accept=AGGREGATED)).json["items"]
    found = {group["metadata"]["name"]: [v["version"] for v in group["versions"]] for group in items}
    listed = (await api.get("/apis")).json["groups"]
    assert {group["name"]: [v["version"] for v in group["versions"]] for group in listed} == found
    assert [group["name"] for group in listed] == [*found]
    return found


@walk
async def test_requests_are_handed_on_and_answered_elsewhere():
    api, _ = fleet()
    async with api:
        there = Elsewhere()
        assert (await api.get(PODS)).status == 404
        await api.server.change(put=[there.proxied()])
        for method, where in (
            ("GET", PODS),
            ("POST", PODS),
            ("PATCH", f"{PODS}/a"),
            ("DELETE", f"{PODS}/a"),
            ("GET", f"{PODS}/a/anything"),
            ("GET", f"/apis/{METRICS}/v1"),
            ("GET", f"/apis/{METRICS}/v1/"),
            ("GET", f"/openapi/v3/apis/{METRICS}/v1"),
        ):
            answer = await api.request(method, where)
            assert answer.json == {"from": "one"}
            assert there.asked.pop() == (method, where, "admin")
        await made(api, BOATS, boat())
        assert there.asked == []
        await api.server.change(remove=[GroupVersion(METRICS, "v1")])
        for where in (PODS, f"/apis/{METRICS}/v1", f"/apis/{METRICS}"):
            assert (await api.get(where)).status == 404
        assert there.asked == []


@walk
async def test_it_is_in_discovery_and_in_the_index_of_openapi():
    api, _ = fleet()
    async with api:
        before = (await api.get("/openapi/v3")).json["paths"]
        there = Elsewhere()
        await api.server.change(put=[there.proxied()])
        (group,) = [
            one
            for one in (await api.get("/apis", accept=AGGREGATED)).json["items"]
            if one["metadata"]["name"] == METRICS
        ]
        assert group["versions"] == [there.discovery()]
        assert (await api.get(f"/apis/{METRICS}")).json["preferredVersion"]["version"] == "v1"
        after = (await api.get("/openapi/v3")).json["paths"]
        assert after.pop(f"apis/{METRICS}/v1") == {
            "serverRelativeURL": f"/openapi/v3/apis/{METRICS}/v1?hash={there.openapi_hash()}"
        }
        assert (await api.get(f"/openapi/v3/apis/{METRICS}")).json["paths"].keys() == {f"/apis/{METRICS}/"}
        after.pop(f"apis/{METRICS}")
        assert after == before
        assert (await api.get("/openapi/v2")).status == 200
        etag = (await api.get("/apis", accept=AGGREGATED)).headers["etag"]
        await api.server.change(put=[Elsewhere(text="two").proxied()])
        assert (await api.get("/apis", accept=AGGREGATED)).headers["etag"] == etag, "its resources are the same"
        changed = (await api.get("/openapi/v3")).json["paths"][f"apis/{METRICS}/v1"]["serverRelativeURL"]
        assert changed.endswith(Elsewhere(text="two").openapi_hash())
        assert (await api.get(PODS)).json == {"from": "two"}


@walk
async def test_priorities_give_the_order_of_discovery():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites"), Elsewhere().proxied()])
        assert [*await discovered(api)] == [GROUP, TOYS, METRICS], "in the order in which they came"
        await api.server.change(put=[Elsewhere().proxied(group_priority=2000)])
        assert [*await discovered(api)] == [METRICS, GROUP, TOYS]
        await api.server.change(put=[Elsewhere().proxied(group_priority=10)])
        assert [*await discovered(api)] == [GROUP, TOYS, METRICS]
        beside = [Elsewhere(TOYS, "v2"), Elsewhere(TOYS, "v1alpha1")]
        await api.server.change(put=[one.proxied() for one in beside])
        assert (await discovered(api))[TOYS] == ["v2", "v1", "v1alpha1"]
        await api.server.change(put=[beside[1].proxied(version_priority=200, group_priority=1001)])
        assert next(iter((await discovered(api)).items())) == (TOYS, ["v1alpha1", "v2", "v1"])
        await made(api, path("kites"), {"metadata": {"name": "a"}, "spec": {"size": 1}})
        assert (await api.get(path("kites").replace("/v1/", "/v2/"))).json == {"from": "one"}


@walk
async def test_a_name_has_one_server():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites")])
        before = api.parts.resources.router.route_table
        with pytest.raises(CatalogError, match=r"toys.example.com/v1 is proxied, and kites\.toys"):
            await api.server.change(put=[Elsewhere(TOYS).proxied()])
        assert api.parts.resources.router.route_table is before
        with pytest.raises(CatalogError, match="proxied twice"):
            Catalog.of([Elsewhere().proxied(), Elsewhere().proxied()])
        await api.server.change(put=[Elsewhere(TOYS).proxied()], remove=[GroupResource(TOYS, "kites")])
        assert (await api.get(path("kites"))).json == {"from": "one"}
        await api.server.change(put=[thing("kites")], remove=[GroupVersion(TOYS, "v1")])
        assert (await api.get(path("kites"))).json["items"] == []


class Doorkeeper(Authorizer):
    """Lets nobody see secrets, and remembers what was asked."""

    def __init__(self) -> None:
        self.targets: list[Target] = []

    async def decide(self, user: User, target: Target) -> Decision:
        self.targets.append(target)
        return Decision(False, "secret") if target.resource == "secrets" else ALLOWED


@walk
async def test_only_what_was_authorized_is_handed_on():
    doorkeeper = Doorkeeper()
    api = InMemory(everything(authorizer=doorkeeper), clock=VirtualClock())
    async with api:
        there = Elsewhere()
        await api.server.change(put=[there.proxied()])
        assert failure(await api.get(f"/apis/{METRICS}/v1/namespaces/default/secrets"))[0] == 403
        assert (await api.get(f"/%61pis/{METRICS}/v1/namespaces/default/secrets")).status == 403
        assert (doorkeeper.targets[-1].group, doorkeeper.targets[-1].verb) == (METRICS, "list")
        for where in (
            f"/apis/{METRICS}/v1//namespaces/default/secrets",
            f"/apis/{METRICS}/v1/namespaces//secrets",
            f"/apis//{METRICS}/v1/namespaces/default/secrets",
            f"/openapi/v3/apis/{METRICS}/v1/secrets",
            f"/openapi/v3//apis/{METRICS}/v1//",
            f"/apis/{METRICS}/v1/sec%00rets",
            f"/apis/{METRICS}/v2/pods",
        ):
            assert (await api.get(where)).status in (200, 403, 404), where
        assert there.asked == []


@walk
async def test_what_goes_on_elsewhere_goes_on_while_others_change():
    api, _ = fleet()
    async with api:
        there = Elsewhere()
        await api.server.change(put=[there.proxied()])
        waiting = asyncio.create_task(api.get(f"{PODS}/slow"))
        await there.arrived.wait()
        await api.server.change(put=[thing("kites")])
        await api.server.change(remove=[GroupVersion(METRICS, "v1")])
        assert not waiting.done()
        there.release.set()
        assert (await waiting).json == {"from": "one"}
