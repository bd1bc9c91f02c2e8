"""AUTH-10: a failure has one hash in every printed form, and two failures never have the same hash."""

import re
import time
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.auth_errors.traces.stack_hash import VERSION, StackHash, normal_form, stack_hash
from tests.auth_errors.corpus import FAILURES, LANGUAGES, Failure
from tests.auth_errors.corpus.contrasts import CONTRASTS
from tests.auth_errors.corpus.variations import VARIATIONS

_BUILDS = (("8f3a2c1d", 100), ("11aa22bb", 2_048), ("0badcafe", 31))
CUTS = (8_000, 7_431, 6_875, 6_000)


@dataclass(frozen=True, slots=True)
class Variant:
    failure: Failure
    name: str
    stacktrace: str

    @property
    def id(self) -> str:
        return f"{self.failure.language}-{self.failure.name}-{self.name}"

    def hashed(self) -> StackHash:
        return stack_hash(self.failure.exception_class, self.stacktrace)


def _variants(failure: Failure) -> list[Variant]:
    """All variations of a failure that don't change whether the platform truncates its trace."""
    variants = []
    for name, vary in VARIATIONS[failure.language].items():
        varied = vary(failure.stacktrace)
        if varied != failure.stacktrace and (len(varied.strip()) >= 7_950) is failure.is_cut:
            variants.append(Variant(failure, name, varied))
    if failure.is_cut:
        variants.extend(Variant(failure, f"cut_at_{at}", failure.stacktrace[:at]) for at in CUTS)
    return variants


SAME = [variant for failure in FAILURES for variant in _variants(failure)]
CONTRASTED = [
    (failure, name, contrast(failure))
    for failure in FAILURES
    for name, contrast in CONTRASTS.items()
    if contrast(failure) != failure
]
DISTINCT = [pair for pair in combinations(FAILURES, 2) if pair[0].language == pair[1].language]


def _hash(failure: Failure) -> StackHash:
    return stack_hash(failure.exception_class, failure.stacktrace)


def _named(name: str) -> Failure:
    [failure] = [failure for failure in FAILURES if failure.name == name]
    return failure


@pytest.mark.parametrize("variant", SAME, ids=lambda variant: variant.id)
def test_variations_of_a_failure_have_the_same_hash(variant: Variant) -> None:
    form = normal_form(variant.failure.exception_class, variant.stacktrace)
    assert form == normal_form(variant.failure.exception_class, variant.failure.stacktrace)


@pytest.mark.parametrize(
    ("failure", "other"),
    [(failure, other) for failure, _, other in CONTRASTED],
    ids=[f"{failure.language}-{failure.name}-{name}" for failure, name, _ in CONTRASTED],
)
def test_significant_difference_changes_the_hash(failure: Failure, other: Failure) -> None:
    assert _hash(failure) != _hash(other)


_BROWSER = "https://app.example.com/static/js/main"
IN_BROWSERS = {
    "firefox": [f"verify@{_BROWSER}.{build}.js:1:100\nlogin@{_BROWSER}.{build}.js:1:{at}" for build, at in _BUILDS],
    "firefox, inner functions": [
        f"verify/check<@{_BROWSER}.{build}.js:1:{at}\n@{_BROWSER}.{build}.js:2:1" for build, at in _BUILDS
    ],
    "firefox, asynchronous": [
        f"async*verify@{_BROWSER}.{build}.js:1:{at}\nsetTimeout handler*go@{_BROWSER}.{build}.js:1:9"
        for build, at in _BUILDS
    ],
    "firefox, eval": [
        f"verify@{_BROWSER}.{build}.js line {at} > eval:1:5\nstart@{_BROWSER}.{build}.js:7:9" for build, at in _BUILDS
    ],
    "safari": [
        f"verify@{_BROWSER}.{build}.js:1:{at}\nforEach@[native code]\nglobal code@{_BROWSER}.{build}.js:9"
        for build, at in _BUILDS
    ],
}


@pytest.mark.parametrize("traces", IN_BROWSERS.values(), ids=IN_BROWSERS)
def test_a_failure_in_two_builds_of_a_page_has_the_same_hash(traces: list[str]) -> None:
    """AUTH-10: Firefox and Safari print `function@place`, without the error's class and message."""
    forms = {normal_form("AuthError", text) for trace in traces for text in (trace, f"AuthError: nope\n{trace}")}
    assert len(forms) == 1, forms
    assert "verify" in forms.pop()
    assert len({stack_hash("AuthError", trace) for trace, *_ in IN_BROWSERS.values()}) == len(IN_BROWSERS)


