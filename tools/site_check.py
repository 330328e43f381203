#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks through the built site: tools/site_check.py [build/site]

- every link inside the site leads to a file, and to a place in it if it names one;
- no page loads anything from another site (scripts, styles, fonts, pictures);
- the search knows every page;
- links to other sites are well-formed; they are not followed, because there may be no network.
"""
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"),
          ("source", "src"), ("video", "src"), ("object", "data")}
MADE = {"api", "source", "404.html"}  # not hand-written pages
NOT_LOADED = {"canonical", "next", "prev", "alternate"}  # a <link> that only says something


class Page(HTMLParser):
    """The names of a page, and what it refers to."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.names, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.names.update(value for key in ("id", "name") if (value := values.get(key)))
        for (kind, key) in LOADED:
            rel = set((values.get("rel") or "").split())
            if tag == kind and values.get(key) and not rel & NOT_LOADED:
                self.loads.append(values[key])
        if tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])


def pages_of(site):
    return {path: Page(path.read_text(errors="replace")) for path in sorted(site.rglob("*.html"))}


def target_of(site, path, link):
    """The file to which a link of a page leads."""
    way = unquote(urlsplit(link).path)
    if not way:
        return path
    target = site / way.lstrip("/") if way.startswith("/") else path.parent / way
    return target / "index.html" if way.endswith("/") or target.is_dir() else target


def link_problems(site, pages):
    known = {path.resolve(): page for path, page in pages.items()}
    for path, page in pages.items():
        for link in dict.fromkeys(page.links + page.loads):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                if not re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc):
                    yield f"{path}: link to {link}: that is no host"
                continue
            if parts.scheme in ("mailto", "javascript", "data"):
                continue
            if parts.scheme or parts.netloc:
                yield f"{path}: link to {link}: neither of this site nor of the web"
                continue
            target = target_of(site, path, link).resolve()
            if not target.is_file():
                yield f"{path}: link to {link}: no such file"
            elif (anchor := unquote(parts.fragment)) and target in known:
                if anchor not in known[target].names and anchor != "__search":
                    yield f"{path}: link to {link}: no such place in the page"


def resource_problems(site, pages):
    for path, page in pages.items():
        for link in page.loads:
            if urlsplit(link).netloc:
                yield f"{path}: loads {link} from another site"
    for path in sorted(site.rglob("*.css")):
        for link in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)",
                               path.read_text(errors="replace")):
            yield f"{path}: loads {link} from another site"


def search_problems(site, pages):
    """Hand-written pages that are missing from the search index."""
    index = site / "search/search_index.json"
    docs = json.loads(index.read_text())["docs"] if index.exists() else []
    known = {each["location"].partition("#")[0] for each in docs}
    for path in pages:
        name = path.relative_to(site)
        if name.parts[0] not in MADE and str(name) not in known:
            yield f"{path}: the search does not know it"


def main(arguments):
    site = Path(arguments[0] if arguments else "build/site")
    pages = pages_of(site)
    problems = [*link_problems(site, pages), *resource_problems(site, pages),
                *search_problems(site, pages)]
    print(*problems, sep="\n")
    print(f"{len(pages)} pages, {len(problems)} problems")
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
