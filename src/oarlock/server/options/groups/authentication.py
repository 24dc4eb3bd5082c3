"""Options of authentication: who is let in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.net.url import UrlError, is_https, parse_url
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import (
    BooleanType,
    DurationType,
    PathListType,
    PathType,
    SeparateListType,
    StringListType,
    StringType,
)

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")


def _algorithm(text: str) -> str:
    """A way to sign. Raises ValueError."""
    if text not in ALGORITHMS:
        raise ValueError(f"{text} is not one of {', '.join(ALGORITHMS)}")
    return text


def _required(text: str) -> str:
    """A claim and its value. Raises ValueError."""
    if not text.partition("=")[0] or "=" not in text:
        raise ValueError(f"{text} has no name and value; write hd=example.com")
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenIDOptions(OptionGroup):
    title = "Authentication by issuers of tokens"

    authentication_config: Path | None = option(
        None,
        PathType(),
        "Authenticate users with tokens of the issuers in this AuthenticationConfiguration "
        "(apiserver.config.k8s.io/v1, YAML or JSON). It is read again when it changes.",
    )
    oidc_issuer_url: str = option(
        "", StringType("URL"), "Authenticate users with ID tokens of this OpenID Connect issuer. https only."
    )
    oidc_client_id: str = option("", StringType("ID"), "The audience that these tokens must have.")
    oidc_ca_file: Path | None = option(
        None, PathType(), "The authorities of the issuer's server certificate (PEM). By default the system's."
    )
    oidc_username_claim: str = option("sub", StringType("CLAIM"), "The claim with the user's name.")
    oidc_username_prefix: str = option(
        "",
        StringType("PREFIX"),
        "The prefix of the name; - means none. By default the issuer's URL and #, and none for the claim email.",
    )
    oidc_groups_claim: str = option(
        "", StringType("CLAIM"), "The claim with the user's groups, a string or a list. By default there are no groups."
    )
    oidc_groups_prefix: str = option("", StringType("PREFIX"), "The prefix of the name of each group.")
    oidc_signing_algs: tuple[str, ...] = option(
        ("RS256",), StringListType("ALGORITHMS", _algorithm), "The accepted signature algorithms of tokens."
    )
    oidc_required_claim: tuple[str, ...] = option(
        (),
        SeparateListType("CLAIM", _required),
        "A claim that a token must have, with its value: hd=example.com. Repeat it for more.",
    )

    def check(self) -> Iterator[Problem]:
        given = [
            name
            for name in (
                *("oidc_issuer_url", "oidc_client_id", "oidc_ca_file", "oidc_username_prefix", "oidc_groups_claim"),
                *("oidc_groups_prefix", "oidc_required_claim"),
            )
            if getattr(self, name)
        ]
        if self.authentication_config is not None:
            for name in given:
                yield Problem(name, "can't be combined with `authentication_config`: set one of them")
        elif bool(self.oidc_issuer_url) != bool(self.oidc_client_id):
            yield Problem(given[0], "give both `oidc_issuer_url` and `oidc_client_id`")
        elif given and not self.oidc_issuer_url:
            yield Problem(given[0], "give `oidc_issuer_url` and `oidc_client_id` too")
        if self.oidc_issuer_url and not is_https(self.oidc_issuer_url):
            yield Problem("oidc_issuer_url", "must be an https URL")
        if not self.oidc_signing_algs:
            yield Problem("oidc_signing_algs", "is empty, so no token could be accepted")
        if not self.oidc_username_claim:
            yield Problem("oidc_username_claim", "is empty, so users would have no name")


_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2


def _exact_path(text: str) -> str:
    """A path of a URL without wildcards. Raises ValueError."""
    if not text.startswith("/") or "*" in text:
        raise ValueError(f"{text} is not an exact path; write /livez,/readyz,/healthz")
    return text


def _issuer(text: str) -> str:
    """An issuer of tokens. Raises ValueError."""
    try:
        if ":" in text and not parse_url(text).scheme:
            raise ValueError(f"{text!r} has a colon and isn't a URL")
    except UrlError as error:
        raise ValueError(f"{text!r} has a colon and isn't a URL: {error.reason}") from None
    return text


def _header(text: str) -> str:
    """The name of a header, or the beginning of one, in lower case. Raises ValueError."""
    if not _token.fullmatch(text):
        raise ValueError(f"{text!r} can't be the name of a header")
    return text.lower()


_HEADERS = StringListType("HEADERS", _header)


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthenticationOptions(OptionGroup):
    title = "Authentication"

    client_ca_file: Path | None = option(
        None,
        PathType(),
        "Authenticate clients with certificates of these authorities (PEM): CN is the user, O are the groups.",
    )
    token_auth_file: Path | None = option(
        None, PathType(), 'Authenticate clients with the tokens of this CSV file: token,user,uid,"group1,group2".'
    )
    anonymous_paths: tuple[str, ...] = option(
        (),
        StringListType("PATHS", _exact_path),
        "Allow requests without credentials for exactly these paths, for example /livez,/readyz,/healthz. By "
        "default none.",
    )
    anonymous_auth: bool | None = option(
        None,
        BooleanType(),
        "Accept requests without credentials as the user system:anonymous on every path. Needs authorization "
        "other than AlwaysAllow. By default on in a control plane with such authorization, and off otherwise.",
    )
    requestheader_client_ca_file: Path | None = option(
        None,
        PathType(),
        "Authenticate users by the headers of a front proxy that has a certificate of these authorities (PEM).",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        (), StringListType("NAMES"), "The accepted common names of the front proxy's certificate. By default any."
    )
    requestheader_username_headers: tuple[str, ...] = option(
        ("x-remote-user",),
        _HEADERS,
        "The front proxy's headers with the user's name. The first one present is used.",
    )
    requestheader_uid_headers: tuple[str, ...] = option((), _HEADERS, "The front proxy's headers with the user's uid.")
    requestheader_group_headers: tuple[str, ...] = option(
        ("x-remote-group",), _HEADERS, "The front proxy's headers with the user's groups, one group per line."
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        ("x-remote-extra-",), _HEADERS, "The prefixes of the front proxy's headers with extra attributes of the user."
    )
    service_account_issuer: tuple[str, ...] = option(
        (),
        StringListType("ISSUERS", _issuer),
        "Issue tokens of service accounts as the first of these issuers, usually this server's URL, and accept "
        "tokens of all of them.",
    )
    service_account_signing_key_file: Path | None = option(
        None,
        PathType(),
        "The private key that signs tokens of service accounts (PEM). By default one is generated in --data-dir.",
    )
    service_account_key_file: tuple[Path, ...] = option(
        (),
        PathListType(),
        "More keys that verify tokens of service accounts (PEM), such as the previous key.",
    )
    service_account_lookup: bool = option(
        True, BooleanType(), "Accept a token of a service account only while the objects that it is bound to exist."
    )
    service_account_max_token_expiration_s: float = option(
        0.0, DurationType(), "The longest lifetime of tokens of service accounts. 0s means 2^32 seconds."
    )
    service_account_jwks_uri: str = option(
        "",
        StringType("URL"),
        "The URL where clients find the issuer's keys. By default /openid/v1/jwks of this server.",
    )
    api_audiences: tuple[str, ...] = option(
        (), StringListType("NAMES"), "The audiences of accepted tokens. By default the first issuer."
    )
    enable_bootstrap_token_auth: bool = option(
        False, BooleanType(), "Authenticate machines with bootstrap tokens, which are secrets in kube-system."
    )
    authentication_kubeconfig: Path | None = option(
        None,
        PathType(),
        "Authenticate users of the cluster of this kubeconfig: by its tokens, its client certificates and its "
        "front proxy. in-cluster is the cluster of the pod.",
    )
    authentication_skip_lookup: bool = option(
        False,
        BooleanType(),
        "Authenticate only tokens with the cluster of --authentication-kubeconfig: don't read its client "
        "authorities and front proxy.",
    )
    authentication_tolerate_lookup_failure: bool = option(
        False,
        BooleanType(),
        "Start even if the client authorities and the front proxy of that cluster can't be read. Their users "
        "can't authenticate until they can.",
    )
    authentication_token_webhook_config_file: Path | None = option(
        None, PathType(), "Authenticate tokens with TokenReviews to the service of this kubeconfig."
    )
    authentication_token_webhook_cache_ttl_s: float = option(
        120.0, DurationType(), "How long that service's answers are cached."
    )
    authentication_token_webhook_version: str = option(
        "v1beta1", StringType("VERSION"), "The version of these TokenReviews: v1 or v1beta1."
    )
    write_kubeconfig: Path | None = option(
        None,
        PathType(),
        "Write a kubeconfig here. By default it is written to --data-dir if the server generates a token.",
    )

    @property
    def follows_cluster(self) -> bool:
        """Whether a cluster names further trusted authorities."""
        return self.authentication_kubeconfig is not None and not self.authentication_skip_lookup

    def check(self) -> Iterator[Problem]:
        if not self.service_account_issuer:
            for name in ("service_account_signing_key_file", "service_account_key_file", "service_account_jwks_uri"):
                if getattr(self, name):
                    yield Problem(name, "give `service_account_issuer` too")
        if self.authentication_token_webhook_version not in ("v1", "v1beta1"):
            yield Problem("authentication_token_webhook_version", "must be v1 or v1beta1")
        if 0 < self.service_account_max_token_expiration_s < 3600:
            yield Problem("service_account_max_token_expiration_s", "must be at least 1h")
        if self.anonymous_auth and self.anonymous_paths:
            yield Problem(
                "anonymous_paths",
                "can't be combined with `anonymous_auth`: set one of them",
            )
        if self.requestheader_client_ca_file is None:
            if self.requestheader_allowed_names:
                yield Problem("requestheader_allowed_names", "give `requestheader_client_ca_file` too")
        elif not self.requestheader_username_headers:
            yield Problem("requestheader_username_headers", "is empty, so the front proxy couldn't name users")
        elif self.requestheader_client_ca_file == self.client_ca_file and not self.requestheader_allowed_names:
            yield Problem(
                "requestheader_client_ca_file",
                "is `client_ca_file`, so every client could name any user: give the front proxy another "
                "authority, or set `requestheader_allowed_names`",
            )
