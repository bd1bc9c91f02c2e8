"""The objects that a run's inputs name: the tenant's own, and each readable by one URL (RUN-27).

The worker signs the URLs and the pack's process gets nothing else: no credentials are where strangers' files are
parsed. Whose an object is stands in its key, `inputs/{tenant_id}/…`, so another tenant's is refused by its name.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dpp.packs.contract import ObjectRefusedError, PackType
from dpp.packs.inputs.ocr import OcrInputs, object_context
from dpp.packs.registry import INPUT_MODELS
from dpp.platform.aws.storage import ObjectStore

_SPARE_SECONDS = 60
"""Beyond the timebox, for a pack process that has to be started first."""


def signed_urls(
    pack_type: str, inputs: Mapping[str, Any], tenant_id: str, storage: ObjectStore, timebox_sec: int
) -> dict[str, str]:
    """A URL for each object that the inputs name, by its key; none for packs that name no object.

    Raises ObjectRefusedError, and StorageUnavailable where nothing can sign.
    """
    model = INPUT_MODELS.get(PackType(pack_type))
    if model is not OcrInputs:
        return {}
    try:
        wanted = OcrInputs.model_validate(inputs, context=object_context(tenant_id, storage.bucket))
    except ValidationError as error:
        raise ObjectRefusedError(_place(error)) from None
    return {
        image.key: storage.read_url(image.key, timebox_sec + _SPARE_SECONDS)
        for image in wanted.images
        if image.key is not None
    }


def _place(error: ValidationError) -> str:
    fault = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}"[:200]
