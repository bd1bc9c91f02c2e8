"""A ledger on one node and one on a cluster, each on a real server."""

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from dpp.money.ledger import Ledger
from dpp_cli.local.servers import HOST, ValkeyServer, free_port, valkey_url


@pytest.fixture
def ledger(valkey_server: ValkeyServer) -> Iterator[Ledger]:
    """A ledger on the session's server, with the locked key names."""
    opened = Ledger.connect(valkey_server.url)
    yield opened
    opened.client.close()


@pytest.fixture
def tenant_id() -> str:
    """A tenant that only this test uses."""
    return f"t_{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def cluster_url(valkey_server: ValkeyServer) -> Iterator[str]:
    """A cluster of one node with all slots, which also refuses keys of two slots in one script."""
    port, bus_port = free_port(), free_port()
    binary = f"/proc/{valkey_server.pid}/exe"
    command = [binary, "--bind", HOST, "--port", str(port), "--cluster-enabled", "yes"]
    command += ["--cluster-port", str(bus_port), "--save", "", "--dir", str(valkey_server.data_dir)]
    command += ["--cluster-config-file", f"nodes-{port}.conf"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        _take_all_slots(port)
        yield valkey_url(port)
    finally:
        process.terminate()
        process.wait(10)


def _take_all_slots(port: int) -> None:
    retry = Retry(ConstantBackoff(0.05), 200)
    client: Any = redis.Redis(HOST, port, retry=retry, decode_responses=True)
    try:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        deadline = time.monotonic() + 30
        while "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):
            assert time.monotonic() < deadline, "the cluster did not come up"
            time.sleep(0.02)  # until the server has booted; not a state that a test waits for
    finally:
        client.close()
