"""``oarlock storage``: how all its commands are told which store, and what ``check`` says to do."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.server.encryption import ServerEncryption
from oarlock.storage.care.operations import opened
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock

Run = Callable[..., Any]

OBJECT = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default"}}
KEYS = {"k1": "1" * 32, "k2": "2" * 32}


def encryption(folder: Path, *names: str) -> Path:
    file = folder / f"{'-'.join(names)}.json"
    keys = [{"name": name, "secret": base64.b64encode(KEYS[name].encode()).decode()} for name in names]
    rules = [{"resources": ["secrets"], "providers": [{"aesgcm": {"keys": keys}}]}]
    tree = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": rules}
    file.write_text(json.dumps(tree))
    file.chmod(0o600)
    return file


def value(name: str) -> bytes:
    return json.dumps({**OBJECT, "metadata": {"namespace": "default", "name": name}}).encode()


def fill(url: str, *names: str, path: Path | None = None) -> None:
    from oarlock.cli.storage.running import decrypted_with  # noqa: PLC0415 (loads the ciphers)

    async def write() -> None:
        async with opened(url, create=True, wrap=decrypted_with(path)) as backend:
            for name in names:
                assert (await backend.put(f"/registry//secrets/default/{name}", value(name), expect=0)).ok

    asyncio.run(write())


def test_a_missing_key_is_no_damage(folder: Path, oarlock: Run) -> None:
    url = f"sqlite:///{folder}/store.db"
    fill(url, "a", "b", path=encryption(folder, "k1"))
    fill(url, "c", path=encryption(folder, "k2"))
    file = encryption(folder, "k2")
    done = oarlock("storage", "check", "--storage", url, "--encryption-provider-config", str(file))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == (
        f"oarlock: 2 findings in {url}: add the missing keys to {file} as further keys: "
        'aesgcm key "k1" (2 objects); these objects aren\'t damaged\n'
    )
    both = encryption(folder, "k2", "k1")
    assert oarlock("storage", "check", url, "--encryption-provider-config", str(both)).stdout == f"{url}: sound\n"


def test_a_wrong_secret_is_no_reason_to_delete_or_restore(folder: Path, oarlock: Run) -> None:
    url = f"sqlite:///{folder}/store.db"
    file = encryption(folder, "k1")
    fill(url, "a", path=file)
    file.write_text(
        file.read_text().replace(base64.b64encode(b"1" * 32).decode(), base64.b64encode(b"3" * 32).decode())
    )
    done = oarlock("storage", "check", url, "--encryption-provider-config", str(file))
    assert done.returncode == 1
    assert done.stderr == (
        f"oarlock: 1 finding in {url}: compare the providers and secrets in {file} with those that the objects were "
        "written with, before anything is repaired, deleted or restored\n"
    )


def test_a_reload_that_loses_the_key_of_stored_objects_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "rules.json"

    async def scenario() -> None:
        path.write_bytes(encryption(folder, "k1").read_bytes())
        path.chmod(0o600)
        served = ServerEncryption(MemoryBackend(VirtualClock()), path, VirtualClock(), reload=True)
        await served.backend.start()
        await served.backend.put("/registry//secrets/default/a", value("a"), expect=0)
        path.write_bytes(encryption(folder, "k2", "k1").read_bytes())
        await served.check()
        assert served.counts.without_key == 0
        path.write_bytes(encryption(folder, "k2").read_bytes())
        with caplog.at_level(logging.ERROR):
            await served.check()
        assert served.counts.without_key == 1
        assert 'keys of stored objects are missing: aesgcm key "k1" (1 objects)' in caplog.text
        path.write_bytes(encryption(folder, "k2", "k1").read_bytes())
        await served.check()
        assert served.counts.without_key == 0
        await served.backend.close()

    asyncio.run(scenario())


def test_a_store_behind_what_its_servers_have_seen_is_not_sound(folder: Path, oarlock: Run) -> None:
    url = f"sqlite:///{folder}/store.db"
    fill(url, "a", "b")

    async def epoch() -> str:
        async with opened(url) as backend:
            return await backend.epoch()

    (folder / "store.seen").write_text(json.dumps({"epoch": asyncio.run(epoch()), "revision": 182}))
    done = oarlock("storage", "check", url)
    assert done.returncode == 1
    assert "is at revision 3, and" in done.stdout
    assert "was seen at revision 182: writes in between are gone" in done.stdout
    assert "if the store wasn't restored, acknowledged writes are lost" in done.stderr
    assert "compare it with the last backup" in done.stderr
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    assert oarlock("storage", "check", url, "--data-dir", str(elsewhere)).stdout == f"{url}: sound\n"


def test_the_store_is_named_by_position_or_by_flag_in_every_command(folder: Path, oarlock: Run) -> None:
    url = f"sqlite:///{folder}/store.db"
    fill(url, "a")
    for words in (
        ["check", url],
        ["check", "--storage", url],
        ["compact", url],
        ["stats", url],
        ["stats", "--storage", url],
        ["backup", "--storage", url, "one.backup"],
        ["backup", "two.backup", f"--storage={url}"],
        ["restore", "one.backup", "--storage", f"sqlite:///{folder}/one.db"],
        ["restore", "two.backup", f"sqlite:///{folder}/two.db"],
        ["export", "--storage", url, "all.yaml"],
        ["copy", "--storage", url, f"sqlite:///{folder}/copy.db"],
    ):
        done = oarlock("storage", *words)
        assert done.returncode == 0, (words, done.stderr)
    assert (folder / "all.yaml").exists()
    twice = oarlock("storage", "check", url, "--storage", url)
    assert twice.returncode != 0
    assert "Unexpected argument" in twice.stderr


@pytest.mark.parametrize(
    ("command", "words", "order"),
    [
        ("backup", ["shop.backup", "sqlite:///store.db"], "write the URL first, then the file"),
        ("restore", ["sqlite:///store.db", "shop.backup"], "write the file first, then the URL"),
        ("export", ["all.yaml", "sqlite:///store.db"], "write the URL first, then the file"),
        ("import", ["sqlite:///store.db", "all.yaml"], "write the file first, then the URL"),
    ],
)
def test_swapped_arguments_are_told_in_words(
    folder: Path, oarlock: Run, command: str, words: list[str], order: str
) -> None:
    done = oarlock("storage", command, *words)
    assert done.returncode != 0
    assert order in done.stderr, done.stderr
    assert "sqlite:/" not in done.stderr, "a URL read as the name of a file has lost its slashes"
    assert not list(folder.glob("*.db"))


def test_what_urls_look_like_is_listed_once_and_in_full(oarlock: Run) -> None:
    done = oarlock("storage", "check", "--storage=mongodb://x")
    for form in ("postgresql://", "mysql://", "etcd://", "memory://", "sqlite:///relative.db"):
        assert done.stderr.count(form) == 1, done.stderr
    shown = "".join(oarlock("storage", "check", "--help").stdout.split())
    for form in ("postgresql://user@host/database", "mysql://user@host/database", "etcd://host:2379"):
        assert form in shown
    assert "[URL]" in shown
