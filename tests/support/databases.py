"""Real databases for tests: PostgreSQL, MariaDB, one member of etcd, or a cluster of three.

    with PostgresServer() as server:      # on a free port of 127.0.0.1, ended and removed with the block
        url = server.fresh()              # an empty database of its own
        server.restart()                  # kill -9, and a start on the same data

The fixtures ``postgres``, ``mariadb``, ``etcd`` and ``etcd_cluster`` give one of each in a test run (in a worker of
pytest-xdist), started when first used, and running again at the beginning of each test, whatever the last one did.
Where the program is missing, its tests are skipped. Data is as durable as in production: only the making of the data
folder leaves out what a power failure would need.

See also: `database_process` for what all of them can do.
"""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from database_process import READY_S, STARTS, DatabaseProcess, NoDatabase, executable, free_port

__all__ = ["EtcdCluster", "EtcdServer", "MariadbServer", "NoDatabase", "PostgresServer", "postgres_program"]

USER = "oarlock"
PASSWORD = "pa55word"

_AS_ROOT = ("--user=root",) if os.geteuid() == 0 else ()


class SqlServer(DatabaseProcess):
    """A server with databases. `fresh` gives an empty one, `drop` removes it."""

    scheme: str

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        self._number = 0
        self._names: dict[str, None] = {}

    @abstractmethod
    def sql(self, statements: str, database: str = "") -> list[list[str]]:
        """Execute `statements` with all rights: the rows, as text."""

    def fresh(self) -> str:
        """The URL of a new and empty database."""
        self._number += 1
        name = f"test{self._number}"
        self.create_database(name)
        self._names[name] = None
        return self.url(name)

    def create_database(self, name: str) -> None:
        self.sql(f"CREATE DATABASE {name}")

    def url(self, database: str) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def drop(self, *urls: str) -> None:
        """Remove databases that `fresh` made, all of them if none is named; whoever uses one is disconnected."""
        names = [urlsplit(url).path.lstrip("/") for url in urls] or list(self._names)
        for name in names:
            del self._names[name]
        if names:
            self.drop_databases(names)

    @abstractmethod
    def drop_databases(self, names: Sequence[str]) -> None:
        """Remove databases."""


