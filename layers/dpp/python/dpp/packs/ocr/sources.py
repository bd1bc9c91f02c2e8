"""The bytes of an image: from the inputs, or from the one URL that the worker signed for its object (RUN-27)."""

import base64
import binascii
import time
from collections.abc import Callable, Mapping

import httpx

from dpp.packs.inputs.ocr import OcrImage
from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.images import MAX_IMAGE_BYTES

type Fetch = Callable[[str, float], bytes]
"""From a URL and a deadline (`time.monotonic()`) to the object's bytes; raises ImageFaultError."""

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2
_LONGEST_SILENCE_SECONDS = 5.0


def load(image: OcrImage, urls: Mapping[str, str], deadline: float, fetch: Fetch) -> bytes:
    """The image's bytes. Raises ImageFaultError."""
    if image.key is None:
        try:
            return base64.b64decode(image.data or "", validate=True)
        except binascii.Error:
            raise ImageFaultError(ImageFault.DAMAGED) from None
    url = urls.get(image.key)
    if url is None:  # the worker signed one for each, or refused the run
        raise ImageFaultError(ImageFault.OBJECT_NOT_READABLE)
    return fetch(url, deadline)


def fetch_object(url: str, deadline: float) -> bytes:
    """Read an object; asks again where the store or the way to it failed. Raises ImageFaultError."""
    with httpx.Client(trust_env=False, follow_redirects=False) as client:
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(min(_PAUSE_SECONDS * attempt, max(0.0, deadline - time.monotonic())))
            try:
                found = _read(client, url, deadline)
            except (httpx.TransportError, httpx.InvalidURL):
                continue
            if found is not None:
                return found
    raise ImageFaultError(ImageFault.OBJECT_UNAVAILABLE)


def _read(client: httpx.Client, url: str, deadline: float) -> bytes | None:
    """The bytes; None where the store may have them later."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ImageFaultError(ImageFault.TIMEBOX)
    body = bytearray()
    with client.stream("GET", url, timeout=min(left, _LONGEST_SILENCE_SECONDS)) as answer:
        if answer.status_code >= 500 or answer.status_code == 429:
            return None
        if answer.status_code != 200:  # S3 says 403 for what isn't there to those who may not list
            raise ImageFaultError(ImageFault.OBJECT_NOT_READABLE)
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > MAX_IMAGE_BYTES:
                raise ImageFaultError(ImageFault.TOO_MANY_BYTES)
            if time.monotonic() > deadline:
                raise ImageFaultError(ImageFault.TIMEBOX)
    return bytes(body)
