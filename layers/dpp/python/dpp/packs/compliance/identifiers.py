"""National identifiers of English-speaking countries and India, by python-stdnum's checks (RUN-28)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stdnum.au import tfn
from stdnum.ca import sin
from stdnum.gb import nhs
from stdnum.ie import pps
from stdnum.in_ import aadhaar, pan
from stdnum.nz import ird
from stdnum.us import itin, ssn
from stdnum.za import idnr

from dpp.packs.compliance.checks import Checks, is_named_by
from dpp.packs.compliance.findings import Candidate, Confidence

US_SSN = "us_social_security_number"
US_ITIN = "us_individual_taxpayer_number"
CA_SIN = "ca_social_insurance_number"
GB_NINO = "gb_national_insurance_number"
GB_NHS = "gb_nhs_number"
IE_PPS = "ie_personal_public_service_number"
AU_TFN = "au_tax_file_number"
NZ_IRD = "nz_inland_revenue_number"
IN_AADHAAR = "in_aadhaar"
IN_PAN = "in_permanent_account_number"
ZA_ID = "za_identity_number"

_START = r"(?<![0-9A-Za-z])(?<![0-9][.-])"
_END = r"(?![0-9A-Za-z])(?![.-][0-9])"
_NINE = r"[0-9]{3}(?P<mark>[ .-]?)[0-9]{3}(?P=mark)[0-9]{3}"
_IRD = r"(?:NZ ?)?(?:[0-9]{2,3}([ -]?)[0-9]{3}\1[0-9]{3}|[0-9]{7,8}-[0-9])"
# HMRC, National Insurance Manual, NIM39110; the last letter may be missing there, but not here.
_NINO = r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]{}[0-9]{{2}}{}[0-9]{{2}}{}[0-9]{{2}}{}[A-D]"


@dataclass(frozen=True, slots=True)
class _Identifier:
    """One kind. `alone` is how sure its form is without the word; None if it needs the word. With it: `named`."""

    rule: str
    form: re.Pattern[str]
    is_valid: Callable[[str], bool]
    word: re.Pattern[str]
    alone: Confidence | None
    named: Confidence = "high"


def _form(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(f"{_START}(?:{pattern}){_END}", flags)


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _is_social_security_number(number: str) -> bool:
    # Their examples in print are no person's; stdnum knows these, and that 9 begins an ITIN.
    return ssn.is_valid("-".join((number[:3], number[3:5], number[5:])))


def _always(number: str) -> bool:  # noqa: ARG001 - the form has all there is to check
    return True


_NINO_WORD = _word(r"national insurance|\bNINO?\b")
_SSN_WORD = _word(r"\bSSN\b|social security|\bsoc\.? ?sec|사회보장")
_IDENTIFIERS = (
    _Identifier(US_SSN, _form(r"[0-9]{3}-[0-9]{2}-[0-9]{4}"), _is_social_security_number, _SSN_WORD, "medium"),
    _Identifier(US_SSN, _form(r"[0-9]{3}([ .]?)[0-9]{2}\1[0-9]{4}"), _is_social_security_number, _SSN_WORD, None),
    _Identifier(US_ITIN, _form(r"9[0-9]{2}-[0-9]{2}-[0-9]{4}"), itin.is_valid, _word(r"\bITIN\b|taxpayer"), "medium"),
    _Identifier(US_ITIN, _form(r"9[0-9]{2} ?[0-9]{2} ?[0-9]{4}"), itin.is_valid, _word(r"\bITIN\b|taxpayer"), None),
    _Identifier(CA_SIN, _form(_NINE), sin.is_valid, _word(r"\bSIN\b|social insurance|\bNAS\b|assurance sociale"), None),
    _Identifier(GB_NINO, _form(_NINO.format(" ", " ", " ", " ?")), _always, _NINO_WORD, "medium"),
    _Identifier(
        GB_NINO, _form(_NINO.format(*[" ?"] * 4), re.I), _always, _NINO_WORD, None, "medium"
    ),
    _Identifier(GB_NHS, _form(r"[0-9]{3}([ -]?)[0-9]{3}\1[0-9]{4}"), nhs.is_valid, _word(r"\bNHS\b"), None),
    _Identifier(IE_PPS, _form(r"[0-9]{7}[A-W][ABHWTX]?", re.I), pps.is_valid, _word(r"\bPPSN?\b|public service"), None),
    _Identifier(AU_TFN, _form(rf"{_NINE}|[0-9]{{8}}"), tfn.is_valid, _word(r"\bTFN\b|tax file"), None),
    _Identifier(NZ_IRD, _form(_IRD), ird.is_valid, _word(r"\bIRD\b|inland revenue"), None),
    _Identifier(
        IN_AADHAAR, _form(r"[2-9][0-9]{3} [0-9]{4} [0-9]{4}(?! ?[0-9])"), aadhaar.is_valid, _word("aadha+r"), "low"
    ),
    _Identifier(IN_AADHAAR, _form(r"[2-9][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}"), aadhaar.is_valid, _word("aadha+r"), None),
    _Identifier(IN_PAN, _form(r"[A-Z]{5}[0-9]{4}[A-Z]"), pan.is_valid, _word(r"\bPAN\b|permanent account"), "low"),
    _Identifier(
        ZA_ID, _form(r"[0-9]{13}|[0-9]{6} [0-9]{4} [0-9]{3}"), idnr.is_valid,
        _word(r"\bRSA\b|\bSA ID|south africa|identity (?:number|document)"), None,
    ),
)  # fmt: skip


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Every identifier whose form and check digits are right, and that a word names if its form is that of others."""
    for kind in _IDENTIFIERS:
        for match in kind.form.finditer(text):
            confidence = kind.named if is_named_by(kind.word, text, match.start()) else kind.alone
            if confidence is None:
                continue
            checks.spend()
            number = "".join(character for character in match[0] if character.isalnum()).upper().removeprefix("NZ")
            if kind.is_valid(number):
                yield Candidate(kind.rule, match.start(), match.end(), confidence)
