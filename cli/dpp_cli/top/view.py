"""What `dpp top` remembers between two looks: since when something does not answer, and how it last stood."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dpp_cli.top.model import PARTS, Snapshot
from dpp_cli.top.problems import judge

DEPLOYMENT = "operate"
"""What does not answer where the function itself does not."""


@dataclass(frozen=True, slots=True)
class View:
    """What is drawn. `where`: which deployment; `every_seconds`: None where it is drawn once.

    `since`: from when on each dependency has not answered; `held`: the parts that are of an earlier look, and of when;
    `asking_seconds`: for how long a further look has been under way.
    """

    where: str
    snapshot: Snapshot
    every_seconds: float | None = None
    since: Mapping[str, datetime] = field(default_factory=dict)
    held: Mapping[str, datetime] = field(default_factory=dict)
    asking_seconds: float = 0.0


@dataclass(slots=True)
class Memory:
    """Look after look. What could not be asked is shown as it last stood, with its time, and judged so."""

    where: str
    every_seconds: float | None = None
    _last: Snapshot | None = None
    _since: dict[str, datetime] = field(default_factory=dict)
    _of: dict[str, datetime] = field(default_factory=dict)

    def seen(self, found: Snapshot) -> View:
        """A look that was answered, be it in part."""
        self._since = {name: self._since.get(name, found.asof) for name in found.away}
        shown = {name: getattr(found, name) for name in PARTS}
        for name, part in shown.items():
            if part is not None:
                self._of[name] = found.asof
            elif self._last is not None:
                shown[name] = getattr(self._last, name)
        held = {
            name: self._of[name]
            for name, part in shown.items()
            if part is not None and self._of[name] != found.asof
        }
        merged = found.model_copy(update=shown)
        self._last = merged.model_copy(update={"conditions": judge(merged)})
        return View(self.where, self._last, self.every_seconds, dict(self._since), held)

    def unanswered(self, why: str, at: datetime) -> View | None:
        """A look that the deployment's function did not answer; None where none was before it."""
        if self._last is None:
            return None
        since = {DEPLOYMENT: self._since.get(DEPLOYMENT, at)}
        self._since = since
        told = self._last.model_copy(update={"away": {DEPLOYMENT: why}})
        return View(self.where, told, self.every_seconds, since, dict(self._of))
