"""The servers from wheels, and the processes behind them."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from dpp_cli.local.processes import MARK, ProcessIdentity, marked
from dpp_cli.local.servers import HOST, PostgresServer, ServerError, ValkeyServer
from tests.support.stored import existing


def listening_addresses(port: int) -> set[str]:
    """Local addresses that accept connections on `port`, as the kernel tells (hex, little-endian)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    lines += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return {line[1].split(":")[0] for line in lines if int(line[1].split(":")[1], 16) == port and line[3] == "0A"}


def test_postgres_keeps_rows_over_a_restart_listens_on_loopback_only_and_leaves_nothing(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path / "data") as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        assert listening_addresses(server.port) == {"0100007F"}
    assert not server.identity.alive()
    with (
        PostgresServer.start(tmp_path / "data", port=server.port, durable=True) as again,
        psycopg.connect(again.url()) as connection,
    ):
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_postgres_starts_after_a_hard_kill_though_its_pid_belongs_to_somebody_else_now(tmp_path: Path) -> None:
    server = PostgresServer.start(tmp_path / "data")
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    lock = tmp_path / "data" / "postmaster.pid"
    lock.write_text(lock.read_text().replace(str(server.pid), str(os.getpid()), 1))
    PostgresServer.start(tmp_path / "data").stop()


def test_valkey_never_evicts_and_keeps_budgets_over_a_restart_if_durable(tmp_path: Path) -> None:
    with ValkeyServer.start(tmp_path / "data", durable=True) as server:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            client.set("balance", "1")
        assert listening_addresses(server.port) == {"0100007F"}
    with (
        ValkeyServer.start(tmp_path / "data", port=server.port, durable=True) as again,
        redis.Redis.from_url(again.url) as client,
    ):
        assert client.get("balance") == b"1"


@pytest.mark.parametrize("kind", [PostgresServer, ValkeyServer])
def test_a_taken_port_is_an_error_that_shows_the_log(
    tmp_path: Path, kind: type[PostgresServer] | type[ValkeyServer]
) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match="in use"):
            kind.start(tmp_path / "data", port=port)


def test_a_reused_pid_is_not_taken_for_the_process() -> None:
    identity = existing(ProcessIdentity.of(os.getpid()))
    assert identity.alive()
    stranger = ProcessIdentity(identity.pid, "another boot:1")
    assert not stranger.alive()
    stranger.end(patience_seconds=0)  # must not touch us


def test_a_marked_process_that_runs_the_command_is_no_stray(tmp_path: Path) -> None:
    """`DPP_LOCAL_STATE=… timeout 60 dpp local up` must not end the `timeout` that it runs under."""
    look = (
        "from pathlib import Path; from dpp_cli.local.processes import marked;"
        f" print(len(list(marked(Path({str(tmp_path)!r})))))"
    )
    script = f"{sys.executable} -c {shlex.quote(look)}; true"  # `; true` keeps the shell as the parent
    done = subprocess.run(
        ["sh", "-c", script], env={**os.environ, MARK: str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"


def test_a_marked_process_is_found_though_its_parent_is_gone(tmp_path: Path) -> None:
    sleeper = (
        "import subprocess, sys; null = subprocess.DEVNULL; sleep = 'import time; time.sleep(60)'\n"
        "child = [sys.executable, '-c', sleep]\n"
        "print(subprocess.Popen(child, start_new_session=True, stdout=null, stderr=null).pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", sleeper],
        env={**os.environ, MARK: str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = marked(tmp_path)
    assert found.pid == int(done.stdout)
    found.end(signal.SIGKILL)
    assert list(marked(tmp_path)) == []


def test_a_server_of_a_test_dies_with_it_however_it_ends(tmp_path: Path) -> None:
    """Tests leave no server behind, even killed outright; `dpp local up` asks for the opposite."""
    code = (
        "import sys, time; from pathlib import Path; from dpp_cli.local.servers import ValkeyServer\n"
        "server = ValkeyServer.start(Path(sys.argv[1]), outlives_starter=False)\n"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "valkey")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        server = existing(ProcessIdentity.of(int(starter.stdout.readline())))
        starter.kill()
    deadline = time.monotonic() + 10
    while server.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not server.alive()
