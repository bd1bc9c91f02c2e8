"""Operations that GitHub, Jira and Slack call.

Their own documentation describes what they send. Responses and problems come from
dpp/lifecycle/flow/intake/webhook_http.py.
"""

from collections.abc import Sequence

from dpp.lifecycle.flow.intake.webhook_http import MAX_DELIVERY_BYTES, PROBLEMS, ChallengeView, DeliveryView
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp_cli.docs.openapi.examples import WEBHOOKS
from dpp_cli.docs.openapi.parts import COST_HEADERS, Family, Json, by_path, in_header, maybe, sent, texts_of
from dpp_cli.docs.openapi.schemas import merged, of_answers

_KINDS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_FAMILY = Family(
    always=("X-Trace-Id",),
    of_status={404: maybe(COST_HEADERS)},  # in a deployment without it, another function responds
    texts=texts_of(PROBLEMS),
    security=None,
)
_HMAC_SHA256 = r"^sha256=[0-9a-f]{64}$"
_WHERE = (
    " No API key is needed. Only a deployment with a `lifecycle_tenant` accepts calls; any other returns NOT_FOUND."
)
_SIGNED = "`sha256=` and, in lower-case hex, the HMAC-SHA256 of the body's bytes with the webhook's secret."
_TAKEN = (
    "Received. Any other status would make the source send it again. ACCEPTED: it became an"
    " event. DUPLICATE: it was received before, by poll or webhook. TOO_OLD: it is older than `horizon_days`, or over a"
    " day in the future. IGNORED: it is not addressed to this deployment."
)
_ANSWERED = (
    "Received. ACCEPTED: it is the answer. IGNORED: no task waits for it (for example, a repetition), or it is not an"
    " person's reply."
)


def _operation(
    source: str,
    operation_id: str,
    summary: str,
    description: str,
    *problems: ProblemKind,
    parameters: Sequence[Json],
    body: Json,
    answers: Json,
) -> Json:
    taken = sent("SourceDelivery", body, max_mib=MAX_DELIVERY_BYTES // 2**20)
    taken["description"] += " It is parsed as JSON whatever its Content-Type; a form gets 400."
    return _FAMILY.operation(
        f"POST /v1/webhooks/{source}",
        operation_id,
        summary,
        description + _WHERE,
        answers,
        _KINDS["SIGNATURE_INVALID"],
        *problems,
        _KINDS["SOURCE_NOT_CONFIGURED"],
        problem.NOT_FOUND,
        problem.PAYLOAD_TOO_LARGE,
        parameters=parameters,
        body=taken,
    )


PATHS = by_path(
    _operation(
        "github",
        "deliverGithubEvent",
        "Deliver a GitHub event",
        "Called by a GitHub webhook when somebody mentions the bot, assigns an issue to it or requests its review;"
        " signed by `X-Hub-Signature-256`.",
        parameters=(
            in_header("X-Hub-Signature-256", _SIGNED, WEBHOOKS["github_signature"], _HMAC_SHA256),
            in_header(
                "X-GitHub-Event",
                "The event's name. `issues`, `issue_comment`, `pull_request`, `pull_request_review` and"
                " `pull_request_review_comment` are read; others, and deliveries without this header, are IGNORED.",
                "issue_comment",
                r"^[a-z_]+$",
                required=False,
            ),
        ),
        body=WEBHOOKS["github"],
        answers={"202": _FAMILY.answer_of_several(_TAKEN, DeliveryView, WEBHOOKS["of_github"])},
    ),
    _operation(
        "jira",
        "deliverJiraEvent",
        "Deliver a Jira event",
        "Called by a Jira webhook when an issue is created or changed; signed by `X-Hub-Signature`.",
        parameters=(in_header("X-Hub-Signature", _SIGNED, WEBHOOKS["jira_signature"], _HMAC_SHA256),),
        body=WEBHOOKS["jira"],
        answers={"202": _FAMILY.answer_of_several(_TAKEN, DeliveryView, WEBHOOKS["of_jira"])},
    ),
    _operation(
        "slack",
        "deliverSlackEvent",
        "Deliver a Slack reply",
        "Called by Slack's Events API. A reply in the thread of a task that waits for an answer becomes the answer;"
        " signed by `X-Slack-Signature`, together with `X-Slack-Request-Timestamp`.",
        _KINDS["DELIVERY_STALE"],
        parameters=(
            in_header(
                "X-Slack-Signature",
                "`v0=` and, in lower-case hex, the HMAC-SHA256 of `v0:`, the timestamp, `:` and the body's bytes by the"
                " app's signing secret.",
                WEBHOOKS["slack_signature"],
                r"^v0=[0-9a-f]{64}$",
            ),
            in_header(
                "X-Slack-Request-Timestamp",
                "Sending time in seconds since 1970; at most 300 s old.",
                WEBHOOKS["slack_timestamp"],
                r"^[0-9]{1,12}$",
            ),
        ),
        body=WEBHOOKS["slack"],
        answers={
            "200": _FAMILY.answer("Slack's `url_verification` challenge.", ChallengeView, WEBHOOKS["challenge"]),
            "202": _FAMILY.answer_of_several(_ANSWERED, DeliveryView, WEBHOOKS["of_slack"]),
        },
    ),
)


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    described = "The source's payload, as described in its documentation. Unneeded members are not read."
    return merged(of_answers(_FAMILY.answers), {"SourceDelivery": {"description": described, "type": "object"}})
