"""`ServerIssuers`: the issuers whose tokens a server accepts, by an AuthenticationConfiguration or the options of OIDC.

A configuration that changes takes over when every new issuer in it has answered with its keys; until then, and while
the file has a mistake, the previous one stays in force.
See also: ``options.groups.authentication``; ``policy.authn.issued_tokens``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from oarlock.client.clock import TimerClock
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.kubeconfig import ClientConfig, environment_proxy
from oarlock.client.transport import ClientRequest
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import ReadOnlyTree
from oarlock.meta.names import dns1123_subdomain
from oarlock.net.url import UrlError, parse_url
from oarlock.policy.authn.authenticator import CertificateBundleError
from oarlock.policy.authn.certificates import load_bundle
from oarlock.policy.authn.tokens.issued_tokens import (
    EMAIL,
    EMAIL_VERIFIED,
    ClaimCondition,
    ClaimExpression,
    ClaimMapping,
    ClaimRules,
    ExtraMapping,
    IssuedTokens,
    TokenExpression,
    TokenIssuerRules,
)
from oarlock.policy.authn.tokens.issuer_keys import Document, DocumentReader, IssuerKeys, IssuerPlace
from oarlock.schema.cel.problems import CompileError
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.files.credentials import BadFile, read_file
from oarlock.server.files.reloaded import ReloadCounts
from oarlock.server.files.strict_reader import StrictReader, configured
from oarlock.server.options.groups.authentication import OpenIDOptions
from oarlock.server.options.option import ConfigError

API_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1")
KIND = "AuthenticationConfiguration"
MOST_ISSUERS = 64
MATCH_ANY = "MatchAny"
_ISSUER_FIELDS = (
    "url",
    "discoveryURL",
    "certificateAuthority",
    "audiences",
    "audienceMatchPolicy",
    "egressSelectorType",
)
_path_of_key = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch
_RESERVED_DOMAINS = ("k8s.io", "kubernetes.io")
_BOTH, _NEITHER = "claim and expression can't both be set", "claim or expression is required"


@dataclass(frozen=True, slots=True)
class AnonymousRules:
    """Whether requests without credentials are let in: for `paths`, for any path if that is None."""

    enabled: bool
    paths: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfiguredAuthentication:
    """What the file says. `anonymous` is None if it leaves that to the options."""

    issuers: Sequence[TokenIssuerRules] = ()
    anonymous: AnonymousRules | None = None


def authentication_of(tree: Any, own_issuers: Collection[str] = ()) -> tuple[ConfiguredAuthentication, list[str]]:
    """What the file says, and what is wrong with it, one line each; use it if nothing is.

    `own_issuers` are those of the server's own tokens, which can't be configured.
    """
    reader = _AuthenticationReader(own_issuers)
    return reader.configuration(tree), reader.problems


def url_problems(url: str) -> list[str]:
    """What is wrong with the URL of an issuer."""
    try:
        place = parse_url(url)
    except UrlError as error:
        return [str(error)]
    problems = {
        "URL scheme must be https": not place.tls,
        "URL must name a host": not place.hostname,
        "the port must be between 1 and 65535": place.has_port and not 0 < place.port < 65536,
        "URL must not contain a username or password": place.user is not None,
        "URL must not contain a query": "?" in url,
        "URL must not contain a fragment": "#" in url,
        "URL must not contain spaces": " " in url,
    }
    return [problem for problem, wrong in problems.items() if wrong]


class _AuthenticationReader(StrictReader):
    def __init__(self, own_issuers: Collection[str]) -> None:
        super().__init__()
        self._own_issuers = own_issuers

    def configuration(self, tree: Any) -> ConfiguredAuthentication:
        tree = self.map("", tree, ("apiVersion", "kind", "jwt", "anonymous"))
        if tree.get("apiVersion") not in API_VERSIONS or tree.get("kind") != KIND:
            self.wrong("kind", f"write apiVersion: {API_VERSIONS[0]} and kind: {KIND}")
        listed = self.list("jwt", tree) if tree.get("jwt") is not None else []
        if len(listed) > MOST_ISSUERS:
            self.wrong("jwt", f"at most {MOST_ISSUERS} are allowed")
            listed = []
        issuers = [self._issuer(f"jwt[{at}]", issuer) for at, issuer in enumerate(listed)]
        self._must_differ("jwt[{}].issuer.url", [issuer.place.url for issuer in issuers])
        self._must_differ("jwt[{}].issuer.discoveryURL", [issuer.place.discovery_url for issuer in issuers])
        anonymous = tree.get("anonymous")
        return ConfiguredAuthentication(issuers, None if anonymous is None else self._anonymous(anonymous))

    def _anonymous(self, tree: Any) -> AnonymousRules:
        tree = self.map("anonymous", tree, ("enabled", "conditions"))
        enabled = tree.get("enabled", False)
        if not isinstance(enabled, bool):
            self.wrong("anonymous.enabled", "must be true or false")
        listed = self.list("conditions", tree, "anonymous") if tree.get("conditions") is not None else []
        paths = [self._path(f"anonymous.conditions[{at}]", condition) for at, condition in enumerate(listed)]
        if paths and not enabled:
            self.wrong("anonymous.conditions", "enabled should be set to true when conditions are defined")
        return AnonymousRules(enabled is True, tuple(paths) if paths else None)

    def _path(self, path: str, tree: Any) -> str:
        text = self.text(path, self.map(path, tree, ("path",)), "path")
        if not text.startswith("/"):
            self.wrong(f"{path}.path", f"{quote(text)} isn't an exact path, such as /livez")
        return text

    def _issuer(self, path: str, tree: Any) -> TokenIssuerRules:
        fields = ("issuer", "claimValidationRules", "claimMappings", "userValidationRules")
        tree = self.map(path, tree, fields)
        at = f"{path}.issuer"
        issuer = self.map(at, tree.get("issuer"), _ISSUER_FIELDS)
        place = IssuerPlace(self._url(at, issuer), self._discovery_url(at, issuer), self._authorities(at, issuer))
        if issuer.get("egressSelectorType"):
            self.wrong(f"{at}.egressSelectorType", "there are no egress selectors here: leave it out")
        return TokenIssuerRules(place, self._audiences(at, issuer), self._claims(path, tree))

    def _url(self, path: str, issuer: ReadOnlyTree) -> str:
        url = self.text(path, issuer, "url")
        if not url:
            self.wrong(f"{path}.url", "is required")
            return url
        if url in self._own_issuers:
            self.wrong(f"{path}.url", f"{quote(url)} is the issuer of this server's own service account tokens")
        for problem in url_problems(url):
            self.wrong(f"{path}.url", problem)
        return url

    def _discovery_url(self, path: str, issuer: ReadOnlyTree) -> str:
        url = self.text(path, issuer, "discoveryURL")
        if url and url.rstrip("/") == str(issuer.get("url", "")).rstrip("/"):
            self.wrong(f"{path}.discoveryURL", "discoveryURL must be different from URL")
        for problem in url_problems(url) if url else []:
            self.wrong(f"{path}.discoveryURL", problem)
        return url

    def _authorities(self, path: str, issuer: ReadOnlyTree) -> bytes:
        pem = self.text(path, issuer, "certificateAuthority").encode()
        try:
            if pem:
                load_bundle(pem, "it")
        except CertificateBundleError:
            self.wrong(f"{path}.certificateAuthority", "holds no certificate in PEM")
        return pem

    def _audiences(self, path: str, issuer: ReadOnlyTree) -> tuple[str, ...]:
        listed = self.list("audiences", issuer, path)
        if not all(isinstance(item, str) and item for item in listed):
            self.wrong(f"{path}.audiences", "must be texts that aren't empty")
            return ()
        if not listed:
            self.wrong(f"{path}.audiences", "at least one is required")
        self._must_differ(f"{path}.audiences[{{}}]", listed)
        policy = self.text(path, issuer, "audienceMatchPolicy")
        if len(listed) > 1 and policy != MATCH_ANY:
            self.wrong(f"{path}.audienceMatchPolicy", f"must be {MATCH_ANY} for multiple audiences")
        elif policy not in ("", MATCH_ANY):
            self.wrong(f"{path}.audienceMatchPolicy", f"must be empty or {MATCH_ANY} for single audience")
        return tuple(listed)

    def _claims(self, path: str, tree: ReadOnlyTree) -> ClaimRules:
        required, conditions = self._validation_rules(f"{path}.claimValidationRules", tree)
        at = f"{path}.claimMappings"
        mappings = self.map(at, tree.get("claimMappings"), ("username", "groups", "uid", "extra"))
        username = self._mapping(f"{at}.username", mappings.get("username", {}), needed=True)
        extra = self._extra(at, mappings)
        used = [*(condition.expression for condition in conditions), *(mapping.expression for mapping in extra)]
        self._must_verify_email(f"{at}.username.expression", username.expression, used)
        return ClaimRules(
            username,
            self._mapping(f"{at}.groups", mappings.get("groups", {})),
            self._mapping(f"{at}.uid", mappings.get("uid", {}), has_prefix=False),
            extra,
            required,
            conditions,
            self._user_rules(f"{path}.userValidationRules", tree),
        )

    def _must_verify_email(
        self, path: str, username: TokenExpression | None, others: Sequence[TokenExpression]
    ) -> None:
        if username is None or EMAIL not in username.claims:
            return
        if not any(EMAIL_VERIFIED in expression.claims for expression in (username, *others)):
            places = "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression"
            self.wrong(path, f"uses claims.email, so it or {places} must use claims.email_verified")

    def _validation_rules(self, path: str, tree: ReadOnlyTree) -> tuple[dict[str, str], list[ClaimCondition]]:
        required: dict[str, str] = {}
        conditions: list[ClaimCondition] = []
        seen: list[str] = []
        for at, rule_tree in enumerate(self.list("claimValidationRules", tree, path.rpartition(".")[0])):
            place = f"{path}[{at}]"
            rule = self.map(place, rule_tree, ("claim", "requiredValue", "expression", "message"))
            claim, expression = self.text(place, rule, "claim"), self.text(place, rule, "expression")
            value, message = self.text(place, rule, "requiredValue"), self.text(place, rule, "message")
            seen.append(claim or expression)
            if bool(claim) == bool(expression):
                self.wrong(place, _BOTH if claim else _NEITHER)
            elif claim:
                if message:
                    self.wrong(f"{place}.message", "may not be specified when claim is set")
                required[claim] = value
            else:
                if value:
                    self.wrong(f"{place}.requiredValue", "may not be specified when expression is set")
                compiled = self._compiled(f"{place}.expression", expression, condition=True)
                conditions += [ClaimCondition(compiled, message)] if compiled is not None else []
        self._must_differ(f"{path}[{{}}]", seen)
        return required, conditions

    def _user_rules(self, path: str, tree: ReadOnlyTree) -> list[ClaimCondition]:
        conditions: list[ClaimCondition] = []
        seen: list[str] = []
        for at, rule_tree in enumerate(self.list("userValidationRules", tree, path.rpartition(".")[0])):
            place = f"{path}[{at}]"
            rule = self.map(place, rule_tree, ("expression", "message"))
            source = self.text(place, rule, "expression")
            seen.append(source)
            compiled = self._compiled(f"{place}.expression", source, "user", condition=True)
            if compiled is not None:
                conditions.append(ClaimCondition(compiled, self.text(place, rule, "message")))
        self._must_differ(f"{path}[{{}}].expression", seen)
        return conditions

    def _mapping(self, path: str, tree: Any, *, needed: bool = False, has_prefix: bool = True) -> ClaimMapping:
        tree = self.map(path, tree, ("claim", "prefix", "expression") if has_prefix else ("claim", "expression"))
        claim, source = self.text(path, tree, "claim"), self.text(path, tree, "expression")
        if claim and source:
            self.wrong(path, _BOTH)
        elif needed and not claim and not source:
            self.wrong(path, _NEITHER)
        if claim and has_prefix and tree.get("prefix") is None:
            self.wrong(f"{path}.prefix", 'is required when claim is set; write "" to disable prefixing')
        if source and "prefix" in tree:
            self.wrong(f"{path}.prefix", "may not be specified when expression is set")
        prefix = self.text(path, tree, "prefix") if tree.get("prefix") is not None else ""
        compiled = self._compiled(f"{path}.expression", source) if source else None
        return ClaimMapping(claim, prefix, compiled)

    def _extra(self, path: str, mappings: ReadOnlyTree) -> list[ExtraMapping]:
        made: list[ExtraMapping] = []
        keys: list[str] = []
        for at, mapping in enumerate(self.list("extra", mappings, path)):
            place = f"{path}.extra[{at}]"
            tree = self.map(place, mapping, ("key", "valueExpression"))
            key, source = self.text(place, tree, "key"), self.text(place, tree, "valueExpression")
            for problem in _key_problems(key):
                self.wrong(f"{place}.key", problem)
            keys.append(key)
            compiled = self._compiled(f"{place}.valueExpression", source)
            if compiled is not None:
                made.append(ExtraMapping(key, compiled))
        self._must_differ(f"{path}.extra[{{}}].key", keys)
        return made

    def _compiled(
        self, path: str, source: str, variable: Literal["claims", "user"] = "claims", *, condition: bool = False
    ) -> ClaimExpression | None:
        if not source:
            self.wrong(path, "is required")
            return None
        try:
            return ClaimExpression(source, variable=variable, condition=condition)
        except (CompileError, ValueError) as error:
            self.wrong(path, str(error).partition("\n")[0])
            return None

    def _must_differ(self, path: str, values: Sequence[str]) -> None:
        for at, value in enumerate(values):
            if value and value in values[:at]:
                self.wrong(path.format(at), f"{quote(value)} is there twice")


def _key_problems(key: str) -> list[str]:
    """What is wrong with a key of `extra`."""
    domain, _, rest = key.partition("/")
    problems = []
    if not domain or not rest or not _path_of_key(rest):
        problems.append(f'{quote(key)} must be a domain-prefixed path (such as "acme.io/foo")')
    elif dns1123_subdomain(domain):
        problems.append(f"{quote(domain)} is not a lowercase RFC 1123 subdomain")
    if key != key.lower():
        problems.append(f"{quote(key)} must be lowercase")
    if domain in _RESERVED_DOMAINS or domain.endswith(tuple(f".{reserved}" for reserved in _RESERVED_DOMAINS)):
        problems.append("k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")
    return problems


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
        decode = partial(authentication_of, own_issuers=self._own)
        found, self._digest = configured("authentication-config", file, decode)
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
