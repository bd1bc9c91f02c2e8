"""Faults of images and pages, reported in the discard log (RUN-27)."""

from enum import StrEnum


class ImageFault(StrEnum):
    """Reasons for an unread image or page."""

    OBJECT_NOT_READABLE = "OBJECT_NOT_READABLE"
    OBJECT_UNAVAILABLE = "OBJECT_UNAVAILABLE"
    TOO_MANY_BYTES = "TOO_MANY_BYTES"
    TOO_MANY_PIXELS = "TOO_MANY_PIXELS"
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    DAMAGED = "DAMAGED"
    ENCRYPTED = "ENCRYPTED"
    MAX_PAGES = "MAX_PAGES"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    TIMEBOX = "TIMEBOX"


class ImageFaultError(Exception):
    """An image or a page of it can't be read."""

    def __init__(self, fault: ImageFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class OutOfTimeError(Exception):
    """The time for reading is over."""
