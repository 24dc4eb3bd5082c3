"""Where generated files are kept: beside a SQLite file, or in ``--data-dir``, whatever the store."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile, locked, tokens_of
from oarlock.server.files.data_directory import prepare_data_directory
from oarlock.server.serving.certificates.serving_pair import ensure_certificates

NOW = 1_800_000_000
NAMES = ("ca.crt", "ca.key", "tls.crt", "tls.key")
NOBODY = 65_534


def started(config: ServerConfig) -> tuple[str, bytes]:
    """What a start makes or finds: the token, and the certificate of the authority."""
    prepare_data_directory(config)
    token = tokens_of(config)[0][0]
    return token, ensure_certificates(config.certificates, (), NOW).ca.read_bytes()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@contextmanager
def as_somebody_without_rights(folder: Path) -> Iterator[None]:
    """Within, `folder` can't be written, whoever runs the tests."""
    root = os.geteuid() == 0
    folder.chmod(0o500)
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_each_kind_of_store_has_one(tmp_path: Path) -> None:
    beside = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db")
    assert beside.admin_token == tmp_path / "shop.token"
    assert beside.kubeconfig == tmp_path / "shop.kubeconfig"
    assert beside.certificates == tmp_path / "pki"
    assert ServerConfig().kubeconfig == ServerConfig(storage="memory://").kubeconfig == Path("oarlock.kubeconfig")
    far = ServerConfig(storage="postgresql://db.example.com/shop")
    assert far.admin_token == Path("oarlock-data/oarlock.token")
    assert far.certificates == Path("oarlock-data/pki")
    for storage in ("sqlite:///a/shop.db", "memory://", "etcd://a,b?insecure=true"):
        assert ServerConfig(storage=storage, data_dir=tmp_path).certificates == tmp_path / "pki"
        assert ServerConfig(storage=storage, data_dir=tmp_path, cert_dir=Path("c")).certificates == Path("c")


def test_it_is_made_and_is_its_owners_only(tmp_path: Path) -> None:
    directory = tmp_path / "var" / "lib" / "shop"
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db", data_dir=directory)
    first = started(config)
    assert mode(directory) == mode(directory / "pki") == 0o700
    assert mode(directory / "shop.token") == mode(directory / "pki" / "ca.key") == 0o600
    assert started(config) == first, "what is there is used again"
    assert sorted(os.listdir(tmp_path)) == ["var"], "nothing lies beside the store"


def test_nothing_is_made_where_everything_is_given(tmp_path: Path) -> None:
    given = tmp_path / "tokens"
    given.write_text("t,u,u\n")
    prepare_data_directory(
        ServerConfig(data_dir=tmp_path / "no", token_auth_file=given, cert_dir=tmp_path / "certificates")
    )
    prepare_data_directory(
        ServerConfig(data_dir=tmp_path / "no", token_auth_file=given, tls_cert_file=given, tls_private_key_file=given)
    )
    assert os.listdir(tmp_path) == ["tokens"]


def test_what_earlier_starts_left_beside_the_store_is_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db")
    now = ServerConfig(storage=before.storage, data_dir=tmp_path / "data")
    made = started(before)
    (tmp_path / "pki" / "ca.key").chmod(0o644)
    caplog.clear()
    assert started(now) == made
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/shop.token: copied to {tmp_path}/data",
        f"{tmp_path}/pki/ca.key and {tmp_path}/pki/ca.crt: copied to {tmp_path}/data/pki",
        f"{tmp_path}/pki/tls.key and {tmp_path}/pki/tls.crt: copied to {tmp_path}/data/pki",
    ]
    for name in NAMES:
        assert (tmp_path / "data" / "pki" / name).read_bytes() == (tmp_path / "pki" / name).read_bytes()
        assert mode(tmp_path / "data" / "pki" / name) == (0o644 if name.endswith(".crt") else 0o600)
    caplog.clear()
    (tmp_path / "shop.token").write_text("another-token-which-is-long-enough-for-one\n")
    assert started(now) == made, "it is copied once"
    assert started(before)[1] == made[1], "who goes on without the option is not disturbed"
    assert not caplog.records


def test_a_server_with_a_store_in_memory_copies_no_keys_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    others = started(ServerConfig(storage="sqlite:///oarlock.db"))
    own = started(ServerConfig(storage="memory://", data_dir=tmp_path / "webhooks"))
    assert own[0] != others[0]
    assert own[1] != others[1]


def test_only_what_is_not_given_is_copied(tmp_path: Path) -> None:
    before = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db")
    started(before)
    given = tmp_path / "tokens"
    given.write_text("t,u,u\n")
    now = ServerConfig(storage=before.storage, data_dir=tmp_path / "data", token_auth_file=given)
    prepare_data_directory(now)
    assert os.listdir(tmp_path / "data") == ["pki"]
    now = ServerConfig(storage=before.storage, data_dir=tmp_path / "other", cert_dir=tmp_path / "c")
    prepare_data_directory(now)
    assert os.listdir(tmp_path / "other") == ["shop.token"]


