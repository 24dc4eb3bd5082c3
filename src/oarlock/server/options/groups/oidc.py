"""Options of authentication with tokens that issuers elsewhere have signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.net.url import is_https
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import PathType, SeparateListType, StringListType, StringType

__all__ = ["OpenIDOptions"]

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
        "Let in whom the issuers in this AuthenticationConfiguration know (apiserver.config.k8s.io/v1, YAML or JSON); "
        "read again when it changes.",
    )
    oidc_issuer_url: str = option(
        "", StringType("URL"), "Let in whom this OpenID Connect issuer knows by an ID token; https only."
    )
    oidc_client_id: str = option("", StringType("ID"), "The audience that these tokens must be for.")
    oidc_ca_file: Path | None = option(
        None, PathType(), "Trust the issuer's server with certificates of these authorities (PEM); the system's else."
    )
    oidc_username_claim: str = option("sub", StringType("CLAIM"), "The claim that has the user's name.")
    oidc_username_prefix: str = option(
        "",
        StringType("PREFIX"),
        "Comes before the name; - for nothing. Unless given it is the issuer's URL and #, and nothing for email.",
    )
    oidc_groups_claim: str = option(
        "", StringType("CLAIM"), "The claim that has the user's groups, a text or a list of them; no groups else."
    )
    oidc_groups_prefix: str = option("", StringType("PREFIX"), "Comes before the name of each group.")
    oidc_signing_algs: tuple[str, ...] = option(
        ("RS256",), StringListType("ALGORITHMS", _algorithm), "The algorithms that tokens may be signed with."
    )
    oidc_required_claim: tuple[str, ...] = option(
        (), SeparateListType("CLAIM", _required), "A claim that a token must have, with its value: hd=example.com."
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
                yield Problem(name, "the file of `authentication_config` says who is let in: give one of them")
        elif bool(self.oidc_issuer_url) != bool(self.oidc_client_id):
            yield Problem(given[0], "give both `oidc_issuer_url` and `oidc_client_id`")
        elif given and not self.oidc_issuer_url:
            yield Problem(given[0], "give `oidc_issuer_url` and `oidc_client_id` too")
        if self.oidc_issuer_url and not is_https(self.oidc_issuer_url):
            yield Problem("oidc_issuer_url", "must be an https URL")
        if not self.oidc_signing_algs:
            yield Problem("oidc_signing_algs", "is empty, so no token could be accepted")
        if not self.oidc_username_claim:
            yield Problem("oidc_username_claim", "is empty, so nobody would have a name")
