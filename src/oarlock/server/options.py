"""The options of ``oarlock serve``, as one declared value, and their translation to a `ServerConfig`.

Names and meanings are kube-apiserver's for the options it has. Opens nothing. See also: `command`, which parses them.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from oarlock.meta.names import dns1123_subdomain
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.server.config import ServerConfig
from oarlock.storage.backend import StorageError
from oarlock.storage.url import sqlite_path

__all__ = ["BadOption", "ServeOptions", "config_of"]

_TRUE = ("true", "1", "t", "yes")
_FALSE = ("false", "0", "f", "no")


class BadOption(Exception):
    """An invalid value of an option. The text names the option and the values it takes."""


File = Path | None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of ``oarlock serve``; help texts are shown by ``--help``."""

    bind_address: Annotated[
        str, typer.Option(metavar="IP", help="Listen on this address; 0.0.0.0 and :: are every one.")
    ] = "127.0.0.1"
    secure_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Listen on this port; 0 takes any free one.")
    ] = 6443
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Keep objects here: sqlite:///relative.db, sqlite:////absolute.db or memory://."
        ),
    ] = "sqlite:///oarlock.db"
    data_dir: Annotated[
        File,
        typer.Option(
            metavar="DIR",
            help="Keep the token, kubeconfig and certificates made here; beside the SQLite file unless given.",
        ),
    ] = None
    cert_dir: Annotated[
        File,
        typer.Option(
            metavar="DIR",
            help="Where certificates are made when none are given, and found again; pki in --data-dir unless given.",
        ),
    ] = None
    tls_cert_file: Annotated[
        File, typer.Option(metavar="F", help="Serve with this certificate (PEM, intermediates after it).")
    ] = None
    tls_private_key_file: Annotated[File, typer.Option(metavar="F", help="The key of --tls-cert-file.")] = None
    tls_san: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="More names and addresses the generated certificate is for: db.example.com,10.0.0.7,*.example.com.",
        ),
    ] = ""
    client_ca_file: Annotated[
        File,
        typer.Option(
            metavar="F",
            help="Let clients in with certificates of these authorities (PEM): CN is the user, O its groups.",
        ),
    ] = None
    token_auth_file: Annotated[
        File, typer.Option(metavar="CSV", help='Let clients in with these tokens: token,user,uid,"group1,group2".')
    ] = None
    anonymous_paths: Annotated[
        str,
        typer.Option(
            metavar="PATHS",
            help="Let anybody ask for exactly these paths, for example /livez,/readyz,/healthz; none unless given.",
        ),
    ] = ""
    anonymous_auth: Annotated[str, typer.Option(metavar="BOOL", help="Only false is taken: see --anonymous-paths.")] = (
        "false"
    )
    write_kubeconfig: Annotated[
        File,
        typer.Option(metavar="F", help="Write a kubeconfig here; in --data-dir unless given, if a token is made."),
    ] = None
    request_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a request may take, watches left out.")
    ] = "60s"
    max_request_bytes: Annotated[int, typer.Option(metavar="N", min=1, help="Refuse larger bodies with 413.")] = (
        3 * 1024 * 1024
    )
    max_unsent_bytes: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Keep this much for clients that don't read, all together; beyond it: 429, and the slowest are cut.",
        ),
    ] = 256 * 1024 * 1024
    shutdown_delay_duration: Annotated[
        str, typer.Option(metavar="DURATION", help="Go on serving for this long after /readyz has begun to fail.")
    ] = "0s"
    http2: Annotated[str, typer.Option(metavar="BOOL", help="Serve HTTP/2 as well as HTTP/1.1.")] = "true"
    verbosity: Annotated[
        int,
        typer.Option(
            "-v",
            "--v",
            metavar="N",
            min=0,
            max=10,
            help="How much to log, to stderr: 1 what the server does, 3 every request, 4 everything.",
        ),
    ] = 0


def config_of(options: ServeOptions) -> ServerConfig:
    """The `ServerConfig` for the options. Raises `BadOption`."""
    if _boolean("--anonymous-auth", options.anonymous_auth):
        raise BadOption("--anonymous-auth=true is not supported: name the paths anybody may read in --anonymous-paths")
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise BadOption("--tls-cert-file and --tls-private-key-file must be given together")
    if options.tls_san and options.tls_cert_file is not None:
        raise BadOption("--tls-san names what is generated, and --tls-cert-file is served as it is: leave one out")
    try:
        sqlite_path(options.storage)
    except StorageError as error:
        raise BadOption(f"--storage: {error}") from None
    return ServerConfig(
        bind_address=options.bind_address,
        secure_port=options.secure_port,
        storage=options.storage,
        data_dir=options.data_dir,
        cert_dir=options.cert_dir,
        tls_cert_file=options.tls_cert_file,
        tls_private_key_file=options.tls_private_key_file,
        tls_sans=_names("--tls-san", options.tls_san),
        client_ca_file=options.client_ca_file,
        token_auth_file=options.token_auth_file,
        anonymous_paths=_paths("--anonymous-paths", options.anonymous_paths),
        write_kubeconfig=options.write_kubeconfig,
        request_timeout_s=_seconds("--request-timeout", options.request_timeout, above=0.0),
        max_request_bytes=options.max_request_bytes,
        max_unsent_bytes=options.max_unsent_bytes,
        shutdown_delay_s=_seconds("--shutdown-delay-duration", options.shutdown_delay_duration),
        http2=_boolean("--http2", options.http2),
        verbosity=options.verbosity,
    )


def _boolean(option: str, text: str) -> bool:
    value = text.lower()
    if value not in _TRUE + _FALSE:
        raise BadOption(f"{option}={text}: give true or false")
    return value in _TRUE


def _seconds(option: str, text: str, above: float | None = None) -> float:
    try:
        seconds = parse_go_duration(text)
    except TimeError as error:
        raise BadOption(f"{option}={text}: {error}; write a duration like 90s or 1m30s") from None
    if seconds < 0 or (above is not None and seconds <= above):
        raise BadOption(f"{option}={text}: must be {'more than' if above is not None else 'at least'} 0")
    return seconds


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    for name in names:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            if dns1123_subdomain(name.removeprefix("*.")):
                raise BadOption(f"{option}: {name} is neither a DNS name nor an IP address") from None
    return names


def _paths(option: str, text: str) -> tuple[str, ...]:
    paths = tuple(part.strip() for part in text.split(",") if part.strip())
    for path in paths:
        if not path.startswith("/") or "*" in path:
            raise BadOption(f"{option}: {path} is not an exact path; write /livez,/readyz,/healthz")
    return paths
