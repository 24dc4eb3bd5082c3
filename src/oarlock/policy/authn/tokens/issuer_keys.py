"""`IssuerKeys`: the public keys of an issuer of tokens, found by OpenID Connect discovery and kept current.

They are fetched again after an hour at most, and at once when a token was signed with a key that isn't among them,
since issuers replace their keys. Those who wait for one fetch share it. What was fetched stays in force while an issuer
can't be reached.
Must not know: HTTP. See also: `issued_tokens`; ``server.authentication.documents``, which reads.
Source: OpenID Connect Discovery 1.0; RFC 7517.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from oarlock.meta.dataclass import dataclass
from oarlock.net.futures import shared
from oarlock.net.url import is_https
from oarlock.policy.authn.tokens.jwt import PublicKey, VerificationKey, algorithms_of
from oarlock.policy.authn.tokens.token_issuer import SMALLEST_RSA_BITS

MOST_KEYS = 32
LARGEST_RSA_BITS = 16384
_CURVES: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}


def keys_in_set(tree: Mapping[str, Any]) -> tuple[VerificationKey, ...]:
    """The keys, `MOST_KEYS` at most: a token that names none is tried with each."""
    listed = tree.get("keys")
    read = (
        _key(key_tree)
        for key_tree in (listed if isinstance(listed, list) else [])[:MOST_KEYS]
        if isinstance(key_tree, dict)
    )
    return tuple(key for key in read if key is not None)


def _key(tree: Mapping[str, Any]) -> VerificationKey | None:
    key_id, use = tree.get("kid", ""), tree.get("use", "sig")
    if not isinstance(key_id, str) or use != "sig":
        return None
    try:
        key = _public(tree)
    except (ValueError, TypeError, binascii.Error):
        return None
    algorithms = () if key is None else algorithms_of(key)
    if "alg" in tree:  # a key that is for one algorithm verifies no other
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == tree["alg"])
    return VerificationKey(key, key_id, algorithms) if key is not None and algorithms else None


def _public(tree: Mapping[str, Any]) -> PublicKey | None:
    """The key; None for one of another kind. Raises ValueError, TypeError."""
    if tree.get("kty") == "RSA":
        modulus, exponent = _number(tree["n"]) if "n" in tree else 0, _number(tree.get("e", ""))
        if not SMALLEST_RSA_BITS <= modulus.bit_length() <= LARGEST_RSA_BITS:
            return None
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()
    curve = _CURVES.get(str(tree.get("crv"))) if tree.get("kty") == "EC" else None
    if curve is None:
        return None
    return ec.EllipticCurvePublicNumbers(_number(tree.get("x")), _number(tree.get("y")), curve).public_key()


def _number(encoded: Any) -> int:
    """Raises ValueError, TypeError."""
    return int.from_bytes(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True), "big")


log = logging.getLogger("oarlock.authn")

DISCOVERY_PATH = "/.well-known/openid-configuration"
RETRY_S = 10.0
"""How long after a failure the next attempt is, and how often at most a token can cause a fetch, in seconds."""
SHORTEST_S, LONGEST_S = 60.0, 3600.0
"""How long keys are used before they are fetched again; in between, what the issuer says."""
MOST_WAITING = 1000
"""How many requests wait for one fetch; more are refused."""


class NoKeys(Exception):
    """An issuer's keys can't be had. The text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of an issuer, and for how many seconds it says that it stays the same; None if it doesn't."""

    data: bytes
    fresh_s: float | None = None


class DocumentReader(Protocol):
    """Reads documents of issuers. It has a deadline, and a limit of bytes."""

    async def read(self, url: str) -> Document:
        """What is at `url`. Raises OSError, ValueError."""
        ...


class _WaitingClock(Protocol):
    """A clock that one can wait for."""

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class IssuerPlace:
    """An issuer, where its discovery document is (below `url` unless `discovery_url` says so), and whom it is
    believed with: `authorities` in PEM, those of the system if empty."""

    url: str
    discovery_url: str = ""
    authorities: bytes = b""


