"""Prices of packs in integer USD micros (RUN-23). docs/packs.md shows the same table to users.

Every figure is a multiple of 100 micros, so every total is shown exactly by four decimal places. A total
may exceed what a run reserved: charging `min(cost, reserved)` is the caller's rule (RUN-24), not a pack's.
"""

MODEL_PER_1000_TOKENS_USD_MICROS = 10_000
"""Of decision, and of every other pack that asks a language model."""

DECISION_BASE_USD_MICROS = 50_000
"""The figure of the source document (001 §9.2): 0.05 USD a decision."""
DECISION_FREE_CHARACTERS = 4_000
DECISION_PER_1000_CHARACTERS_USD_MICROS = 100

URL_BASE_USD_MICROS = 5_000
URL_PER_FETCHED_URL_USD_MICROS = 1_000
URL_PER_100_KB_USD_MICROS = 100
URL_KB_STEP_BYTES = 100_000

COMPLIANCE_BASE_USD_MICROS = 10_000
COMPLIANCE_PER_10_000_CHARACTERS_USD_MICROS = 500
COMPLIANCE_PER_PATTERN_AND_100_000_CHARACTERS_USD_MICROS = 100
COMPLIANCE_PER_PRESET_USD_MICROS = 2_000
COMPLIANCE_PER_RULE_IN_WORDS_USD_MICROS = 200

OCR_BASE_USD_MICROS = 5_000
OCR_PER_PAGE_USD_MICROS = 2_000
OCR_PER_MEGAPIXEL_USD_MICROS = 100

EVAL_BASE_USD_MICROS = 10_000
EVAL_PER_100_SCORES_USD_MICROS = 500
EVAL_PER_MILLION_DRAWS_USD_MICROS = 1_000


def _started(amount: int, step: int) -> int:
    """Return how many steps were started: 0 of 0, 1 of 1 … step."""
    return -(-amount // step)


def decision_cost_usd_micros(*, characters: int, tokens: int) -> int:
    """A decision over `characters` of question and context; `tokens` as the provider counted, 0 offline."""
    beyond_free = max(0, characters - DECISION_FREE_CHARACTERS)
    return (
        DECISION_BASE_USD_MICROS
        + _started(beyond_free, 1_000) * DECISION_PER_1000_CHARACTERS_USD_MICROS
        + _tokens_usd_micros(tokens)
    )


def tokens_within(usd_micros: int) -> int:
    """The tokens that an amount pays for; 0 if it is negative. The price counts started thousands."""
    return max(0, usd_micros // MODEL_PER_1000_TOKENS_USD_MICROS) * 1_000


def _tokens_usd_micros(tokens: int) -> int:
    return _started(tokens, 1_000) * MODEL_PER_1000_TOKENS_USD_MICROS


def url_cost_usd_micros(*, fetched_urls: int, body_bytes: int) -> int:
    """A url run that has `fetched_urls` results, from `body_bytes` of decoded bodies altogether."""
    return (
        URL_BASE_USD_MICROS
        + fetched_urls * URL_PER_FETCHED_URL_USD_MICROS
        + _started(body_bytes, URL_KB_STEP_BYTES) * URL_PER_100_KB_USD_MICROS
    )


def compliance_cost_usd_micros(
    *, characters: int, patterns: int, presets: int = 0, rules_in_words: int = 0, tokens: int = 0
) -> int:
    """A check of `characters` of documents altogether, against `patterns` regular expressions among others, and a
    policy's presets and rules in words, for which a model's provider counted `tokens`."""
    return (
        COMPLIANCE_BASE_USD_MICROS
        + _started(characters, 10_000) * COMPLIANCE_PER_10_000_CHARACTERS_USD_MICROS
        + _started(characters, 100_000) * patterns * COMPLIANCE_PER_PATTERN_AND_100_000_CHARACTERS_USD_MICROS
        + presets * COMPLIANCE_PER_PRESET_USD_MICROS
        + rules_in_words * COMPLIANCE_PER_RULE_IN_WORDS_USD_MICROS
        + _tokens_usd_micros(tokens)
    )


def ocr_cost_usd_micros(*, pages: int, pixels: int) -> int:
    """An ocr run that read `pages`, blank ones too, of `pixels` altogether as they stand in the files."""
    return (
        OCR_BASE_USD_MICROS
        + pages * OCR_PER_PAGE_USD_MICROS
        + _started(pixels, 1_000_000) * OCR_PER_MEGAPIXEL_USD_MICROS
    )


def eval_cost_usd_micros(*, scores: int, draws: int, tokens: int = 0) -> int:
    """An eval of `scores` items times metrics, with `draws` scores drawn for its intervals, and a judge's `tokens`."""
    return (
        EVAL_BASE_USD_MICROS
        + _started(scores, 100) * EVAL_PER_100_SCORES_USD_MICROS
        + _started(draws, 1_000_000) * EVAL_PER_MILLION_DRAWS_USD_MICROS
        + _tokens_usd_micros(tokens)
    )
