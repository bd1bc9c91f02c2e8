"""Connects to the very address that was checked (RUN-26).

httpcore asks this backend for a connection to a *name*. It resolves it, checks every address of the answer,
and connects to one of exactly those: there is no second look-up that could answer differently (DNS
rebinding), and no way to a socket that goes around the check. TLS is then verified against the name.
"""

import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

from dpp.packs.url.addresses import refusal
from dpp.packs.url.reasons import BlockedError, Discard, DiscardedError

Resolver = Callable[[str], Sequence[str]]
"""All addresses of a host name, as text. Raises OSError when there are none."""

_CONNECT_SECONDS = 5.0


def system_resolver(host: str) -> Sequence[str]:
    """Resolve with the machine's resolver, in its order of preference."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class CheckedBackend(httpcore.NetworkBackend):
    """Opens connections to public addresses only, all within one deadline (`time.monotonic()`)."""

    def __init__(self, resolver: Resolver, dialer: httpcore.NetworkBackend, *, deadline: float) -> None:
        self._resolver = resolver
        self._dialer = dialer
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline rules
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of `host` that answers, if every one of them is public."""
        addresses = self._resolve(host)
        for address in addresses:
            # All, not only the one connected to: a public name has no business with a private address.
            if (reason := refusal(address)) is not None:
                raise BlockedError(address, reason)
        for address in addresses:
            try:
                stream = self._dialer.connect_tcp(
                    address,
                    port,
                    timeout=min(_CONNECT_SECONDS, time_left(self._deadline)),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # the next address may answer; when none does, that is the failure below
            return _DeadlineStream(stream, self._deadline)
        time_left(self._deadline)
        raise DiscardedError(Discard.CONNECT_FAILED)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        """Never: there is nothing public behind a path."""
        raise NotImplementedError

    def _resolve(self, host: str) -> Sequence[str]:
        """The addresses of `host`; an IP address is its own, and nobody is asked.

        The resolver runs in a thread, because getaddrinfo knows no timeout and can't be interrupted.
        """
        if _is_address(host):
            return (host,)
        answers: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._resolver(host))
            except (OSError, UnicodeError):
                answers.put(())

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            addresses = answers.get(timeout=time_left(self._deadline))
        except queue.Empty:
            raise DiscardedError(Discard.TIMEOUT) from None
        if not addresses:
            raise DiscardedError(Discard.DNS_FAILED)
        return addresses


class _DeadlineStream(httpcore.NetworkStream):
    """Bounds each wait by what is left of the whole, so that a server that drips is late like any other."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - as above
        return self._stream.read(max_bytes, timeout=time_left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._stream.write(buffer, timeout=time_left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        try:
            stream = self._stream.start_tls(
                ssl_context, server_hostname=server_hostname, timeout=time_left(self._deadline)
            )
        except httpcore.ConnectError:
            raise DiscardedError(Discard.TLS_FAILED) from None
        return _DeadlineStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def time_left(deadline: float) -> float:
    """Seconds until `deadline`. Raises DiscardedError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise DiscardedError(Discard.TIMEOUT)
    return left