class IssuerKeys:
    """The keys of the issuer at `place`, once `follow` runs."""

    def __init__(self, place: IssuerPlace, reader: DocumentReader, clock: _WaitingClock) -> None:
        self.place = place
        self.keys: tuple[VerificationKey, ...] = ()
        self.withdrawals = 0
        """How often a key has gone: what was verified before then must be verified again."""
        self.problem = "they haven't been fetched yet"
        """Why there are no current keys; empty if there are."""
        self.ready = asyncio.Event()
        """Set once there are keys."""
        self._reader = reader
        self._clock = clock
        self._fetch: asyncio.Task[float] | None = None
        self._fetched_at = float("-inf")
        self._waiting = 0

    async def follow(self) -> None:
        """Keep the keys current, until cancelled."""
        try:
            while True:
                pause_s = await self._shared_fetch()
                await self._clock.sleep(pause_s)
        finally:
            if self._fetch is not None:
                self._fetch.cancel()  # those who wait for it see a failure

    def may_change(self) -> bool:
        """Whether waiting for `changed` could bring other keys: not if they were fetched just now."""
        if self._fetch is not None:
            return self._waiting < MOST_WAITING
        return self._clock.monotonic() - self._fetched_at >= RETRY_S

    async def changed(self) -> None:
        """Fetch the keys, or wait for the fetch in progress. A failure is in `problem`."""
        self._waiting += 1
        try:
            await self._shared_fetch()
        finally:
            self._waiting -= 1

    async def _shared_fetch(self) -> float:
        """The seconds until the next fetch is due."""
        task = self._fetch
        if task is None:
            task = self._fetch = asyncio.get_running_loop().create_task(self._fetched())
            task.add_done_callback(self._forget)
        return await shared(task)

    def _forget(self, task: asyncio.Task[float]) -> None:
        self._fetch = None

    async def _fetched(self) -> float:
        try:
            keys, fresh_s = await self._read()
        except (Exception, asyncio.CancelledError) as error:
            why = _reason(error)
            if why != self.problem and not isinstance(error, asyncio.CancelledError):
                log.error("the keys of the issuer %s can't be fetched: %s", self.place.url, why)
            self.problem = why
            return RETRY_S
        finally:
            self._fetched_at = self._clock.monotonic()
        if self.problem and self.keys:
            log.warning("the keys of the issuer %s can be fetched again", self.place.url)
        if any(key not in keys for key in self.keys):
            self.withdrawals += 1
        self.keys, self.problem = keys, ""
        self.ready.set()
        return LONGEST_S if fresh_s is None else min(max(fresh_s, SHORTEST_S), LONGEST_S)

    async def _read(self) -> tuple[tuple[VerificationKey, ...], float | None]:
        """The keys, and how long they stay the same. Raises OSError, `NoKeys`."""
        place = self.place
        url = place.discovery_url or place.url.rstrip("/") + DISCOVERY_PATH
        found = _object((await self._reader.read(url)).data, url)
        if found.get("issuer") != place.url:
            raise NoKeys(f"{url}: it is of the issuer {found.get('issuer')!r}")
        where = found.get("jwks_uri")
        if not isinstance(where, str) or not is_https(where):
            raise NoKeys(f"{url}: its jwks_uri is no https URL")
        document = await self._reader.read(where)
        keys = keys_in_set(_object(document.data, where))
        if not keys:
            raise NoKeys(f"{where}: it has no key that tokens can be signed with")
        return keys, document.fresh_s


def _object(data: bytes, url: str) -> Mapping[str, Any]:
    try:
        tree = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise NoKeys(f"{url}: it is no object in JSON")
    return tree


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "the issuer isn't asked any more"
    if isinstance(error, NoKeys | OSError | ValueError):
        return str(error) or "no answer in time"
    log.error("fetching keys failed", exc_info=error)
    return type(error).__name__


def fitting(keys: Sequence[VerificationKey], key_id: str) -> Sequence[VerificationKey]:
    """The keys that may have signed a token which names `key_id`: those with this id, all if it names none."""
    return [key for key in keys if key.key_id == key_id] if key_id else keys
