"""The memory of `dpp top` between snapshots: since when a dependency is away, and each part's last figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dpp_cli.top.model import PARTS, Snapshot
from dpp_cli.top.problems import judge

DEPLOYMENT = "operate"
"""Name of the dependency that is away if the function `operate` itself does not answer."""


@dataclass(frozen=True, slots=True)
class View:
    """The data of one page. `where`: the deployment; `every_seconds`: None if the page is drawn once.

    `since`: when each dependency stopped answering; `outdated`: parts from an earlier snapshot, with its time;
    `pending_seconds`: age of the snapshot being taken.
    """

    where: str
    snapshot: Snapshot
    every_seconds: float | None = None
    since: Mapping[str, datetime] = field(default_factory=dict)
    outdated: Mapping[str, datetime] = field(default_factory=dict)
    pending_seconds: float = 0.0


@dataclass(slots=True)
class Memory:
    """Merges snapshots: a part that could not be read keeps its last figures, with their time."""

    where: str
    every_seconds: float | None = None
    _last: Snapshot | None = None
    _since: dict[str, datetime] = field(default_factory=dict)
    _of: dict[str, datetime] = field(default_factory=dict)

    def update(self, found: Snapshot) -> View:
        """Merge a snapshot, complete or partial."""
        self._since = {name: self._since.get(name, found.asof) for name in found.away}
        shown = {name: getattr(found, name) for name in PARTS}
        for name, part in shown.items():
            if part is not None:
                self._of[name] = found.asof
            elif self._last is not None:
                shown[name] = getattr(self._last, name)
        outdated = {
            name: self._of[name] for name, part in shown.items() if part is not None and self._of[name] != found.asof
        }
        merged = found.model_copy(update=shown)
        self._last = merged.model_copy(update={"conditions": judge(merged)})
        return View(self.where, self._last, self.every_seconds, dict(self._since), outdated)

    def unanswered(self, why: str, at: datetime) -> View | None:
        """Record that the deployment's function did not answer; None if it never did."""
        if self._last is None:
            return None
        since = {DEPLOYMENT: self._since.get(DEPLOYMENT, at)}
        self._since = since
        incomplete = self._last.model_copy(update={"away": {DEPLOYMENT: why}})
        return View(self.where, incomplete, self.every_seconds, since, dict(self._of))
