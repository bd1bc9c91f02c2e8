"""The generator of `make bench-load` is an open loop: a server that is slow is asked no less for it."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from bench.load.fire import Generator, Phase
from tests.soak.clients import Account

type Act = Callable[[Generator], Awaitable[None]]

_RECEIPT = json.dumps({"run_id": "00000000-0000-0000-0000-000000000000"})


def _answered(status: str, body: str, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def _played(act: Act, *answers: bytes, after_seconds: float = 0.0, most_under_way: int = 100) -> Generator:
    """A generator that acted on a server which gives these answers in turn, the last one for ever."""
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

    async def play() -> Generator:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Generator(base_url, [Account("t_load", "token")], 1, most_under_way) as generator:
            await act(generator)
        server.close()
        return generator

    return asyncio.run(play())


async def _fire(generator: Generator) -> None:
    await generator.fire(Phase("test", rate=40, seconds=0.5))


def test_what_is_due_is_sent_though_nothing_is_answered_yet() -> None:
    generator = _played(_fire, _answered("202 Accepted", _RECEIPT), after_seconds=1.0)
    [phase] = generator.phases
    first_answer = min(shot.ended for shot in phase.submits)
    assert len(phase.submits) >= 10
    assert all(shot.sent < first_answer for shot in phase.submits)
    assert all(shot.latency_ms >= 1_000 for shot in phase.submits)


def test_what_is_due_beyond_the_most_under_way_is_counted_and_not_sent() -> None:
    generator = _played(_fire, _answered("202 Accepted", _RECEIPT), after_seconds=1.0, most_under_way=5)
    [phase] = generator.phases
    assert len(phase.submits) + len(phase.reads) == 5
    assert phase.unsent["POST"] >= 5


def test_each_submit_has_a_key_of_its_own_and_reads_are_of_runs_that_were_promised() -> None:
    generator = _played(_fire, _answered("202 Accepted", _RECEIPT))
    [phase] = generator.phases
    assert len({shot.key for shot in phase.submits}) == len(phase.submits)
    assert phase.reads
    assert all(shot.run_id for shot in phase.reads)


async def _one(generator: Generator) -> None:
    await generator.burst("warm", 1)


def test_a_request_without_an_answer_is_open_and_its_repetition_has_the_same_key() -> None:
    async def act(generator: Generator) -> None:
        await _one(generator)
        [shot] = generator.submits
        assert shot.open
        key = shot.key
        await generator.resend([shot])
        assert (shot.key, shot.accepted, shot.odd) == (key, True, "")

    generator = _played(act, b"", _answered("202 Accepted", _RECEIPT))
    assert len(generator.submits) == 1


def test_a_problem_document_says_why_a_request_was_refused() -> None:
    document = json.dumps({"status": 429, "reason_code": "RATE_LIMITED"})
    answer = _answered("429 Too Many Requests", document, "application/problem+json")
    [shot] = _played(_one, answer).submits
    assert (shot.refused, shot.open, shot.answer, shot.odd) == (True, False, "429 RATE_LIMITED", "")


def test_a_key_that_is_under_way_and_an_error_of_the_platform_are_asked_again() -> None:
    for status, reason in ((409, "IDEMPOTENCY_IN_PROGRESS"), (503, "DEPENDENCY_UNAVAILABLE")):
        document = json.dumps({"status": status, "reason_code": reason})
        [shot] = _played(_one, _answered(f"{status} No", document, "application/problem+json")).submits
        assert (shot.refused, shot.open) == (False, True)


def test_an_answer_of_the_gateway_in_place_of_a_function_is_asked_again() -> None:
    answer = _answered("500 Internal", '{"message": "no"}', "application/json\r\nx-amzn-ErrorType: Internal")
    [shot] = _played(_one, answer).submits
    assert (shot.open, shot.answer, shot.odd) == (True, "500 by the gateway", "")


def test_an_error_that_is_no_problem_document_is_kept_in_mind() -> None:
    [shot] = _played(_one, _answered("502 Bad Gateway", '{"message": "no"}')).submits
    assert shot.open
    assert shot.odd.startswith("502")
