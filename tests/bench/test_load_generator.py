"""The generator of `make bench-load` is an open loop: it sends no less to a slow server."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from bench.load.generator import Generator, Phase
from tests.soak.clients import Account

type Act = Callable[[Generator], Awaitable[None]]

_RECEIPT = json.dumps({"run_id": "00000000-0000-0000-0000-000000000000"})


def _answered(status: str, body: str, content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def _problem(status: int, reason: str) -> bytes:
    document = json.dumps({"status": status, "reason_code": reason})
    return _answered(f"{status} No", document, "application/problem+json")


def _run(act: Act, *answers: bytes, after_seconds: float = 0.0, most_under_way: int = 100) -> Generator:
    """Act with a server that gives these answers in turn, and the last one from then on."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                if "content-length: " in head:
                    await reader.readexactly(int(head.partition("content-length: ")[2].split("\r\n")[0]))
                await asyncio.sleep(after_seconds)
                answer = left.pop(0) if len(left) > 1 else left[0]
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def run() -> Generator:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Generator(base_url, [Account("t_load", "token")], 1, most_under_way) as generator:
            await act(generator)
        server.close()
        return generator

    return asyncio.run(run())


async def _one_phase(generator: Generator) -> None:
    await generator.run(Phase("test", rate=40, seconds=0.5))


async def _one_submit(generator: Generator) -> None:
    await generator.burst("warm", 1)


def test_due_requests_are_sent_although_none_is_answered_yet() -> None:
    [phase] = _run(_one_phase, _answered("202 Accepted", _RECEIPT), after_seconds=1.0).phases
    first_answer = min(request.ended for request in phase.submits)
    assert len(phase.submits) >= 10
    assert all(request.sent < first_answer for request in phase.submits)
    assert all(request.latency_ms >= 1_000 for request in phase.submits)


def test_requests_beyond_the_most_under_way_are_counted_and_not_sent() -> None:
    answer = _answered("202 Accepted", _RECEIPT)
    [phase] = _run(_one_phase, answer, after_seconds=1.0, most_under_way=5).phases
    assert len(phase.submits) + len(phase.reads) == 5
    assert phase.unsent["POST"] >= 5


def test_each_submit_has_its_own_key_and_reads_are_of_promised_runs() -> None:
    [phase] = _run(_one_phase, _answered("202 Accepted", _RECEIPT)).phases
    assert len({request.key for request in phase.submits}) == len(phase.submits)
    assert phase.reads
    assert all(request.run_id for request in phase.reads)


def test_request_without_answer_is_repeated_with_its_key() -> None:
    async def act(generator: Generator) -> None:
        await _one_submit(generator)
        [request] = generator.submits
        assert request.is_unknown
        key = request.key
        await generator.resend([request])
        assert (request.key, request.is_accepted, request.unexpected) == (key, True, "")

    generator = _run(act, b"", _answered("202 Accepted", _RECEIPT))
    assert len(generator.submits) == 1


def test_problem_document_gives_the_reason_of_a_refusal() -> None:
    [request] = _run(_one_submit, _problem(429, "RATE_LIMITED")).submits
    assert (request.is_refused, request.is_unknown) == (True, False)
    assert (request.answer, request.unexpected) == ("429 RATE_LIMITED", "")


def test_key_in_progress_and_platform_errors_are_repeated() -> None:
    for status, reason in ((409, "IDEMPOTENCY_IN_PROGRESS"), (503, "DEPENDENCY_UNAVAILABLE")):
        [request] = _run(_one_submit, _problem(status, reason)).submits
        assert (request.is_refused, request.is_unknown) == (False, True)


def test_gateways_answer_for_a_function_is_repeated() -> None:
    headers = "application/json\r\nx-amzn-ErrorType: Internal"
    [request] = _run(_one_submit, _answered("500 Internal", '{"message": "no"}', headers)).submits
    assert (request.is_unknown, request.answer, request.unexpected) == (True, "500 by the gateway", "")


def test_error_without_problem_document_is_recorded() -> None:
    [request] = _run(_one_submit, _answered("502 Bad Gateway", '{"message": "no"}')).submits
    assert request.is_unknown
    assert request.unexpected.startswith("502")
