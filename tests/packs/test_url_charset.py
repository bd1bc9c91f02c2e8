"""Pages in the charset that a browser takes them for (RUN-26, WHATWG Encoding)."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.packs.url.charset import Declares, decode, encoding
from dpp.packs.url.extract import extract

HANGUL = "".join(chr(code) for code in range(0xAC00, 0xD7A4))
META = b'<meta charset="%s">'
KOREAN = "환불은 구매일로부터 30일 이내에 가능합니다. 배송비는 고객이 부담합니다."


def excerpt(content_type: str, body: bytes) -> str:
    return extract(content_type, "https://site.test/", body).excerpt or ""


@pytest.mark.parametrize("label", ["euc-kr", "ks_c_5601-1987", "KOREAN", "windows-949", "cp949"])
def test_every_syllable_is_read_under_a_label_of_euc_kr(label: str) -> None:
    """Browsers read it as windows-949; EUC-KR proper lacks 8,822 of 11,172 syllables."""
    page = META % label.encode() + "펲시 똠방각하 햏".encode("cp949")
    assert decode("text/html", page, Declares.IN_META).endswith("펲시 똠방각하 햏")
    assert decode(f"text/plain; charset={label}", HANGUL.encode("cp949"), Declares.NOWHERE) == HANGUL


@pytest.mark.parametrize("label", ["iso-8859-1", "ascii", "latin1", "us-ascii", "windows-1252"])
def test_latin_labels_mean_windows_1252(label: str) -> None:
    page = META % label.encode() + b"<p>It\x92s \x93quoted\x94, \x80 5 \x81"
    assert excerpt("text/html", page) == "It’s “quoted”, € 5"


@pytest.mark.parametrize(
    ("label", "sent", "text"),
    [
        ("gb2312", b"\x80\xa8D\x8e\x97", "€―帡"),
        ("gbk", b"\xff\x80", "\ufffd€"),
        ("shift_jis", b"\x87\x40\xee\xe0\xfa\xb1", "①髙﨑"),
        ("euc-jp", b"\xad\xa1\xfc\xe2\xf9\xd4<\xa4\xa2", "①髙﨎<あ"),
        ("euc-jp", b"\xff<\xfe", "\ufffd<\ufffd"),
        ("big5", b"\xf9\xda", "恒"),
        ("iso-8859-9", b"\x80\xfd", "€ı"),
    ],
)
def test_a_label_means_what_it_means_on_the_web(label: str, sent: bytes, text: str) -> None:
    """The other encodings of which Python's codec of that name lacks characters."""
    assert decode(f"text/html; charset={label}", sent, Declares.IN_META) == text


@pytest.mark.parametrize(
    ("content_type", "name", "mark"),
    [
        ("text/html", "utf-16-le", codecs.BOM_UTF16_LE),
        ("text/html; charset=euc-kr", "utf-16-be", codecs.BOM_UTF16_BE),
        ("text/html; charset=utf-16", "utf-16-le", b""),
        ("text/html; charset=iso-8859-1", "utf-8", codecs.BOM_UTF8),
    ],
)
def test_a_byte_order_mark_comes_before_the_header(content_type: str, name: str, mark: bytes) -> None:
    page = mark + "<title>안녕</title><p>본문".encode(name)
    text = extract(content_type, "https://site.test/", page)
    assert (text.title, text.excerpt) == ("안녕", "본문")


