"""Where the house has doors: who listens, who connects to others, who reads the environment."""

from __future__ import annotations

import ast

from source_trees import PACKAGE, source_trees

LISTENS = {
    "cli/running.py",  # metrics of a process that runs controllers only
    "server/serving/listener.py",
    "storage/sqlite/files.py",  # a datagram socket beside the file, for the other processes of this machine
    "testing/proxy.py",
}
CONNECTS = {
    "net/connecting.py",  # everything but the drivers of databases, which connect by themselves
    "storage/grpc/channel.py",  # KMS plugins, over unix sockets
    "testing/proxy.py",
}
ENVIRONMENT = {
    "cli/behind.py",  # which cluster code of the server reaches
    "cli/developing.py",  # whether colours are wanted
    "cli/completion.py",  # the words that a shell asks to complete
    "client/login/credentials.py",
    "client/login/kubeconfig.py",
    "testing/contracts/broken_connections.py",
    "server/authentication/issuers.py",  # which proxy leads to an issuer
    "testing/contracts/clients.py",
}

_LISTENING = {"create_server", "start_server", "create_unix_server", "start_unix_server", "bind"}
_CONNECTING = {"create_connection", "open_connection", "create_unix_connection", "open_unix_connection", "sock_connect"}


def _files_that(use: set[str]) -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path, tree in source_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in use and not _is_of_inspect(node)
    }


def _is_of_inspect(node: ast.Attribute) -> bool:
    """``signature(…).bind``"""
    return "signature" in ast.unparse(node.value)


def test_who_listens_is_listed() -> None:
    assert _files_that(_LISTENING) == LISTENS


def test_who_connects_to_others_is_listed() -> None:
    assert _files_that(_CONNECTING) == CONNECTS


def test_who_reads_the_environment_is_listed() -> None:
    assert _files_that({"environ", "getenv"}) == ENVIRONMENT
