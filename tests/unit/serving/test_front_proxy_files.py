"""The certificate of a front proxy in a directory: one for all who ask, renewed in time, whole after every crash."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import oarlock
from oarlock.server.serving.certificates.issuing import FRONT_PROXY_NAME, FrontProxyFiles, ensure_front_proxy
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile, read_pair

NOW = 1_800_000_000.0
DAY = 86_400.0
NAMES = ["front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.crt", "front-proxy-client.key"]
AT_ONCE = 20
KILLED = 4

MAKER = """
import os, sys
from pathlib import Path
from oarlock.server.serving.certificates.issuing import ensure_front_proxy
folder = Path(sys.argv[1])
os.write(1, b"x")
while True:
    ensure_front_proxy(folder, 1_800_000_000.0)
    for name in ("front-proxy-client.crt", "front-proxy-ca.crt"):
        (folder / name).unlink()
"""


def shown(files: FrontProxyFiles) -> x509.Certificate:
    """The certificate, once it is clear that it has its key and one of the authorities."""
    read_pair(files.certificate, files.key)
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    signers = [one for one in authorities(files) if one.subject == certificate.issuer]
    certificate.verify_directly_issued_by(signers[0])
    return certificate


def authorities(files: FrontProxyFiles) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(files.authorities)


def days(certificate: x509.Certificate, now: float) -> int:
    return (certificate.not_valid_after_utc - datetime.fromtimestamp(now, UTC)) // timedelta(days=1)


def test_it_is_for_a_client_of_that_name_and_its_keys_are_its_owners(tmp_path: Path) -> None:
    files = ensure_front_proxy(tmp_path / "new" / "pki", NOW)
    certificate = shown(files)
    assert [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [FRONT_PROXY_NAME]
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (days(certificate, NOW), days(authorities(files)[0], NOW)) == (365, 3650)
    folder = files.key.parent
    assert sorted(os.listdir(folder)) == NAMES
    assert [(folder / name).stat().st_mode & 0o777 for name in NAMES] == [0o644, 0o600, 0o644, 0o600]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_openssl_takes_it(tmp_path: Path) -> None:
    """A handshake in memory, as with a backend."""
    now = datetime.now(UTC).timestamp()
    files = ensure_front_proxy(tmp_path / "proxy", now)
    serving = ensure_certificates(tmp_path / "backend", (), now)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=files.authorities.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_cert_chain(serving.certificate, serving.key)
    client = ssl.create_default_context(cafile=str(serving.ca))
    client.load_cert_chain(files.certificate, files.key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there, server_hostname="localhost")
    answers = server.wrap_bio(there, back, server_side=True)
    for side in (asks, answers) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
    peer = answers.getpeercert()
    assert peer is not None
    assert peer["subject"] == ((("commonName", FRONT_PROXY_NAME),),)


def test_it_stays_until_a_month_before_its_end(tmp_path: Path) -> None:
    first = ensure_front_proxy(tmp_path, NOW)
    before = {name: (tmp_path / name).read_bytes() for name in NAMES}
    assert ensure_front_proxy(tmp_path, NOW + 334 * DAY) == first
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == before
    later = ensure_front_proxy(tmp_path, NOW + 336 * DAY)
    assert days(shown(later), NOW + 336 * DAY) == 365
    assert later.authorities == first.authorities
    assert (tmp_path / "front-proxy-client.key").read_bytes() != before["front-proxy-client.key"]


def test_an_authority_is_known_long_before_it_signs_and_until_its_end(tmp_path: Path) -> None:
    """Backends learn of it from a ConfigMap, which takes a moment; nothing is signed by one that they may not know."""
    now, signer, known = NOW, None, set[x509.Certificate]()
    successions = 0
    for _ in range(430):
        files = ensure_front_proxy(tmp_path, now)
        certificate = shown(files)
        trusted = authorities(files)
        by = next(one for one in trusted if one.subject == certificate.issuer)
        if signer is not None and by != signer:
            assert by in known, "it was published with the look before at the latest"
            successions += 1
        signer, known = by, set(trusted)
        assert all(days(one, now) >= 0 for one in (certificate, *trusted))
        assert len(trusted) <= 2
        now += 20 * DAY
    assert successions == 2


def test_all_who_ask_at_once_get_the_same(tmp_path: Path) -> None:
    together = threading.Barrier(AT_ONCE)

    def ask() -> bytes:
        together.wait()
        files = ensure_front_proxy(tmp_path / "pki", NOW)
        return files.authorities + files.certificate.read_bytes() + files.key.read_bytes()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert len({one.result() for one in [pool.submit(ask) for _ in range(AT_ONCE)]}) == 1


@pytest.mark.slow
def test_whoever_is_killed_while_making_it_leaves_what_the_next_completes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}
    for _ in range(KILLED):
        maker = subprocess.Popen([sys.executable, "-c", MAKER, str(tmp_path)], env=environment, stdout=subprocess.PIPE)
        assert maker.stdout is not None
        maker.stdout.read(1)
        while len(os.listdir(tmp_path)) < 2 and maker.poll() is None:
            pass
        os.kill(maker.pid, signal.SIGKILL)
        maker.communicate()
        shown(ensure_front_proxy(tmp_path, NOW))
        assert sorted(os.listdir(tmp_path)) == NAMES


@pytest.mark.parametrize(
    "left",
    [
        [".front-proxy-ca.key.new"],
        ["front-proxy-ca.key"],
        ["front-proxy-ca.key", ".front-proxy-ca.crt.new"],
        [*NAMES[:2], ".front-proxy-client.key.new"],
        [*NAMES[:2], "front-proxy-client.key"],
        [*NAMES[:2], "front-proxy-client.key", ".front-proxy-client.crt.new"],
        [*NAMES[1:]],
        NAMES[2:],
    ],
)
def test_whatever_a_crash_leaves_is_completed(tmp_path: Path, left: list[str]) -> None:
    """Of a first making or of a renewal; a name with a dot is a file that wasn't whole yet."""
    ensure_front_proxy(tmp_path / "other", NOW)
    for name in left:
        content = b"half a fi" if name.startswith(".") else (tmp_path / "other" / name).read_bytes()
        (tmp_path / name).write_bytes(content)
    shown(ensure_front_proxy(tmp_path, NOW))
    assert sorted(os.listdir(tmp_path)) == [*NAMES, "other"]


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff" * 500, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_garbled_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    ensure_front_proxy(tmp_path, NOW)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadCertificateFile, match=f"^{tmp_path / name}: it contains no "):
        ensure_front_proxy(tmp_path, NOW)


@pytest.mark.parametrize("name", ["front-proxy-ca.key", "front-proxy-client.key"])
def test_the_key_of_another_certificate_is_named(tmp_path: Path, name: str) -> None:
    ensure_front_proxy(tmp_path / "one", NOW)
    ensure_front_proxy(tmp_path / "other", NOW)
    (tmp_path / "one" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(BadCertificateFile, match=f"{name}: it is not the key of the certificate in"):
        ensure_front_proxy(tmp_path / "one", NOW)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    ensure_front_proxy(tmp_path, NOW)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(BadCertificateFile, match=f"{name}: "):
        ensure_front_proxy(tmp_path, NOW)


def test_a_certificate_of_somebody_else_is_replaced(tmp_path: Path) -> None:
    """Backends wouldn't know it."""
    ensure_front_proxy(tmp_path / "one", NOW)
    ensure_front_proxy(tmp_path / "other", NOW)
    for name in NAMES[2:]:
        (tmp_path / "one" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    shown(ensure_front_proxy(tmp_path / "one", NOW))
