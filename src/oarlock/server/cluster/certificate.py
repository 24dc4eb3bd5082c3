"""`ClusterCertificate`: a serving certificate that servers which a cluster asks keep and renew themselves.

It is in a Secret of the cluster, with the authority that signs it, so that all servers have the same; the first of them
makes it. Its authority is written into the objects by which the cluster finds them (APIServices, configurations of
webhooks, definitions with a conversion webhook), before a certificate that it signs is used. A certificate lasts for 90
days, its authority for ten years; each is replaced when a third of its time is left, and the former authority stays in
the bundle while it is valid. An authority that isn't in the Secret any more stays published for `OVERLAP_S`, since
servers may still show a certificate that it signed.
See also: ``serving.issuing``; `lifecycle`, which serves with the files.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.client.transport import TransportError
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.server.cluster.trust import cluster_client
from oarlock.server.description import ReferringObject
from oarlock.server.files.credentials import BadFile, locked, write_file
from oarlock.server.serving.certificates.issuing import CertificatePair, alternative_names, issue, new_authority

log = logging.getLogger("oarlock.server")

DAYS = 90
DEADLINE_S = 30.0
INTERVAL_S, SOON_S = 60.0, 5.0
ATTEMPTS = 8
OVERLAP_S = 180.0
"""Longer than `INTERVAL_S` and the time after which a server reads its files again, together."""
_FAILURES = (ClientConfigError, TransportError, errors.StatusError, TimeoutError, ValueError)

_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class ClusterCertificateSettings:
    """Which Secret, as ``NAMESPACE/NAME``, of which cluster; for which names, and which objects refer clients to it.

    `directory` is where the files are written that the server reads.
    """

    kubeconfig: Path
    secret: str
    hosts: tuple[str, ...]
    referring_objects: tuple[ReferringObject, ...]
    directory: Path


@dataclass(frozen=True, slots=True)
class _Held:
    """A certificate, the authority that signed it, and all authorities that clients must trust."""

    pair: CertificatePair
    authority: CertificatePair
    bundle: tuple[x509.Certificate, ...]

    @property
    def bundle_pem(self) -> bytes:
        return _pem(self.bundle)


def _pem(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


class ClusterCertificate:
    """Keeps the certificate of `settings` in its files, as it is in the Secret, and renews it there."""

    def __init__(self, settings: ClusterCertificateSettings, clock: TimerClock) -> None:
        self._settings = settings
        self._clock = clock
        self._complete = False
        self._written = b""
        self._leaving: dict[bytes, float] = {}
        """Authorities that are published and not in the Secret, and since when that is known."""
        self.certificate = settings.directory / "tls.crt"
        self.key = settings.directory / "tls.key"

    async def start(self) -> None:
        """Make the certificate unless it is there, and write its files. Raises `BadFile`."""
        try:
            await self.bring()
        except _FAILURES as error:
            why = f"the Secret {self._settings.secret} of the cluster can't be used: {str(error) or 'no answer'}"
            raise BadFile(f"--serving-certificate-secret: {why}") from None
        except OSError as error:
            raise BadFile(f"{error.filename or self._settings.directory}: {error.strerror or error}") from None

    async def follow(self) -> None:
        """Renew it in time, and take over what other servers renewed, until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_S if self._complete else SOON_S)
            try:
                await self.bring()
            except (*_FAILURES, OSError) as error:
                log.error("the Secret %s with the certificate can't be used: %s", self._settings.secret, error)

    async def bring(self) -> None:
        """Renew the certificate if it is time, tell the cluster's clients, and write the files if it is another one."""
        async with asyncio.timeout(DEADLINE_S), cluster_client(self._settings.kubeconfig) as client:
            held = await self._held(client)
            self._complete = await self._publish(client, held.bundle)
        self._write(held.pair)

    async def _held(self, client: Client) -> _Held:
        """What is in the Secret, renewed if it has to be. Another server may do the same at this moment."""
        namespace, _, name = self._settings.secret.partition("/")
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        for _ in range(ATTEMPTS):
            try:
                tree = await client.get("v1/Secret", name, namespace=namespace)
            except errors.NotFound:
                tree = None
            stored = None if tree is None else _read(tree.get("data") or {})
            if stored is not None and _fits(stored, self._settings.hosts, moment):
                return stored
            renewed = _renewed(stored, self._settings.hosts, moment)
            metadata = {"name": name, "namespace": namespace}
            wanted = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
            try:
                if tree is None:
                    await client.create({**wanted, "data": _data(renewed)}, namespace=namespace)
                else:
                    await client.update({**wanted, **tree, "data": {**(tree.get("data") or {}), **_data(renewed)}})
            except (errors.AlreadyExists, errors.Conflict):
                continue
            log.warning("a new serving certificate is in the Secret %s", self._settings.secret)
            return renewed
        raise ValueError("other clients changed it repeatedly")

    async def _publish(self, client: Client, bundle: Sequence[x509.Certificate]) -> bool:
        """Write the authorities into the objects that tell of this server; whether all of them are there."""
        complete, before, self._leaving = True, self._leaving, {}
        for kind, name in self._settings.referring_objects:
            try:
                tree = await client.get(kind, name)
                places = [*_client_configs(tree)]
                if not any(place.config.get("service") for place in places):
                    log.error("the %s %s names no service: set one", kind.rpartition("/")[2], name)
                wanted = [self._with_former(bundle, _published(place), before) for place in places]
                patch = [
                    change for place, text in zip(places, wanted, strict=True) for change in _trusting(place, text)
                ]
                if patch:
                    await client.patch(kind, name, patch, type="json")
            except errors.NotFound:
                complete = False
        return complete

    def _with_former(
        self, bundle: Sequence[x509.Certificate], published: Sequence[x509.Certificate], before: Mapping[bytes, float]
    ) -> str:
        """What to publish in place of `published`; `before` has those that were leaving the last time."""
        kept, moment = [*bundle], self._clock.monotonic()
        for former in published:
            if former not in bundle:
                name = former.fingerprint(hashes.SHA256())
                since = self._leaving[name] = before.get(name, moment)
                kept += [former] if moment - since < OVERLAP_S else []
        return base64.b64encode(_pem(kept)).decode()

    def _write(self, pair: CertificatePair) -> None:
        """Write the files, unless they hold this certificate. Nothing else runs on the loop meanwhile."""
        text = pair.certificate_pem
        if text == self._written:
            return
        self._settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._settings.directory):
            write_file(self.key, pair.key_pem, 0o600)
            write_file(self.certificate, text, 0o644)
        self._written = text


