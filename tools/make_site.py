#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the site of the docs: build/site. Use it through ./docs.

The pages are those of manual/, as GitHub shows them. They are staged in build/site_pages first,
where a link that leaves manual/ (to an example, a header, CONTRIBUTING.md) becomes a link to a copy
in the site. MkDocs makes the pages, Doxygen the reference of the headers; a warning is a failure.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from html import escape, unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = Path("build/site_pages")
SITE = Path("build/site")
TOP_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md",
             "CHANGELOG.md": "changelog.md"}
LONG_NAME = 40  # columns of code that fit on a line of a phone
PICTURES = {".svg", ".png"}
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".sh": "bash",
             ".cmake": "cmake", ".yml": "yaml", ".json": "json"}

# The order of the pages. An entry without a page is skipped. A page that no entry names is an
# error, because readers would not find it.
NAV = [
    ("Home", "index.md"),
    ("Start", [
        ("Tutorial: ten minutes", "tutorial.md"),
        ("Installing", "guide/installing.md"),
        ("RDMA in CI in two lines", "guide/ci.md"),
    ]),
    ("Guides", [
        ("Channel", "guide/channel.md"),
        ("Servers", "guide/servers.md"),
        ("Many peers", "guide/multi.md"),
        ("Ranks of a job", "guide/groups.md"),
        ("Starting a job", "guide/starting.md"),
        ("Barriers", "guide/barriers.md"),
        ("Verbs", "guide/verbs.md"),
        ("Errors and base", "guide/base.md"),
        ("Providers", "guide/provider.md"),
        ("Software device", "soft_device.md"),
    ]),
    ("Tools", [
        ("The program verbatim", "guide/tool.md"),
        ("Measuring", "guide/measuring.md"),
    ]),
    ("Cookbook", [
        ("Bugs by symptom", "cookbook/index.md"),
        ("Memory", "cookbook/memory.md"),
        ("Queues and requests", "cookbook/queues.md"),
        ("Connecting and ending", "cookbook/connection.md"),
        ("Completions and events", "cookbook/completions.md"),
        ("Order and atomics", "cookbook/ordering.md"),
        ("Threads, processes and limits", "cookbook/processes.md"),
    ]),
    ("Coming from", [
        ("Raw verbs", "coming_from/raw_verbs.md"),
        ("ibverbs-rs", "coming_from/ibverbs_rs.md"),
        ("rdmapp", "coming_from/rdmapp.md"),
        ("rsocket", "coming_from/rsocket.md"),
    ]),
    ("Look up", [
        ("Errors", "errors.md"),
        ("Safety", "safety.md"),
        ("Performance", "performance.md"),
        ("Reference of the headers", "reference.md"),
        ("Network protocol", "network_protocol.md"),
        ("Changelog", "changelog.md"),
    ]),
    ("Inside", [
        ("Architecture", "architecture.md"),
        ("Testing", "testing.md"),
        ("Contributing", "contributing.md"),
        ("Sources that pages name", "source/index.md"),
    ]),
]
REFERENCE = """# Reference of the headers

[The reference](api/index.html) lists every public header, class and function. Doxygen makes it
from the comments in the headers. It has its own search, and its menu leads back to this manual.
"""
CONTRACT = "<p>The header's page says who owns what, and which threads may call.</p>"


class Problem(Exception):
    """The site cannot be built; the message is for the reader of the build."""


def pages():
    """{path in the site: path in the repository} of all hand-written pages."""
    docs = {str(path.relative_to("manual")): path for path in sorted(Path("manual").rglob("*.md"))}
    return docs | {name: Path(path) for path, name in TOP_PAGES.items()
                   if name not in docs and path != "README.md"}


class Stage:
    """Copies pages, and the files that they link to."""

    def __init__(self):
        self.sources = set()  # files and folders outside manual/ that a page names
        self.pages = pages()
        self.place = {path: name for name, path in self.pages.items()}

    def page(self, name, path):
        text = path.read_text()
        text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)  # of tools/snippets.py, licences
        text = outside_code(text, lambda part: re.sub(
            r"\]\(([^)\s]+)\)", lambda link: f"]({self.target(name, path, link[1])})", part))
        self.write(name, text)

    def target(self, name, path, link):
        """The target in the site of a link in a page."""
        if re.match(r"[a-z]+:|#", link):
            return link
        file, hash_, anchor = link.partition("#")
        file = Path(os.path.normpath(path.parent / file))
        here = Path(name).parent
        if file.suffix in PICTURES and file.is_relative_to("manual"):
            return os.path.relpath(file.relative_to("manual"), here)
        if file == Path("README.md") or file == Path("manual"):
            return os.path.relpath("index.md", here)
        if file in self.place:
            return os.path.relpath(self.place[file], here) + hash_ + anchor
        if not file.exists():
            raise Problem(f"{path}: link to {link}: no such file")
        self.sources.add(file)
        return os.path.relpath(source_page(file), here)

    def write(self, name, text):
        out = PAGES / name
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)

    def source(self, path):
        """A file or a folder of the repository as a page, which the search does not list."""
        if path.is_dir():
            inside = [each for each in sorted(path.iterdir()) if each.suffix in LANGUAGES]
            self.sources.update(inside)
            here = source_page(path).parent
            text = "".join(f"- [{each.name}]({os.path.relpath(source_page(each), here)})\n"
                           for each in inside)
        else:
            text = f"````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}````\n"
        self.write(str(source_page(path)),
                   f"---\nhide:\n  - toc\n---\n# {path}\n\n{text}")

    def all(self):
        shutil.rmtree(PAGES, ignore_errors=True)
        for name, path in self.pages.items():
            self.page(name, path)
        self.write("reference.md", REFERENCE)
        for picture in (each for each in Path("manual").rglob("*") if each.suffix in PICTURES):
            out = PAGES / picture.relative_to("manual")
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, out)
        shutil.copy("tools/site_parts/site.css", PAGES)
        done = set()
        while todo := sorted(self.sources - done):
            for path in todo:
                self.source(path)
            done.update(todo)
        lines = [f"- [{path}]({os.path.relpath(source_page(path), 'source')})\n"
                 for path in sorted(done)]
        self.write("source/index.md", "# Sources that pages name\n\n" + "".join(lines))
        return sorted(done)


