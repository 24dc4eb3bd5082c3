"""However many servers start first on one store at once, there is one token and one CA; so there is after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import oarlock
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile, locked, tokens_of
from oarlock.server.files.data_directory import Kubeconfig, write_kubeconfig
from oarlock.server.serving.certificates.serving_pair import ensure_certificates, held_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile, server_context

AT_ONCE = 40
KILLED = 4

MAKER = """
import os, shutil, sys, time
from pathlib import Path
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
folder = Path(sys.argv[1])
os.write(1, b"x")
while True:
    ensure_certificates(folder, ("a.example",), time.time())
    for name in ("tls.crt", "ca.crt"):
        (folder / name).unlink()
"""

STARTER = """
import sys, time
from pathlib import Path
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import tokens_of
from oarlock.server.serving.certificates.serving_pair import held_certificates
from oarlock.server.serving.certificates.tls import server_context
from oarlock.testing.clock import VirtualClock
config = ServerConfig(storage=sys.argv[1])
print("here", flush=True)
sys.stdin.readline()
token = tokens_of(config)[0][0]
with held_certificates(config.certificates, [sys.argv[2]], time.time()) as files:
    server_context(files.certificate, files.key)
    print(token, files.ca.read_bytes().hex())
"""


def belongs_together(folder: Path, name: str) -> bool:
    certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
    key = load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
    return bool(certificate.public_key() == key.public_key())


def script(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_threads_that_start_at_once_agree(tmp_path: Path) -> None:
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/store.db")
    together = threading.Barrier(AT_ONCE)

    def start(number: int) -> tuple[str, bytes]:
        together.wait()
        token = tokens_of(config)[0][0]
        with held_certificates(config.certificates, [f"host-{number % 3}"], 1_800_000_000) as files:
            server_context(files.certificate, files.key)
            ca = files.ca.read_bytes()
        assert config.kubeconfig is not None
        write_kubeconfig(config.kubeconfig, Kubeconfig(f"https://127.0.0.1:{number}", ca, "admin", token))
        return token, ca

    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = set(pool.map(start, range(AT_ONCE)))
    assert len(made) == 1
    assert (tmp_path / "store.token").read_text().strip() == next(iter(made))[0]
    written = yaml.safe_load((tmp_path / "store.kubeconfig").read_text())
    assert written["users"][0]["user"]["token"] == next(iter(made))[0]
    assert sorted(os.listdir(tmp_path)) == ["pki", "store.kubeconfig", "store.token"]
    assert sorted(os.listdir(tmp_path / "pki")) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert belongs_together(tmp_path / "pki", "ca")
    assert belongs_together(tmp_path / "pki", "tls")


@pytest.mark.slow
def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/store.db"
    running = [script(STARTER, storage, f"host-{number % 2}") for number in range(6)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
    answers = set()
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in running:
        answers.add(process.communicate(timeout=60)[0])
        assert process.returncode == 0
    assert len(answers) == 1
    assert belongs_together(tmp_path / "pki", "ca")


@pytest.mark.slow
def test_whoever_is_killed_while_making_them_leaves_what_the_next_completes(tmp_path: Path) -> None:
    for _ in range(KILLED):
        maker = script(MAKER, str(tmp_path))
        assert maker.stdout is not None
        maker.stdout.read(1)
        while len(os.listdir(tmp_path)) < 2 and maker.poll() is None:
            pass
        os.kill(maker.pid, signal.SIGKILL)
        maker.communicate()
        files = ensure_certificates(tmp_path, ("a.example",), 1_800_000_000)
        server_context(files.certificate, files.key)
        assert belongs_together(tmp_path, "ca")
        assert belongs_together(tmp_path, "tls")
        assert sorted(os.listdir(tmp_path)) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


@pytest.mark.parametrize(
    "left", [["ca.key"], ["ca.key", ".ca.crt.new"], [".ca.key.new"], ["ca.crt", "ca.key", "tls.key"]]
)
def test_every_half_of_a_pair_is_completed(tmp_path: Path, left: list[str]) -> None:
    """The names there are between any two steps; a name with a dot is a file that wasn't whole yet."""
    ensure_certificates(tmp_path / "other", (), 1_800_000_000)
    for name in left:
        content = b"half a fi" if name.startswith(".") else (tmp_path / "other" / name).read_bytes()
        (tmp_path / name).write_bytes(content)
    files = ensure_certificates(tmp_path, (), 1_800_000_000)
    server_context(files.certificate, files.key)
    assert belongs_together(tmp_path, "ca")
    assert sorted(name for name in os.listdir(tmp_path) if name != "other") == [
        "ca.crt",
        "ca.key",
        "tls.crt",
        "tls.key",
    ]


def test_a_half_written_token_is_never_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / ".store.token.new").write_text("half")
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/store.db")
    token = tokens_of(config)[0][0]
    assert tokens_of(config)[0][0] == token
    assert os.listdir(tmp_path) == ["store.token"]
    assert (tmp_path / "store.token").stat().st_mode & 0o777 == 0o600


def test_who_waits_for_a_maker_that_hangs_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.server.files.credentials.LOCK_TIMEOUT_S", 0.05)
    (tmp_path / "pki").mkdir()
    with locked(tmp_path), locked(tmp_path / "pki"):
        with pytest.raises(BadFile, match=r"store\.token: another process has been making files"):
            tokens_of(ServerConfig(storage=f"sqlite:///{tmp_path}/store.db"))
        with pytest.raises(BadCertificateFile, match="pki: another process"):
            ensure_certificates(tmp_path / "pki", (), 1_800_000_000)
