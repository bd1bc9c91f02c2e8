"""Content that clients may cache: an entity tag, and 304 for clients that have it (RFC 9110, 8.8.3 and 13.1.2)."""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

CACHE_CONTROL = "public, max-age=300"
"""Clients reuse it for five minutes and then revalidate by the tag, so that they see a deployment soon."""

_TAGS = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


@dataclass(frozen=True, slots=True)
class Content:
    """The content of one path, the same for all clients until the next deployment."""

    content_type: str
    text: str
    entity_tag: str

    @classmethod
    def of(cls, content_type: str, text: str) -> "Content":
        """Build the content with the tag of its bytes."""
        return cls(content_type, text, f'"{sha256(text.encode()).hexdigest()[:32]}"')

    def is_known_to(self, event: "APIGatewayProxyEvent") -> bool:
        """True if `If-None-Match` has the tag, or `*`. Tags compare weakly; malformed ones are ignored."""
        sent = ", ".join(_values(event, "if-none-match"))
        return sent.strip() == "*" or self.entity_tag in _TAGS.findall(sent)


def _values(event: "APIGatewayProxyEvent", name: str) -> list[str]:
    """All values of a header that may be sent several times; the gateway keeps them in `multiValueHeaders`."""
    many = event.raw_event.get("multiValueHeaders") or {
        header: [value] for header, value in (event.raw_event.get("headers") or {}).items()
    }
    return [str(value) for header, found in many.items() if header.lower() == name for value in found]
