"""In etcd the objects of Kubernetes' kinds are where kube-apiserver has them, and what was elsewhere is moved there."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from databases import EtcdServer

from oarlock.storage.backend import StorageError
from oarlock.storage.care.copy import copy
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.storage.url import open_backend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import record

PLACES = {
    "/registry//configmaps/ns/a": "configmaps/ns/a",
    "/registry//controllerrevisions/ns/a": "controllerrevisions/ns/a",
    "/registry//endpoints/ns/a": "services/endpoints/ns/a",
    "/registry//ingressclasses/a": "ingressclasses/a",
    "/registry//ingresses/ns/a": "ingress/ns/a",
    "/registry//nodes/a": "minions/a",
    "/registry//podtemplates/ns/a": "podtemplates/ns/a",
    "/registry//replicationcontrollers/ns/a": "controllers/ns/a",
    "/registry//serviceaccounts/ns/a": "serviceaccounts/ns/a",
    "/registry//servicecidrs/a": "servicecidrs/a",
    "/registry//services/ns/a": "services/specs/ns/a",
    "/registry//services/specs/endpoints": "services/specs/specs/endpoints",
    "/registry/apiextensions.k8s.io/customresourcedefinitions/a": "apiextensions.k8s.io/customresourcedefinitions/a",
    "/registry/apiregistration.k8s.io/apiservices/a": "apiregistration.k8s.io/apiservices/a",
}

FORMER = {
    "endpoints/ns/a": "services/endpoints/ns/a",
    "ingresses/ns/a": "ingress/ns/a",
    "nodes/a": "minions/a",
    "replicationcontrollers/ns/a": "controllers/ns/a",
    "services/ns/a": "services/specs/ns/a",
    "services/specs/a": "services/specs/specs/a",
    "services/endpoints/a": "services/specs/endpoints/a",
}


def backend_at(url: str) -> EtcdBackend:
    return EtcdBackend(etcd_address(url), VirtualClock())


def keys_below(etcd: EtcdServer, url: str) -> list[str]:
    prefix = "/" + url.rpartition("/")[2] + "/"
    found = etcd.etcdctl("get", prefix, "--prefix", "--keys-only").split()
    return [key.removeprefix(prefix) for key in found if "/.oarlock" not in key]


def test_every_key_is_where_kube_apiserver_has_it(etcd: EtcdServer) -> None:
    url = etcd.fresh()

    async def scenario() -> None:
        backend = backend_at(url)
        await backend.start()
        watch = await record(backend, await backend.current_rev(), ("/registry/", "/registry0"))
        for key in PLACES:
            rev = (await backend.put(key, key.encode(), expect=0)).rev
        await watch.until(rev)
        assert [event.key for event in watch.events] == list(PLACES)
        for key in PLACES:
            kv, _ = await backend.get(key)
            assert kv is not None
            assert kv.value == key.encode()
            prefix = "/".join(key.split("/")[:4])
            page = await backend.list(f"{prefix}/", f"{prefix}0")
            assert key in [kv.key for kv in page.kvs]
            assert (await backend.count(f"{prefix}/", f"{prefix}0"))[0] == len(page.kvs)
        seen, start, more = [], "/", True
        while more:
            page = await backend.list(start, "0", limit=1)
            seen += [kv.key for kv in page.kvs]
            start, more = seen[-1] + "\0", page.more
        assert sorted(seen) == sorted(PLACES)
        await backend.close()

    asyncio.run(scenario())
    assert sorted(keys_below(etcd, url)) == sorted(PLACES.values())


def test_objects_at_former_keys_are_moved_by_whoever_starts_first(etcd: EtcdServer) -> None:
    url = etcd.fresh()
    prefix = "/" + url.rpartition("/")[2]

    async def scenario() -> None:
        for former in FORMER:
            etcd.etcdctl("put", f"{prefix}/{former}", former)
        etcd.etcdctl("put", f"{prefix}/services/specs/ns/other", "Kubernetes'")
        backends = [backend_at(url) for _ in range(3)]
        await asyncio.gather(*(backend.start() for backend in backends))
        services = await backends[1].list("/registry//services/", "/registry//services0")
        assert {kv.key.removeprefix("/registry//services/"): kv.value.decode() for kv in services.kvs} == {
            "endpoints/a": "services/endpoints/a",
            "ns/a": "services/ns/a",
            "ns/other": "Kubernetes'",
            "specs/a": "services/specs/a",
        }
        for backend in backends:
            await backend.close()

    asyncio.run(scenario())
    assert sorted(keys_below(etcd, url)) == sorted([*FORMER.values(), "services/specs/ns/other"])


def test_an_object_whose_new_key_is_taken_stays_and_is_named(
    etcd: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = etcd.fresh()
    prefix = "/" + url.rpartition("/")[2]
    etcd.etcdctl("put", f"{prefix}/nodes/a", "ours")
    etcd.etcdctl("put", f"{prefix}/minions/a", "theirs")

    async def scenario() -> None:
        backend = backend_at(url)
        with caplog.at_level(logging.ERROR):
            await backend.start()
        assert f"{prefix}/nodes/a stays where it is" in caplog.text
        assert [kv.value for kv in (await backend.list("/registry/", "/registry0")).kvs] == [b"theirs"]
        await backend.close()

    asyncio.run(scenario())
    assert keys_below(etcd, url) == ["minions/a", "nodes/a"]


def test_an_encrypted_object_at_a_former_key_is_not_made_unreadable(etcd: EtcdServer) -> None:
    url = etcd.fresh()
    prefix = "/" + url.rpartition("/")[2]
    etcd.etcdctl("put", f"{prefix}/nodes/a", "k8s:enc:aesgcm:v1:key:")
    with pytest.raises(StorageError, match="put identity first"):
        asyncio.run(backend_at(url).start())
    assert keys_below(etcd, url) == ["nodes/a"]


def test_a_copy_into_etcd_and_back_has_everything(etcd: EtcdServer, tmp_path: Path) -> None:
    """Although the keys have another order there."""
    first, second, url = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db", etcd.fresh()

    async def scenario() -> None:
        backend = open_backend(first, VirtualClock())
        await backend.start()
        for key in [*PLACES, "/oarlock/definitions/a", "/registry/shop.example.com/orders/ns/a"]:
            await backend.put(key, key.encode(), expect=0)
        await backend.close()
        there = await copy(first, url, "", lambda progress: None)
        back = await copy(url, second, "", lambda progress: None)
        assert (there.keys, there.written) == (back.keys, back.written) == (len(PLACES) + 2, len(PLACES) + 2)

    asyncio.run(scenario())
