"""`dpp demo`: real runs through the API of the local stack, from a new tenant to a balanced ledger."""

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from rich.console import Console

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import create_tenant, credit
from dpp.platform.keys import api_keys
from dpp_cli.errors import StackError
from dpp_cli.local import stack
from dpp_cli.local.progress import Steps
from dpp_cli.money.ledger import print_position
from dpp_cli.operator.tenants import backends
from dpp_cli.paths import state_dir

console = Console(highlight=False, soft_wrap=True)

_CREDIT_USD_MICROS = 5_000_000
_POLL_SECONDS = 0.5
_RUN_SECONDS = 120.0
_BALANCE_SECONDS = 10.0
_CONTEXT = (
    "The office lease ends in March. Rent in the current building rises by 18 percent from April. "
    "The building across the street asks 9 percent less than we pay today, and has room for twelve more desks. "
    "Moving costs about two monthly rents. The team voted 14 to 3 for the move."
)


@dataclass(frozen=True)
class DemoRun:
    """A run to submit and its expected end."""

    title: str
    pack_type: str
    inputs: Mapping[str, Any]
    inline: bool = False
    max_cost_usd: str = "0.5000"

    def body(self) -> dict[str, Any]:
        """The request body (RUN-3)."""
        return {
            "pack_type": self.pack_type,
            "inputs": dict(self.inputs),
            "reservation": {"max_cost_usd": self.max_cost_usd, "timebox_sec": 30},
            "options": {"inline": int(self.inline)},
        }


_QUESTION = "What does moving cost?"
RUNS = (
    DemoRun("decision, brief", "decision", {"question": _QUESTION, "context": _CONTEXT, "mode": "brief"}),
    DemoRun(
        "decision, full, inline",
        "decision",
        {"question": "How did the team vote on the move?", "context": _CONTEXT, "mode": "full"},
        inline=True,
    ),
)
_TOO_DEAR = DemoRun("more than the budget", "decision", {"question": _QUESTION}, max_cost_usd="100.0000")


def demo() -> None:
    """Start the local stack, submit real runs through its API and show their cost."""
    base_url = stack.up(state_dir(), Steps(console)).api_base_url
    tenant_id, key = _new_tenant()
    console.print(f"\nA new tenant, [bold]{tenant_id}[/], with 5.0000 USD and a key of its own.\n")
    begun = time.monotonic()
    with httpx.Client(timeout=30, trust_env=False) as http:
        api = _Api(http, base_url, key)
        submitted = [_submit(api, run) for run in RUNS]
        _show_replay(api, submitted[0])
        _show_refusal(api)
        for item in submitted:
            _show_end(api, item)
    console.print(f"\n{len(submitted)} runs in {time.monotonic() - begun:.1f} s. The ledger of {tenant_id}:\n")
    position = _settled_position(tenant_id)
    print_position(position)
    if not position.balanced:
        raise StackError("the ledger does not balance")
    console.print("\nTry one yourself (the key belongs to this tenant only):\n")
    console.print(_curl(base_url, key), markup=False, soft_wrap=True)