class PostgresServer(SqlServer):
    """PostgreSQL. Its superuser connects with a password, by TCP."""

    program = "postgres"
    scheme = "postgresql"
    ready_lines = ("database system is ready to accept connections",)
    user = "postgres"
    stop_signal = signal.SIGINT
    death_signal = "QUIT"

    def find_executable(self) -> str:
        return postgres_program("postgres")

    def create_data(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        arguments = ["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        self.run(*self.as_user(postgres_program("initdb"), "-D", str(self.data), f"--pwfile={password}", *arguments))

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": 200,
        }
        return [
            *(self.executable, "-D", str(self.data)),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ]

    def sql(self, statements: str, database: str = "postgres") -> list[list[str]]:
        command = [postgres_program("psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", database]
        return _rows(self.run(*command, *where, env={"PGPASSWORD": PASSWORD}, stdin=statements))

    def drop_databases(self, names: Sequence[str]) -> None:
        self.sql("".join(f"DROP DATABASE {name} WITH (FORCE);\n" for name in names))


class MariadbServer(SqlServer):
    """MariaDB."""

    program = "mariadbd"
    scheme = "mysql"
    ready_lines = ("ready for connections",)

    def create_data(self) -> None:
        arguments = ["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=16M"]
        install = [executable("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}", *arguments]
        self.run(*self.as_user(*install, *_AS_ROOT))
        (self.folder / "init.sql").write_text(
            f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def command(self) -> list[str]:
        init = self.folder / "init.sql"
        return [
            *(self.executable, "--no-defaults", f"--datadir={self.data}", f"--port={self.port}", *_AS_ROOT),
            *("--bind-address=127.0.0.1", f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid"),
            *("--skip-name-resolve", "--skip-log-bin", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"),
            *([f"--init-file={init}"] if init.exists() else []),
        ]

    def start(self) -> None:
        super().start()
        (self.folder / "init.sql").unlink(missing_ok=True)

    def sql(self, statements: str, database: str = "") -> list[list[str]]:
        where = ["--no-defaults", "-h", "127.0.0.1", "-P", str(self.port), "-u", USER, "--batch", "-N", database]
        return _rows(self.run(executable("mariadb"), *where, env={"MYSQL_PWD": PASSWORD}, stdin=statements))

    def drop_databases(self, names: Sequence[str]) -> None:
        self.sql("".join(f"DROP DATABASE {name};\n" for name in names))


class EtcdServer(DatabaseProcess):
    """One member of etcd: alone, or one of an `EtcdCluster`."""

    program = "etcd"
    ready_lines = ("ready to serve client requests",)

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        self.name = "member"
        self.cluster = ""
        self._number = 0

    def choose_ports(self) -> None:
        super().choose_ports()
        self.peer_port = free_port()

    @property
    def client_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def create_data(self) -> None:
        """Nothing: etcd makes its folder itself."""

    def command(self) -> list[str]:
        return [
            *(self.executable, "--name", self.name, "--data-dir", str(self.data)),
            *("--listen-client-urls", self.client_url, "--advertise-client-urls", self.client_url),
            *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
            *("--initial-cluster", self.cluster or f"{self.name}={self.peer_url}"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
        ]

    def as_user(self, *command: str) -> list[str]:
        machine = {"aarch64": "arm64"}.get(os.uname().machine)
        unsupported = ["env", f"ETCD_UNSUPPORTED_ARCH={machine}"] if machine else []
        return super().as_user(*unsupported, *command)

    def fresh(self) -> str:
        """The URL of an empty part of the store, with a prefix of its own."""
        self._number += 1
        return f"etcd://127.0.0.1:{self.port}/test{self._number}"

    def etcdctl(self, *arguments: str) -> str:
        """What ``etcdctl`` prints, as of version 3 of its API."""
        return self.run(
            *(executable("etcdctl"), f"--endpoints={self.client_url}", *arguments), env={"ETCDCTL_API": "3"}
        )


class EtcdCluster:
    """Three members of etcd. `leader()` is the one that leads now."""

    def __init__(self) -> None:
        self._members = ExitStack()
        self._number = 0
        self.members: list[EtcdServer] = []

    def start(self) -> None:
        for attempt in range(STARTS):
            try:
                self._start_once()
                return
            except AssertionError:
                self.close()
                if attempt == STARTS - 1:
                    raise

    def _start_once(self) -> None:
        self.members = [EtcdServer() for _ in range(3)]
        for number, member in enumerate(self.members):
            member.name = f"member{number}"
            self._members.callback(member.close)
        cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        for member in self.members:
            member.cluster = cluster
            member.launch()
        for member in self.members:
            member.wait_until_ready()

    def ensure_running(self) -> None:
        """Start what a test left stopped, killed or suspended, and wait until one leads."""
        stopped = [member for member in self.members if not member.runs]
        for member in self.members:
            if member.runs:
                member.resume()
            else:
                member.launch()
        for member in stopped:
            member.wait_until_ready()
        self.leader()

    def fresh(self) -> str:
        self._number += 1
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"etcd://{hosts}/test{self._number}"

    def leader(self) -> EtcdServer:
        """The member that leads; waits for an election."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            for member in self.members:
                if member.runs and re.search(r"^etcd_server_is_leader 1$", _metrics(member), re.MULTILINE):
                    return member
            time.sleep(0.02)
        raise AssertionError(f"no member of etcd leads within {READY_S:g} s")

    def close(self) -> None:
        self._members.close()

    def __enter__(self) -> EtcdCluster:
        self.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _metrics(member: EtcdServer) -> str:
    try:
        with urllib.request.urlopen(f"{member.client_url}/metrics", timeout=1) as answer:
            return str(answer.read(), "utf-8")
    except OSError:
        return ""


def postgres_program(program: str) -> str:
    """One of PostgreSQL's programs: on the PATH, or in Debian's folder of the newest version."""
    versions = sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin"), key=lambda path: int(path.parent.name))
    return executable(program, [str(path) for path in reversed(versions)])


def _rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]
