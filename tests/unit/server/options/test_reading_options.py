"""Options are read from flags, from a configuration file and in Python; what is wrong is told all at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from oarlock import APIServer
from oarlock.server.command import ServeOptions
from oarlock.server.config import ServerConfig
from oarlock.server.options.commands import UsageError, read_options
from oarlock.server.options.file import API_VERSION, KIND, MAX_BYTES, as_file, read_file
from oarlock.server.options.option import ConfigError, OptionGroup, options_of
from oarlock.server.options.types import DurationType, SizeType

HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
MIB = 1024 * 1024


def config(*words: str) -> ServerConfig:
    return read_options(ServerConfig, words, "oarlock serve")


def lines(*words: str) -> list[str]:
    """What is wrong with a command line."""
    with pytest.raises((ConfigError, UsageError)) as refused:
        config(*words)
    return list(refused.value.lines)


# Flags


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--secure-port=1"], "secure_port", 1),
        (["--secure-port", "+1"], "secure_port", 1),
        (["--secure-port=1", "--secure-port=2"], "secure_port", 2),
        (["--http2"], "http2", True),
        (["--http2=false"], "http2", False),
        (["--http2=F", "--http2"], "http2", True),
        (["--request-timeout=1m30s"], "request_timeout_s", 90.0),
        (["--request-timeout", "300ms"], "request_timeout_s", 0.3),
        (["--shutdown-delay-duration=0"], "shutdown_delay_s", 0.0),
        (["--max-unsent-bytes=256Mi"], "max_unsent_bytes", 256 * MIB),
        (["--max-unsent-bytes=1500k"], "max_unsent_bytes", 1_500_000),
        (["--max-unsent-bytes=3145728"], "max_unsent_bytes", 3 * MIB),
        (["--tls-san=A.example.com,b", "--tls-san", " c , b,"], "tls_sans", ("a.example.com", "b", "c")),
        (["--anonymous-paths="], "anonymous_paths", ()),
        (["--client-ca-file=a/b"], "client_ca_file", Path("a/b")),
        (["--client-ca-file="], "client_ca_file", None),
        (["--client-ca-file=--x"], "client_ca_file", Path("--x")),
        (["--client-ca-file", "--x"], "client_ca_file", Path("--x")),
        (["-v", "3"], "verbosity", 3),
        (["-v3"], "verbosity", 3),
        (["-v=3"], "verbosity", 3),
        (["--v=3"], "verbosity", 3),
        (["--etcd-compaction-interval=0s"], "compaction_interval_s", 0.0),
        (["--max-requests-inflight=7"], "max_read_only_in_flight", 7),
        (["--max-mutating-requests-inflight=7"], "max_mutating_in_flight", 7),
    ],
)
def test_a_flag_is_read_as_kube_apiserver_reads_it(words: list[str], field: str, value: Any) -> None:
    assert getattr(config(*words), field) == value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--storag=x"], "No such flag: --storag (did you mean --storage?); see oarlock serve --help"),
        (["--secure-port"], "--secure-port needs a value: PORT; see oarlock serve --help"),
        (["-x"], "No such flag: -x; see oarlock serve --help"),
        (["a"], "Unexpected argument 'a'; see oarlock serve --help"),
        (["--", "--http2"], "Unexpected argument '--http2'; see oarlock serve --help"),
        (
            ["--http2", "false"],
            "Unexpected argument 'false': a boolean flag takes its value after =; see oarlock serve --help",
        ),
        (["--secure-port=x"], "--secure-port=x: give a whole number"),
        (["--secure-port=1.5"], "--secure-port=1.5: give a whole number"),
        (["--secure-port=nan"], "--secure-port=nan: give a whole number"),
        (["--secure-port=٣"], "--secure-port=٣: give a whole number"),
        (["--secure-port=" + "9" * 5000], f"--secure-port={'9' * 5000}: give a whole number"),
        (["--secure-port=-1"], "--secure-port=-1: must be between 0 and 65535"),
        (["--max-requests-inflight=0"], "--max-requests-inflight=0: must be at least 1"),
        (["--request-timeout=0s"], "--request-timeout=0s: must be more than 0"),
        (["--request-timeout=-1m"], "--request-timeout=-1m: must be more than 0"),
        (["--shutdown-delay-duration=-1s"], "--shutdown-delay-duration=-1s: must be at least 0"),
        (
            ["--request-timeout=NaN"],
            '--request-timeout=NaN: time: invalid duration "NaN"; write a duration like 90s or 1m30s',
        ),
        (["--max-request-bytes=1.5"], "--max-request-bytes=1.5: must be a whole number of bytes"),
        (["--max-request-bytes=-1"], f"--max-request-bytes=-1: must be between 1 and {2**63 - 1}"),
        (["--max-request-bytes=1MB"], "--max-request-bytes=1MB: write a number of bytes, such as 3145728 or 256Mi"),
        (["--client-ca-file=a\0b"], "--client-ca-file=a\0b: must not have control characters"),
        (["--bind-address=a\nb"], "--bind-address=a\nb: must not have control characters"),
        (["--anonymous-paths=/a\x7f"], "--anonymous-paths=/a\x7f: must not have control characters"),
        (
            ["--anonymous-auth", "--anonymous-paths=/livez"],
            "--anonymous-paths=/livez: can't be combined with --anonymous-auth: set one of them",
        ),
        (["--tls-cert-file=x"], "--tls-cert-file=x: must be given together with --tls-private-key-file"),
        (["--tls-private-key-file=x"], "--tls-private-key-file=x: must be given together with --tls-cert-file"),
    ],
)
def test_a_wrong_flag_is_told_with_what_to_write(words: list[str], says: str) -> None:
    assert lines(*words) == [says]


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(HEAD + "securePort: 70000\nhttp3: true\ntlsCertFile: a.pem\nrequestTimeout: 60\n")
    with pytest.raises(ConfigError) as refused:
        read_options(ServeOptions, ["--nope", f"--config={file}", "--http2=maybe", "-v=11"], "oarlock serve")
    assert list(refused.value.lines) == [
        "No such flag: --nope; see oarlock serve --help",
        "--http2=maybe: give true or false",
        f"{file}:4: http3: no such field (did you mean 'http2'?)",
        f"{file}:6: requestTimeout: write a duration like 90s or 1m30s",
        f"{file}:3: securePort: must be between 0 and 65535",
        "-v=11: must be between 0 and 10",
        f"{file}:5: tlsCertFile: must be given together with --tls-private-key-file",
    ]


def test_a_problem_between_options_is_not_told_of_one_that_could_not_be_read(tmp_path: Path) -> None:
    assert lines("--tls-cert-file=x", "--tls-san=a_b") == [
        "--tls-san=a_b: a_b is neither a DNS name nor an IP address",
        "--tls-cert-file=x: must be given together with --tls-private-key-file",
    ]
    assert lines("--anonymous-auth=maybe") == ["--anonymous-auth=maybe: give true or false"]


# Python


def test_python_raises_the_same_with_the_names_of_python() -> None:
    with pytest.raises(ConfigError) as refused:
        ServerConfig(secure_port=-1, tls_cert_file=Path("x"), request_timeout_s=float("nan"), http2="no")  # type: ignore[arg-type]
    assert set(refused.value.lines) == {
        "secure_port: must be between 0 and 65535",
        "http2: must be True or False",
        "request_timeout_s: must be a number of seconds",
        "tls_cert_file: must be given together with `tls_private_key_file`",
    }
    with pytest.raises(ConfigError, match="secure_port"):
        replace(ServerConfig(), secure_port=65536)
    with pytest.raises(ValueError, match="max_unsent_bytes: must be a whole number of bytes"):
        ServerConfig(max_unsent_bytes="256Mi")  # type: ignore[arg-type]


def test_what_programs_pass_today_is_taken() -> None:
    made = ServerConfig(storage="memory://", request_timeout_s=5, tls_sans=["a"], max_unsent_bytes=1)  # type: ignore[arg-type]
    assert (made.request_timeout_s, made.http2, made.secure_port) == (5, True, 6443)
    assert ServerConfig() == config()


# Files


def of_file(path: Path, *words: str) -> Any:
    return read_options(ServeOptions, ["--config", str(path), *words], "oarlock serve")


def refusals(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        of_file(path)
    return [line.replace(str(path), "F") for line in refused.value.lines]


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        HEAD + "securePort: 1\nhttp2: false\ntlsSAN: [a, B]\nrequestTimeout: 90s\nmaxUnsentBytes: 1Mi\n"
        "maxRequestBytes: 17\ncertDir: pki\nclientCAFile: /ca.crt\ntokenAuthFile: null\nverbosity: 3\n"
    )
    made = of_file(file, "--secure-port=2", "--tls-san=c")
    assert (made.secure_port, made.tls_sans, made.http2, made.verbosity) == (2, ("c",), False, 3)
    assert (made.request_timeout_s, made.max_unsent_bytes, made.max_request_bytes) == (90.0, MIB, 17)
    assert (made.cert_dir, made.client_ca_file, made.token_auth_file) == (tmp_path / "pki", Path("/ca.crt"), None)
    assert of_file(file).tls_sans == ("a", "b")
    file.write_text('{"kind": "ServerConfiguration", "apiVersion": "' + API_VERSION + '", "securePort": 3}')
    assert of_file(file).secure_port == 3
    file.write_text('{\t"kind":\t"ServerConfiguration",\n\t"apiVersion":\t"' + API_VERSION + '",\n\t"securePort":\t4}')
    assert of_file(file).secure_port == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", f"F: write apiVersion: {API_VERSION}, kind: {KIND}, and a field for each option"),
        ("- a\n", f"F: write apiVersion: {API_VERSION}, kind: {KIND}, and a field for each option"),
        (f"kind: {KIND}\n", f"F: apiVersion: write {API_VERSION}"),
        (f"apiVersion: v1\nkind: {KIND}\nnope: 1\n", f"F:1: apiVersion: write {API_VERSION}"),
        (f"apiVersion: {API_VERSION}\nkind: [Config]\n", f"F:2: kind: write {KIND}"),
        (HEAD + "bindAdress: x\n", "F:3: bindAdress: no such field (did you mean 'bindAddress'?)"),
        (HEAD + "bind-address: x\n", "F:3: \"bind-address\": no such field (did you mean 'bindAddress'?)"),
        (HEAD + "config: x\n", "F:3: config: no such field"),
        (HEAD + "securePort: 1\nsecurePort: 2\n", 'F: line 4: key "securePort" already set in map'),
        (HEAD + "securePort: '1'\n", "F:3: securePort: write a whole number, without quotes"),
        (HEAD + "securePort: true\n", "F:3: securePort: write a whole number, without quotes"),
        (HEAD + "securePort: 1.5\n", "F:3: securePort: write a whole number, without quotes"),
        (HEAD + "securePort: .nan\n", "F: json: unsupported value: NaN"),
        (HEAD + "securePort: {}\n", "F:3: securePort: write a whole number, without quotes"),
        (HEAD + "http2: 'yes'\n", "F:3: http2: write true or false, without quotes"),
        (HEAD + "http2: 1\n", "F:3: http2: write true or false, without quotes"),
        (HEAD + "bindAddress: 1\n", "F:3: bindAddress: write a string"),
        (HEAD + "requestTimeout: -1s\n", "F:3: requestTimeout: must be more than 0"),
        (HEAD + "requestTimeout: [1s]\n", "F:3: requestTimeout: write a duration like 90s or 1m30s"),
        (HEAD + "tlsSAN: a,b\n", "F:3: tlsSAN: write a list of strings"),
        (HEAD + "tlsSAN: [a, 1]\n", "F:3: tlsSAN: write a list of strings"),
        (HEAD + "tlsSAN: [a b]\n", "F:3: tlsSAN: a b is neither a DNS name nor an IP address"),
        (HEAD + "maxUnsentBytes: 1.5\n", "F:3: maxUnsentBytes: write a number of bytes, such as 3145728 or 256Mi"),
        (HEAD + "maxUnsentBytes: 0\n", f"F:3: maxUnsentBytes: must be between 1 and {2**63 - 1}"),
        (HEAD + "certDir: 1\n", "F:3: certDir: write a string; one that looks like a number or a boolean needs quotes"),
        (HEAD + "tlsCertFile: a\n", "F:3: tlsCertFile: must be given together with --tls-private-key-file"),
        (HEAD + "a: 1\n---\nb: 2\n", "F: it has 2 documents: write one"),
        (HEAD + "---\n[\n", "F: it has 2 documents: write one"),
        (HEAD + "a: [\n", "F: yaml: line"),
        (HEAD + "a: !!python/object/apply:os.system [id]\n", "F:3: a: no such field"),
        (HEAD + "? [a]\n: 1\n", "F: yaml: invalid map key"),
        (HEAD + "a: *b\n", "F: yaml: unknown anchor 'b' referenced"),
        (HEAD + "a: &b [*b]\n", "F: yaml: anchor 'b' value contains itself"),
        (HEAD + "\tx: 1\n", "F: yaml: line"),
    ],
)
def test_a_wrong_file_is_told_with_line_and_field(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(text)
    assert any(line.startswith(says) for line in refusals(file)), refusals(file)


def test_hostile_files_are_refused_soon(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_bytes(HEAD.encode() + b"bindAddress: \xff\xfe\n")
    assert "UTF-8" in refusals(file)[0] or "utf-8" in refusals(file)[0]
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusals(file) == [f"F: it is larger than {MAX_BYTES} bytes"]
    bomb = "a0: &a0 [" + "x," * 50 + "]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 50}]\n" for n in range(1, 8))
    file.write_text(HEAD + bomb)
    assert refusals(file) == ["F: yaml: document contains excessive aliasing"]
    file.write_text(HEAD + "a: " + "[" * 400_000)
    assert refusals(file)[0].startswith("F: yaml: ")
    file.write_text("[" * 400_000)
    assert refusals(file)[0].startswith("F: ")
    file.write_bytes(b"\0" * 100)
    assert refusals(file)[0].startswith("F: ")
    file.write_text("".join(f"k{n}: 1\n" for n in range(50_000)))
    assert len(refusals(file)) == 2
    file.write_text(HEAD + "".join(f"k{n}: 1\n" for n in range(50_000)))
    assert refusals(file)[0] == "F:3: k0: no such field (oarlock config prints every field)"
    assert refusals(file)[20:] == ["F: 49980 more fields are unknown"]
    file.write_text(HEAD + f"? {'k' * 500_000}\n: 1\n")
    [line] = refusals(file)
    assert line == f"F:3: {'k' * 64}: no such field (oarlock config prints every field)"
    assert refusals(tmp_path) == ["F: Is a directory"]
    assert refusals(tmp_path / "missing") == ["F: No such file or directory"]
    assert refusals(file / "x") == ["F: Not a directory"]


def test_a_device_without_an_end_is_read_to_the_limit() -> None:
    assert read_file(options_of(ServerConfig), Path("/dev/zero")).problems == [
        f"/dev/zero: it is larger than {MAX_BYTES} bytes"
    ]


def test_a_merged_key_counts_and_has_no_line(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(HEAD + "<<: {securePort: 70000}\n")
    assert refusals(file) == ["F: securePort: must be between 0 and 65535"]


# What is shown


def test_the_effective_configuration_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    made = config("--tls-san=a,b", "--client-ca-file=/ca", "--request-timeout=1h0.5s", "--max-request-bytes=1234567")
    file = tmp_path / "server.yaml"
    file.write_text(as_file(made))
    again = of_file(file)
    assert {one.field: getattr(again, one.field) for one in options_of(ServerConfig)} == vars(made)
    file.write_text(as_file(ServerConfig()))
    assert vars(of_file(file)) == {**vars(ServerConfig()), "config": file}


def test_a_path_that_is_not_utf8_can_be_given_and_not_be_printed() -> None:
    made = config("--cert-dir=a\udcffb")
    assert made.cert_dir == Path("a\udcffb")
    with pytest.raises(ConfigError, match="--cert-dir: is not UTF-8"):
        as_file(made)


def test_passwords_are_never_shown() -> None:
    url = "postgres://user:pa:ss@host/db"
    made = config(f"--storage={url}")
    assert made.storage == url
    for shown in (repr(made), as_file(made), str(made)):
        assert "pa:ss" not in shown
        assert "postgres://user:***@host/db" in shown
    for words in (
        ["--storage=sqlite://u:secret@h/x"],
        ["--storage", "sqlite://u:secret@[/x"],
        ["--storag", "postgres://u:secret@h/x"],
        ["--request-timeout", "postgres://u:sec/ret:secret@h/x"],
    ):
        assert "secret" not in "".join(lines(*words))
    with pytest.raises(ConfigError) as refused:
        ServerConfig(storage="sqlite://u:secret@h/x")
    assert "secret" not in str(refused.value)
    mistaken = ServerConfig(storage="memory://", bind_address="sqlite://u:secret@[")
    assert "bind_address='sqlite://u:***@['" in repr(mistaken)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (60, "1m0s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (3600.5, "1h0m0.5s"),
        (1.5, "1.5s"),
        (0.3, "300ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2µs"),
        (1e-9, "1ns"),
        (100 * 3600, "100h0m0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert DurationType().text(seconds) == text
    assert DurationType().parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("size", "text"), [(1, "1"), (1024, "1Ki"), (3 * MIB, "3Mi"), (1000, "1k"), (1536, "1536")])
def test_sizes_are_written_as_quantities(size: int, text: str) -> None:
    assert SizeType().text(size) == text
    assert SizeType().parse(text) == size


def test_help_shows_every_group_with_defaults() -> None:
    command = [sys.executable, "-m", "oarlock", "serve", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "Secure serving flags:\n  --bind-address IP" in done.stdout
    assert "[default: 127.0.0.1]" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for one in options_of(ServerConfig):
        assert f"--{one.flag}" in done.stdout


def test_a_program_of_its_own_takes_the_same_options(capsys: pytest.CaptureFixture[str]) -> None:
    server = APIServer(serve=[], name="shop")
    for words, code in ((["--help"], 0), (["--nope"], 2), (["--config=missing.yaml"], 2)):
        with pytest.raises(SystemExit) as left:
            server.main(words)
        assert left.value.code == code
    printed = capsys.readouterr()
    assert "Serve shop." in printed.out
    assert "--secure-port PORT" in printed.out
    assert "oarlock: No such flag: --nope" in printed.err
    assert "oarlock: missing.yaml: No such file or directory" in printed.err


def test_a_field_that_is_no_option_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Half(OptionGroup):
        size: int = 1

    with pytest.raises(TypeError, match=r"Half.size isn't an option: write size = option\(…\)"):
        Half()
