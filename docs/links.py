"""Check the links of the built site: every internal one leads to a file and an anchor in it. `make docs`.

External ones are not followed, since not every machine that builds the site reaches them. They must be https,
and are listed. `sphinx-build -b linkcheck docs build/links` follows them.
"""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"""<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)""", re.S)
ANCHOR = re.compile(r"""\s(?:id|name)="([^"]*)""")
SCRIPTED = re.compile(r"<script\b.*?</script>", re.S)


def check(site: Path) -> tuple[list[str], set[str]]:
    """Return the broken links of a site, each with its page, and the external ones."""
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]  # templates of the theme
    texts = {page: SCRIPTED.sub("", page.read_text()) for page in pages}
    anchors = {page: {unescape(one) for one in ANCHOR.findall(text)} for page, text in texts.items()}
    broken, external = [], set()
    for page, text in texts.items():
        for link in {unescape(one) for one in LINK.findall(text)}:
            if re.match(r"[a-z]+:|//", link):
                external.add(link)
                if not link.startswith(("https://", "data:", "mailto:")):
                    broken.append(f"{page.relative_to(site)}: {link}: expected https")
                continue
            path, _, anchor = link.partition("#")
            path = unquote(path.partition("?")[0])
            target = (page.parent / path).resolve() if path else page.resolve()
            if not target.is_file():
                broken.append(f"{page.relative_to(site)}: {link}: no such file")
            elif anchor and target in anchors and unquote(anchor) not in anchors[target]:
                broken.append(f"{page.relative_to(site)}: {link}: no such place in it")
    return broken, {link for link in external if not link.startswith("data:")}


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    wrong, outside = check(root)
    print("external links, not followed:", *sorted(outside), sep="\n  ")
    print(f"{len(list(root.rglob('*.html')))} pages, {len(wrong)} broken links", *wrong, sep="\n  ")
    sys.exit(bool(wrong))
