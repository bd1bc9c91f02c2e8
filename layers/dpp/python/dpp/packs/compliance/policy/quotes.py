"""Finds a model's quote in the document that it is said to stand in."""

from dpp.packs.compliance.client_rules import Document
from dpp.packs.compliance.policy.verdicts import MAX_QUOTE_CHARACTERS, Passage
from dpp.packs.folding import fold_phrases

LEAST_CHARACTERS = 2
_AROUND = "\"'“”‘’「」『』 "
_BEFORE = ". "  # an ellipsis, folded


def find_quote(quote: str, document: Document) -> Passage | None:
    """The passage that the quote is of, word for word but for case, width, white space and marks around it.

    None if it doesn't stand there. The passage is the document's own text, not the model's.
    """
    wanted = fold_phrases(quote).text.strip(_AROUND).lstrip(_BEFORE)
    if len(wanted) < LEAST_CHARACTERS or len(quote) > MAX_QUOTE_CHARACTERS:
        return None
    place = document.phrases.text.find(wanted)
    if place < 0:
        return None
    start, end = document.phrases.original(place, place + len(wanted))
    return Passage(document.number, start, end, document.text[start:end])
