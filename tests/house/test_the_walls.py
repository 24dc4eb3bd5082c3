"""A floor imports only lower floors, and the façade stays light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_trees import source_trees

from oarlock.cli.commands import COMMANDS as ALL_COMMANDS
from oarlock.server.options.commands import CommandGroup, LaterCommand

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_the_contracts_between_floors_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Resource", "Model", "Spoke"])
def test_types_load_no_server(name: str) -> None:
    heavy = ("asyncio", "ssl", "socket", "apsw", "uvloop", "prometheus_client", "cryptography")
    code = f"import sys, oarlock; oarlock.{name}; print(*[m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_client_loads_no_server() -> None:
    floors = tuple(
        f"oarlock.{name}" for name in ("storage", "registry", "policy", "endpoints", "server", "apps", "testing")
    )
    heavy = ("aiohttp", "apsw", "uvloop", "prometheus_client", "cryptography")
    code = f"import sys, oarlock.client; print(*[m for m in sys.modules if m.startswith({floors!r}) or m in {heavy!r}])"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


FACADES = {"oarlock", "oarlock.client", "oarlock.controllers", "oarlock.extend", "oarlock.testing"}
"""They load a name of theirs when it is first used, some of them by `lazy_names`."""

BY_STRING = {"import_module", "__import__", "lazy_names", "resolve_name"}

LAZY_NAMES = {"oarlock.meta.lazy_names"}

USERS_MODULES = {"oarlock.cli.loading"}
"""It imports what a command line names."""

COMMANDS = {"oarlock.server.options.commands"}
"""It imports the modules of commands, which the table of ``oarlock.cli.commands`` names."""

DEFERRED = {
    "oarlock.apps.workloads.kubelets": {"oarlock.endpoints.channels.spdy_tunnel"},
    "oarlock.cli": {"oarlock.cli"},
    "oarlock.cli.control_plane_commands": {"oarlock.cli.up"},
    "oarlock.cli.developing": {"oarlock.cli.behind"},
    "oarlock.cli.scaffolding_commands": {"oarlock.cli"},
    "oarlock.cli.serving_commands": {"oarlock.cli.behind"},
    "oarlock.cli.storage.running": {"oarlock.server.encryption"},
    "oarlock.codec.yaml": {"oarlock.codec"},
    "oarlock.endpoints.verbs.connect": {"oarlock.endpoints.channels"},
    "oarlock.endpoints.verbs.watch": {"oarlock.endpoints.watching.over_websocket"},
    "oarlock.schema.cel.gate": {"oarlock.schema.cel"},
    "oarlock.apps.api_server": {"oarlock.apps.admission.cluster", "oarlock.server"},
    "oarlock.server.authorization.assembly": {
        "oarlock.server.cluster.review_caller",
        "oarlock.server.authorization.configuration",
    },
    "oarlock.server.assembly.identities": {
        "oarlock.server.authentication",
        "oarlock.server.authentication.issuers",
        "oarlock.server.authentication.own_issuer",
        "oarlock.server.cluster.trust",
        "oarlock.server.cluster.review_caller",
    },
    "oarlock.server.files.data_directory": {"oarlock.server.files.kubeconfig_merge"},
    "oarlock.server.assembly.lifecycle": {
        "oarlock.server.cluster.certificate",
        "oarlock.server.serving.certificates.sni",
        "oarlock.server.encryption",
    },
    "oarlock.server.files.credentials": {
        "cryptography.hazmat.primitives.serialization",
        "oarlock.policy.authn.certificates",
    },
    "oarlock.server.metrics.page": {"oarlock.server.metrics"},
    "oarlock.server.options.file": {"oarlock.server.options.file_lines"},
    "oarlock.server.serving.certificates.serving_pair": {"oarlock.server.serving.certificates.issuing"},
    "oarlock.server.serving.certificates.tls": {"oarlock.server.serving.certificates.bad_pairs"},
    "oarlock.server.assembly.filters": {"oarlock.server.audit.build", "oarlock.server.fairness.cluster"},
    "oarlock.server.assembly.pages": {"oarlock.server.pages.debug"},
    "oarlock.server.assembly.parts": {"oarlock.server.pages.static_files"},
    "oarlock.server.assembly.run": {
        "oarlock.client.client",
        "oarlock.server.local.transport",
    },
    "oarlock.storage.url": {
        "oarlock.storage.etcd.backend",
        "oarlock.storage.mysql.backend",
        "oarlock.storage.postgres.backend",
        "importlib.metadata",
    },
    "oarlock.net.connecting": {"python_socks", "python_socks.async_.asyncio"},
    "oarlock.storage.encryption.ciphers": {"nacl.exceptions", "nacl.secret"},
}
"""Imports in functions: what they load is slow to load, and most processes never need it."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path) for path in (ROOT / "src").rglob("*.py")}