@pytest.mark.parametrize("content_type", ["text/plain", "text/csv", "application/json", "application/xml"])
@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
def test_a_mark_counts_in_every_kind_of_text(content_type: str, name: str) -> None:
    mark = codecs.BOM_UTF16_LE if name == "utf-16-le" else codecs.BOM_UTF16_BE
    assert excerpt(content_type, mark + '"안녕"'.encode(name)) == '"안녕"'
    assert excerpt(content_type, '"안녕"'.encode(name)) == '"안녕"'


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ('<?xml version="1.0" encoding="euc-kr"?>', "cp949"),
        ("<?xml version='1.0' encoding='Shift_JIS' standalone='yes'?>", "cp932"),
        ('<?xml version="1.0" encoding = "windows-1251" ?>', "cp1251"),
        ('<?xml version="1.0" encoding="utf-16"?>', "utf-8"),
    ],
)
@pytest.mark.parametrize("content_type", ["text/xml", "application/xml", "text/html", "application/xhtml+xml"])
def test_an_xml_declaration_is_taken(content_type: str, declaration: str, name: str) -> None:
    word = {"cp932": "日本", "cp1251": "Привет"}.get(name, "한글")
    assert word in excerpt(content_type, f"{declaration}<a>{word}</a>".encode(name))


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (b'<!-- charset=euc-kr --><meta charset="utf-8">', "utf-8"),
        (b'<!-- <meta charset="big5"> --!><meta charset="euc-kr">', "euc-kr"),
        (b'<script>var a = \'<meta charset="big5">\'</script><meta charset="euc-kr">', "euc-kr"),
        (b"<style><meta charset=big5></style><title><meta charset=big5></title><meta charset=euc-kr>", "euc-kr"),
        (b'<meta name="a" content="charset=big5"><meta charset="euc-kr">', "euc-kr"),
        (b'<meta data-charset="big5"><p title="<meta charset=big5>"><meta charset="euc-kr">', "euc-kr"),
        (b'<meta http-equiv="refresh" content="0; url=/?charset=big5"><meta charset="euc-kr">', "euc-kr"),
        (b'<meta http-equiv=content-type content="text/html; charset=euc-kr">', "euc-kr"),
        (b"<meta content=\"text/html; charset='euc-kr'\" http-equiv=Content-Type>", "euc-kr"),
        (b'<meta charset="nonsense"><meta charset="euc-kr">', "euc-kr"),
        (b'<meta charset="utf-7"><meta charset="x-user-defined">', "windows-1252"),
        (b'<meta charset="utf-16be">', "utf-8"),
        (b"<!--" + b"x" * 9_000 + b'--><meta charset="euc-kr">', "euc-kr"),
        (b'<?xml version="1.0" encoding="big5"?><meta charset="euc-kr">', "euc-kr"),
        (b'<script>"<meta charset=big5>"</script>', "big5"),
    ],
)
def test_only_a_declaration_declares(page: bytes, name: str) -> None:
    """Not what stands in a comment, a script, a style sheet, a title or another attribute."""
    assert encoding("text/html", page, Declares.IN_META).name == name


@pytest.mark.parametrize(
    ("content_type", "name"),
    [
        ("text/html; charset=nonsense", "euc-kr"),
        ("text/html; charset=zip; charset=utf-8", "utf-8"),
        ('text/html; a="; charset=utf-8"', "euc-kr"),
        ("text/html; xcharset=utf-8", "euc-kr"),
        ('text/html; CHARSET="utf-8"; b=c', "utf-8"),
        ("text/html;charset=utf-8, text/html", "utf-8"),
        ("text/html; charset=", "euc-kr"),
    ],
)
def test_an_unusable_label_hides_no_good_one(content_type: str, name: str) -> None:
    assert encoding(content_type, META % b"euc-kr", Declares.IN_META).name == name


@pytest.mark.parametrize("name", ["cp949", "utf-8", "cp932", "euc_jp", "gb18030", "cp1251", "cp1252"])
@pytest.mark.parametrize("before", [b"", b"<script>" + b"x" * 300_000 + b"</script>"])
def test_an_undeclared_charset_is_guessed(name: str, before: bytes) -> None:
    """Also behind a long script, and where the body was cut within a character."""
    word = {
        "cp932": "日本語の文章です。東京は今日も晴れています。",
        "euc_jp": "日本語の文章です。東京は今日も晴れています。",
        "gb18030": "这是一个测试页面，没有特别的意义。",
        "cp1251": "Это тестовая страница, которая не имеет смысла.",
        "cp1252": "C’est une page d’essai; l’été dernier à la plage, nous étions très contents.",
    }.get(name, KOREAN)
    sent = before + word.encode(name)
    assert word in decode("text/html", sent, Declares.IN_META)
    if name == "utf-8":
        cut = before + (word + "가").encode()[:-1]
        assert word in decode("text/html", cut, Declares.IN_META)


@given(st.binary(max_size=300), st.sampled_from(["text/html", "text/html; charset=euc-jp", "text/xml; charset=gbk"]))
def test_any_bytes_have_a_reading(body: bytes, content_type: str) -> None:
    for declares in Declares:
        assert isinstance(decode(content_type, body, declares), str)
