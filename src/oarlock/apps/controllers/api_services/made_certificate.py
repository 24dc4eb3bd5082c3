"""`MadeProxyCertificate`: the certificate by which backends know this server, made by the server itself.

See also: ``server.serving.certificates``, where it is kept; ``aggregation.certificate``, the one that
options name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.client.client import Client
from oarlock.client.clock import SystemClock, TimerClock
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.meta.errors import StatusError
from oarlock.net.futures import shared
from oarlock.server.serving.certificates.issuing import FRONT_PROXY_NAME, FrontProxyFiles, ensure_front_proxy
from oarlock.server.serving.certificates.tls import BadCertificateFile

log = logging.getLogger("oarlock.aggregation")

FIRST_S = 1.0
"""How long after the start it is made if nobody has needed it by then: clients of a new server come first. It is made
all the same, because a backend may start before its APIService is written, and reads whom to believe at its start."""
RENEWAL_S = 3600.0
AGAIN_S = 10.0

PublishTrust = Callable[[Client, Mapping[str, str]], Awaitable[None]]
"""Publishes whom backends may believe, as data of their ConfigMap, beside what others have published."""

_HEADERS = {
    "requestheader-allowed-names": FRONT_PROXY_NAME,
    "requestheader-username-headers": "x-remote-user",
    "requestheader-uid-headers": "x-remote-uid",
    "requestheader-group-headers": "x-remote-group",
    "requestheader-extra-headers-prefix": "x-remote-extra-",
}
"""What ``aggregation.forwarding`` sends."""


class MadeProxyCertificate(ProxyCertificate):
    """Made in the folder that `directory` gives, when it is first needed; None if it shall have none. A `Runnable`.

    Its authority is published before the certificate is used.
    """

    def __init__(self, directory: Callable[[], Path | None], publish: PublishTrust) -> None:
        super().__init__()
        self._directory = directory
        self._publish = publish
        self._clock: TimerClock = SystemClock()
        self._wanted = True
        self._making: asyncio.Task[bool] | None = None

    def begin(self) -> None:
        """A server starts: another one than before may have another folder."""
        self.files, self.problem, self._wanted, self._making = None, "", True, None

    async def ready(self, client: Client) -> None:
        if self.files is None and self._wanted:
            await self._renewed(client)

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Renew it in time, until cancelled."""
        self._clock = clock
        try:
            await clock.sleep(FIRST_S)
            while True:
                complete = await self._renewed(client)
                await clock.sleep(RENEWAL_S if complete else AGAIN_S)
        finally:
            if self._making is not None:
                self._making.cancel()

    async def _renewed(self, client: Client) -> bool:
        """Make it or renew it, once for all who wait; a waiter that gives up doesn't end it for the others."""
        if self._making is None or self._making.done():
            self._making = asyncio.ensure_future(self._renew(client))
        return await shared(self._making)

    async def _renew(self, client: Client) -> bool:
        """Whether all is done. Doesn't raise: who needs the certificate is told `problem`, and so is the log, once."""
        directory = self._directory()
        self._wanted = directory is not None
        if directory is None:
            return True
        try:
            made = await asyncio.to_thread(ensure_front_proxy, directory, self._clock.now())
        except BadCertificateFile as error:
            if self.problem != str(error):
                self.problem = str(error)
                log.error("%s: backends don't know this server", error)
            return False
        try:
            await self._publish(client, _data_of(made))
        except (StatusError, TransportError) as error:
            log.warning("the authority in %s could not be published, trying again: %s", directory, error)
            complete = False
        else:
            complete = True
        self.problem, self.files = "", (made.certificate, made.key)
        return complete


def _data_of(made: FrontProxyFiles) -> dict[str, str]:
    lists = {key: json.encode([name]).decode() for key, name in _HEADERS.items()}
    return {"requestheader-client-ca-file": made.authorities.decode(), **lists}
