"""`Identities`: who a server lets in, put together from its options.

What stands in files is read again when they change. See also: ``policy.authn``, the methods; `credentials`, the tokens
that a server makes for itself; ``filters.authentication``, which asks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from oarlock.client.clock import TimerClock
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.meta.context import Peer, User
from oarlock.policy.authn.authenticator import (
    NOBODY,
    Anonymous,
    Authenticator,
    BadCredentials,
    CertificateBundleError,
    Credentials,
    Identity,
    KeyFileError,
    Union,
)
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders, FrontProxyNames
from oarlock.policy.authn.tokens.bearer_tokens import BadToken, BearerTokens, TokenAuthenticator
from oarlock.policy.authn.tokens.bootstrap_tokens import BootstrapTokens
from oarlock.policy.authn.tokens.remote_tokens import RemoteTokens, ReviewTimes
from oarlock.policy.authn.tokens.token_file import TokenFile, TokenFileError
from oarlock.policy.authz.authorizer import AlwaysAllow, Authorizer
from oarlock.policy.authz.union import AuthorizerUnion
from oarlock.server.assembly.storage import LiveObjects
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile, read_file, tokens_of
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.options.option import ConfigError

if TYPE_CHECKING:
    from oarlock.server.authentication.issuers import ServerIssuers
    from oarlock.server.authentication.own_issuer import OwnIssuer
    from oarlock.server.cluster.review_caller import ReviewCaller
    from oarlock.server.cluster.trust import ClusterTrust, TrustedAuthorities

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
REFUSALS = (BadFile, TokenFileError, CertificateBundleError, KeyFileError, ConfigError)
"""What a file that can't be used raises."""


class NobodyYet:
    """Authenticates no request, until the cluster names authorities."""

    waits = False

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        return None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return None


class _Members(Protocol[T_contra]):
    """A union, whose members can be replaced."""

    def exchange(self, position: int, new: T_contra) -> None: ...


class AuthenticatorSources(Generic[T]):
    """The members of a union, each made from files, and made again when these change."""

    def __init__(self) -> None:
        self._made: list[tuple[tuple[Path, ...], Callable[[], T]]] = []

    def add(self, make: Callable[[], T], *files: Path) -> int:
        """Add a member; returns its position."""
        self._made.append((files, make))
        return len(self._made) - 1

    def members(self) -> list[T]:
        return [make() for _, make in self._made]

    def reloaded(self, union: Callable[[], _Members[T]]) -> list[ReloadedFiles]:
        def reload(position: int) -> None:
            union().exchange(position, self._made[position][1]())

        return [ReloadedFiles(files, partial(reload, n), REFUSALS) for n, (files, _) in enumerate(self._made) if files]


PROXIES, CLIENTS = 0, 1
"""The places of front proxies and client certificates among the authenticators of requests."""

