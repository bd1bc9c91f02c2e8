"""Examples of webhooks; a test signs each and checks the response shown."""

from collections.abc import Mapping

from dpp_cli.docs.openapi.parts import Json

GITHUB_LOGIN = "acme-bot"
# From the providers' guides: GitHub's signs "Hello, World!", Jira's "Hello World!", Slack's a command, at this time.
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
JIRA_SIGNATURE = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
SLACK_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
SLACK_TIMESTAMP = "1531420618"

_REPOSITORY = "https://api.github.com/repos/acme/shop"
GITHUB: Json = {
    "mention": {
        "action": "created",
        "issue": {
            "url": f"{_REPOSITORY}/issues/7",
            "html_url": "https://github.com/acme/shop/issues/7",
            "title": "The order form loses its address",
            "user": {"login": "kim"},
            "created_at": "2026-03-01T11:00:00Z",
            "updated_at": "2026-03-01T12:00:00Z",
        },
        "comment": {
            "url": f"{_REPOSITORY}/issues/comments/1742",
            "html_url": "https://github.com/acme/shop/issues/7#issuecomment-1742",
            "body": f"@{GITHUB_LOGIN} since which release?",
            "user": {"login": "kim"},
            "created_at": "2026-03-01T12:00:00Z",
        },
        "repository": {"full_name": "acme/shop"},
        "sender": {"login": "kim"},
    }
}
JIRA: Json = {
    "change": {
        "webhookEvent": "jira:issue_updated",
        "user": {"displayName": "Kim"},
        "issue": {
            "self": "https://acme.atlassian.net/rest/api/2/issue/10002",
            "key": "SHOP-12",
            "fields": {
                "summary": "The order form loses its address",
                "description": "On a telephone alone.",
                "updated": "2026-03-01T12:00:00.123+0000",
                "project": {"key": "SHOP"},
            },
        },
    }
}
SLACK: Json = {
    "reply": {
        "type": "event_callback",
        "event_id": "Ev08MFMKH6",
        "event": {
            "type": "message",
            "channel": "C0123456789",
            "user": "U0123456789",
            "text": "It is the second one.",
            "ts": "1772366400.000200",
            "thread_ts": "1772362800.000100",
        },
    },
    "challenge": {"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7"},
}
CHALLENGE: Json = {"challenge": SLACK["challenge"]["challenge"]}


_IGNORED: dict[str, Json] = {"IGNORED": {"outcome": "IGNORED"}}


def _outcomes(event_id: str, *outcomes: str) -> Mapping[str, Json]:
    """Responses to a delivery by outcome."""
    return {outcome: {"outcome": outcome, "event_id": event_id} for outcome in outcomes} | _IGNORED


_OF_EVENTS = ("ACCEPTED", "DUPLICATE", "TOO_OLD")
OF_GITHUB = _outcomes("github:acme/shop/issues/comments/1742", *_OF_EVENTS)
OF_JIRA = _outcomes("jira:SHOP-12:2026-03-01T12:00:00.123Z", *_OF_EVENTS)
OF_SLACK = _outcomes(SLACK["reply"]["event_id"], "ACCEPTED")
