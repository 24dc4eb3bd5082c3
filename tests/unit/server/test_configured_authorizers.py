"""An AuthorizationConfiguration: what it says, and every mistake in it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from oarlock import APIServer, Resource, User
from oarlock.codec import yaml
from oarlock.server.authorization.assembly import ServerAuthorization
from oarlock.server.authorization.configuration import authorizers_of
from oarlock.server.config import ServerConfig
from oarlock.server.options.option import ConfigError
from oarlock.testing import InMemory, VirtualClock

GOOD = textwrap.dedent("""
    apiVersion: apiserver.config.k8s.io/v1
    kind: AuthorizationConfiguration
    authorizers:
    - type: Webhook
      name: clerk
      webhook:
        authorizedTTL: 1m
        unauthorizedTTL: 5s
        timeout: 3s
        subjectAccessReviewVersion: v1
        matchConditionSubjectAccessReviewVersion: v1
        failurePolicy: Deny
        connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/clerk.kubeconfig}
        matchConditions:
        - expression: "'dev' in request.groups"
    - {type: RBAC, name: rbac}
    """)


def read(text: str) -> Any:
    return authorizers_of(yaml.decode(text.encode())[0])


def test_what_it_says() -> None:
    (clerk, rbac), problems = read(GOOD)
    assert problems == []
    assert (rbac.type, rbac.name, rbac.rules) == ("RBAC", "rbac", None)
    assert clerk.kubeconfig == Path("/etc/clerk.kubeconfig")
    rules = clerk.rules
    assert (rules.name, rules.authorized_s, rules.unauthorized_s, rules.timeout_s) == ("clerk", 60.0, 5.0, 3.0)
    assert (rules.failure, len(rules.conditions)) == ("Deny", 1)
    off = GOOD.replace("authorizedTTL: 1m", "cacheAuthorizedRequests: false").replace("unauthorizedTTL: 5s", "")
    assert read(off)[0][0].rules.authorized_s == 0.0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("kind: AuthorizationConfiguration", "kind: Else", "kind: write apiVersion: apiserver.config.k8s.io/v1"),
        ("type: RBAC", "type: ABAC", 'authorizers[1].type: "ABAC" is not one of'),
        ("name: rbac", "name: clerk", 'authorizers: name "clerk" is there twice'),
        ("name: rbac", "name: A_b", 'authorizers[1].name: "A_b" is not a lowercase RFC 1123 subdomain'),
        ("name: rbac", "title: rbac", "authorizers[1].title: unknown field"),
        ("timeout: 3s", "timeout: 31s", "authorizers[0].webhook.timeout: must be more than 0s and at most 30s"),
        ("timeout: 3s", "timeout: soon", 'authorizers[0].webhook.timeout: "soon" is not a duration'),
        ("timeout: 3s", "", 'authorizers[0].webhook.timeout: "" is not a duration'),
        ("policy: Deny", "policy: Ignore", ""),
        ("failurePolicy: Deny", "failurePolicy: Allow", '"Allow" is not NoOpinion or Deny'),
        ("/etc/clerk", "clerk", "connectionInfo.kubeConfigFile: give an absolute path"),
        ("KubeConfigFile,", "Telepathy,", '"Telepathy" is not one of InClusterConfig, KubeConfigFile'),
        ("request.groups", "request.nothing", "authorizers[0].webhook.matchConditions[0].expression: ERROR"),
        ("'dev' in request.groups", "request.user", "must evaluate to bool"),
        ("subjectAccessReviewVersion: v1\n", "subjectAccessReviewVersion: v2\n", '"v2" is not v1 or v1beta1'),
    ],
)
def test_mistakes_are_told_with_their_field(old: str, new: str, problem: str) -> None:
    assert any(problem in one for one in read(GOOD.replace(old, new))[1]) or not problem


@pytest.mark.parametrize("text", ["", "[]", "authorizers: 3", "{apiVersion: v1, kind: Config}", "authorizers: [1]"])
def test_anything_else_is_refused(text: str) -> None:
    assert read(text)[1]


class Parcel(Resource, group="parcels.example.com", version="v1"):
    """Something sent."""


PARCELS = "/apis/parcels.example.com/v1/namespaces/x/parcels"


def config(**given: Any) -> ServerConfig:
    return ServerConfig(storage="memory://", **given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"authorization_mode": ("Webhook",)}, "Webhook needs"),
        ({"authorization_webhook_config_file": Path("/x")}, "has no effect without Webhook"),
        ({"authorization_config": Path("/x"), "authorization_mode": ("AlwaysDeny",)}, "set one of them"),
        ({"authorization_webhook_version": "v3"}, "is v1 or v1beta1"),
    ],
)
def test_options_that_contradict_each_other(given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(**given)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for given in (
        {"authorization_config": tmp_path / "no"},
        {"authorization_kubeconfig": tmp_path / "no"},
        {"authorization_mode": ("Webhook",), "authorization_webhook_config_file": tmp_path / "no"},
    ):
        with pytest.raises(ConfigError, match=r"--authorization-.*no"):
            ServerAuthorization(None, config(**given), VirtualClock())


def test_a_configuration_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "authorization.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
    file.write_text(head + "- {type: AlwaysDeny, name: nobody}\n")

    async def follow() -> None:
        api = InMemory(APIServer(serve=[Parcel]), config=config(authorization_config=file), user=User("ann"))
        async with api:
            (followed,) = api.parts.authorization.files
            assert (await api.get(PARCELS)).status == 403
            file.write_text(head + "- {type: AlwaysAllow, name: everybody}\n# longer\n")
            followed.check()
            assert (await api.get(PARCELS)).status == 200
            for broken in ("nonsense", head + "- {type: RBAC, name: roles}  # which aren't served here\n"):
                file.write_text(broken)
                followed.check()
                assert (await api.get(PARCELS)).status == 200, "the previous content stays in force"

    asyncio.run(follow())


async def decides(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[Any]) -> None:
    """One answer of a service: ann may do everything."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    review = json.loads(await reader.readexactly(size))
    asked.append((head.split(b" ")[1], review))
    body = json.dumps({**review, "status": {"allowed": review["spec"].get("user") == "ann"}}).encode()
    writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("webhook", b"/decide"),
        ("kubeconfig", b"/decide/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ],
)
def test_a_service_is_asked_over_http(tmp_path: Path, option: str, path: bytes) -> None:
    async def ask() -> None:
        asked: list[Any] = []
        service = await asyncio.start_server(lambda r, w: decides(r, w, asked), "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        file = tmp_path / "kubeconfig"
        file.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}/decide"}}],
                }
            )
        )
        if option == "webhook":
            settings = config(authorization_mode=("Webhook",), authorization_webhook_config_file=file)
        else:
            settings = config(authorization_kubeconfig=file)
        for name, status in (("ann", 200), ("bob", 403)):
            async with InMemory(APIServer(serve=[Parcel]), config=settings, user=User(name)) as api:
                assert (await api.get(PARCELS)).status == status
                assert (await api.get(PARCELS)).status == status
        assert [one[0] for one in asked] == [path, path]
        service.close()
        async with InMemory(APIServer(serve=[Parcel]), config=settings, user=User("ann")) as api:
            assert (await api.get(PARCELS)).status == 500
            assert [one async for one in api.client().list(Parcel)] == [], "system:masters need nobody"

    asyncio.run(ask())


def test_a_server_without_one_loads_no_cel() -> None:
    code = "import sys, oarlock.server.assembly.run; print('oarlock.schema.cel.expression' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