MOST_CALLERS = 8
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class Identities:
    """Who is let in by one server.

    Make it from the server's options. `clock` says when what expires has expired.
    Raises `BadFile`, `TokenFileError`, `CertificateBundleError`, `KeyFileError`.
    """

    def __init__(self, config: ServerConfig, clock: TimerClock, own: Sequence[Authenticator] = ()) -> None:
        self._config = config
        self._clock = clock
        self.tokens_in_file: list[tuple[str, User]] = tokens_of(config)  # makes the administrator's, if there is none
        self.front_proxy = FrontProxyHeaders()
        self.audiences = config.api_audiences or config.service_account_issuer[:1]
        self.objects = LiveObjects()
        self.counts = AuthenticationCounts()
        self._callers: list[ReviewCaller] = []
        self._own_issuer = self._service_accounts()
        self.issuer = None if self._own_issuer is None else self._own_issuer.issuer
        self.secret_uses = None if self._own_issuer is None else self._own_issuer.uses
        self._issuers = self._server_issuers()
        self.anonymous = self._anonymous()
        requests, tokens = self._request_sources(), self._token_sources()
        # Before they are read, so that no change is missed.
        self.files: tuple[ReloadedFiles, ...] = (
            *requests.reloaded(lambda: self._union),
            *tokens.reloaded(lambda: self.tokens),
            *self._reloaded_issuers(),
        )
        self.tokens = BearerTokens(tokens.members(), clock, self.audiences)
        self._trust = self._cluster_trust()
        self._own = Union(own)
        self._union = Union([*requests.members(), self.tokens, *own])

    @property
    def authenticator(self) -> Authenticator:
        """Says of each request who sends it."""
        return self._union

    async def review(self, token: str, audiences: Sequence[str]) -> Identity:
        """Whose a token is, for one of `audiences` if there are any, as if a request had it. Raises `BadToken`."""
        try:
            return (await self.tokens.identify(token, audiences)).identity
        except BadToken as refusal:
            header = f"Bearer {token}".encode("utf-8", "surrogateescape").decode("latin-1")
            try:
                identity = await self._own.authenticate(
                    Credentials({"authorization": header}, [("authorization", header)])
                )
            except BadCredentials as error:
                raise BadToken((*refusal.reasons, str(error))) from None
            if identity is None:
                raise
            good_for = self.audiences if identity.audiences is None else identity.audiences
            fitting = tuple(audience for audience in audiences if audience in good_for)
            if audiences and good_for and not fitting:
                raise BadToken((*refusal.reasons, "the token is for other audiences")) from None
            return replace(identity, audiences=fitting or None)

    def remembered(self) -> dict[str, int]:
        """How many tokens were remembered, and how many weren't."""
        return {"hit": self.tokens.hits, "miss": self.tokens.misses}

    def published(self) -> dict[str, str]:
        """What extension servers may believe because this server does, as the data of their ConfigMap."""
        config, data = self._config, {}
        if config.client_ca_file is not None:
            data["client-ca-file"] = read_file(config.client_ca_file).decode()
        if config.requestheader_client_ca_file is not None:
            data["requestheader-client-ca-file"] = read_file(config.requestheader_client_ca_file).decode()
            data |= {
                "requestheader-allowed-names": json.dumps(config.requestheader_allowed_names),
                "requestheader-username-headers": json.dumps(config.requestheader_username_headers),
                "requestheader-uid-headers": json.dumps(config.requestheader_uid_headers),
                "requestheader-group-headers": json.dumps(config.requestheader_group_headers),
                "requestheader-extra-headers-prefix": json.dumps(config.requestheader_extra_headers_prefix),
            }
        return data

    def _request_sources(self) -> AuthenticatorSources[Authenticator]:
        config, clock, sources = self._config, self._clock, AuthenticatorSources[Authenticator]()
        proxies, clients = config.requestheader_client_ca_file, config.client_ca_file
        if proxies is None and clients is None and not config.follows_cluster:
            return sources
        # Imported here, because few servers have authorities, and what verifies certificates is large.
        from oarlock.server.authentication import certificates  # noqa: PLC0415 (see above)

        if proxies is not None:
            names = FrontProxyNames(
                config.requestheader_allowed_names,
                config.requestheader_username_headers,
                config.requestheader_uid_headers,
                config.requestheader_group_headers,
                config.requestheader_extra_headers_prefix,
            )
            self.front_proxy.add(names)
            if clients is not None and not names.allowed_names and certificates.share(proxies, clients):
                raise BadFile(
                    f"{proxies}: it has an authority of {clients}, so every client could name any user: "
                    "set --requestheader-allowed-names"
                )
            sources.add(lambda: certificates.front_proxy(read_file(proxies), str(proxies), names, clock), proxies)
        elif config.follows_cluster:
            sources.add(NobodyYet)
        if clients is not None:
            sources.add(lambda: certificates.clients(read_file(clients), str(clients), clock), clients)
        elif config.follows_cluster:
            sources.add(NobodyYet)
        return sources

    def _token_sources(self) -> AuthenticatorSources[TokenAuthenticator]:
        config, sources = self._config, AuthenticatorSources[TokenAuthenticator]()
        file = config.token_auth_file or config.admin_token
        sources.add(lambda: TokenFile(tokens_of(config), self.audiences), file)
        if self._own_issuer is not None:
            sources.add(self._own_issuer.tokens, *self._own_issuer.files)
        if config.enable_bootstrap_token_auth:
            sources.add(lambda: BootstrapTokens(self.objects, self.audiences, self._clock))
        if self._issuers is not None:
            self._issuers_place = sources.add(self._issued_tokens)
        webhook, cluster = config.authentication_token_webhook_config_file, config.authentication_kubeconfig
        if webhook is not None:
            kept_s = config.authentication_token_webhook_cache_ttl_s
            version = config.authentication_token_webhook_version
            sources.add(lambda: self._remote(webhook, "", ReviewTimes(kept_s, kept_s), version))
        if cluster is not None:
            sources.add(lambda: self._remote(cluster, TOKEN_REVIEWS, ReviewTimes(), "v1"))
        return sources

    def _remote(self, file: Path, path: str, times: ReviewTimes, version: str) -> TokenAuthenticator:
        # Imported here, because few servers ask others, which needs an HTTP client.
        from oarlock.server.cluster.review_caller import ReviewCaller  # noqa: PLC0415 (see above)

        try:
            ask = ReviewCaller(file, path, times.answer_s, self.counts.delegate if path else None)
        except ClientConfigError as error:
            raise BadFile(f"{file}: {error}") from None
        self._callers.append(ask)
        if len(self._callers) > MOST_CALLERS:  # the file has changed so often: nobody waits for the oldest any more
            self._closing = asyncio.ensure_future(self._callers.pop(0).close())
        return RemoteTokens(str(file), ask, self._clock, audiences=self.audiences, times=times, version=version)

    async def start(self) -> None:
        """Read from the cluster which authorities to trust, if there is one. Raises `BadFile`."""
        if self._trust is not None:
            await self._trust.start()

    async def follow(self) -> None:
        """Follow the cluster's trusted authorities until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._trust is not None:
                    tasks.create_task(self._trust.follow())
                if self._issuers is not None:
                    tasks.create_task(self._issuers.follow())
                await asyncio.get_running_loop().create_future()
        finally:
            for caller in self._callers:
                await caller.close()

    def _cluster_trust(self) -> ClusterTrust | None:
        config = self._config
        if config.authentication_kubeconfig is None or not config.follows_cluster:
            return None
        from oarlock.server.cluster.trust import ClusterTrust  # noqa: PLC0415 (few servers ask a cluster)

        tolerate = config.authentication_tolerate_lookup_failure
        return ClusterTrust(config.authentication_kubeconfig, self._believe, tolerate=tolerate)

    def _believe(self, said: TrustedAuthorities) -> None:
        """Let in whom the cluster believes; what options say comes first. Raises ValueError."""
        from oarlock.server.authentication import certificates  # noqa: PLC0415 (as `_request_sources`)

        config, clock = self._config, self._clock
        if said.names is not None and not said.names.allowed_names and said.front_proxies == said.clients:
            raise ValueError("front proxies and clients share an authority, so every client could name any user")
        if config.requestheader_client_ca_file is None:
            proxy: Authenticator = NobodyYet()
            if said.names is not None:
                proxy = certificates.front_proxy(said.front_proxies, "requestheader-client-ca-file", said.names, clock)
                self.front_proxy.add(said.names)
            self._union.exchange(PROXIES, proxy)
        if config.client_ca_file is None:
            clients: Authenticator = NobodyYet()
            if said.clients:
                clients = certificates.clients(said.clients, "client-ca-file", clock)
            self._union.exchange(CLIENTS, clients)

    def _service_accounts(self) -> OwnIssuer | None:
        """The server's own issuer, if it is one."""
        if not self._config.service_account_issuer:
            return None
        # Imported here, because what signs is large.
        from oarlock.server.authentication.own_issuer import OwnIssuer  # noqa: PLC0415 (see above)

        return OwnIssuer(self._config, self.audiences, self.objects, self._clock)

    def _server_issuers(self) -> ServerIssuers | None:
        config = self._config
        if config.authentication_config is None and not config.oidc_issuer_url:
            return None
        # Imported here, because few servers believe other issuers, which needs CEL and an HTTP client.
        from oarlock.server.authentication.issuers import HTTPDocuments, ServerIssuers  # noqa: PLC0415

        return ServerIssuers(config, config.service_account_issuer, self._clock, HTTPDocuments, self.counts)

    def _issued_tokens(self) -> TokenAuthenticator:
        assert self._issuers is not None
        return self._issuers.tokens(self.audiences)

    def _reloaded_issuers(self) -> Sequence[ReloadedFiles]:
        issuers = self._issuers
        if issuers is None or not issuers.files:
            return ()

        def changed() -> None:
            self.tokens.exchange(self._issuers_place, self._issued_tokens())

        return (ReloadedFiles(issuers.files, lambda: issuers.read_again(changed), REFUSALS),)

    def _anonymous(self) -> Anonymous:
        """Who needs no credentials, by the configuration file if that says so. Raises `ConfigError`."""
        config = self._config
        rules = None if self._issuers is None else self._issuers.anonymous
        if rules is None:
            return anonymous_of(config)
        where = f"--authentication-config={config.authentication_config}: anonymous"
        for flag, given in (
            ("anonymous-auth", config.anonymous_auth is False),
            ("anonymous-paths", config.anonymous_paths),
        ):
            if given:
                raise ConfigError([f"{where}: --{flag} is given too: leave one of them out"])
        if not rules.enabled:
            return NOBODY
        return Anonymous(None if rules.paths is None else frozenset(rules.paths))


def anonymous_of(config: ServerConfig) -> Anonymous:
    """Who needs no credentials."""
    if config.anonymous_auth:
        return Anonymous(None)
    return Anonymous(frozenset(config.anonymous_paths)) if config.anonymous_paths else NOBODY


def check_anonymous(anonymous: Anonymous, authorizer: Authorizer) -> None:
    """Refuse to let everybody do everything. Raises `ConfigError`."""
    members = authorizer.members if isinstance(authorizer, AuthorizerUnion) else (authorizer,)
    if anonymous.paths is None and any(isinstance(authorizer, AlwaysAllow) for authorizer in members):
        raise ConfigError(
            [
                "--anonymous-auth: every client could do everything, because every request is allowed: leave it out, "
                "name paths in --anonymous-paths, or set another --authorization-mode"
            ]
        )
