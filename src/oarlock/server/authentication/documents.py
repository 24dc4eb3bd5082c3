"""`HTTPDocuments`: reads the documents of issuers over HTTPS.

They are read about once an hour, so each has a connection of its own. Redirects aren't followed.
See also: ``policy.authn.issuer_keys``.
"""

from __future__ import annotations

import os
import re

from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.config import ClientConfig
from oarlock.client.login.proxies import environment_proxy
from oarlock.client.transport import ClientRequest
from oarlock.net.url import parse_url
from oarlock.policy.authn.tokens.issuer_keys import Document

__all__ = ["HTTPDocuments"]

TIMEOUT_S = 10.0
MOST_BYTES = 1024 * 1024
_max_age = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})")
_changes = re.compile(r"(?:^|[,\s])no-(?:store|cache)\b")


class HTTPDocuments:
    """Implements `DocumentReader`. `authorities` are PEM; those of the system if empty."""

    def __init__(self, authorities: bytes) -> None:
        self._authorities = authorities

    async def read(self, url: str) -> Document:
        place = parse_url(url)
        server = place.origin
        config = ClientConfig(server, ca_data=self._authorities, proxy_url=environment_proxy(server, os.environ))
        transport = HTTPTransport(config, connections=1, max_answer_bytes=MOST_BYTES)
        try:
            headers = (("accept", "application/json"), ("user-agent", "oarlock"))
            request = ClientRequest("GET", place.request_path, headers=headers, timeout_s=TIMEOUT_S)
            answer = await transport.send(request)
            data = await answer.read()
        finally:
            await transport.close()
        if answer.status != 200:
            raise ConnectionError(f"{url}: answered with {answer.status}")
        return Document(data, _fresh_s(answer.headers.get("cache-control", "").lower(), answer.headers.get("age", "")))


def _fresh_s(cache_control: str, age: str) -> float | None:
    """For how long an answer says that it stays the same (RFC 9111 §5.2.2); None if it doesn't say."""
    if _changes.search(cache_control):
        return 0.0
    longest = _max_age.search(cache_control)
    if longest is None:
        return None
    return max(0.0, float(longest[1]) - (float(age) if age.isdecimal() and len(age) < 10 else 0.0))
