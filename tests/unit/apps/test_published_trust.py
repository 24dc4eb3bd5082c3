"""The ConfigMap in which extension servers read whom to believe: several servers write it, and none loses another's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from oarlock.apps.controllers.own_objects import PublishedTrust
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client.client import Client
from oarlock.server.serving.certificates.issuing import new_authority
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000.0
MOMENT = datetime.fromtimestamp(NOW, UTC)
WHERE = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"
PROXIES = "requestheader-client-ca-file"


def authority(moment: datetime = MOMENT) -> str:
    return new_authority(moment).certificate_pem.decode()


def proxy(bundle: str, name: str = "front-proxy-client", user: str = "x-remote-user") -> dict[str, str]:
    return {
        PROXIES: bundle,
        "requestheader-allowed-names": json.dumps([name]),
        "requestheader-username-headers": json.dumps([user]),
        "requestheader-uid-headers": '["x-remote-uid"]',
        "requestheader-group-headers": '["x-remote-group"]',
        "requestheader-extra-headers-prefix": '["x-remote-extra-"]',
    }


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as one:
        yield one


@pytest.fixture
def client(api: InMemory) -> Client:
    return api.client()


def server() -> PublishedTrust:
    """One of several on the store; it has no options of its own here."""
    return PublishedTrust(lambda: None, lambda: NOW)


async def store(api: InMemory, data: dict[str, str]) -> None:
    """What another server, or somebody, has written."""
    made = await api.post(WHERE, {"metadata": {"name": NAME}, "data": data})
    assert made.status == 201, made.json


async def data(api: InMemory) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{WHERE}/{NAME}")).json["data"]
    return found


def in_bundle(text: str) -> set[x509.Certificate]:
    return set(x509.load_pem_x509_certificates(text.encode()))


async def test_what_a_server_knows_is_there(api: InMemory, client: Client) -> None:
    own = proxy(authority())
    await server().publish_own(client, own)
    assert {key: text for key, text in (await data(api)).items() if text} == own


async def test_the_authorities_of_all_servers_are_there(api: InMemory, client: Client) -> None:
    first, second = authority(), authority()
    servers = server(), server()
    await servers[0].publish_own(client, proxy(first))
    await servers[1].publish_own(client, {**proxy(second, "other", "X-Remote-User"), "client-ca-file": first})
    found = await data(api)
    assert in_bundle(found[PROXIES]) == in_bundle(first + second)
    assert json.loads(found["requestheader-allowed-names"]) == ["front-proxy-client", "other"]
    assert json.loads(found["requestheader-username-headers"]) == ["x-remote-user"], "names of headers know no case"
    assert in_bundle(found["client-ca-file"]) == in_bundle(first)
    before = (await api.get(f"{WHERE}/{NAME}")).json
    for one in (*servers, *servers):
        await one.publish(client)
    assert (await api.get(f"{WHERE}/{NAME}")).json == before, "who has nothing to add writes nothing"


async def test_servers_that_publish_at_once_lose_nothing(api: InMemory, client: Client) -> None:
    texts = [authority() for _ in range(6)]
    await asyncio.gather(*(server().publish_own(client, proxy(one)) for one in texts))
    assert in_bundle((await data(api))[PROXIES]) == in_bundle("".join(texts))


async def test_an_authority_that_has_ended_goes(api: InMemory, client: Client) -> None:
    ended, lasting, own = authority(MOMENT - timedelta(days=3651)), authority(), authority()
    await store(api, {PROXIES: ended + lasting})
    await server().publish_own(client, proxy(own))
    assert in_bundle((await data(api))[PROXIES]) == in_bundle(lasting + own)


async def test_what_was_removed_comes_back(api: InMemory, client: Client) -> None:
    one, own = server(), proxy(authority())
    await one.publish_own(client, own)
    assert (await api.request("DELETE", f"{WHERE}/{NAME}")).status == 200
    await one.publish(client)
    assert await data(api) == own


async def test_what_others_keep_there_stays(api: InMemory, client: Client) -> None:
    await store(api, {"note": "ours", "client-ca-file": "as it is"})
    await server().publish_own(client, proxy(authority()))
    found = await data(api)
    assert (found["note"], found["client-ca-file"]) == ("ours", "as it is")


async def test_names_without_an_authority_are_nobodys(api: InMemory, client: Client) -> None:
    await store(api, {"requestheader-allowed-names": '["somebody"]'})
    own = proxy(authority())
    await server().publish_own(client, own)
    assert await data(api) == own


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (PROXIES, "no certificate"),
        (PROXIES, "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n"),
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-allowed-names", '{"a": 1}'),
        ("requestheader-group-headers", "[1, null]"),
        ("requestheader-group-headers", "[" * 100_000),
    ],
)
async def test_what_cant_be_read_is_written_anew(
    api: InMemory, client: Client, caplog: pytest.LogCaptureFixture, key: str, text: str
) -> None:
    before, own = authority(), authority()
    await store(api, {**proxy(before), key: text})
    with caplog.at_level(logging.ERROR):
        await server().publish_own(client, proxy(own))
    found = await data(api)
    assert in_bundle(found[PROXIES]) >= in_bundle(own)
    assert key == PROXIES or found[key] == proxy(own)[key]
    assert f"{NAME}: {key} " in caplog.text


async def test_a_bundle_has_a_bound(api: InMemory, client: Client) -> None:
    """Whoever may write the ConfigMap shouldn't take the server's time: the servers begin again with their own."""
    own = authority()
    await store(api, proxy(authority() * 400))
    await server().publish_own(client, proxy(own))
    assert (await data(api))[PROXIES] == own


async def test_without_config_maps_there_is_nothing_to_publish() -> None:
    async with InMemory(ControlPlane(disable=["identities", "systemobjects", "configuration"])) as api:
        await server().publish_own(api.client(), proxy(authority()))
        assert (await api.get(f"{WHERE}/{NAME}")).status == 404
