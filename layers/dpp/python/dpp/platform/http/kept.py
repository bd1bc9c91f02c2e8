"""What a client may keep: an entity tag, and 304 for who has the content already (RFC 9110, 8.8.3 and 13.1.2)."""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

CACHE_CONTROL = "public, max-age=300"
"""For five minutes nobody asks again; after that a tag is enough, so that a deployment is seen soon."""

_TAGS = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


@dataclass(frozen=True, slots=True)
class Content:
    """What one path answers, the same for everybody until the next deployment."""

    content_type: str
    text: str
    entity_tag: str

    @classmethod
    def of(cls, content_type: str, text: str) -> "Content":
        """The content with the tag of its bytes."""
        return cls(content_type, text, f'"{sha256(text.encode()).hexdigest()[:32]}"')

    def is_known_to(self, event: "APIGatewayProxyEvent") -> bool:
        """True where `If-None-Match` names the tag, or `*`; tags compare weakly, and what is no tag is none."""
        sent = ", ".join(_values(event, "if-none-match"))
        return sent.strip() == "*" or self.entity_tag in _TAGS.findall(sent)


def _values(event: "APIGatewayProxyEvent", name: str) -> list[str]:
    """Each value of a header that may be sent several times; the gateway keeps all in `multiValueHeaders`."""
    many = event.raw_event.get("multiValueHeaders") or {
        header: [value] for header, value in (event.raw_event.get("headers") or {}).items()
    }
    return [str(value) for header, found in many.items() if header.lower() == name for value in found]
