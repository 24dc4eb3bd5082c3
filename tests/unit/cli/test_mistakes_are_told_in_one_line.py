"""What a person can put right is told in one line on stderr that says how; the exit code isn't 0."""

from __future__ import annotations

import re
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest


def told(done: Any, *parts: str) -> None:
    assert done.returncode not in (0, None), done.stdout
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("oarlock: ")
    for part in parts:
        assert part in lines[0], lines[0]
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve"], "MODULE:ATTRIBUTE|FILE.py"),
        (["serve", "things.py", "--nope"], "--nope"),
        (["serve", "things.py", "--port", "21310"], "No such flag: --port (did you mean --"),
        (["serve", "things.py", "--enable-admission-plugin", "ResourceQuota"], "No such flag: --enable-admission-plug"),
        (["serve", "things.py", "--secure-port", "x"], "--secure-port"),
        (["serve", "things.py", "--secure-port", "70000"], "--secure-port"),
        (["serve", "things.py", "--secure-port"], "--secure-port"),
        (["serve", "things.py", "--http2=maybe"], "--http2=maybe: give true or false"),
        (["serve", "things.py", "--anonymous-auth=true"], "--anonymous-paths"),
        (["serve", "things.py", "--anonymous-paths=/livez*"], "not an exact path"),
        (["serve", "things.py", "--anonymous-paths=livez"], "not an exact path"),
        (["serve", "things.py", "--request-timeout=60"], "write a duration like 90s"),
        (["serve", "things.py", "--request-timeout=0s"], "must be more than 0"),
        (["serve", "things.py", "--shutdown-delay-duration=-1s"], "must be at least 0"),
        (["serve", "things.py", "--tls-cert-file=x.pem"], "must be given together"),
        (["serve", "things.py", "--max-request-bytes=0"], "--max-request-bytes"),
        (["serve", "things.py", "--storage=redis://x"], "sqlite:///relative.db"),
        (["serve", "things.py", "--storage=sqlite://x"], "three slashes"),
        (["serve", "missing.py"], "this file doesn't exist"),
        (["serve", "things"], "write MODULE:ATTRIBUTE"),
        (["serve", "things:"], "isn't the name of an attribute"),
        (["serve", "things:nothing"], "server is one"),
        (
            ["serve", "nowhere:server"],
            "No module named 'nowhere': run the command in the folder of the module, or name the file",
        ),
        (["run", "missing.py"], "this file doesn't exist"),
        (["run", "things.py"], "it contains no controllers: write controllers = [YourController()]"),
        (["run", "things:server"], "server isn't a list of controllers"),
        (["run", "things.py", "--leader-elect-lease-duration=5s"], "a lease must last longer than its holder tries"),
        (["run", "things.py", "--leader-elect-lease-duration=20.5s"], "a lease lasts for whole seconds"),
        (["serve", "things.py", "--advertise-address=10.0.0.1"], "(it is one of oarlock up)"),
        (["serve", "things.py", "--leader-elect"], "(it is one of oarlock run, oarlock webhooks)"),
        (["check", "things.py", "--dockerfile"], "(it is one of oarlock image)"),
        (["things.py", "serve"], "(the command comes first: oarlock serve …)"),
        (["--storage=memory://", "serve", "things.py"], "(the command comes first: oarlock serve …)"),
        (["storage", "--revision=3"], "(it follows the command: oarlock storage compact --revision)"),
        (["storage", "--storage", "sqlite:///a.db"], "(it follows the command: oarlock storage check --storage)"),
        (["storage", "copy", "--storage", "sqlite:///a.db"], "TO: is missing"),
        (
            ["storage", "copy", "sqlite:///a.db", "sqlite:///b.db", "--overwrite"],
            "has no effect without --from-cluster",
        ),
        (["storage", "copy", "--from-cluster", "sqlite:///a.db"], "needs to know the kinds: give --server"),
        (["storage", "backup", "b.file", "sqlite:///a.db"], "write the URL first, then the file"),
        (["storage", "restore", "sqlite:///a.db", "b.file"], "write the file first, then the URL"),
        (["storage", "migrate", "sqlite:///a.db", "things.py"], "write the server first, then the URL"),
        (["storage", "check", "--schemas", "sqlite:///a.db", "things.py"], "write the server first, then the URL"),
        (["storage", "check", "things.py"], "write --schemas before it, or oarlock check"),
        (["serve", "sqlite:///a.db"], "'sqlite:///a.db' is a URL: write the file of the server first"),
        (["serve", "things.py", "sqlite:///a.db"], "(write --storage=sqlite:///a.db)"),
        (["serve", "things.py", "--nodes", "3"], "(it is one of oarlock dev, oarlock up)"),
        (["serve", "things.py", "--secure-prot", "1"], "(did you mean --secure-port?)"),
        (["serve", "."], "it is a folder: name a file in it, such as server.py"),
        (["serve", "things:Thing"], "Thing isn't an APIServer of things; server is one"),
        (["up", "things.py"], "kinds of your own are served by oarlock serve"),
        (["up", "--nodess", "3"], "(did you mean --nodes?)"),
        (["srve"], "(did you mean serve?)"),
        (["storage", "chek"], "(did you mean check?)"),
        (["add", "resorce"], "(did you mean resource?)"),
        (["version"], "(did you mean --version?)"),
        (["help"], "(did you mean --help?)"),
        (["check", "missing.py"], "missing.py: this file doesn't exist"),
        (["crd", "things:Nope"], "Nope isn't a resource, collection or APIServer of things"),
        (["crd", "things.yaml"], "a Python file is wanted; oarlock model makes classes"),
        (["dev", "missing.py"], "missing.py: this file doesn't exist"),
        (["model", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["new"], "the project's name is missing: oarlock new NAME --group GROUP"),
        (["add", "resource", "Foo"], "make one with oarlock new NAME --group GROUP"),
        (["nope"], "nope"),
        (["storage", "nope"], "nope"),
        (["storage", "check", "--storage", "sqlite:///missing.db"], "missing.db"),
        (["storage", "compact", "--storage", "sqlite:///missing.db"], "missing.db"),
        (["storage", "compact", "--revision", "x"], "--revision"),
        (["storage", "check", "--storage", "memory://"], "memory"),
    ],
)
def test_wrong_arguments(oarlock: Any, folder: Path, arguments: list[str], says: str) -> None:
    (folder / "things.yaml").write_text("kind: CustomResourceDefinition\n")
    told(oarlock(*arguments), says)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nothing_like_it\n", "No module named 'nothing_like_it'"),
        ("def broken(:\n", "SyntaxError"),
        ("x = 1\n\ny = 1 / 0\n", "line 3"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("x = 1\n", "write server = APIServer"),
        (
            "from oarlock import APIServer\na = APIServer(serve=[])\nb = APIServer(serve=[])\n",
            "it contains several: write bad.py:a",
        ),
        ("from oarlock import Resource\nclass A(Resource, group='a.b', version='v1', nope=1): pass\n", "nope"),
        ("from oarlock import APIServer\nserver = APIServer(serve=[int])\n", "int"),
        (
            "from oarlock import APIServer\nclass Thing:\n    size: int\nserver = APIServer(serve=[Thing])\n",
            "bad.py:4: Thing: can't be served (list Resource and Spoke classes",
        ),
        (
            "from oarlock import APIServer\nserver = APIServer(serve=[], garbage_collection='no')\n",
            "'none' or 'external'",
        ),
        (
            "from things import Thing\nfrom oarlock import APIServer, Informer, Resource\n"
            "class Other(Resource, group='test.example.com', version='v1'): pass\n"
            "server = APIServer(serve=[Thing], informers=[Informer(Other)])\n",
            "bad.py:4: an informer of Other: Other is not stored here (add it to serve=",
        ),
    ],
)
def test_mistakes_in_the_users_module(oarlock: Any, folder: Path, source: str, says: str) -> None:
    (folder / "bad.py").write_text(source)
    told(oarlock("serve", "bad.py", "--secure-port", "0", "--storage", "memory://"), says)


