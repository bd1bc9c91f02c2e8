"""Addresses that the platform refuses to connect to (RUN-26).

Decided on the address itself, never on a name. An address must be proved public: what no rule knows is
refused. IPv6 addresses that carry an IPv4 one are refused whole, public or not, since which IPv4 they end
at is decided by a gateway that is not ours.
"""

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dpp.packs.url.reasons import Block

_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "169.254.169.254",  # EC2, and most other clouds
        "169.254.170.2",  # ECS task credentials
        "169.254.170.23",  # EKS pod credentials
        "fd00:ec2::254",
        "fd00:ec2::23",
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure, on an otherwise public address
    )
)
_SHARED = IPv4Network("100.64.0.0/10")
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_REFUSED_V4 = (
    IPv4Network("192.0.0.0/24"),  # IETF protocol assignments, all of it
    IPv4Network("192.88.99.0/24"),  # relays of 6to4, deprecated by RFC 7526
)
_UNSPECIFIED_V6 = IPv6Address("::")
_LOOPBACK_V6 = IPv6Address("::1")
_UNIQUE_LOCAL = IPv6Network("fc00::/7")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_REFUSED_V6 = (
    IPv6Network("2001::/23"),  # IETF protocol assignments, all of it
    IPv6Network("3fff::/20"),  # documentation, RFC 9637
)
_TRANSITION = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated, RFC 2765
    IPv6Network("64:ff9b::/96"),  # NAT64
    IPv6Network("64:ff9b:1::/48"),  # local-use NAT64
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("2001::/32"),  # Teredo
)
_IPV4_COMPATIBLE = IPv6Network("::/96")
_ISATAP_IDENTIFIERS = frozenset({0x00005EFE, 0x02005EFE})


def refusal(address: str) -> Block | None:
    """Return why `address` (an IP address as text) is refused; None for a public unicast address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return Block.RESERVED
    if isinstance(parsed, IPv4Address):
        return _refusal_v4(parsed)
    if parsed.scope_id is not None:
        return Block.LINK_LOCAL
    return _refusal_v6(parsed)


def _refusal_v4(address: IPv4Address) -> Block | None:
    rules = (
        (address in _METADATA, Block.METADATA),
        (address in _THIS_NETWORK, Block.UNSPECIFIED),
        (address.is_loopback, Block.LOOPBACK),
        (address.is_link_local, Block.LINK_LOCAL),
        (address in _SHARED, Block.SHARED_ADDRESS),
        (address.is_multicast, Block.MULTICAST),
        (address.is_reserved, Block.RESERVED),
        (any(address in network for network in _REFUSED_V4), Block.RESERVED),
        (not address.is_global, Block.PRIVATE_IP),
    )
    return next((reason for applies, reason in rules if applies), None)


def _refusal_v6(address: IPv6Address) -> Block | None:
    rules = (
        (address in _METADATA, Block.METADATA),
        # Compared, not asked: what is_loopback says of a mapped address differs between Python releases.
        (address == _UNSPECIFIED_V6, Block.UNSPECIFIED),
        (address == _LOOPBACK_V6, Block.LOOPBACK),
        (_carries_ipv4(address), Block.TRANSITION),
        (address.is_link_local, Block.LINK_LOCAL),
        (address.is_site_local or address in _UNIQUE_LOCAL, Block.PRIVATE_IP),
        (address.is_multicast, Block.MULTICAST),
        (address not in _GLOBAL_UNICAST, Block.RESERVED),
        (any(address in network for network in _REFUSED_V6), Block.RESERVED),
        (not address.is_global, Block.RESERVED),
    )
    return next((reason for applies, reason in rules if applies), None)


def _carries_ipv4(address: IPv6Address) -> bool:
    isatap = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_IDENTIFIERS
    return isatap or address in _IPV4_COMPATIBLE or any(address in network for network in _TRANSITION)
