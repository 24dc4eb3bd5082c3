"""What ``oarlock envtest`` writes is started as controller-runtime's envtest starts Kubernetes' programs.

Its flags, files and order are those of controller-runtime 0.25: etcd until ``/health`` answers, then kube-apiserver
until ``/healthz`` does, a client certificate of its own authority, SIGTERM at the end.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from database_process import free_port
from server_process import environment

from oarlock.cli.control_plane_commands import up_words, write_programs
from oarlock.server.command import CommandError

READY_S = 60.0


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    write_programs(tmp_path / "assets")
    return tmp_path / "assets"


@contextmanager
def program(path: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    log = path.parent / f"{path.name}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen([path, *arguments], stdout=output, stderr=output, env=environment())
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM), log.read_text()
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        assert process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(url, context=unverified, timeout=5):
                return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url} didn't answer within {READY_S:g} s")


def certificates(folder: Path) -> trustme.CA:
    """What envtest makes in --cert-dir; the authority is that of its users."""
    folder.mkdir()
    serving = trustme.CA().issue_cert("localhost", "127.0.0.1")
    (folder / "apiserver.crt").write_bytes(serving.cert_chain_pems[0].bytes())
    serving.private_key_pem.write_to_path(folder / "apiserver.key")
    signer = trustme.CA()
    signer.cert_pem.write_to_path(folder / "sa-signer.crt")
    signer.private_key_pem.write_to_path(folder / "sa-signer.key")
    users = trustme.CA()
    users.cert_pem.write_to_path(folder / "client-cert-auth-ca.crt")
    return users


@pytest.mark.slow
def test_envtest_starts_a_control_plane(assets: Path, tmp_path: Path) -> None:
    etcd, port, folder = free_port(), free_port(), tmp_path / "k8s_test_framework"
    users = certificates(folder)
    user = users.issue_cert(common_name="admin", organization_name="system:masters")
    pem = tmp_path / "user.pem"
    user.private_key_and_cert_chain_pem.write_to_path(pem)
    flags = [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder}",
        f"--client-ca-file={folder}/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--secure-port={port}",
        f"--service-account-issuer=https://127.0.0.1:{port}/",
        f"--service-account-key-file={folder}/sa-signer.crt",
        f"--service-account-signing-key-file={folder}/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]
    url, data = f"http://127.0.0.1:{etcd}", tmp_path / "etcd"
    urls = [f"--advertise-client-urls={url}", f"--listen-client-urls={url}", "--listen-peer-urls=http://127.0.0.1:0"]
    with program(assets / "etcd", *urls, f"--data-dir={data}") as store:
        wait_for(f"{url}/health", store)
        with program(assets / "kube-apiserver", *flags) as server:
            wait_for(f"https://127.0.0.1:{port}/healthz", server)
            tls = ssl._create_unverified_context()
            tls.load_cert_chain(pem)
            request = urllib.request.Request(f"https://127.0.0.1:{port}/api/v1/namespaces")
            with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
                found: Any = json.load(answer)
            assert "kube-system" in [one["metadata"]["name"] for one in found["items"]]
            accounts = urllib.request.Request(f"https://127.0.0.1:{port}/api/v1/serviceaccounts")
            with urllib.request.urlopen(accounts, context=tls, timeout=30) as answer:
                assert json.load(answer)["items"] == [], "nobody makes them in envtest"
    assert not data.exists()


@pytest.mark.slow
@pytest.mark.timeout(720)
def test_webhooks_that_envtest_installs_are_asked(assets: Path, go_programs: Path) -> None:
    """It gives them the server's own certificate as their authority, and a URL with two slashes."""
    done = subprocess.run(
        [go_programs / "environment", assets],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert told["good"] == {"name": "good", "reason": "", "message": ""}
    denied = 'admission webhook "good.example.com" denied the request: it isn\'t good'
    assert told["bad"] == {"name": "bad", "reason": "Forbidden", "message": denied}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kube-apiserver", "etcd"])
def test_envtest_asks_which_flags_there_are(assets: Path, name: str) -> None:
    done = subprocess.run(
        [assets / name, "--help"], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith("--") for line in lines)
    assert not any(line.startswith(("--insecure-port", "--unsafe-no-fsync")) for line in lines)


def test_the_controllers_of_the_controller_manager_run_if_somebody_says_so(tmp_path: Path) -> None:
    assert "--controllers=" in up_words(["--etcd-servers", "http://x", "--a=b"])
    assert "--controllers=*" in up_words([], "*")
    assert [word for word in up_words(["--controllers=*,-namespace"]) if "controllers" in word] == [
        "--controllers=*,-namespace"
    ]
    write_programs(tmp_path, ("*", "-namespace"))
    assert "*,-namespace" in (tmp_path / "kube-apiserver").read_text()


def test_a_program_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("#!/bin/sh\n")
    with pytest.raises(CommandError, match="etcd: this file exists and isn't overwritten"):
        write_programs(tmp_path)
    write_programs(tmp_path / "new")
    write_programs(tmp_path / "new")
    assert os.access(tmp_path / "new" / "kube-apiserver", os.X_OK)
