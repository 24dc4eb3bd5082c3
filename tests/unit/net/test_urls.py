"""What is a URL, and what it says: as Go's ``url.Parse`` has it (the results are Go 1.26's)."""

from __future__ import annotations

import pytest

from oarlock.net.url import Url, UrlError, clean_path, is_https, parse_database_url, parse_url

CONTROL = "net/url: invalid control character in URL"
COLON = "first path segment in URL cannot contain colon"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://h/x", Url("https", host="h", path="/x")),
        ("HTTPS://H:1/x", Url("https", host="H:1", path="/x")),
        ("hTTp://[::1]:80", Url("http", host="[::1]:80")),
        ("https://[fe80::1%25eth0]/", Url("https", host="[fe80::1%eth0]", path="/")),
        ("https://a:p%40@h/p?q#f", Url("https", "", "a", "p@", "h", "/p", "q", "f")),
        ("https://@h", Url("https", user="", host="h")),
        ("https://h/a b/é%2F!", Url("https", host="h", path="/a%20b/%C3%A9/%21")),
        ("https://h/%2F!", Url("https", host="h", path="/%2F!")),
        ("https:h", Url("https", opaque="h")),
        ("//h/p", Url(host="h", path="/p")),
        ("///h", Url(path="///h")),
        ("", Url()),
        ("unix:///a", Url("unix", path="/a")),
        ("etcd://a:1,b:2/p", Url("etcd", host="a:1,b:2", path="/p")),
    ],
)
def test_what_a_url_says(text: str, url: Url):
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "shown", "reason"),
    [
        (" https://h/", " https://h/", COLON),
        ("h\nttps://h", "h\\nttps://h", CONTROL),
        ("https://h/\t", "https://h/\\t", CONTROL),
        ("https://h\x7f", "https://h\\x7f", CONTROL),
        ("1a://x", "1a://x", COLON),
        (":x", ":x", "missing protocol scheme"),
        ("https://h:x/", "https://h:x/", 'invalid port ":x" after host'),
        ("https://h:1:2/", "https://h:1:2/", 'invalid port ":1:2" after host'),
        ("https://[::1", "https://[::1", "missing ']' in host"),
        ("https://[1.2.3.4]", "https://[1.2.3.4]", "invalid IP-literal"),
        ("https://h h/", "https://h h/", 'invalid character " " in host name'),
        ("https://%41/", "https://%41/", 'invalid URL escape "%41"'),
        ("https://h/%zz", "https://h/%zz", 'invalid URL escape "%zz"'),
        ("https://u^@h/", "https://u^@h/", "net/url: invalid userinfo"),
    ],
)
def test_what_is_no_url(text: str, shown: str, reason: str):
    with pytest.raises(UrlError) as refused:
        parse_url(text)
    assert str(refused.value) == f'parse "{shown}": {reason}'
    assert refused.value.reason == reason


def test_whether_tls_is_used_is_decided_by_the_scheme_however_it_is_written():
    assert [is_https(text) for text in ("https://h", "HTTPS://h", "http://h", " https://h", "https\n://h", "h:1")] == [
        *(True, True),
        *(False,) * 4,
    ]


@pytest.mark.parametrize(
    ("text", "hostname", "port", "host_and_port", "usable"),
    [
        ("https://h", "h", 443, "h:443", True),
        ("http://h:/", "h", 80, "h:80", True),
        ("https://[::1]", "::1", 443, "[::1]:443", True),
        ("https://[::1]:9", "::1", 9, "[::1]:9", True),
        ("https://h:99999", "h", 99999, "h:99999", False),
        ("https://h:0", "h", 0, "h:0", False),
        ("ftp://h", "h", 0, "h:0", False),
        ("https:///x", "", 443, ":443", False),
    ],
)
def test_where_a_url_leads(text: str, hostname: str, port: int, host_and_port: str, usable: bool):
    url = parse_url(text)
    assert (url.hostname, url.port, url.host_and_port, url.callable) == (hostname, port, host_and_port, usable)


def test_a_name_that_isnt_ascii_is_sent_as_the_name_service_knows_it():
    assert parse_url("https://bücher.example:8443/x").sent_host == "xn--bcher-kva.example:8443"
    with pytest.raises(UrlError, match="no name can be that"):
        _ = parse_url(f"https://{'é' * 80}/").sent_host


def test_paths_of_requests_are_appended_to_what_a_server_is_called():
    assert parse_url("HTTPS://a:b%2Fc@h:1/prefix/?x#y").base == "https://a:b%2Fc@h:1/prefix"
    assert parse_url("https://h").base == "https://h"


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "/"),
        ("//x", "/x"),
        ("/x/", "/x"),
        ("/a/./b/../c//", "/a/c"),
        ("/../..", "/"),
        ("/%2e%2E/%2Fa%20b", "/a%20b"),
    ],
)
def test_paths_are_cleaned_as_client_go_does(path: str, cleaned: str):
    assert clean_path(path) == cleaned


def test_the_url_of_a_database_may_have_several_hosts_and_any_password():
    url = parse_database_url("PostgreSQL://me:^p%40/@[::1]:1,b/db?x=1".replace("/@", "%2F@"))
    assert (url.scheme, url.user, url.password, url.host, url.path, url.query) == (
        *("postgresql", "me", "^p@/", "[::1]:1,b"),
        *("/db", "x=1"),
    )
    with pytest.raises(UrlError, match="invalid control character"):
        parse_database_url("mysql://a@h\n/db")
