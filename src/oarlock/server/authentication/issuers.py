"""`ServerIssuers`: the issuers whose tokens a server accepts, by its options, and what keeps them current.

A configuration that changes takes over when every issuer that is new in it has been asked for its keys; until then, and
while the file has a mistake, the one before stays in force.
See also: `configuration`, the file; ``options.groups.oidc``; ``policy.authn.issued_tokens``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from oarlock.client.clock import TimerClock
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.config import ClientConfig, environment_proxy
from oarlock.client.transport import ClientRequest
from oarlock.net.url import parse_url
from oarlock.policy.authn.tokens.claim_rules import EMAIL, ClaimMapping, ClaimRules
from oarlock.policy.authn.tokens.issued_tokens import IssuedTokens, TokenIssuerRules
from oarlock.policy.authn.tokens.issuer_keys import Document, DocumentReader, IssuerKeys, IssuerPlace
from oarlock.server.authentication.configuration import AnonymousRules, authentication_of, url_problems
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.files.credentials import BadFile, read_file
from oarlock.server.files.strict_reader import decoded_file
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.options.groups.authentication import OpenIDOptions
from oarlock.server.options.option import ConfigError

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


log = logging.getLogger("oarlock.authn")


class ServerIssuers:
    """The issuers that `options` name. `own` are those of the server's own tokens, which can't be among them.

    `documents` makes what reads documents, from the authorities to trust (PEM). Raises `ConfigError`, `BadFile`.
    """

    def __init__(
        self,
        options: OpenIDOptions,
        own: Collection[str],
        clock: TimerClock,
        documents: Callable[[bytes], DocumentReader],
        counts: AuthenticationCounts,
    ) -> None:
        self._options = options
        self._own = own
        self._clock = clock
        self._documents = documents
        self._counts = counts
        self._digest = ""
        self._following: dict[IssuerPlace, asyncio.Task[None]] = {}
        self._taking_over: asyncio.Task[None] | None = None
        self._followed = False
        self._keys: dict[IssuerPlace, IssuerKeys] = {}
        file = options.authentication_config or options.oidc_ca_file
        self.files: tuple[Path, ...] = () if file is None else (file,)
        """Those to read again when they change."""
        rules, self.anonymous = self._read()
        counts.reloads = None if options.authentication_config is None else ReloadCounts(digest=self._digest)
        self.accepted = self._with_keys(rules)
        """The rules in force, each with the keys of its issuer."""

    def tokens(self, audiences: Sequence[str]) -> IssuedTokens:
        """What identifies the tokens of those in force."""
        return IssuedTokens(self.accepted, audiences, self._clock, self._counts.issued)

    def read_again(self, changed: Callable[[], None]) -> None:
        """Read the file again, and call `changed` when what it says is in force. Raises `ConfigError`, `BadFile`."""
        try:
            rules, anonymous = self._read()
        except (ConfigError, BadFile):
            self._count(well=False)
            raise
        if anonymous != self.anonymous:
            log.error("%s: the field anonymous has changed: restart the server", self._options.authentication_config)
        accepted = self._with_keys(rules)
        if self._taking_over is not None:
            self._taking_over.cancel()
            self._taking_over = None
        waiting = [keys for _, keys in accepted if not keys.ready.is_set()]
        self._follow_all(accepted)
        if waiting and self._followed:
            names = ", ".join(keys.place.url for keys in waiting)
            log.warning("the previous configuration stays in force until the keys of %s are available", names)
            self._taking_over = asyncio.get_running_loop().create_task(self._take_over(accepted, changed))
        else:
            self._accept(accepted, changed)

    async def follow(self) -> None:
        """Keep the keys current, until cancelled."""
        self._followed = True
        self._follow_all(self.accepted)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = [*self._following.values(), *([self._taking_over] if self._taking_over is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self, *, well: bool) -> None:
        reloads = self._counts.reloads
        if reloads is not None:
            reloads.add(self._clock.now(), well=well)
            if well:
                reloads.digest = self._digest

    def _read(self) -> tuple[Sequence[TokenIssuerRules], AnonymousRules | None]:
        options, file = self._options, self._options.authentication_config
        if file is None:
            return ([_of_flags(options, self._own)] if options.oidc_issuer_url else []), None
        where = f"--authentication-config={file}"
        try:
            decoded = decoded_file(file)
        except ValueError as error:
            raise ConfigError([f"{where}: {error}"]) from None
        found, problems = authentication_of(decoded.tree, self._own)
        if problems := [*decoded.repeated_keys, *problems]:
            raise ConfigError([f"{where}: {problem}" for problem in problems])
        self._digest = decoded.digest
        return found.issuers, found.anonymous

    def _with_keys(self, rules: Sequence[TokenIssuerRules]) -> list[tuple[TokenIssuerRules, IssuerKeys]]:
        for rule in rules:
            if rule.place not in self._keys:
                reader = self._documents(rule.place.authorities)
                self._keys[rule.place] = IssuerKeys(rule.place, reader, self._clock)
        return [(rule, self._keys[rule.place]) for rule in rules]

    def _follow_all(self, accepted: Sequence[tuple[TokenIssuerRules, IssuerKeys]]) -> None:
        for _, keys in accepted if self._followed else ():
            if keys.place not in self._following:
                self._following[keys.place] = asyncio.get_running_loop().create_task(keys.follow())

    async def _take_over(
        self, accepted: list[tuple[TokenIssuerRules, IssuerKeys]], changed: Callable[[], None]
    ) -> None:
        for _, keys in accepted:
            await keys.ready.wait()
        self._accept(accepted, changed)
        log.warning("%s: the new configuration is in force", self.files[0])

    def _accept(self, accepted: list[tuple[TokenIssuerRules, IssuerKeys]], changed: Callable[[], None]) -> None:
        self.accepted = accepted
        places = {rules.place for rules, _ in accepted}
        self._keys = {place: keys for place, keys in self._keys.items() if place in places}
        for place in [place for place in self._following if place not in places]:
            self._following.pop(place).cancel()
        self._count(well=True)
        changed()


def _of_flags(options: OpenIDOptions, own: Collection[str]) -> TokenIssuerRules:
    url, flag = options.oidc_issuer_url, f"--oidc-issuer-url={options.oidc_issuer_url}"
    problems = url_problems(url)
    if url in own:
        problems.append("it is the issuer of this server's own service account tokens")
    if problems:
        raise ConfigError([f"{flag}: {problem}" for problem in problems])
    authorities = b"" if options.oidc_ca_file is None else read_file(options.oidc_ca_file)
    claim, prefix = options.oidc_username_claim, options.oidc_username_prefix
    if not prefix:
        prefix = "" if claim == EMAIL else f"{url}#"
    rules = ClaimRules(
        username=ClaimMapping(claim, "" if prefix == "-" else prefix),
        groups=ClaimMapping(options.oidc_groups_claim, options.oidc_groups_prefix),
        required=dict(claim.split("=", 1) for claim in options.oidc_required_claim),
    )
    place = IssuerPlace(url, authorities=authorities)
    return TokenIssuerRules(place, (options.oidc_client_id,), rules, options.oidc_signing_algs)
