"""A TCP proxy that a test can stop: it refuses, cuts, swallows replies or falls silent.

It knows no protocol, so it stands in front of Postgres and Redis alike. What it does next is decided when the
client sends a chunk that holds `on`, which a test chooses to name the very statement it wants to lose. A statement that
psycopg has prepared is sent once and named from then on: its chunk is the one that has it run.
"""

import contextlib
import re
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Fault(Enum):
    """The treatment of the matching chunk and of everything after it."""

    CUT = auto()
    """The connection is reset; the server never sees the chunk."""
    SWALLOW_REPLY = auto()
    """The server gets the chunk and answers; the client sees a reset instead."""
    HANG = auto()
    """The server gets the chunk; the client hears nothing more."""


_PREPARED = re.compile(rb"P.{4}(_pg3_\d+)\0([^\0]*)\0", re.DOTALL)
_RUN = re.compile(rb"B.{4}\0(_pg3_\d+)\0", re.DOTALL)


class _Lost(Exception):
    """The connection is to be torn down."""


@dataclass(slots=True)
class _Armed:
    fault: Fault
    on: bytes
    skip: int
    times: int | None


class Proxy:
    """Listens on loopback for one upstream server; use as a context manager."""

    def __init__(self, upstream_url: str) -> None:
        self._parts = urlsplit(upstream_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._armed: _Armed | None = None
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._refusing = False
        self._closed = False
        self.bytes_sent = 0
        """The data that clients have sent, over all connections."""
        self.tripped = threading.Event()
        """Set when the armed fault has happened."""

    @property
    def url(self) -> str:
        """The upstream's URL, led through the proxy."""
        user, at, _ = self._parts.netloc.rpartition("@")
        netloc = f"{user}{at}127.0.0.1:{self._listener.getsockname()[1]}"
        return urlunsplit(self._parts._replace(netloc=netloc))

    def arm(self, fault: Fault, on: bytes = b"", *, skip: int = 0, times: int | None = None) -> None:
        """Let `fault` happen at each chunk from a client that holds `on`, after `skip` of them, `times` at most."""
        with self._lock:
            self._armed = _Armed(fault, on, skip, times)
        self.tripped.clear()

    def refuse(self) -> None:
        """Go down: cut open connections, reset new ones."""
        self._refusing = True
        self.drop()

    def heal(self) -> None:
        """Be up again, with nothing armed; connections that hang are cut."""
        self._refusing = False
        with self._lock:
            self._armed = None
        self.tripped.clear()
        self.drop()

    def drop(self) -> None:
        """Cut every open connection."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            _reset(*pair)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _reset(client)
                client.close()
                continue
            address = (self._parts.hostname or "", self._parts.port or 0)
            self._start(self._serve, client, socket.create_connection(address))

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        try:
            self._relay(client, server)
        except (OSError, _Lost):
            _reset(client, server)
        finally:
            with self._lock:
                self._pairs.discard(pair)
            client.close()
            server.close()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        fault: Fault | None = None
        prepared: dict[bytes, bytes] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for ready, _ in selector.select():
                    source = ready.fileobj
                    assert isinstance(source, socket.socket)
                    chunk = source.recv(65_536)
                    if not chunk:
                        raise _Lost
                    if source is client:
                        self.bytes_sent += len(chunk)
                        fault = fault or self._fault_of(_said(chunk, prepared))
                        if fault is Fault.CUT:
                            raise _Lost
                        server.sendall(chunk)
                    elif fault is Fault.SWALLOW_REPLY:
                        raise _Lost
                    elif fault is None:
                        client.sendall(chunk)

    def _fault_of(self, chunk: bytes) -> Fault | None:
        with self._lock:
            armed = self._armed
            if armed is None or armed.on not in chunk:
                return None
            if armed.skip:
                armed.skip -= 1
                return None
            if armed.times is not None:
                armed.times -= 1
                if armed.times == 0:
                    self._armed = None
            self.tripped.set()
            return armed.fault


def _said(chunk: bytes, prepared: dict[bytes, bytes]) -> bytes:
    """The chunk with the statements that it has run in place of those that it prepares."""
    prepared.update(_PREPARED.findall(chunk))
    run = [prepared[name] for name in _RUN.findall(chunk) if name in prepared]
    return b"\n".join([_PREPARED.sub(b"", chunk), *run])


def _reset(*sockets: socket.socket) -> None:
    """Close with a reset, so that the peer learns of it at once; the owner closes the descriptor."""
    for each in sockets:
        with contextlib.suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.shutdown(socket.SHUT_RDWR)
