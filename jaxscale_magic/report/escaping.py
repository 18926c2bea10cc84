"""The one place where text from users and modules is made harmless, for each kind of output."""

from __future__ import annotations

import html
import re
import unicodedata

#: No name or line is shown longer than this; what is cut out is the middle.
LONGEST = 200


def plain(text: str, *, limit: int = LONGEST) -> str:
    """Text without control, bidirectional-override and surrogate characters, shortened in the middle."""
    kept = "".join(_visible(character) for character in text[: 20 * LONGEST])
    return shorten(" ".join(kept.split()) if "\n" in text or "\t" in text else kept, limit)


def _visible(character: str) -> str:
    if character in "\n\t":
        return " "
    category = unicodedata.category(character)
    if category in ("Zl", "Zp"):  # separators that break lines
        return " "
    # Cc control, Cf format (bidi overrides, zero width), Cs surrogates, Co private use
    return "\N{REPLACEMENT CHARACTER}" if category in ("Cc", "Cf", "Cs", "Co") and character != "\u200d" else character


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters; the middle gives way to an ellipsis."""
    if len(text) <= limit:
        return text
    head = (limit - 1 + 1) // 2
    tail = limit - 1 - head
    return text[:head] + "…" + (text[-tail:] if tail else "")


def columns(text: str) -> int:
    """How many columns a terminal gives a text: two for wide characters, none for combining ones."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or character == "\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten_columns(text: str, limit: int) -> str:
    """At most `limit` columns; the middle gives way to an ellipsis."""
    if columns(text) <= limit:
        return text
    head = fit(text, limit // 2)
    tail = fit(text[::-1], limit - 1 - limit // 2)[::-1]
    return head + "…" + tail


def fit(text: str, limit: int) -> str:
    """The longest beginning of a text that takes no more than `limit` columns."""
    used = 0
    for end, character in enumerate(text):
        used += _columns(character)
        if used > limit:
            return text[:end]
    return text


def for_html(text: str, *, limit: int = LONGEST) -> str:
    """Text for an element's content or a quoted attribute."""
    return html.escape(plain(text, limit=limit), quote=True)


def for_markdown(text: str, *, limit: int = LONGEST) -> str:
    """Text for a Markdown table or paragraph; HTML inside it stays text."""
    escaped = html.escape(plain(text, limit=limit), quote=False)
    marked = "".join("\\" + c if c in "\\`*_[]|~$" else c for c in escaped).replace("](", "]\\(")
    marked = re.sub(r"^(\s*)([#+=-])", r"\1\\\2", marked)  # no heading, no list
    return re.sub(r"^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", marked)  # no numbered list
