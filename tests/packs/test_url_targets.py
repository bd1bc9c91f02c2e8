"""Addresses and URLs, refused before anything is sent (RUN-26)."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.packs.url.addresses import refusal
from dpp.packs.url.reasons import Block, Discard, DiscardedError
from dpp.packs.url.target import Target, parse, redirected
from tests.packs.ssrf_vectors import DISGUISED_HOSTS, MALFORMED_URLS, OTHER_SCHEMES, PUBLIC_ADDRESSES, REFUSED_ADDRESSES

CURRENT = Target("https", "site.test", 443, "/a/b?c")


def reason_of(url: str, *, plain_http_allowed: bool = False) -> Discard:
    with pytest.raises(DiscardedError) as refused:
        parse(url, plain_http_allowed=plain_http_allowed)
    return refused.value.reason


@pytest.mark.parametrize(("address", "reason"), REFUSED_ADDRESSES.items())
def test_an_address_that_is_not_public_is_refused_with_its_reason(address: str, reason: Block) -> None:
    """RUN-26."""
    assert refusal(address) is reason


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_a_public_address_is_not_refused(address: str) -> None:
    """RUN-26."""
    assert refusal(address) is None


@given(st.ip_addresses(v=4))
def test_no_address_the_registry_calls_other_than_global_passes(address: object) -> None:
    """RUN-26: stricter than the IANA registry, never laxer."""
    if not address.is_global or address.is_multicast:  # type: ignore[attr-defined]
        assert refusal(str(address)) is not None


@given(st.ip_addresses(v=4))
def test_no_ipv6_spelling_of_an_ipv4_address_passes(address: object) -> None:
    """RUN-26: mapped, compatible, translated, NAT64 and ISATAP, of public addresses too."""
    for prefix in ("::ffff:", "::", "::ffff:0:", "64:ff9b::", "64:ff9b:1::", "2606:4700::5efe:"):
        assert refusal(f"{prefix}{address}") is not None


@pytest.mark.parametrize(("host", "address"), DISGUISED_HOSTS.items())
def test_a_disguised_address_is_read_as_the_address_it_is(host: str, address: str) -> None:
    """RUN-26."""
    assert parse(f"https://{host}/", plain_http_allowed=False).host == address
    assert refusal(address) is not None


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{0}", "{0:#x}", "0{0:o}", "{1}.{2}", "{1:#x}.0{2:o}"]))
def test_numbers_are_read_as_the_system_reads_them(value: int, form: str) -> None:
    """RUN-26: what inet_aton would connect to is what was checked."""
    host = form.format(value, value >> 24, value & 0xFFFFFF)
    assert parse(f"https://{host}/", plain_http_allowed=False).host == socket.inet_ntoa(socket.inet_aton(host))


@pytest.mark.parametrize("url", MALFORMED_URLS)
def test_a_malformed_url_is_refused(url: str) -> None:
    """RUN-26, D12."""
    assert reason_of(url, plain_http_allowed=True) is Discard.INVALID_URL


@pytest.mark.parametrize("url", OTHER_SCHEMES)
def test_another_scheme_is_refused(url: str) -> None:
    """RUN-26."""
    assert reason_of(url, plain_http_allowed=True) is Discard.UNSUPPORTED_SCHEME


@pytest.mark.parametrize("port", ["0", "22", "25", "110", "6000", "6667", "10080", "65536", "99999"])
def test_a_port_that_browsers_refuse_is_refused(port: str) -> None:
    """RUN-26."""
    assert reason_of(f"https://site.test:{port}/") is Discard.PORT_NOT_ALLOWED


def test_plain_http_is_refused_unless_asked_for() -> None:
    """RUN-26."""
    assert reason_of("http://site.test/") is Discard.NON_HTTPS
    assert parse("http://site.test/", plain_http_allowed=True) == Target("http", "site.test", 80, "/")


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://site.test", "https://site.test/"),
        ("HTTPS://SITE.Test:443/A", "https://site.test/A"),
        ("https://site.test:80/", "https://site.test:80/"),
        ("https://site.test./", "https://site.test/"),
        ("https://site.test?q=1#fragment", "https://site.test/?q=1"),
        ("https://site.test/a%2Fb/%zz/../c", "https://site.test/a%2Fb/c"),
        ("https://site.test/한글?q=값", "https://site.test/%ED%95%9C%EA%B8%80?q=%EA%B0%92"),
        ("https://한글.test/", "https://xn--bj0bj06e.test/"),
        ("https://BÜCHER.test/", "https://xn--bcher-kva.test/"),
        ("https://a_b.site.test/", "https://a_b.site.test/"),
        ("https://1.1.1.1/", "https://1.1.1.1/"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://site.test/@b", "https://site.test/@b"),
    ],
)
def test_a_fair_url_is_sent_as_meant(url: str, sent: str) -> None:
    """RUN-26."""
    target = parse(url, plain_http_allowed=False)
    assert str(target) == sent
    assert parse(str(target), plain_http_allowed=False) == target


@pytest.mark.parametrize(
    ("location", "to"),
    [
        (b"/c", "https://site.test/c"),
        (b"c", "https://site.test/a/c"),
        (b"?d", "https://site.test/a/b?d"),
        (b"#e", "https://site.test/a/b?c"),
        (b"//other.test/x", "https://other.test/x"),
        (b"https://other.test", "https://other.test/"),
        ("/한글".encode(), "https://site.test/%ED%95%9C%EA%B8%80"),
    ],
)
def test_a_redirect_is_resolved_against_its_page(location: bytes, to: str) -> None:
    """RUN-26."""
    assert str(redirected(CURRENT, location, plain_http_allowed=False)) == to


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (b"", Discard.INVALID_REDIRECT),
        (b"\xff", Discard.INVALID_REDIRECT),
        (b"http://site.test/", Discard.NON_HTTPS),
        (b"https://site.test:22/", Discard.PORT_NOT_ALLOWED),
        (b"file:///etc/passwd", Discard.UNSUPPORTED_SCHEME),
        (b"data:text/plain,x", Discard.INVALID_REDIRECT),
        (b"//[::1", Discard.INVALID_REDIRECT),
    ],
)
def test_a_redirect_to_what_is_not_fetched_is_refused(location: bytes, reason: Discard) -> None:
    """RUN-26: no downgrade from https, no other scheme, no other port."""
    with pytest.raises(DiscardedError) as refused:
        redirected(CURRENT, location, plain_http_allowed=False)
    assert refused.value.reason is reason


@pytest.mark.parametrize("url", [url for url in MALFORMED_URLS if url.startswith("https://")])
def test_a_redirect_is_read_as_strictly_as_a_url(url: str) -> None:
    """RUN-26."""
    with pytest.raises(DiscardedError):
        redirected(CURRENT, url.encode(errors="surrogatepass"), plain_http_allowed=True)


@given(st.text(max_size=60))
def test_whatever_is_written_ends_in_a_target_or_a_reason(text: str) -> None:
    """RUN-26: no other exception, and what is accepted is plain ASCII on the wire."""
    for url in (text, f"https://{text}", f"https://site.test/{text}"):
        try:
            target = parse(url, plain_http_allowed=True)
        except DiscardedError:
            continue
        wire = target.host + target.path
        assert wire.isascii()
        assert wire.isprintable()
        assert " " not in wire
