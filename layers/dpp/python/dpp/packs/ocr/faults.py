"""Faults of images and pages, reported in the discard log (RUN-27)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class ImageFault(StrEnum):
    """Reasons for an unread image or page."""

    OBJECT_NOT_READABLE = "OBJECT_NOT_READABLE"
    OBJECT_UNAVAILABLE = "OBJECT_UNAVAILABLE"
    TOO_MANY_BYTES = "TOO_MANY_BYTES"
    TOO_MANY_PIXELS = "TOO_MANY_PIXELS"
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    TOO_MUCH_MEMORY = "TOO_MUCH_MEMORY"
    DAMAGED = "DAMAGED"
    ENCRYPTED = "ENCRYPTED"
    DYNAMIC_FORM = "DYNAMIC_FORM"
    ANIMATION = "ANIMATION"
    MAX_PAGES = "MAX_PAGES"
    MAX_COST = "MAX_COST"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    TOO_SLOW = "TOO_SLOW"
    TIMEBOX = "TIMEBOX"
    INTERNAL_ERROR = "INTERNAL_ERROR"


WHAT_TO_DO: Mapping[ImageFault, str] = MappingProxyType(
    {
        ImageFault.OBJECT_NOT_READABLE: "upload the object under inputs/{tenant id}/",
        ImageFault.OBJECT_UNAVAILABLE: "submit again",
        ImageFault.TOO_MANY_BYTES: "send at most 20 MB a file",
        ImageFault.TOO_MANY_PIXELS: "send at most 40 megapixels a page",
        ImageFault.TOO_MUCH_MEMORY: "send smaller pages",
        ImageFault.UNSUPPORTED_FORMAT: "send PNG, JPEG, WebP, GIF, BMP, TIFF or PDF",
        ImageFault.DAMAGED: "check that the whole file was sent",
        ImageFault.ENCRYPTED: "remove the password",
        ImageFault.DYNAMIC_FORM: "print the form to a PDF and send that",
        ImageFault.TOO_SLOW: "send a smaller file, or the page as an image",
        ImageFault.TIMEBOX: "send fewer pages or set a longer timebox",
    }
)
"""The client's next step, for the detail of a run of which nothing could be read."""


class ImageFaultError(Exception):
    """An image or a page of it can't be read."""

    def __init__(self, fault: ImageFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class OutOfTimeError(Exception):
    """The time for reading is over."""
