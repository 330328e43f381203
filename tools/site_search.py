#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the search of the site finds a word: tools/site_search.py [build/site]

Chromium opens a copy of the first page, from a server and from the disk, with a word in its search
box. A script in the copy posts back which pages the search shows. Exit status 77 without Chromium.
"""
import json
import queue
import sys
from pathlib import Path

from site_browser import CANNOT, browser_of, serving, showing

WORD, PAGE = "would_block", "errors.html"  # of two parts, one of them a stop word
LIMIT_S = 240  # on a busy machine
COPY = "search_check.html"
REPORT = """<script>
setInterval(() => {
  const found = [...document.querySelectorAll("a.md-search-result__link")].map(each => each.href)
  if (found.length)
    fetch("ADDRESS", {method: "POST", mode: "no-cors", body: JSON.stringify(found)})
}, 200)
</script></body>"""


def found_by(browser, address, found):
    """The addresses that the search of this page shows for WORD; none if it does not answer."""
    while not found.empty():
        found.get()
    with showing(browser, f"{address}?q={WORD}"):
        try:
            return found.get(timeout=LIMIT_S)
        except queue.Empty:
            return []


def look(browser, site):
    found = queue.Queue()
    copy = site / COPY
    text = (site / "index.html").read_text()
    with serving(site, found) as host:
        copy.write_text(text.replace("</body>", REPORT.replace("ADDRESS", f"{host}/found", 1), 1))
        try:
            for address in (f"{host}/{COPY}", copy.resolve().as_uri()):
                shown = found_by(browser, address, found)
                if not any(PAGE in each for each in shown):
                    yield (f"{address}: the search for {WORD} does not show {PAGE}: "
                           f"{json.dumps(shown)}")
        finally:
            copy.unlink()


def main(arguments):
    site = Path(arguments[0] if arguments else "build/site")
    browser = browser_of()
    if not browser:
        print("no Chromium here: the search was not tried")
        return CANNOT
    problems = list(look(browser, site))
    print(*problems, sep="\n")
    print(f"the search from a server and from the disk, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
