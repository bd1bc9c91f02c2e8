"""The text of HTML pages as a browser shows it, and the article among menus (RUN-26)."""

import pytest

from dpp.packs.url.extract import extract
from dpp.packs.url.text import Text

MENU = "".join(f'<li><a href="/m{number}">Menu entry number {number} of many</a></li>' for number in range(140))
SENTENCES = [
    f"The committee met on day {number} of the session and agreed on the budget for the schools of the district."
    for number in range(8)
]
ARTICLE = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)


def read(page: str) -> Text:
    return extract("text/html; charset=utf-8", "https://site.test/news/1", page.encode())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<script src=//cdn.x/a/>var secret=1;</script><p>hello", "hello"),
        ("<script/>var secret=1;</script ><p>hello", "hello"),
        ("<style/>.secret{}</style><p>hello", "hello"),
        ("<script><!-- <script> secret </script> --></script><p>hello", "hello"),
        ("<SCRIPT>secret</SCRIPTx></SCRIPT\n>hello", "hello"),
        ("<svg><script>secret</script></svg>hello", "hello"),
        ("a<!-- secret --!>b", "ab"),
        ("a<!-->b", "ab"),
        ("a<!-- secret", "a"),
        ("<svg><path d='M0'><p>hello", "hello"),
        ("<div><svg></div>hello", "hello"),
        ("<select><option>one<p>hello", "one hello"),
        ("<table><tr><td>a<td>b</table>c", "a b c"),
        ("<textarea><b>a</b></textarea>", "<b>a</b>"),
        ("<p>a<iframe></iframe>b", "a b"),
        ("<p>a<noscript>secret</noscript>", "a"),
        ("<template><p>secret</template>a", "a"),
        ("<title>t</title/>a", "a"),
        ("<svg><title>secret</title><text>a</text></svg>", "a"),
        ("<p>&notit; &lt;b&gt; &#x80; &AMP", "¬it; <b> € &"),
    ],
)
def test_text_is_what_a_browser_shows(page: str, text: str | None) -> None:
    """The code of scripts and the words of comments are no text, whatever closes them."""
    assert read(page).excerpt == text


@pytest.mark.parametrize(
    "page",
    [
        f"<ul>{MENU}</ul><div>{ARTICLE}</div>",
        f"<nav><ul>{MENU}</ul></nav><main><article>{ARTICLE}</article></main><footer>© all rights</footer>",
        f"<table><tr><td>{MENU}<td><font>{ARTICLE.replace('<p>', '<br><br>').replace('</p>', '')}</font></table>",
        f"<div>{MENU.replace('<li>', '').replace('</li>', ' ')}</div><div>{ARTICLE}</div>",
        f"<ul>{MENU * 3}<div><b>{ARTICLE}",
    ],
)
def test_an_article_behind_a_menu_of_140_links_is_read(page: str) -> None:
    """With every one of its sentences, and before the menu."""
    found = read(f"<title>t</title>{page}").excerpt or ""
    assert all(sentence in found for sentence in SENTENCES)
    assert found.startswith(SENTENCES[0])


def test_a_short_text_behind_a_long_menu_is_read() -> None:
    """Shorter than what an extractor takes for an article."""
    page = f"<ul>{MENU}</ul><p>Closed on Mondays.</p>"
    assert read(page).excerpt_of == "page"
    assert (read(page).excerpt or "").startswith("Closed on Mondays. Menu entry number 0")


def test_a_list_of_products_is_read_whole() -> None:
    """No article: nothing of it is left out."""
    text = read("".join(f"<div><h3>Item {number}</h3><span>{number}000</span></div>" for number in range(40)))
    assert all(f"Item {number} {number}000" in (text.excerpt or "") for number in range(40))


@pytest.mark.parametrize("depth", [1, 300, 3_000])
def test_text_is_read_at_any_depth(depth: int) -> None:
    """Old pages leave each <font> open."""
    assert read("<font>" * depth + "deep").excerpt == "deep"
    assert read("<div>" * depth + "deep").excerpt == "deep"


@pytest.mark.parametrize(
    ("head", "field", "said"),
    [
        ("<html lang=ko>", "language", "ko"),
        ('<html lang="en_GB">', "language", "en-GB"),
        ('<meta http-equiv="Content-Language" content="ko-KR">', "language", "ko-KR"),
        ('<meta property="og:locale" content="fr_FR">', "language", "fr-FR"),
        ('<html lang="<b>">', "language", None),
        ('<link rel="canonical" href="/news/1?a=b#c">', "canonical_url", "https://site.test/news/1?a=b"),
        ('<link rel="x Canonical" href="https://other.test/">', "canonical_url", "https://other.test/"),
        ('<meta property="og:url" content="https://site.test/x">', "canonical_url", "https://site.test/x"),
        ('<link rel="canonical" href="javascript:alert(1)">', "canonical_url", None),
        ('<link rel="canonical" href="https://a@b/">', "canonical_url", None),
        ('<meta property="article:published_time" content="2025-03-04T09:00:00+09:00">', "published_at", "2025-03-04"),
        ('<meta itemprop="datePublished" content="2025-03-04">', "published_at", "2025-03-04"),
        (
            '<script type="application/ld+json">{"@type": "NewsArticle", "datePublished": "2025-03-04"}</script>',
            "published_at",
            "2025-03-04",
        ),
        ("", "published_at", None),
        ("<title> A\n &amp; B </title>", "title", "A & B"),
        ("<svg><title>icon</title></svg><title>page</title>", "title", "page"),
        ("<title></title><title>second</title>", "title", "second"),
    ],
)
def test_what_a_page_says_of_itself_is_in_the_result(head: str, field: str, said: str | None) -> None:
    assert getattr(read(f"{head}<p>On 1 May 2024 nothing happened."), field) == said
