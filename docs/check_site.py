"""Looks at the pages of site/ as a browser gets them: python docs/check_site.py, after the build.

A strict build says nothing when a prompt of Python is taken for a quotation, or when a page fetches
a font from another host.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

SITE = Path(__file__).parent.parent / "site"

# Elements and their attributes that a browser fetches by itself; a link is followed by its reader.
_FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
_PROMPT_SIGNS = len(">>>")
_LINKS_FOLLOWED = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """Collects the faults of one page.

    Attributes:
        faults: a line for each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._code_depth = self._quotation_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code_depth += tag in ("pre", "code")
        self._quotation_depth += tag == "blockquote"
        if self._quotation_depth == _PROMPT_SIGNS and tag == "blockquote":
            self.faults.append(f"line {self.getpos()[0]}: a prompt taken for nested quotations")
        values = dict(attrs)
        address = values.get(_FETCHED.get(tag, "")) or ""
        is_followed = tag == "link" and values.get("rel") in _LINKS_FOLLOWED
        if address.startswith(("http:", "https:", "//")) and not is_followed:
            self.faults.append(f"fetches {address}")

    def handle_endtag(self, tag: str) -> None:
        self._code_depth -= tag in ("pre", "code")
        self._quotation_depth -= tag == "blockquote"

    def handle_data(self, data: str) -> None:
        if ">>>" in data and not self._code_depth:
            self.faults.append(
                f"line {self.getpos()[0]}: a prompt outside of code: {data.strip()!r}"
            )


def faults(folder: Path) -> Iterator[str]:
    """A line for each fault of a built site."""
    for path in sorted(folder.rglob("*.html")):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        yield from (f"{path.relative_to(folder)}: {fault}" for fault in page.faults)
    for path in sorted(folder.rglob("*.py")):
        yield f"{path.relative_to(folder)}: a source file in the site"


def main() -> int:
    """Print all faults; 1 if there are any, or no pages."""
    if not SITE.is_dir():
        print(f"{SITE} is missing: build it first, with make docs")
        return 1
    lines = list(faults(SITE))
    print("\n".join(lines) or "the site's pages have no faults")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
