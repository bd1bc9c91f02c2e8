"""The scores of the earlier run that an eval run is compared with (RUN-28): named by its id, read from its envelope."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dpp.packs.contract import ObjectRefusedError
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs import submit_store
from dpp.runs.model import BASELINE_FIELD, NO_BASELINE


def filled_in(inputs: Mapping[str, object], tenant_id: str, database: Database, storage: ObjectStore) -> dict[str, Any]:
    """The inputs with the scores of the named run in place of its id.

    Raises ObjectRefusedError if the tenant has no such run, PostgresUnavailable, StorageUnavailable.
    """
    run = database.using(submit_store.find_baseline, tenant_id, UUID(str(inputs[BASELINE_FIELD])))
    pointer = run.result if run else None
    if pointer is None:
        raise ObjectRefusedError(f"{BASELINE_FIELD}: {NO_BASELINE}")
    moved = {part.name: pointer.part_key(part) for part in pointer.parts}
    try:
        data = json.loads(storage.get(pointer.key) or b"")["data"]
        items = json.loads(storage.get(moved["data.items"]) or b"") if "data.items" in moved else data["items"]
        scores = {"metrics": [metric["name"] for metric in data["metrics"]], "items": items}
    except (ValueError, KeyError, TypeError):
        raise ObjectRefusedError(f"{BASELINE_FIELD}: {NO_BASELINE}") from None
    return {name: value for name, value in inputs.items() if name != BASELINE_FIELD} | {"baseline": scores}
