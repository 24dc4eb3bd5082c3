"""The lexer: text → tokens.

One regular expression finds all tokens. Text that it can't match ends the list with a token of kind `BAD`, which no
grammar rule accepts, so errors are reported in the order of the text. The kind of a fixed token is its text, else
its name in the grammar, because error messages show it.
Must not know: what tokens mean. See also: `literals`, `parsing`. Source: cel-spec, "Syntax"; the lexer of cel-go.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EOF = "<EOF>"
BAD = "BAD"

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_TEXT = (
    rf'[rR]"""(?s:.*?)"""|[rR]\'\'\'(?s:.*?)\'\'\''
    rf'|"""[^\\]*?(?:{_ESCAPE}[^\\]*?)*?"""'
    rf"|'''[^\\]*?(?:{_ESCAPE}[^\\]*?)*?'''"
    rf"|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'"
    rf'|"[^\\"\n\r]*(?:{_ESCAPE}[^\\"\n\r]*)*"'
    rf"|'[^\\'\n\r]*(?:{_ESCAPE}[^\\'\n\r]*)*'"
)
_NAME = "[A-Za-z_][A-Za-z0-9_]*+"
_TOKEN = re.compile(
    rf"[ \t\r\n\f]+|//[^\n]*"
    rf"|(?P<IDENTIFIER>{_NAME}(?![\"']))"
    r"|(?P<PLAIN>==|!=|<=|>=|&&|\|\||\.(?![0-9])|[\[\]{}(),\-!?:+*/%<>])"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    rf"|(?P<STRING>{_TEXT})"
    rf"|(?P<BYTES>[bB](?:{_TEXT}))"
    rf"|(?P<LAST_IDENTIFIER>{_NAME})"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_./ -]+`)"
)
_WORDS = frozenset({"in", "true", "false", "null"})
_PART_OF_ESCAPE = r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
_UNFINISHED = re.compile(
    rf'"[^\\"\n\r]*(?:{_ESCAPE}[^\\"\n\r]*)*(?:{_PART_OF_ESCAPE})?(?s:.?)'
    rf"|'[^\\'\n\r]*(?:{_ESCAPE}[^\\'\n\r]*)*(?:{_PART_OF_ESCAPE})?(?s:.?)"
    r"|`[A-Za-z0-9_./ -]*(?s:.?)|[&|=](?s:.?)|(?s:.)"
)


class Tokens(NamedTuple):
    """By index: the kind of a token, its text, and its offset in code points. The last is `EOF` or `BAD`."""

    kinds: list[str]
    texts: list[str]
    offsets: list[int]


def tokens_of(source: str) -> Tokens:
    """The tokens of a text. A `BAD` token has the text up to the first invalid character."""
    kinds: list[str] = []
    texts: list[str] = []
    offsets: list[int] = []
    at, end = 0, len(source)
    match_at = _TOKEN.match
    while at < end:
        match = match_at(source, at)
        if match is None:
            unfinished = _UNFINISHED.match(source, at)
            assert unfinished is not None
            kind, text = BAD, unfinished[0]
            break
        group, text = match.lastgroup, match[0]
        if group is not None:
            if group == "PLAIN" or text in _WORDS:
                group = text
            elif group == "LAST_IDENTIFIER":
                group = "IDENTIFIER"
            kinds.append(group)
            texts.append(text)
            offsets.append(at)
        at = match.end()
    else:
        kind, text = EOF, EOF
    kinds.append(kind)
    texts.append(text)
    offsets.append(at)
    return Tokens(kinds, texts, offsets)