@pytest.mark.parametrize(("one", "other"), DISTINCT, ids=lambda failure: failure.name)
def test_different_failures_have_different_hashes(one: Failure, other: Failure) -> None:
    assert _hash(one) != _hash(other)


def test_corpus_and_variations_have_their_minimum_size() -> None:
    for language in LANGUAGES:
        assert len([failure for failure in FAILURES if failure.language == language]) >= 6
        assert len([variant for variant in SAME if variant.failure.language == language]) >= 24
        assert len([one for one, _ in DISTINCT if one.language == language]) >= 24
        used = {variant.name for variant in SAME if variant.failure.language == language}
        assert used >= set(VARIATIONS[language])


@pytest.mark.parametrize("language", LANGUAGES)
def test_precision_and_recall_over_every_pair(language: str) -> None:
    """Texts of one failure are equal, texts of different failures differ; a contrast is another failure."""
    labelled = [(failure.name, _hash(failure)) for failure in FAILURES if failure.language == language]
    labelled += [(v.failure.name, v.hashed()) for v in SAME if v.failure.language == language]
    labelled += [(f"{f.name} {name}", _hash(o)) for f, name, o in CONTRASTED if f.language == language]
    found = wrong = missed = 0
    for (label, digest), (other_label, other_digest) in combinations(labelled, 2):
        found += label == other_label and digest == other_digest
        wrong += label != other_label and digest == other_digest
        missed += label == other_label and digest != other_digest
    precision, recall = found / (found + wrong), found / (found + missed)
    figures = (
        f"{language}: {len(labelled)} texts, {found + missed} pairs of one failure; "
        f"precision {precision:.4f} ({wrong} wrong), recall {recall:.4f} ({missed} missed)"
    )
    print(figures)  # noqa: T201 - shown with -s
    assert precision == 1.0, figures
    assert recall >= 0.97, figures


@pytest.mark.parametrize("failure", [f for f in FAILURES if f.is_cut], ids=lambda failure: failure.name)
def test_truncation_behind_6000_characters_makes_no_difference(failure: Failure) -> None:
    hashes = {stack_hash(failure.exception_class, failure.stacktrace[:at]) for at in range(6_000, 8_001, 37)}
    assert hashes == {_hash(failure)}


@pytest.mark.parametrize("failure", [f for f in FAILURES if not f.is_cut], ids=lambda failure: failure.name)
def test_truncated_line_does_not_count(failure: Failure) -> None:
    """The rest of the trace counts as if it were truncated between two lines."""
    text, lines = failure.stacktrace, failure.stacktrace.splitlines(keepends=True)
    between = ["".join(lines[:nth]) for nth in range(1, len(lines) + 1)]
    known = {line for part in between for line in normal_form(failure.exception_class, part).splitlines()}
    language = normal_form(failure.exception_class, text).partition("\n")[0]
    for at in range(1, len(text), 11):
        form = normal_form(failure.exception_class, text[:at]).splitlines()
        assert form[0] != language or set(form) <= known, (at, set(form) - known)


def test_truncated_parts_make_no_difference() -> None:
    """The limits: a cause behind the significant frames, and the innermost frames of a long Python traceback."""
    deep = _named("password_wrong_behind_many_filters")
    assert stack_hash(deep.exception_class, deep.stacktrace.replace("PepperMissing", "SaltMissing")) == _hash(deep)
    long = _named("middlewares_without_end")
    assert stack_hash(long.exception_class, long.stacktrace.replace("in check", "in renew")) == _hash(long)


def test_complete_and_truncated_trace_may_differ() -> None:
    """The limit: truncation removes significant parts of a complete trace."""
    for name in ("django_simplejwt_invalid", "ldap_unreachable"):
        failure = _named(name)
        assert stack_hash(failure.exception_class, failure.stacktrace[:2_600]) != _hash(failure)


def test_cause_of_a_suppressed_error_counts_without_indents() -> None:
    """The limit: without indents, the parent of a cause is unknown."""
    failure = _named("oauth_client_refused")
    flat = re.sub(r"(?m)^\s+", "", failure.stacktrace)
    assert "SocketException" in normal_form(failure.exception_class, flat)
    assert "SocketException" not in normal_form(failure.exception_class, failure.stacktrace)


def test_only_stored_characters_are_read() -> None:
    for failure in FAILURES:
        longer = failure.stacktrace.strip() + "\n" + "more\n" * 2_000
        assert stack_hash(failure.exception_class, longer) == stack_hash(failure.exception_class, longer[:8_000])


