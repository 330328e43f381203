#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the pages of the site fit a phone and a desk: tools/site_widths.py [build/site]

Chromium shows each page in a frame of that width, and a script posts back how wide it really is.
Wide tables and code scroll inside the page; the page itself must not. Exit status 77 without
Chromium.
"""
import json
import queue
import sys
from pathlib import Path

from site_browser import CANNOT, browser_of, serving, showing

WIDTHS = (390, 1280)
PAGE_LIMIT_S = 240  # for one page at one width, on a busy machine
LOOK = """<!doctype html><title>widths</title><script>
async function look() {
  for (const width of WIDTHS) for (const page of PAGES) {
    const frame = document.createElement("iframe");
    frame.style = "border:0;height:900px;width:" + width + "px";
    await new Promise(done => {
      frame.onload = done;
      frame.src = page;
      document.body.append(frame);
    });
    const wide = frame.contentDocument.documentElement.scrollWidth;
    await fetch("/found", {method: "POST", body: JSON.stringify([page, width, wide])});
    frame.remove();
  }
}
onload = look;
</script><body>"""


def measure(browser, site, pages):
    """[(page, width of the screen, width of the page)] as the browser shows them."""
    found, taken = queue.Queue(), []
    look = LOOK.replace("WIDTHS", json.dumps(WIDTHS), 1).replace(
        "PAGES", json.dumps([f"/{page}" for page in pages]), 1)
    with serving(site, found, look) as host, showing(browser, f"{host}/look"):
        try:
            while len(taken) < len(pages) * len(WIDTHS):
                taken.append(found.get(timeout=PAGE_LIMIT_S))
        except queue.Empty:
            pass  # The caller sees what is missing.
    return taken


def main(arguments):
    site = Path(arguments[0] if arguments else "build/site")
    browser = browser_of()
    if not browser:
        print("no Chromium here: whether pages fit a phone was not looked at")
        return CANNOT
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html")
                   if path.relative_to(site).parts[0] not in ("api", "source", "404.html"))
    pages += ["api/index.html", "source/index.html"]
    taken = measure(browser, site, pages)
    problems = [f"{page}: {wide} px wide on a screen of {width} px"
                for page, width, wide in taken if wide > width]
    if missing := len(pages) * len(WIDTHS) - len(taken):
        problems.append(f"{missing} pages were not shown, the first after {taken[-1:]}")
    print(*problems, sep="\n")
    print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} px, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
