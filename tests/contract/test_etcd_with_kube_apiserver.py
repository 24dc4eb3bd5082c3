"""An etcd that a kube-apiserver uses too: each reads what the other wrote, and neither is disturbed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from databases import EtcdServer

from oarlock import APIServer, Resource, served_from
from oarlock.endpoints.catalog import Catalog
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import record
from oarlock.testing.server import InMemory


class Kite(Resource, group="toys.example.com", version="v1"):
    colour: str = "red"


KITES = "/apis/toys.example.com/v1/namespaces/default/kites"

# As kube-apiserver 1.3x writes a custom resource: keys sorted, a line feed at the end, no resourceVersion.
OF_KUBE_APISERVER = (
    '{"apiVersion":"toys.example.com/v1","colour":"blue","kind":"Kite","metadata":{"annotations":{"a":"b"},'
    '"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"labels":{"app":"kite"},'
    '"managedFields":[{"apiVersion":"toys.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:colour":{}},'
    '"manager":"kubectl-create","operation":"Update","time":"2026-01-02T03:04:05Z"}],"name":"theirs",'
    '"namespace":"default","uid":"7c3b9ba5-6d7c-4a3f-9d3c-111111111111"}}\n'
)
PROTOBUF = "k8s\0\n\x0c\n\x02v1\x12\x06Secret\x12\x02\n\0\x1a\0"


def etcd_put(server: EtcdServer, key: str, value: str) -> None:
    server.run("etcdctl", f"--endpoints={server.client_url}", "put", key, env={"ETCDCTL_API": "3"}, stdin=value)


def backend_at(server: EtcdServer, prefix: str) -> EtcdBackend:
    return EtcdBackend(etcd_address(f"etcd://127.0.0.1:{server.port}{prefix}"), VirtualClock())


def test_objects_of_either_are_read_by_the_other(etcd: EtcdServer) -> None:
    prefix = "/" + etcd.fresh().rpartition("/")[2]

    async def scenario() -> None:
        etcd_put(etcd, f"{prefix}/toys.example.com/kites/default/theirs", OF_KUBE_APISERVER)
        async with InMemory(APIServer(serve=[Kite]), backend=backend_at(etcd, prefix)) as api:
            theirs = (await api.get(f"{KITES}/theirs")).json
            assert theirs["metadata"]["uid"] == "7c3b9ba5-6d7c-4a3f-9d3c-111111111111"
            assert theirs["metadata"]["managedFields"][0]["manager"] == "kubectl-create"
            assert (theirs["colour"], theirs["kind"]) == ("blue", "Kite")
            assert (await api.patch(f"{KITES}/theirs", {"colour": "green"})).status == 200
            ours = {"apiVersion": "toys.example.com/v1", "kind": "Kite", "metadata": {"name": "ours"}}
            assert (await api.post(KITES, ours)).status == 201
            assert {item["metadata"]["name"] for item in (await api.get(KITES)).json["items"]} == {"ours", "theirs"}
        for name, colour in (("ours", "red"), ("theirs", "green")):
            text = etcd.etcdctl("get", f"{prefix}/toys.example.com/kites/default/{name}", "--print-value-only")
            stored = json.loads(text)
            # What its decoder needs: the kind, and metadata in the types of ObjectMeta, without what isn't stored.
            assert (stored["apiVersion"], stored["kind"], stored["colour"]) == ("toys.example.com/v1", "Kite", colour)
            metadata = stored["metadata"]
            assert {"name", "namespace", "uid", "creationTimestamp"} <= metadata.keys()
            assert not {"resourceVersion", "selfLink"} & metadata.keys()
            assert (metadata["generation"], metadata["namespace"]) == (1 if name == "ours" else 2, "default")

    asyncio.run(scenario())


def test_what_cannot_be_read_is_named_and_stops_nothing(etcd: EtcdServer) -> None:
    prefix = "/" + etcd.fresh().rpartition("/")[2]

    async def scenario() -> None:
        etcd_put(etcd, f"{prefix}/toys.example.com/kites/other/proto", PROTOBUF)
        for key, value in (("secrets/default/s", PROTOBUF), ("minions/n", PROTOBUF), ("ranges/serviceips", "x")):
            etcd_put(etcd, f"{prefix}/{key}", value)
        async with InMemory(APIServer(serve=[Kite]), backend=backend_at(etcd, prefix)) as api:
            answer = await api.get(f"{KITES}/proto".replace("default", "other"))
            assert answer.status == 500
            assert f"{prefix}/toys.example.com/kites/other/proto: " in answer.json["message"]
            ours: dict[str, Any] = {"apiVersion": "toys.example.com/v1", "kind": "Kite", "metadata": {"name": "ours"}}
            assert (await api.post(KITES, ours)).status == 201
            async with api.watch(KITES) as events:
                assert (await events.next())[1]["metadata"]["name"] == "ours"
                etcd_put(etcd, f"{prefix}/secrets/default/s", PROTOBUF)
                etcd_put(
                    etcd, f"{prefix}/toys.example.com/kites/default/later", OF_KUBE_APISERVER.replace("theirs", "later")
                )
                assert (await events.next())[1]["metadata"]["name"] == "later"
        keys = etcd.etcdctl("get", f"{prefix}/", "--prefix", "--keys-only").split()
        others = [
            key for key in keys if not key.startswith((f"{prefix}/toys.example.com/kites/", f"{prefix}/.oarlock"))
        ]
        assert others == [f"{prefix}/minions/n", f"{prefix}/ranges/serviceips", f"{prefix}/secrets/default/s"]

    asyncio.run(scenario())


def test_the_core_group_has_no_part_of_its_own_in_keys(etcd: EtcdServer) -> None:
    prefix = "/" + etcd.fresh().rpartition("/")[2]

    async def scenario() -> None:
        (kites,) = served_from([Kite])
        core = replace(kites, definition=replace(kites.definition, group=""))
        server = APIServer(serve=[])
        async with InMemory(server, backend=backend_at(etcd, prefix)) as api:
            await api.replace(Catalog.of([core]))
            path = "/api/v1/namespaces/default/kites"
            assert (await api.post(path, {"apiVersion": "v1", "kind": "Kite", "metadata": {"name": "a"}})).status == 201
            async with api.watch(path) as events:
                assert (await events.next())[1]["metadata"]["name"] == "a"
                assert (await api.delete(f"{path}/a")).status == 200
                assert (await events.next())[0] == "DELETED"
            assert (await api.post(path, {"apiVersion": "v1", "kind": "Kite", "metadata": {"name": "b"}})).status == 201
        assert etcd.etcdctl("get", f"{prefix}/kites/default/b", "--keys-only").strip() == f"{prefix}/kites/default/b"

    asyncio.run(scenario())


def test_keys_come_back_as_they_went(etcd: EtcdServer) -> None:
    """Of every kind, also in a list and a watch of everything."""

    async def scenario() -> None:
        backend = EtcdBackend(etcd_address(etcd.fresh()), VirtualClock())
        await backend.start()
        keys = [
            "/oarlock/definitions/a",
            "/registry//pods/ns/a",
            "/registry/apps/deployments/ns/a",
            "/registry/b.c/d/e",
        ]
        watch = await record(backend, await backend.current_rev(), ("/", "0"))
        for key in keys:
            rev = (await backend.put(key, b"1", expect=0)).rev
        await watch.until(rev)
        assert [event.key for event in watch.events] == keys
        assert sorted(kv.key for kv in (await backend.list("/", "0")).kvs) == keys
        seen, start, more = [], "/", True
        while more:
            page = await backend.list(start, "0", limit=1)
            seen += [kv.key for kv in page.kvs]
            start, more = seen[-1] + "\0", page.more
        assert sorted(seen) == keys
        assert (await backend.count("/", "0"))[0] == 4
        assert [kv.key for kv in (await backend.list("/registry//pods/", "/registry//pods0")).kvs] == [keys[1]]
        await backend.close()

    asyncio.run(scenario())