def test_normal_form() -> None:
    failure = _named("spring_bearer_bad_signature")
    assert normal_form(failure.exception_class, failure.stacktrace) == "\n".join(
        [
            "v1 jvm",
            "error org.springframework.security.oauth2.server.resource.InvalidBearerTokenException",
            "  at org.springframework.security.oauth2.server.resource.authentication.JwtAuthenticationProvider.getJwt",
            "  at org.springframework.security.oauth2.server.resource.authentication"
            ".JwtAuthenticationProvider.authenticate",
            "  at org.springframework.security.authentication.ProviderManager.authenticate",
            "  at org.springframework.security.oauth2.server.resource.web.authentication"
            ".BearerTokenAuthenticationFilter.doFilterInternal",
            "because of org.springframework.security.oauth2.jwt.BadJwtException",
            "  at org.springframework.security.oauth2.jwt.NimbusJwtDecoder.createJwt",
            "  at org.springframework.security.oauth2.jwt.NimbusJwtDecoder.decode",
            "because of com.nimbusds.jose.proc.BadJWSException",
            "  at com.nimbusds.jwt.proc.DefaultJWTProcessor.process",
        ]
    )


def test_hash_is_of_the_normal_form() -> None:
    """A changed digest means a changed rule, which would split every cluster."""
    hashed = _hash(_named("jsonwebtoken_expired"))
    assert hashed == StackHash(VERSION, "ac5d50e5266ecdd37023ab9b5679e4b9bd5af065f7d51ef148c2441374887776")
    assert VERSION == "v1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("com.example.Denied", " com.example.Denied\n"),
        ("com.example.Denied$$SpringCGLIB$$0", "com.example.Denied"),
        ("java.base/java.lang.SecurityException", "java.lang.SecurityException"),
        ("app//com.example.Denied: bob", "com.example.Denied"),
        ("com.example.Login$1", "com.example.Login$2"),
        ("com.example.Denied@1b2c3d4", "com.example.Denied@7f00aa1"),
        ("<class 'jwt.exceptions.DecodeError'>", "jwt.exceptions.DecodeError"),
        ("builtins.KeyError", "KeyError"),
        ("<Denied object at 0x7f12>", "<Denied object at 0x7f13>"),
        ("*github.com/golang-jwt/jwt/v4.ValidationError", "*github.com/golang-jwt/jwt/v5.ValidationError"),
    ],
)
def test_class_is_compared_by_name(one: str, other: str) -> None:
    assert stack_hash(one, "") == stack_hash(other, "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("OAuth1Error", "OAuth2Error"),
        ("com.example.a.Denied", "com.example.b.Denied"),
        ("*jwt.ValidationError", "*saml.ValidationError"),
        ("", "Error"),
    ],
)
def test_different_classes_differ(one: str, other: str) -> None:
    assert stack_hash(one, "") != stack_hash(other, "")


UNKNOWN = {
    "ruby": (
        "/app/lib/auth.rb:42:in `verify': Signature has expired (JWT::ExpiredSignature)\n\tfrom /app/x.rb:7:in `call'",
        "/srv/lib/auth.rb:43:in `verify': Signature has expired (JWT::ExpiredSignature)\n\tfrom /srv/x.rb:8:in `call'",
        "/app/lib/auth.rb:42:in `renew': Signature has expired (JWT::ExpiredSignature)\n\tfrom /app/x.rb:7:in `call'",
    ),
    "dotnet": (
        "System.Exception: no\n   at Acme.Tokens.Verify(String token) in C:\\src\\Tokens.cs:line 42",
        "System.Exception: oh\n   at Acme.Tokens.Verify(String token) in D:\\b\\1\\Tokens.cs:line 7",
        "System.Exception: no\n   at Acme.Tokens.Renew(String token) in C:\\src\\Tokens.cs:line 42",
    ),
    "php": (
        "Exception: no\n#0 /app/src/Auth.php(42): App\\Auth->verify('eyJ.a.b')\n#1 {main}",
        "Exception: oh\n#0 /srv/src/Auth.php(7): App\\Auth->verify('eyJ.c.d')\n#1 {main}",
        "Exception: no\n#0 /app/src/Auth.php(42): App\\Auth->renew('eyJ.a.b')\n#1 {main}",
    ),
    "causes_without_frames": (
        "com.example.Denied: of bob\nCaused by: com.example.Expired: at noon",
        "com.example.Denied: of eve\nCaused by: com.example.Expired: at night",
        "com.example.Denied: of bob\nCaused by: com.example.Revoked: at noon",
    ),
    "words": (
        'login of "bob" from 10.0.0.1 failed: 3f2504e0-4f89-11d3-9a0c-0305e82c3301 bob@example.org',
        'login of "eve" from 10.0.0.7 failed: 9b2504e0-4f89-11d3-9a0c-0305e82c3307 eve@example.org',
        'logout of "bob" from 10.0.0.1 failed: 3f2504e0-4f89-11d3-9a0c-0305e82c3301 bob@example.org',
    ),
}


