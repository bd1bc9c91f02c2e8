"""Reads a URL once, strictly, into the parts that are connected to and sent (RUN-26).

Two parsers that disagree on one URL are how checks are passed by, so this is the only one: what it yields
is what is resolved, checked, connected to and put on the wire. What is unusual is refused, not repaired;
only host names are normalised, the way browsers do it.
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import idna

from dpp.packs.url.reasons import Discard, DiscardedError

_BAD_PORTS = frozenset(
    (
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104),
        *(109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526),
        *(
            530,
            531,
            532,
            540,
            548,
            554,
            556,
            563,
            587,
            601,
            636,
            989,
            990,
            993,
            995,
            1719,
            1720,
            1723,
            2049,
            3659,
            4045,
        ),
        *(4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)
"""Ports that browsers refuse (Fetch, "bad port"): mail, shells and the like, which could take a request for a command.

Every other port is allowed: 001 §9.4.2 rules on addresses, and has no rule on ports.
"""

MAX_URL_CHARACTERS = 2_048
_MAX_SENT_CHARACTERS = 4_096
"""A URL grows when its Korean is percent-encoded; thirty of them must leave room in the answer."""

_MAX_PORT = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# Blanks and controls, DEL and C1, the backslash (some read it as a slash), lone surrogates, and the marks
# that turn the direction of text or have no width.
_FORBIDDEN = re.compile(
    r"[\x00-\x20\x7f-\xa0\\\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_PATH_SAFE = "%/:@!$&'()*+,;=~-._[]"
_QUERY_SAFE = "%/:@!$&()*+,;=~-._[]?"
_DOT = re.compile(r"\.|%2e", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request. `host` is a lower-case ASCII name or an IP address."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query as they are sent, in ASCII."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse(url: str, *, plain_http_allowed: bool) -> Target:
    """The parts of an absolute URL. Raises DiscardedError with the reason if it is not to be fetched."""
    _refuse_unless(len(url) <= MAX_URL_CHARACTERS and not _FORBIDDEN.search(url))
    match = _SCHEME.match(url)
    if match is None:
        raise DiscardedError(Discard.INVALID_URL)
    scheme = match[1].lower()
    if scheme not in _DEFAULT_PORTS:
        raise DiscardedError(Discard.UNSUPPORTED_SCHEME)
    try:
        parts = urlsplit(url)
        host, port = _authority(parts.netloc, scheme)
    except (ValueError, idna.IDNAError):
        raise DiscardedError(Discard.INVALID_URL) from None
    if scheme == "http" and not plain_http_allowed:
        raise DiscardedError(Discard.NON_HTTPS)
    if port > _MAX_PORT or port in _BAD_PORTS:
        raise DiscardedError(Discard.PORT_NOT_ALLOWED)
    path = quote(_without_dots(parts.path), safe=_PATH_SAFE)
    query = f"?{quote(parts.query, safe=_QUERY_SAFE)}" if parts.query else ""
    _refuse_unless(len(path) + len(query) <= _MAX_SENT_CHARACTERS)
    return Target(scheme, host, port, path + query)


def redirected(current: Target, location: bytes, *, plain_http_allowed: bool) -> Target:
    """The target of a Location header, read as strictly as a URL of a client."""
    try:
        text = location.decode()
    except UnicodeDecodeError:
        raise DiscardedError(Discard.INVALID_REDIRECT) from None
    # Before the join, because urljoin drops tabs and line ends silently, and takes "///host/" for a path of the same
    # host, where a browser goes to another.
    if not text or _FORBIDDEN.search(text) or text.startswith("///"):
        raise DiscardedError(Discard.INVALID_REDIRECT)
    try:
        # An absolute one is not joined: urljoin takes "https:///x" for a path.
        absolute = text if _SCHEME.match(text) else urljoin(str(current), text)
        return parse(absolute, plain_http_allowed=plain_http_allowed)
    except ValueError:
        raise DiscardedError(Discard.INVALID_REDIRECT) from None
    except DiscardedError as error:
        if error.reason is Discard.INVALID_URL:
            raise DiscardedError(Discard.INVALID_REDIRECT) from None
        raise


def _without_dots(path: str) -> str:
    """The path without segments that mean "here" and "one up", as browsers send it."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        match _DOT.sub(".", segment) if len(segment) <= 6 else segment:
            case ".":
                continue
            case "..":
                del kept[-1:]
            case _:
                kept.append(segment)
    ends_as_folder = bool(segments) and _DOT.sub(".", segments[-1]) in {".", ".."}
    return "/" + "/".join(kept) + ("/" if ends_as_folder and kept else "")


def _authority(netloc: str, scheme: str) -> tuple[str, int]:
    _refuse_unless("@" not in netloc and "%" not in netloc)
    if netloc.startswith("["):
        literal, bracket, rest = netloc[1:].partition("]")
        _refuse_unless(bool(bracket))
        host = str(ipaddress.IPv6Address(literal))
        _refuse_unless(not rest or rest.startswith(":"))
        return host, _port(rest.removeprefix(":"), scheme)
    name, _, port = netloc.partition(":")
    return _host(name), _port(port, scheme)


def _port(text: str, scheme: str) -> int:
    if text == "":
        return _DEFAULT_PORTS[scheme]
    _refuse_unless(text.isascii() and text.isdecimal() and len(text) <= 5)
    return int(text)


def _host(name: str) -> str:
    """A host name in lower-case ASCII; any spelling of an IPv4 address in its usual form."""
    _refuse_unless(len(name) <= 254)
    ascii_name = name.lower()
    if not name.isascii():
        # UTS 46 maps full-width digits and dots to plain ones, so what follows sees an address as one.
        ascii_name = idna.encode(name, uts46=True, std3_rules=True, transitional=False).decode().lower()
    ascii_name = ascii_name.removesuffix(".")
    labels = ascii_name.split(".")
    _refuse_unless(len(ascii_name) <= 253 and all(_LABEL.fullmatch(label) for label in labels))
    # As browsers do it (WHATWG URL, "ends in a number"): such a host is an IPv4 address or nothing.
    return _ipv4(labels) if _NUMBER.fullmatch(labels[-1]) else ascii_name


def _ipv4(labels: list[str]) -> str:
    """The address that inet_aton reads: decimal, octal or hex, the last number filling what is left."""
    _refuse_unless(len(labels) <= 4 and all(_NUMBER.fullmatch(label) for label in labels))
    numbers = [_number(label) for label in labels]
    *head, last = numbers
    _refuse_unless(all(number <= 255 for number in head) and last < 256 ** (4 - len(head)))
    value = last + sum(number << (8 * (3 - at)) for at, number in enumerate(head))
    return str(ipaddress.IPv4Address(value))


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if label.startswith("0") and len(label) > 1 else int(label)


def _refuse_unless(condition: bool) -> None:
    if not condition:
        raise DiscardedError(Discard.INVALID_URL)
