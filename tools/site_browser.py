# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chromium and the site, for the checks that need a browser: pages post back what they find."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

CANNOT = 77  # exit status without a browser


class Handler(SimpleHTTPRequestHandler):
    """Serves the site and the page that measures the others, and receives its results."""

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
        """A browser may close the connection early."""


def browser_of():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def start(browser, address, profile):
    command = [browser, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={profile}", "--window-size=1400,1000", address]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # As root, Chromium refuses to run with a sandbox.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)


@contextmanager
def serving(site, found, look=""):
    """The address of a server of the site, of `look` as its page /look, and of what is posted,
    which goes into the queue `found`."""
    server = Server(("127.0.0.1", 0),
                    partial(Handler, look=look, found=found, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextmanager
def showing(browser, address):
    """The browser shows a page for as long as the context lasts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = start(browser, address, profile)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
