#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the pages of the site fit a phone and a desk: tools/site_widths.py [build/site]

Chromium shows each page in a frame of that width, and a script posts back how wide it really is.
Wide tables and code scroll inside of the page; the page itself must not. Exit status 77 without
Chromium.
"""
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WIDTHS = (390, 1280)
PAGE_LIMIT_S = 60  # for one page at one width, on a busy machine
CANNOT = 77
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


class Handler(SimpleHTTPRequestHandler):
    """Serves the site, the page that looks at the others, and takes what that has found."""

    def __init__(self, *arguments, look, found, **options):
        self.look, self.found = look, found
        super().__init__(*arguments, **options)

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):  # noqa: N802: the name is the library's
        if self.path == "/look":
            self.answer(self.look)
        else:
            super().do_GET()

    def do_POST(self):  # noqa: N802
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A browser that has seen enough hangs up."""


def start(browser, address, profile):
    command = [browser, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={profile}", "--window-size=1400,1000", address]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # It refuses to run as root with one.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)


def measure(browser, site, pages):
    """[(page, width of the screen, width of the page)] as the browser shows them."""
    found, taken = queue.Queue(), []
    look = LOOK.replace("WIDTHS", json.dumps(WIDTHS), 1).replace(
        "PAGES", json.dumps([f"/{page}" for page in pages]), 1)
    server = Server(("127.0.0.1", 0),
                    partial(Handler, look=look, found=found, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = start(browser, f"http://127.0.0.1:{server.server_port}/look", profile)
        try:
            while len(taken) < len(pages) * len(WIDTHS):
                taken.append(found.get(timeout=PAGE_LIMIT_S))
        except queue.Empty:
            pass  # The caller sees what is missing.
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            server.shutdown()
    return taken


def main(arguments):
    site = Path(arguments[0] if arguments else "build/site")
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
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