class _ClientConfig(NamedTuple):
    """What an object says of a server: where it is and whom to trust there, at a JSON pointer."""

    pointer: str
    config: Mapping[str, Any]


def _client_configs(tree: Tree) -> Iterator[_ClientConfig]:
    """Each place of an object that names a server."""
    spec = tree.get("spec") or {}
    match tree["kind"]:
        case "APIService":
            yield _ClientConfig("/spec", spec)
        case "CustomResourceDefinition":
            webhook = (spec.get("conversion") or {}).get("webhook") or {}
            if webhook.get("clientConfig"):
                yield _ClientConfig("/spec/conversion/webhook/clientConfig", webhook["clientConfig"])
        case _:
            for at, webhook in enumerate(tree.get("webhooks") or ()):
                yield _ClientConfig(f"/webhooks/{at}/clientConfig", webhook.get("clientConfig") or {})


def _published(place: _ClientConfig) -> Sequence[x509.Certificate]:
    """The authorities that clients trust there; none if that can't be read."""
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(place.config.get("caBundle") or "", validate=True))
    except (TypeError, ValueError, binascii.Error):
        return ()


def _trusting(place: _ClientConfig, bundle: str) -> Iterator[Tree]:
    """The operations of a JSON patch after which clients trust `bundle` there; none where they do, or ask another."""
    pointer, config = place
    if not config.get("service"):
        return
    if config.get("insecureSkipTLSVerify"):
        yield {"op": "remove", "path": f"{pointer}/insecureSkipTLSVerify"}
    if config.get("caBundle") != bundle:
        yield {"op": "test", "path": f"{pointer}/service", "value": config["service"]}
        yield {"op": "add", "path": f"{pointer}/caBundle", "value": bundle}


def _data(held: _Held) -> dict[str, str]:
    texts = (held.bundle_pem, held.authority.key_pem, held.pair.certificate_pem, held.pair.key_pem)
    return {name: base64.b64encode(text).decode() for name, text in zip(_KEYS, texts, strict=True)}


def _read(data: Mapping[str, Any]) -> _Held | None:
    """What a Secret holds, None if it isn't complete or doesn't belong together."""
    try:
        texts = {name: base64.b64decode(data[name], validate=True) for name in _KEYS}
        bundle = x509.load_pem_x509_certificates(texts["ca.crt"])
        authority = CertificatePair(bundle[0], _key(texts["ca.key"]))
        pair = CertificatePair(x509.load_pem_x509_certificate(texts["tls.crt"]), _key(texts["tls.key"]))
        pair.certificate.verify_directly_issued_by(authority.certificate)
    except (KeyError, TypeError, ValueError, binascii.Error, InvalidSignature):
        return None
    belong = all(each.certificate.public_key() == each.key.public_key() for each in (authority, pair))
    return _Held(pair, authority, tuple(bundle)) if belong else None


def _key(text: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(text, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("another kind of key")
    return key


def _fits(held: _Held, hosts: Sequence[str], moment: datetime) -> bool:
    try:
        names = held.pair.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    in_time = all(_lasts(pair.certificate, moment) for pair in (held.pair, held.authority))
    return in_time and set(alternative_names(hosts)) <= set(names)


def _lasts(certificate: x509.Certificate, moment: datetime) -> bool:
    """Whether more than a third of its time is left."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin <= moment and (end - moment) * 3 > end - begin


def _renewed(held: _Held | None, hosts: Sequence[str], moment: datetime) -> _Held:
    """The next certificate, by the same authority while that lasts."""
    if held is not None and _lasts(held.authority.certificate, moment):
        authority, bundle = held.authority, held.bundle
    else:
        former = (
            ()
            if held is None
            else tuple(certificate for certificate in held.bundle if certificate.not_valid_after_utc > moment)
        )
        authority = new_authority(moment)
        bundle = (authority.certificate, *former)
    return _Held(issue(authority, hosts, moment, DAYS), authority, bundle)