def outside_code(text, change):
    """Applies a change to the text outside code blocks and code spans."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.S | re.M)
    # The text of a link may be a code span, so spans are restored before links are searched.
    blocks, joined = [], ""
    for part in parts:
        if part.startswith("```"):
            joined += f"\0{len(blocks)}\0"
            blocks.append(part)
        else:
            joined += part
    return re.sub(r"\0(\d+)\0", lambda mark: blocks[int(mark[1])], change(joined))


def source_page(path):
    return Path("source", path, "index.md") if path.is_dir() else Path("source", f"{path}.md")


def nav_of(entries, named):
    """MkDocs' nav for those entries that exist; adds them to `named`."""
    nav = []
    for title, what in entries:
        if isinstance(what, list):
            if inside := nav_of(what, named):
                nav.append({title: inside})
        elif (PAGES / what).exists():
            named.add(what)
            nav.append({title: what})
    return nav


def configuration(sources):
    named = {str(source_page(path)) for path in sources}
    nav = nav_of(NAV, named)
    written = {str(path.relative_to(PAGES)) for path in PAGES.rglob("*.md")}
    if lost := sorted(written - named):
        raise Problem(f"tools/make_site.py: NAV does not name {', '.join(lost)}")
    return {"INHERIT": str(ROOT / "tools/site_parts/mkdocs.yml"), "nav": nav,
            "docs_dir": str(ROOT / PAGES), "site_dir": str(ROOT / SITE),
            "theme": {"custom_dir": str(ROOT / "tools/site_parts/theme")}}


def run(command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode != 0:
        raise Problem(f"{done.stdout.strip()}\n{command[0]}: exit status {done.returncode}")


def layout_of_reference(path):
    """Doxygen's own layout, with a way back to the manual in its menu."""
    run(["doxygen", "-l", path])
    first = '<tab type="mainpage"'
    path.write_text(path.read_text().replace(
        first, f'<tab type="user" url="../index.html" title="Manual"/>\n    {first}', 1))


def mend_reference(folder):
    """Corrects class pages of Doxygen: no link to nested classes if all of them are private, and a
    link to the page of the header, which has the contract."""
    nested = re.compile(r'<a href="#nested-classes">Classes</a>\s*&#124;\s*')
    include = re.compile(r'(<p><code>#include &lt;<a class="el" href="\w+)_source(\.html">.*</p>)')
    for path in folder.glob("*.html"):
        text = path.read_text()
        if 'name="nested-classes"' not in text:
            text = nested.sub("", text)
        path.write_text(include.sub(rf"\1\2\n{CONTRACT}", text))


def tidy_search(path):
    """Limits the search to hand-written text: no sources, and no signs after headings."""
    index = json.loads(path.read_text())
    index["docs"] = [{key: value.replace("\u00b6", "") for key, value in each.items()}
                     for each in index["docs"] if not each["location"].startswith("source/")]
    path.write_text(json.dumps(index, separators=(",", ":")))


def whole(code):
    """Code in a line of text, in which no word breaks, unless it is too long for a line."""
    words = unescape(code).split(" ")
    if len(words) == 1 and len(words[0]) <= LONG_NAME:
        return f'<code class="name">{code}</code>'
    return "<code>" + " ".join(
        f'<span class="name">{escape(word)}</span>' if len(word) <= LONG_NAME else escape(word)
        for word in words) + "</code>"


def keep_names_whole(site):
    for path in site.rglob("*.html"):
        if path.relative_to(site).parts[0] not in ("api", "source"):
            path.write_text(re.sub(r"<code>([^<\n]+)</code>", lambda found: whole(found[1]),
                                   path.read_text()))


def search_from_disk(site):
    """A browser lets a page of file:// load scripts only, so here the search is a script."""
    index = (site / "search/search_index.json").read_text()
    worker, = (site / "assets/javascripts/workers").glob("search.*.js")
    (site / "search/from_disk.js").write_text(
        f"__search.index = Promise.resolve({index});\n__search.worker = URL.createObjectURL("
        f"new Blob([{json.dumps(worker.read_text())}]));\n")


def build():
    """Builds all of it; raises Problem."""
    sources = Stage().all()
    config = PAGES.parent / "site.yml"
    config.write_text(json.dumps(configuration(sources), indent=1))
    settings = Path("tools/site_parts/Doxyfile").read_text()
    layout = PAGES.parent / "site_layout.xml"
    layout_of_reference(layout)
    settings += f"\nOUTPUT_DIRECTORY = {PAGES}\nHTML_OUTPUT = api\nLAYOUT_FILE = {layout}\n"
    run(["doxygen", "-"], input=settings)
    mend_reference(PAGES / "api")
    run(["mkdocs", "build", "--strict", "--clean", "--config-file", config])
    keep_names_whole(SITE)
    tidy_search(SITE / "search/search_index.json")
    search_from_disk(SITE)


def main():
    os.chdir(ROOT)
    try:
        build()
    except Problem as problem:
        print(f"doc: {problem}", file=sys.stderr)
        return 1
    print(f"The site is {SITE}/index.html.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