@pytest.fixture(scope="module")
def source() -> dict[str, ast.Module]:
    """What is in each module."""
    return {module_name(path): tree for path, tree in source_trees().items()}


def imported(module: str, node: ast.AST) -> set[str]:
    """The modules of ours that a statement imports."""
    if isinstance(node, ast.Import):
        named = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
        named = {f"{node.module}.{alias.name}" for alias in node.names}
        named = {name if name in MODULES else str(node.module) for name in named}
    else:
        return set()
    return {name for name in named if name in MODULES and name != module}


def test_nothing_is_imported_by_a_string(source: dict[str, ast.Module]) -> None:
    by_string = {
        module
        for module, tree in source.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.alias)
        and {"import_module", "__import__", "lazy_names", "resolve_name"}
        & {getattr(node, key, None) for key in ("attr", "id", "name")}
    }
    assert by_string == FACADES | LAZY_NAMES | USERS_MODULES | COMMANDS


def test_commands_are_named_that_exist_on_their_own_floor() -> None:
    def later(group: CommandGroup) -> Iterator[LaterCommand]:
        for command in group.commands:
            if isinstance(command, LaterCommand):
                yield command
            elif isinstance(command, CommandGroup):
                yield from later(command)

    for command in later(ALL_COMMANDS):
        assert command.where.startswith("oarlock.cli.")
        assert command.load().name == command.name


def test_few_imports_wait_for_their_first_use(source: dict[str, ast.Module]) -> None:
    found: dict[str, set[str]] = {}
    for module, tree in source.items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom):
                    found.setdefault(module, set()).add(str(node.module))
    assert found == DEFERRED


def test_no_module_imports_itself_through_others(source: dict[str, ast.Module]) -> None:
    graph = {
        module: {name for node in ast.walk(tree) for name in imported(module, node)} for module, tree in source.items()
    }
    before = -1
    while len(graph) != before:  # who imports none of those left, or is imported by none of them, is in no circle
        before = len(graph)
        graph = {module: names & graph.keys() for module, names in graph.items() if names & graph.keys()}
        needed = {name for names in graph.values() for name in names}
        graph = {module: names for module, names in graph.items() if module in needed}
    assert graph == {}


def test_urls_are_parsed_and_tls_contexts_made_in_one_place(source: dict[str, ast.Module]) -> None:
    """Two readers of one URL disagree one day on whether it wants TLS."""
    kept = {"urlsplit", "urlparse", "create_default_context", "PROTOCOL_TLS_CLIENT"}
    users = {
        module
        for module, tree in source.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.alias)
        and kept & {getattr(node, key, None) for key in ("attr", "id", "name")}
    }
    assert users == {"oarlock.net.trust"}


CONNECTIONS_OF_WEBHOOKS = {
    "oarlock.apps.admission.part:_Connections",
    "oarlock.apps.crds.conversion:ConversionWebhooks",
}
"""They run only to close what they hold when the server ends."""


def test_controllers_of_ours_are_in_one_folder(source: dict[str, ast.Module]) -> None:
    elsewhere = {
        f"{module}:{node.name}"
        for module, tree in source.items()
        if module.startswith("oarlock.apps.") and not module.startswith("oarlock.apps.controllers.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and _is_runnable(node)
    }
    assert elsewhere == CONNECTIONS_OF_WEBHOOKS


def _is_runnable(node: ast.ClassDef) -> bool:
    runs = any(
        isinstance(method, ast.AsyncFunctionDef)
        and method.name == "run"
        and [one.arg for one in method.args.args] == ["self", "client", "clock"]
        for method in node.body
    )
    return runs or any(ast.unparse(base).startswith("Controller[") for base in node.bases)