def test_a_port_in_use(oarlock: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told(oarlock("serve", "things.py", "--secure-port", str(port)), f"127.0.0.1:{port}", "another --secure-port")


def test_an_address_of_another_machine(oarlock: Any) -> None:
    done = oarlock("serve", "things.py", "--secure-port", "0", "--bind-address", "192.0.2.1")
    told(done, "192.0.2.1", "another --bind-address")


def test_an_address_that_is_none(oarlock: Any) -> None:
    done = oarlock("serve", "things.py", "--secure-port", "0", "--bind-address", "256.1.1.1.invalid")
    told(done, "256.1.1.1.invalid", "another --bind-address")


@pytest.mark.parametrize(
    ("arguments", "help_of"),
    [(["nope"], " --help"), (["serve"], "serve --help"), (["storage", "check", "--nope"], "check --help")],
)
def test_a_wrong_command_line_says_whose_help_to_read(oarlock: Any, arguments: list[str], help_of: str) -> None:
    told(oarlock(*arguments), help_of)


@pytest.mark.parametrize("option", ["--token-auth-file", "--client-ca-file"])
def test_files_that_cannot_be_read(oarlock: Any, folder: Path, option: str) -> None:
    told(oarlock("serve", "things.py", option, "missing"), "missing: No such file or directory")
    (folder / "odd").write_bytes(b"a,b\n")
    told(oarlock("serve", "things.py", option, "odd"), "odd")


def test_a_token_file_that_lets_nobody_in(oarlock: Any, folder: Path) -> None:
    (folder / "tokens").write_text("\n")
    done = oarlock("serve", "things.py", "--token-auth-file", "tokens")
    told(done, "tokens: it contains no token", "--client-ca-file")


def test_certificates_that_cannot_be_read(oarlock: Any, folder: Path) -> None:
    files = ("--tls-cert-file", "a.pem", "--tls-private-key-file", "b.pem")
    told(oarlock("serve", "things.py", *files), "a.pem: No such file")
    (folder / "a.pem").write_text("nothing")
    told(oarlock("serve", "things.py", *files), "a.pem: it contains no certificate in PEM")
    (folder / "pki").write_text("a file where a folder is wanted")
    told(oarlock("serve", "things.py"), "pki: it isn't a folder")


def test_a_kubeconfig_that_cannot_be_written(oarlock: Any, folder: Path) -> None:
    (folder / "file").write_text("")
    told(oarlock("serve", "things.py", "--secure-port", "0", "--write-kubeconfig", "file/config"), "file/config")


def test_a_data_directory_that_is_none(oarlock: Any, folder: Path) -> None:
    (folder / "file").write_text("")
    told(oarlock("serve", "things.py", "--secure-port", "0", "--data-dir", "file"), "file: it isn't a directory")
    told(oarlock("serve", "things.py", "--secure-port", "0", "--data-dir", "file/a"), "file/a: Not a directory")


def test_an_admin_token_that_is_none(oarlock: Any, folder: Path) -> None:
    (folder / "oarlock.token").write_text("short\n")
    told(oarlock("serve", "things.py", "--secure-port", "0"), "oarlock.token", "remove the file")


def test_a_store_that_is_none(oarlock: Any, folder: Path) -> None:
    (folder / "oarlock.db").write_text("this is no database, " * 100)
    told(oarlock("serve", "things.py", "--secure-port", "0"), "oarlock.db")
    (folder / "oarlock.db").unlink()
    with sqlite3.connect(folder / "oarlock.db") as other:
        other.execute("create table somebody_elses (x)")
    other.close()
    told(oarlock("serve", "things.py", "--secure-port", "0"), "oarlock.db")


def test_help_says_every_option(oarlock: Any) -> None:
    done = oarlock("serve", "--help")
    assert done.returncode == 0
    options = set(re.findall(r"--[a-z0-9-]+", done.stdout))
    assert options >= {"--bind-address", "--secure-port", "--storage", "--token-auth-file", "--write-kubeconfig", "--v"}
    assert "Serve an APIServer" in done.stdout
    for arguments in ([], ["--help"], ["-h"]):
        done = oarlock(*arguments)
        assert done.returncode == 0
        assert "serve" in done.stdout
        assert "storage" in done.stdout


def test_version(oarlock: Any) -> None:
    done = oarlock("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"oarlock \d+\.\d+\.\d+\S*\n", done.stdout)


def test_a_rule_that_cannot_be_read_is_shown_with_the_place_that_is_wrong(oarlock: Any, folder: Path) -> None:
    program = (
        "from oarlock import Resource, Rule\n"
        "class A(Resource, group='a.example.com', version='v1', rules=[Rule('self.x >')]):\n"
        "    x: int\n"
    )
    (folder / "ruled.py").write_text(program)
    done = oarlock("serve", "ruled.py")
    assert done.returncode == 1
    first, *shown = done.stderr.splitlines()
    assert "ruled.py:2: class A: x-kubernetes-validations[0].rule: compilation failed: ERROR: <input>:1:9" in first
    assert shown == [" | self.x >", " | ........^"]
