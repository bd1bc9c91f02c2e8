"""The queue message (RUN-15; 001 §8.2): ids only, never inputs (D8)."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from dpp.packs.contract import PackType
from dpp.runs.model import Run


class RunMessage(BaseModel):
    """A run to be executed. Unknown members are ignored, so that a newer sender can add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    run_id: UUID
    tenant_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    pack_type: PackType
    enqueued_at: datetime
    schema_version: Literal["1"] = "1"

    @classmethod
    def of(cls, run: Run, enqueued_at: datetime) -> "RunMessage":
        """The message of a run. `enqueued_at` is only measured; nothing is decided by it (D1)."""
        return cls(run_id=run.run_id, tenant_id=run.tenant_id, pack_type=run.pack_type, enqueued_at=enqueued_at)
