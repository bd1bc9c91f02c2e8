"""Objects in a run's inputs (RUN-27): the tenant's own get signed URLs for its pack, another tenant's fail the run."""

from typing import Any

from dpp.runs.execute import WorkOutcome, execute
from dpp.runs.machine import Status
from tests.support.api import ApiClient, a_body
from tests.support.world import ScriptedPacks, World, message_of


def s3(key: str) -> dict[str, Any]:
    return {"images": [{"kind": "s3", "key": key}]}


def test_a_run_with_another_tenants_object_fails_and_starts_no_pack(world: World) -> None:
    """RUN-27, RUN-17: at the minimum fee. The worker does not rely on the API's check."""
    tenant, packs = world.tenant(), ScriptedPacks()
    run = world.submit(tenant, pack_type="ocr", inputs=s3("inputs/t_else/x")).run
    assert execute(message_of(run), "receipt", world.work_effects(packs)).outcome == WorkOutcome.ENDED
    ended = world.run(run)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, "PACK_INPUTS_INVALID")
    assert ended.last_error_detail == "images.0: a key is inputs/{your tenant id}/…"
    assert packs.requests == []
    assert world.position(tenant).balanced


def test_a_run_gets_urls_of_its_own_objects_only(world: World) -> None:
    tenant, packs = world.tenant(), ScriptedPacks()
    key = f"inputs/{tenant.tenant_id}/a.png"
    run = world.submit(tenant, pack_type="ocr", inputs=s3(key)).run
    execute(message_of(run), "receipt", world.work_effects(packs))
    [request] = packs.requests
    assert set(request.object_urls) == {key}
    assert key not in repr(request)


def test_another_tenants_object_is_refused_before_anything_is_reserved(api: ApiClient, world: World) -> None:
    """RUN-27, RUN-9: a 422 with the pointer and without the value; an own object is accepted."""
    tenant = world.tenant()
    refused = api.submit(tenant, a_body(pack_type="ocr", inputs=s3("inputs/t_else/secret-name")))
    assert refused.status == 422
    assert [fault["pointer"] for fault in refused.body["errors"]] == ["/inputs/images/0"]
    assert "secret-name" not in refused.text
    own = s3(f"inputs/{tenant.tenant_id}/a.png")
    assert api.submit(tenant, a_body(pack_type="ocr", inputs=own)).status == 202