@pytest.mark.parametrize(("text", "same", "other"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown_format_counts_by_its_words(text: str, same: str, other: str) -> None:
    assert normal_form("E", text) == normal_form("E", same)
    assert stack_hash("E", text) != stack_hash("E", other)


_FRAGMENTS = st.sampled_from(
    [
        "\tat com.example.A$1.b(A.java:3)", "\t... 999999999 more", "Caused by: a.B: c", "\tSuppressed: a.B",
        "Wrapped by: a.B", '  File "/app/a/b.py", line 3, in c', "    c()",
        "Traceback (most recent call last):", "KeyError: 3", "  |   File", '  |   File "a.py", line 1, in b',
        "  +-+---------------- 1 ----------------", "    +------------------------------------",
        "  + Exception Group Traceback (most recent call last):",
        "During handling of the above exception, another", "a.b(0x1)", "    at a (/b.js:1:2)",
        "    at async b.js:1:2 {", "    ... 9 lines matching cause stack trace ...", "  [cause]: E: f {",
        "  [errors]: [", "goroutine 3 [running]:", "panic(0x1)", "\t/a/b.go:3 +0x1",
        "created by a.b in goroutine 3", "", "\x00", "\ud800", "\u2028", "Error", "x" * 100,
    ]
)  # fmt: skip
_TEXTS = st.one_of(st.text(), st.lists(_FRAGMENTS | st.text(max_size=20), max_size=30).map("\n".join))


@given(st.text(), _TEXTS)
def test_any_text_has_a_stable_hash(exception_class: str, stacktrace: str) -> None:
    hashed = stack_hash(exception_class, stacktrace)
    assert re.fullmatch(r"[0-9a-f]{64}", hashed.digest)
    assert hashed == stack_hash(exception_class, stacktrace)


@pytest.mark.parametrize("text", ["", " \n\t\r\n ", "\x00", "\ud800\udfff", "\x85\u2028\x0b"])
def test_empty_text_has_a_hash(text: str) -> None:
    assert stack_hash(text, text).version == VERSION


@given(st.sampled_from(FAILURES), st.integers(0, 999_999))
def test_numbers_behind_colons_make_no_difference(failure: Failure, number: int) -> None:
    if not failure.is_cut:
        renumbered = re.sub(r"(?<=:)\d+(?=[:)\s])", str(number), failure.stacktrace)
        assert stack_hash(failure.exception_class, renumbered) == _hash(failure)


_HUGE = 2_000_000
HOSTILE = {
    "one_line": "x" * _HUGE,
    "one_line_of_blanks": "at " + " " * _HUGE + "x",
    "one_line_of_brackets": "at " + "([{" * (_HUGE // 3),
    "one_frame": "\tat " + "a." * (_HUGE // 2) + "b(C.java:1)",
    "quotes": "'\"`" * (_HUGE // 3),
    "colons": "a:" * (_HUGE // 2),
    "lines": "\n" * _HUGE + "x",
    "line_ends": "x" + "\r\n" * (_HUGE // 2) + "x",
    "nested_causes": "a.B\n\tat a.B.c(D.java:1)\n" + "Caused by: a.B\n\t... 999999999 more\n" * 8_000,
    "frames": "\tat a.b(C)\n" * (_HUGE // 11),
    "two_frames_in_turns": "\tat a.b(C)\n\tat a.c(C)\n" * (_HUGE // 22),
    "frames_of_python": '  File "a", line 1, in b\n' * (_HUGE // 24),
    "groups": "  + Exception Group Traceback (most recent call last):\n" + "  +-+---- 1 ----\n" * (_HUGE // 17),
    "frames_of_node": "at a (b:1:1)\n" * (_HUGE // 13),
    "causes_of_node": "E\nat a (b:1:1)\n" + "[cause]: E\nat a (b:1:1)\n" * (_HUGE // 24),
    "evaluated": "at a (" + "eval at a (" * (_HUGE // 11) + ":1:1)",
    "goroutines": "goroutine 1 [" + "[" * _HUGE,
    "frames_of_go": "goroutine 1 [running]:\n" + "a.b()\n\t/a.go:1\n" * (_HUGE // 15),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hash_of_two_megabytes_takes_less_than_a_second(text: str) -> None:
    for exception_class, stacktrace in (("E", text), (text, ""), ("E", text[:7_999])):
        started = time.process_time()
        stack_hash(exception_class, stacktrace)
        assert time.process_time() - started < 1.0
