"""Compressed bodies: whole, cut, damaged, with junk behind, and bombs (RUN-26)."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dpp.packs.url.compression import decoder
from dpp.packs.url.fetch import MAX_BODY_BYTES
from dpp.packs.url.reasons import Discard, DiscardedError
from tests.packs.internet import Internet, serve
from tests.packs.loopback import reply

PAGE = b"".join(b"<p>paragraph %d of the page</p>" % number for number in range(20_000))
SMALL = b"<p>hello w\xc3\xb6rld"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
ENCODINGS = list(COMPRESS)


def decoded(name: str, data: bytes, chunk_bytes: int = 65_536) -> tuple[bytes, bool]:
    """The body and whether it lacks something."""
    decoding, body = decoder(name), b""
    for at in range(0, len(data), chunk_bytes):
        body += decoding.feed(data[at : at + chunk_bytes], MAX_BODY_BYTES + 1 - len(body))
    return body, decoding.cut


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "junk", [b"", b"\r\n \n", bytes(3_000), b"\x1f", b"\x1f\x8b", b"<!-- by cache -->", b"\x28\xb5\x2f\xfd"]
)
@pytest.mark.parametrize("chunk_bytes", [1, 300, 65_536])
def test_what_stands_behind_the_end_is_ignored(name: str, junk: bytes, chunk_bytes: int) -> None:
    """A page padded by its server is the page."""
    assert decoded(name, COMPRESS[name](SMALL) + junk, chunk_bytes) == (SMALL, False)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("less", [1, 8, 9, 1_000])
def test_a_cut_stream_keeps_its_text(name: str, less: int) -> None:
    """All that its complete blocks contain."""
    body, cut = decoded(name, COMPRESS[name](PAGE)[:-less])
    assert cut
    assert PAGE.startswith(body)
    assert len(body) > len(PAGE) // 10


@pytest.mark.parametrize("damage", [b"\0\0\0\0\0\0\0\0", b"wrong sum"])
def test_a_wrong_checksum_costs_no_text(damage: bytes) -> None:
    assert decoded("gzip", gzip.compress(SMALL)[:-8] + damage) == (SMALL, True)


def test_damage_costs_only_what_follows() -> None:
    data = bytearray(gzip.compress(PAGE))
    data[len(data) // 2 :] = b"\xff" * 500
    body, cut = decoded("gzip", bytes(data))
    assert cut
    assert body[: len(PAGE) // 4] == PAGE[: len(PAGE) // 4]


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_body_that_is_not_compressed_is_refused(name: str) -> None:
    with pytest.raises(DiscardedError) as refused:
        decoded(name, b"<p>plain</p>")
    assert refused.value.reason is Discard.PROTOCOL_ERROR


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_several_members_are_read_whole(name: str) -> None:
    assert decoded(name, COMPRESS[name](b"one ") + COMPRESS[name](b"two")) == (b"one two", False)
    body, cut = decoded(name, COMPRESS[name](b"one ") + COMPRESS[name](PAGE)[:-9])
    assert cut
    assert body.startswith(b"one <p>paragraph 0")


def test_an_empty_body_is_not_cut() -> None:
    assert decoded("gzip", b"") == (b"", False)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_bomb_unfolds_to_the_cap(name: str) -> None:
    """50 MB, of which no more than the cap is ever made."""
    squeeze = zlib.compressobj(9, wbits=31)
    bomb = (
        squeeze.compress(bytes(50_000_000)) + squeeze.flush() if name == "gzip" else COMPRESS[name](bytes(50_000_000))
    )
    assert len(decoder(name).feed(bomb, MAX_BODY_BYTES + 1)) == MAX_BODY_BYTES + 1


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_empty_members_without_end_end(name: str) -> None:
    assert decoded(name, COMPRESS[name](b"") * 20_000) == (b"", True)


@given(st.binary(max_size=400), st.sampled_from(ENCODINGS), st.integers(0, 60), st.integers(1, 70))
def test_any_damage_is_a_text_or_a_refusal(damage: bytes, name: str, at: int, chunk_bytes: int) -> None:
    data = COMPRESS[name](SMALL * 3)
    with suppress(DiscardedError):
        assert len(decoded(name, data[:at] + damage, chunk_bytes)[0]) <= MAX_BODY_BYTES + 1


@pytest.mark.parametrize("name", ENCODINGS)
def test_each_encoding_is_offered_and_read_over_http(world: Internet, name: str) -> None:
    """RUN-26: and a cut body is marked, not refused."""
    offered = []
    body = COMPRESS[name](PAGE)

    def send(sent: bytes) -> bytes:
        def respond(handler: object) -> None:
            offered.append(handler.headers["Accept-Encoding"])  # type: ignore[attr-defined]
            reply(handler, sent, Content_Encoding=name)  # type: ignore[arg-type]

        with serve(world, respond):
            page = world.get()
        assert page.cut is (sent != body)
        return page.body

    assert send(body) == PAGE
    assert PAGE.startswith(send(body[:-20]))
    assert set(offered) == {"gzip, br, zstd"}