def test_a_copy_that_broke_off_is_completed(tmp_path: Path) -> None:
    before = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db")
    made = started(before)
    directory = tmp_path / "data"
    (directory / "pki").mkdir(parents=True)
    (directory / "pki" / "ca.key").write_bytes((tmp_path / "pki" / "ca.key").read_bytes())
    (directory / "pki" / ".ca.crt.new").write_text("half")
    (directory / ".shop.token.new").write_text("half")
    assert started(ServerConfig(storage=before.storage, data_dir=directory)) == made
    assert sorted(os.listdir(directory / "pki")) == sorted(NAMES)


@pytest.mark.parametrize("earlier", [False, True])
def test_servers_that_start_at_once_agree(tmp_path: Path, earlier: bool) -> None:
    storage = f"sqlite:///{tmp_path}/shop.db"
    before = started(ServerConfig(storage=storage)) if earlier else None
    config = ServerConfig(storage=storage, data_dir=tmp_path / "data")
    together = threading.Barrier(16)

    def start(_: int) -> tuple[str, bytes]:
        together.wait()
        return started(config)

    with ThreadPoolExecutor(16) as pool:
        made = set(pool.map(start, range(16)))
    assert len(made) == 1
    assert before is None or made == {before}


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    for place in ("data", "data/below"):
        config = ServerConfig(data_dir=tmp_path / place)
        with pytest.raises(BadFile, match=rf"{tmp_path}/data.*: (it isn't a directory|Not a directory)"):
            prepare_data_directory(config)


def test_links_in_its_place(tmp_path: Path) -> None:
    nowhere, somewhere, circle = tmp_path / "nowhere", tmp_path / "somewhere", tmp_path / "circle"
    nowhere.symlink_to(tmp_path / "missing")
    circle.symlink_to(circle)
    for link in (nowhere, circle):
        with pytest.raises(BadFile, match=f"{link}: (it isn't a directory|Too many levels)"):
            prepare_data_directory(ServerConfig(data_dir=link))
    assert not (tmp_path / "missing").exists()
    (tmp_path / "real").mkdir()
    somewhere.symlink_to(tmp_path / "real")
    started(ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db", data_dir=somewhere))
    assert sorted(os.listdir(tmp_path / "real")) == ["pki", "shop.token"]


def test_a_link_where_a_file_is_made_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    before = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db")
    made = started(before)
    directory, victim = tmp_path / "data", tmp_path / "victim"
    victim.write_text("precious")
    (directory / "pki").mkdir(parents=True)
    for name in ("shop.token", ".shop.token.new", "pki/ca.key", "pki/.ca.key.new"):
        (directory / name).symlink_to(victim if name.endswith(".new") else tmp_path / "missing")
    assert started(ServerConfig(storage=before.storage, data_dir=directory)) == made
    assert victim.read_text() == "precious"
    assert not (tmp_path / "missing").exists()
    assert not (directory / "pki" / "ca.key").is_symlink()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with as_somebody_without_rights(tmp_path / "data"):
        with pytest.raises(BadFile, match=f"{tmp_path}/.*: Permission denied"):
            started(ServerConfig(storage="memory://", data_dir=tmp_path / "data"))
        with pytest.raises(BadFile, match=f"{tmp_path}/.*: Permission denied"):
            started(ServerConfig(storage="memory://", data_dir=tmp_path / "data" / "new"))


def test_files_beside_the_store_that_cannot_be_copied(tmp_path: Path) -> None:
    (tmp_path / "shop.token").mkdir()
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db", data_dir=tmp_path / "data")
    with pytest.raises(BadFile, match=r"shop\.token: Is a directory"):
        prepare_data_directory(config)
    (tmp_path / "shop.token").rmdir()
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.crt").write_text("a certificate without its key")
    with pytest.raises(BadFile, match=r"pki/ca\.key: No such file"):
        prepare_data_directory(config)


def test_a_directory_that_another_process_keeps_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.server.files.credentials.LOCK_TIMEOUT_S", 0.05)
    started(ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db"))
    (tmp_path / "data").mkdir()
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/shop.db", data_dir=tmp_path / "data")
    for folder in (tmp_path, tmp_path / "data"):
        with locked(folder), pytest.raises(BadFile, match=f"{folder}: another process has been making files"):
            prepare_data_directory(config)


def test_a_directory_anybody_may_write_in_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    prepare_data_directory(ServerConfig(data_dir=tmp_path / "data"))
    assert f"--data-dir={tmp_path}/data: all users may write in this directory" in caplog.text
