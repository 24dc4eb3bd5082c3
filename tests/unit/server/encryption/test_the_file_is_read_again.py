"""The file is read again when it changes; one that can't be used changes nothing and is told of."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from kms_plugin import KmsPlugin

from oarlock.codec import yaml
from oarlock.server import encryption as module
from oarlock.server.encryption import ServerEncryption
from oarlock.storage.backend import Stale
from oarlock.storage.encryption.kms.provider import KmsProvider
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock

KEY = "/registry//secrets/default/a"


def written(path: Path, *providers: Any) -> None:
    tree = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": list(providers)}],
    }
    path.write_bytes(yaml.encode(tree))
    path.chmod(0o600)


def keyed(*names: str) -> dict[str, Any]:
    keys = [{"name": name, "secret": base64.b64encode(name.encode().ljust(32)).decode()} for name in names]
    return {"aesgcm": {"keys": keys}}


def service(plugin: KmsPlugin, name: str = "vault") -> dict[str, Any]:
    return {"kms": {"apiVersion": "v2", "name": name, "endpoint": plugin.endpoint, "timeout": "10s"}}


def test_writes_use_the_new_first_key_and_a_bad_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "encryption.yaml"

    async def scenario() -> None:
        written(path, keyed("one"))
        clock, inner = VirtualClock(), MemoryBackend(VirtualClock())
        encryption = ServerEncryption(inner, path, clock, reload=True)
        backend, counts = encryption.backend, encryption.counts
        await backend.start()
        await backend.put(KEY, b"{}", expect=0)
        await encryption.check()
        assert (counts.succeeded, counts.failed) == (0, 0), "nothing has changed"
        digest = counts.digest

        written(path, keyed("two"), {"aescbc": {}})
        for _ in range(3):
            await encryption.check()
        assert (counts.succeeded, counts.failed) == (0, 1), "a bad text is told once"
        assert counts.digest == digest
        assert "aescbc.keys: Required value: at least one keys is required: the previous content" in caplog.text
        path.unlink()
        await encryption.check()
        assert "No such file or directory: the previous content stays in force" in caplog.text
        await backend.put("/registry//secrets/default/b", b"{}", expect=0)

        written(path, keyed("two", "one"))
        clock.advance(100)
        await encryption.check()
        assert (counts.succeeded, counts.succeeded_at) == (1, clock.now())
        assert counts.digest != digest
        kv, _ = await backend.get(KEY)
        assert kv is not None
        assert isinstance(kv.value, Stale)
        await backend.put(KEY, kv.value, expect=kv.mod_rev)
        raw, _ = await inner.get(KEY)
        assert raw is not None
        assert raw.value.startswith(b"k8s:enc:aesgcm:v1:two:")
        await backend.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "changed, and read again" in caplog.text


def test_new_services_must_answer_and_known_ones_keep_what_they_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.5)
    path = tmp_path / "encryption.yaml"

    async def scenario() -> None:
        async with KmsPlugin(tmp_path / "a.sock") as first, KmsPlugin(tmp_path / "b.sock") as second:
            written(path, service(first))
            encryption = ServerEncryption(MemoryBackend(VirtualClock()), path, VirtualClock(), reload=True)
            backend = encryption.backend
            await backend.start()
            (known,) = backend.rules.providers
            second.fails = {"Status": grpc.StatusCode.INTERNAL}
            written(path, service(second, "other"), service(first))
            await encryption.check()
            assert backend.rules.providers == (known,)
            assert "KMS provider 'other' fails: INTERNAL" in caplog.text
            second.fails = {}
            await encryption.check()
            other, still = backend.rules.providers
            assert still is known
            assert other.settings.name == "other"
            assert first.count("Encrypt") == 1, "its seed is the one from before"
            await backend.put(KEY, b"{}", expect=0)
            assert [check.name for check in encryption.checks()] == ["kms-providers"]
            assert await encryption.checks()[0].test() == ""
            await backend.close()

    asyncio.run(scenario())


def test_each_service_has_a_health_check_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"

    async def scenario() -> None:
        clock = VirtualClock()
        async with KmsPlugin(tmp_path / "a.sock") as first, KmsPlugin(tmp_path / "b.sock") as second:
            written(path, service(first, "first"), service(second, "second"))
            encryption = ServerEncryption(MemoryBackend(clock), path, clock, reload=False)
            await encryption.backend.start()
            checks = {check.name: check for check in encryption.checks()}
            assert list(checks) == ["kms-providers", "kms-provider-0", "kms-provider-1"]
            assert {check.probes for check in checks.values()} == {("healthz", "livez", "readyz")}
            await asyncio.gather(*(check.test() for check in checks.values()))  # the first status, which is under way
            second.healthz = "no"
            clock.advance(60)
            results = {name: await check.test() for name, check in checks.items()}
            assert results["kms-provider-0"] == ""
            assert results["kms-provider-1"] == "KMS provider 'second' fails: got unexpected healthz status: no"
            assert results["kms-providers"] == results["kms-provider-1"]
            await encryption.backend.close()

    asyncio.run(scenario())


def test_without_services_there_is_nothing_to_check_but_with_reload_they_may_come(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    written(path, keyed("one"))
    for reloads, names in ((False, []), (True, ["kms-providers"])):
        encryption = ServerEncryption(MemoryBackend(VirtualClock()), path, VirtualClock(), reload=reloads)
        assert [check.name for check in encryption.checks()] == names


def test_services_that_are_gone_from_the_file_are_closed_later(tmp_path: Path, monkeypatch: Any) -> None:
    closed: list[str] = []

    async def close(self: KmsProvider) -> None:
        closed.append(self.settings.name)
        await original(self)

    original = KmsProvider.close
    monkeypatch.setattr(KmsProvider, "close", close)
    monkeypatch.setattr("oarlock.storage.encryption.backend.CLOSE_AFTER_S", 0.01)
    path = tmp_path / "encryption.yaml"

    async def scenario() -> None:
        async with KmsPlugin(tmp_path / "a.sock") as plugin:
            written(path, service(plugin))
            encryption = ServerEncryption(MemoryBackend(VirtualClock()), path, VirtualClock(), reload=True)
            await encryption.backend.start()
            written(path, keyed("one"))
            await encryption.check()
            assert closed == []
            await asyncio.wait(encryption.backend._closing)
            assert closed == ["vault"]
            await encryption.backend.close()

    asyncio.run(scenario())
