# The table of contents of a page of the reference, which is HTML already: its sections and methods.
import re

from mkdocs.structure.toc import get_toc

ENTRY = re.compile(r'<(h2|dt)[^>]*>\s*<a name ?= ?"([^"]+)"></a>(.*?)</\1>', re.S)


def on_page_content(html, page, **_):
    tokens = []
    if html.lstrip().startswith('<div class="reference">'):
        for tag, anchor, text in ENTRY.findall(html):
            name = re.sub(r"<[^>]*>|\([^)]*\)", "", text).strip()
            entry = {"level": 2 if tag == "h2" else 3, "id": anchor, "name": name, "children": []}
            (tokens[-1]["children"] if tag == "dt" and tokens else tokens).append(entry)
        page.toc = get_toc(tokens)
    return html
