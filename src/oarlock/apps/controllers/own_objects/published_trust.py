"""`PublishedTrust`: whom extension servers may believe, in the ConfigMap ``extension-apiserver-authentication``.

Every server of a store adds what it knows, and removes nothing of the others': a backend must believe all of them. What
leaves the ConfigMap are authorities that have ended, and those that somebody removes and no server adds again. As
kube-apiserver's cluster authentication trust controller. See also: ``server.cluster_trust``, which reads it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.apps.controlplane.collections.identities import IdentitiesSource
from oarlock.client.client import Client
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.errors import AlreadyExists, NotFound
from oarlock.server.cluster.trust import NAME, NAMESPACE

log = logging.getLogger("oarlock.controlplane")

CONFIG_MAP = "v1/ConfigMap"
CLIENTS, PROXIES = "client-ca-file", "requestheader-client-ca-file"
NAMES = "requestheader-allowed-names"
HEADERS = (
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
)
MOST_BYTES = 128 * 1024
"""The longest value that is added to; it has some hundred authorities. Reading more would hold up the server."""
SLACK = timedelta(minutes=5)
"""How long an authority is kept after its end, for those whose clocks are behind."""

Data = Mapping[str, str]


class PublishedTrust:
    """What one server publishes: what its options say, and the `own` authority of a certificate that it made."""

    def __init__(self, identities: IdentitiesSource, now: Callable[[], float] = time.time) -> None:
        self._identities = identities
        self._now = now
        self._own: Data = {}

    def begin(self) -> None:
        """A server starts, which hasn't made a certificate yet."""
        self._own = {}

    async def publish_own(self, client: Client, own: Data) -> None:
        """Publish this too, from now on."""
        self._own = own
        await self.publish(client)

    async def publish(self, client: Client) -> None:
        """Bring the ConfigMap up to date. May be repeated at any time."""
        known = self._identities()
        if known is None and not self._own:
            return
        wanted = {**self._own, **({} if known is None else known.published())}

        def change(tree: dict[str, Any]) -> None:
            data = tree.get("data") or {}
            merged = _merged(data, wanted, datetime.fromtimestamp(self._now(), UTC))
            if merged.items() - data.items():
                tree["data"] = {**data, **merged}

        try:
            await client.change(CONFIG_MAP, NAME, change, namespace=NAMESPACE)
        except NotFound:
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": wanted}
            try:
                await client.create(tree, namespace=NAMESPACE)
            except AlreadyExists:  # another server was faster
                await client.change(CONFIG_MAP, NAME, change, namespace=NAMESPACE)
            except NotFound:
                pass  # ConfigMaps aren't served here


def _merged(stored: Mapping[str, Any], wanted: Data, moment: datetime) -> dict[str, str]:
    """What is to be stored under the names in `wanted`: what both say.

    Names and headers that are stored without an authority are left out.
    """
    merged = {key: _bundle(stored, wanted, key, moment) for key in (CLIENTS, PROXIES) if key in wanted}
    if PROXIES in wanted:
        before = stored if stored.get(PROXIES) else {}
        merged[NAMES] = _list(before, wanted, NAMES, str)
        merged.update((key, _list(before, wanted, key, str.lower)) for key in HEADERS)
    return merged


def _bundle(stored: Mapping[str, Any], wanted: Data, key: str, moment: datetime) -> str:
    text, own = str(stored.get(key) or ""), wanted[key]
    if text in ("", own):
        return own
    try:
        if len(text) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES} bytes")
        before = x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        log.error("%s/%s: %s can't be read, and is written anew: %s", NAMESPACE, NAME, key, error)
        return own
    lasting = [certificate for certificate in before if certificate.not_valid_after_utc + SLACK > moment]
    every = [*lasting, *x509.load_pem_x509_certificates(own.encode())]
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in dict.fromkeys(every))


def _list(stored: Mapping[str, Any], wanted: Data, key: str, same: Callable[[str], str]) -> str:
    """Two lists of texts as one, in JSON."""
    texts: dict[str, str] = {}
    for text in (*_texts(stored.get(key), key), *_texts(wanted.get(key), key)):
        texts.setdefault(same(text), text)
    return json.encode([*texts.values()]).decode()


def _texts(text: Any, key: str) -> list[str]:
    """A list of texts in JSON. One that can't be read counts for nothing."""
    try:
        values = json.decode(str(text or "[]")[:MOST_BYTES].encode())
    except DecodeError:
        values = None
    if isinstance(values, list) and all(isinstance(value, str) and value for value in values):
        return values
    log.error("%s/%s: %s is no list of texts in JSON, and is written anew", NAMESPACE, NAME, key)
    return []
