#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the pages of the site fit a phone and a desk: tools/site_widths.py [build/site]

Chromium shows each page in a frame of that width, and says how wide it really is. Wide tables and
code scroll inside of the page; the page itself must not. Exit status 77 without Chromium.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WIDTHS = (390, 1280)
LIMIT_S = 90
CANNOT = 77
LOOK = """<!doctype html><title>widths</title><body><pre id="out"></pre><script>
const frame = document.createElement("iframe");
frame.style = "border:0;height:900px;width:" + WIDTH + "px";
document.body.append(frame);
const found = {};
async function look() {
  for (const page of PAGES) {
    await new Promise(done => { frame.onload = done; frame.src = page; });
    found[page] = [frame.contentDocument.documentElement.scrollWidth,
                   frame.contentDocument.title];
  }
  document.getElementById("out").textContent = "found " + JSON.stringify(found) + " end";
}
look();
</script>"""


class Quiet(SimpleHTTPRequestHandler):
    def __init__(self, *arguments, looks, **options):
        self.looks = looks
        super().__init__(*arguments, **options)

    def do_GET(self):  # noqa: N802: the name is the library's
        if self.path not in self.looks:
            return super().do_GET()
        body = self.looks[self.path].encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A browser that has seen enough hangs up."""


def measure(browser, port, width):
    """{page: (its width, its title)} as the browser shows them."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                   f"--user-data-dir={profile}", f"--window-size={width + 100},1000",
                   "--virtual-time-budget=60000", "--dump-dom",
                   f"http://127.0.0.1:{port}/look-{width}"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # It refuses to run as root with one.
        out = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False).stdout
    found = re.search(r"found (\{.*\}) end", out, re.S)
    if not found:
        raise SystemExit(f"the browser said nothing at {width} px: {out[-400:]}")
    return json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def main(arguments):
    site = Path(arguments[0] if arguments else "build/site")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                   "google-chrome"))), None)
    if not browser:
        print("no Chromium here: whether pages fit a phone was not looked at")
        return CANNOT
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html")
                   if path.relative_to(site).parts[0] not in ("api", "source", "404.html"))
    pages += ["api/index.html", "source/examples/tutorial.cpp.html"]
    looks = {f"/look-{width}": LOOK.replace("WIDTH", str(width), 1).replace(
        "PAGES", json.dumps([f"/{page}" for page in pages]), 1) for width in WIDTHS}
    server = Server(("127.0.0.1", 0), partial(Quiet, looks=looks, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wide = []
    for width in WIDTHS:
        found = measure(browser, server.server_port, width)
        wide += [f"{page}: {is_wide} px wide on a screen of {width} px"
                 for page, (is_wide, _) in found.items() if is_wide > width]
        wide += [f"{page}: not shown" for page in pages if f"/{page}" not in found]
    server.shutdown()
    print(*wide, sep="\n")
    print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} px, {len(wide)} too wide")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