@dataclass(frozen=True)
class _Api:
    http: httpx.Client
    base_url: str
    key: str = field(repr=False)

    def post(self, body: Mapping[str, Any], idempotency_key: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": idempotency_key}
        return self.http.post(f"{self.base_url}/v1/runs", json=body, headers=headers)

    def get(self, href: str) -> httpx.Response:
        return self.http.get(f"{self.base_url}{href}", headers={"Authorization": f"Bearer {self.key}"})


@dataclass(frozen=True)
class _Submitted:
    run: DemoRun
    idempotency_key: str
    run_id: str
    href: str


def _new_tenant() -> tuple[str, str]:
    tenant_id, minted = f"demo-{secrets.token_hex(4)}", api_keys.mint()
    with backends() as to:
        create_tenant(to.connection, tenant_id, "Demo", rate_limit_per_minute=600)
        api_keys.store(to.connection, minted, tenant_id, "dpp demo")
        credit(
            to.connection,
            to.ledger,
            credit_id=uuid4(),
            tenant_id=tenant_id,
            amount_usd_micros=_CREDIT_USD_MICROS,
            reason="dpp demo",
        )
    return tenant_id, minted.token


def _submit(api: _Api, run: DemoRun) -> _Submitted:
    idempotency_key = str(uuid4())
    begun = time.monotonic()
    answer = _expect(api.post(run.body(), idempotency_key), 202, run.title)
    ms = (time.monotonic() - begun) * 1000
    receipt = answer.json()
    console.print(
        f"  POST /v1/runs   202  {run.title:<24} run {receipt['run_id']}  "
        f"reserved {answer.headers['X-DPP-Cost-Reserved']}  [dim]({ms:.0f} ms)[/]"
    )
    return _Submitted(run, idempotency_key, receipt["run_id"], receipt["poll"]["href"])


def _show_replay(api: _Api, item: _Submitted) -> None:
    answer = _expect(api.post(item.run.body(), item.idempotency_key), 202, "the same again")
    if answer.json()["run_id"] != item.run_id:
        raise StackError("a repeated submit made a second run")
    console.print("  POST /v1/runs   202  the same key and body    the same run, nothing reserved again (RUN-4)")


def _show_refusal(api: _Api) -> None:
    problem = _expect(api.post(_TOO_DEAR.body(), str(uuid4())), 402, _TOO_DEAR.title).json()
    console.print(f"  POST /v1/runs   402  {_TOO_DEAR.title:<24} {problem['reason_code']}: {problem['detail']}")


def _show_end(api: _Api, item: _Submitted) -> None:
    view = _wait_for_end(api, item)
    if view["status"] != "COMPLETED":
        raise StackError(f"run {item.run_id} ended {view['status']}: {json.dumps(view.get('problem'))}")
    envelope = _fetch_checked(api, view["result"])
    cost = view["cost"]
    console.print(
        f"\n  GET {item.href}  {view['status']}, {view['money_state']}: "
        f"used {cost['used_usd']} of {cost['reserved_usd']} USD, {view['tokens_consumed']} tokens"
    )
    console.print(f"  [dim]envelope {len(envelope)} bytes from S3, SHA-256 as promised: {view['result']['sha256']}[/]")
    console.print(f"  {item.run.title}: ", end="")
    console.print(_answer_text(json.loads(envelope)), markup=False, soft_wrap=True)
    if item.run.inline and view["result"].get("inline") != json.loads(envelope):
        raise StackError("the inline result is not the stored one")


def _wait_for_end(api: _Api, item: _Submitted) -> dict[str, Any]:
    deadline = time.monotonic() + _RUN_SECONDS
    while time.monotonic() < deadline:
        view: dict[str, Any] = _expect(api.get(item.href), 200, item.run.title).json()
        if view["status"] not in {"QUEUED", "PROCESSING"}:
            return view
        time.sleep(_POLL_SECONDS)
    raise StackError(f"run {item.run_id} didn't end within {_RUN_SECONDS:.0f} s; see `dpp local logs run_worker`")


def _fetch_checked(api: _Api, result: Mapping[str, Any]) -> bytes:
    """The envelope by its presigned URL, which needs no key; its hash is what the API said (RUN-10, RUN-18)."""
    answer = _expect(api.http.get(result["presigned_url"]), 200, "the presigned URL")
    if hashlib.sha256(answer.content).hexdigest() != result["sha256"]:
        raise StackError("the envelope's SHA-256 is not the promised one")
    return answer.content


def _answer_text(envelope: Any) -> str:
    """The answer wherever the envelope has it, else the envelope's beginning."""
    if isinstance(envelope, dict):
        for value in (envelope.get("answer_text"), *map(_nested_answer, envelope.values())):
            if isinstance(value, str) and value:
                return value
    return f"{json.dumps(envelope, ensure_ascii=False)[:300]}…"


def _nested_answer(value: Any) -> Any:
    return value.get("answer_text") if isinstance(value, dict) else None


def _settled_position(tenant_id: str) -> LedgerPosition:
    """Audit the ledger once it is at rest: COMPLETED is visible shortly before the last step commits."""
    deadline = time.monotonic() + _BALANCE_SECONDS
    with backends() as to:
        while True:
            position = audit_tenant(to.connection, to.ledger, tenant_id)
            if position.balanced or time.monotonic() > deadline:
                return position
            time.sleep(0.2)


def _expect(answer: httpx.Response, status: int, what: str) -> httpx.Response:
    if answer.status_code != status:
        raise StackError(f"{what}: expected {status}, got {answer.status_code}\n{answer.text[:2000]}")
    return answer


def _curl(base_url: str, key: str) -> str:
    inputs = {"question": "What does moving cost?", "context": "Moving costs two monthly rents."}
    body = json.dumps(RUNS[0].body() | {"inputs": inputs})
    return (
        f"curl -s {base_url}/v1/runs -H 'Authorization: Bearer {key}' "
        f"-H \"Idempotency-Key: $(date +%s%N)\" -H 'Content-Type: application/json' -d '{body}'\n"
        f"curl -s {base_url}/v1/runs/RUN_ID -H 'Authorization: Bearer {key}'"
    )
