"""Brings the whole stack up and down."""

import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx

from dpp_cli.errors import StackError
from dpp_cli.local import deploy, events, localstack, parts
from dpp_cli.local.progress import Steps
from dpp_cli.local.servers import postgres_answers, redis_answers
from dpp_cli.local.state import LOCK_NAME, StackState, StateStore, exclusive, load_state
from dpp_cli.migrate import upgrade

_STOPS = {
    parts.ROTATION: (signal.SIGTERM, 5.0),
    parts.LOCALSTACK: (signal.SIGTERM, localstack.STOP_SECONDS),
    parts.VALKEY: (signal.SIGTERM, 10.0),
    parts.POSTGRES: (signal.SIGINT, 20.0),
}


def up(state_dir: Path, steps: Steps) -> StackState:
    """Start, migrate and deploy everything that is not yet up to date.

    Raises ServerError, ToolError, StackError.
    """
    with exclusive(state_dir), steps.shown():
        store = StateStore(state_dir)
        steps.run(parts.ROTATION, lambda: parts.ensure_rotation(store))
        parts.clear_localstack(store)
        # Two lanes, since the slow steps of one (LocalStack, bootstrap) need nothing of the other.
        with ThreadPoolExecutor(2) as lanes:
            aws = lanes.submit(_aws_lane, store, steps)
            data = lanes.submit(_data_lane, store, steps)
            data.result()
            aws.result()
        if deploy.is_current(store):
            # A deployment migrates by itself; one that is left out does not, and the rows may be older than it.
            steps.run("migrations", lambda: _migrate(store))
            steps.run("deploy", lambda: f"{store.state.api_base_url} (was deployed)")
            return store.state
        if deploy.shape_changed(store):
            steps.run("fresh AWS", lambda: _forget_aws(store))
            _aws_lane(store, steps)
        steps.run("deploy", lambda: deploy.deploy(store))
        return store.state


def down(state_dir: Path, *, wipe: bool = False) -> list[str]:
    """Stop all processes of the stack, also those left by a hard kill; return what was stopped.

    Data folders and ports stay unless `wipe`. What LocalStack held (objects, messages, functions) is gone
    with it. Raises StackError while another command is at work.
    """
    if not state_dir.exists():
        return []
    with exclusive(state_dir):
        store = StateStore(state_dir)
        ended: list[str] = []
        for name, (number, patience_seconds) in _STOPS.items():
            if store.end(name, first=number, patience_seconds=patience_seconds):
                ended.append(name)
        if strays := parts.end_strays(store):
            ended.append(f"{len(strays)} left-over processes")
        store.set(parts={}, **parts.NOTHING_DEPLOYED)
        if wipe:
            _empty(state_dir)
        return ended


@dataclass(frozen=True)
class PartStatus:
    """One line of `dpp local status`."""

    name: str
    where: str
    pid: int | None
    healthy: bool
    note: str


def status(state_dir: Path) -> list[PartStatus]:
    """Return the state of each part and whether it answers."""
    state = load_state(state_dir) or StackState()
    checks: dict[str, tuple[str, Callable[[], bool]]] = {
        parts.POSTGRES: (state.database_url, lambda: postgres_answers(state.database_url)),
        parts.VALKEY: (state.redis_url, lambda: redis_answers(state.redis_url)),
        parts.LOCALSTACK: (state.aws_endpoint_url, lambda: localstack.healthy(state.aws_endpoint_url)),
    }
    lines: list[PartStatus] = []
    for name, (url, answers) in checks.items():
        part = state.parts.get(name)
        if part is not None and not part.identity.alive():
            lines.append(PartStatus(name, url, None, False, f"died (was pid {part.pid})"))
        elif part is None and not state.outputs:
            lines.append(PartStatus(name, "", None, False, "down"))
        else:
            well = answers()
            lines.append(PartStatus(name, url, part.pid if part else None, well, "" if well else "doesn't answer"))
    return [*lines, _rotation_status(state), _api_status(state)]


def _rotation_status(state: StackState) -> PartStatus:
    part = state.parts.get(parts.ROTATION)
    if part is None:
        return PartStatus(parts.ROTATION, "", None, False, "down")
    if not part.identity.alive():
        note = f"died (was pid {part.pid}): logs grow without bounds until `dpp local up`"
        return PartStatus(parts.ROTATION, "", None, False, note)
    return PartStatus(parts.ROTATION, "looks after the logs", part.pid, True, "")


def _api_status(state: StackState) -> PartStatus:
    if not state.outputs:
        return PartStatus("api", "", None, False, "not deployed")
    url = state.api_base_url
    try:
        answer = httpx.get(f"{url}/readyz", timeout=20, trust_env=False)
    except httpx.HTTPError as error:
        return PartStatus("api", url, None, False, f"/readyz: {type(error).__name__}")
    return PartStatus("api", url, None, answer.status_code == 200, f"/readyz answers {answer.status_code}")


def _aws_lane(store: StateStore, steps: Steps) -> None:
    steps.run(parts.LOCALSTACK, lambda: parts.ensure_localstack(store))
    steps.run("bootstrap", lambda: deploy.bootstrap(store))


def _empty(state_dir: Path) -> None:
    """Delete all but the lock, which we hold."""
    for path in state_dir.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK_NAME:
            path.unlink()


def _forget_aws(store: StateStore) -> str:
    if parts.LOCALSTACK not in store.state.parts:
        raise StackError(
            "the infrastructure changed, and LocalStack ignores most updates: restart yours, then `up` again"
        )
    store.end(parts.LOCALSTACK, patience_seconds=localstack.STOP_SECONDS)
    parts.end_strays(store)
    store.forget(parts.LOCALSTACK)
    return "the infrastructure changed; LocalStack ignores most updates"


def _data_lane(store: StateStore, steps: Steps) -> None:
    steps.run(parts.POSTGRES, lambda: parts.ensure_postgres(store))
    steps.run(parts.VALKEY, lambda: parts.ensure_valkey(store))
    steps.run("layers", deploy.build_layers)
    if not deploy.is_current(store):
        steps.run("synth", lambda: deploy.synth(store))


def _migrate(store: StateStore) -> str:
    begun = time.monotonic()
    upgrade(store.state.database_url)
    events.emit(store.state_dir, "migrated")
    return f"to head in {time.monotonic() - begun:.1f} s"
