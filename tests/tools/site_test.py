# SPDX-License-Identifier: MIT OR Apache-2.0
"""What tools/make_site.py, tools/site_check.py and tools/errors_page.py do with pages."""
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import errors_page  # noqa: E402
import make_site  # noqa: E402
import site_check  # noqa: E402
from tree import Tree  # noqa: E402


class Pages(Tree):
    """The project has pages."""

    def write(self, **files):
        for name, text in files.items():
            path = Path(name.replace("__", "/").replace("_dot_", "."))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class Staging(Pages):
    def setUp(self):
        super().setUp()
        self.write(README_dot_md="# Read me\n", CONTRIBUTING_dot_md="# Rules\n",
                   CHANGELOG_dot_md="# Changes\n", manual__index_dot_md="# Home\n",
                   manual__guide__channel_dot_md="# Channel\n", examples__a_dot_cpp="int a;\n",
                   tools__site_parts__site_dot_css="")

    def staged(self, text, name="guide/channel.md"):
        Path("manual", name).write_text(text)
        stage = make_site.Stage()
        sources = stage.all()
        return (make_site.PAGES / name).read_text(), sources

    def test_link_to_a_page_stays(self):
        self.assertIn("(../index.md#a)", self.staged("[x](../index.md#a)\n")[0])

    def test_link_to_the_read_me_goes_home(self):
        self.assertIn("(../index.md)", self.staged("[x](../../README.md)\n")[0])

    def test_link_to_a_source_goes_to_its_copy(self):
        text, sources = self.staged("[x](../../examples/a.cpp)\n")
        self.assertIn("(../source/examples/a.cpp.md)", text)
        self.assertEqual(sources, [Path("examples/a.cpp")])
        self.assertIn("int a;", (make_site.PAGES / "source/examples/a.cpp.md").read_text())

    def test_link_to_a_folder_goes_to_a_list_of_its_files(self):
        _, sources = self.staged("[x](../../examples)\n")
        self.assertEqual(sources, [Path("examples"), Path("examples/a.cpp")])

    def test_link_in_code_is_no_link(self):
        code = "```\n[x](nowhere.md)\n```\n"
        self.assertEqual(self.staged(code)[0], code)

    def test_link_to_nowhere_is_a_problem(self):
        with self.assertRaisesRegex(make_site.Problem, "nowhere.md: no such file"):
            self.staged("[x](nowhere.md)\n")

    def test_comments_are_not_published(self):
        self.assertEqual(self.staged("<!-- snippet: a b -->\ntext\n")[0], "text\n")

    def test_page_that_the_nav_does_not_name_is_a_problem(self):
        self.write(manual__lost_dot_md="# Lost\n")
        sources = make_site.Stage().all()
        with self.assertRaisesRegex(make_site.Problem, "does not name lost.md"):
            make_site.configuration(sources)

    def test_page_that_is_not_written_yet_is_passed_over(self):
        nav = make_site.configuration(make_site.Stage().all())["nav"]
        self.assertIn({"Guides": [{"Channel": "guide/channel.md"}]}, nav)


class Built(Pages):
    def test_names_in_code_do_not_break(self):
        self.assertEqual(make_site.whole("-Wconsumed"), '<code class="name">-Wconsumed</code>')
        self.assertEqual(make_site.whole("a &lt;b&gt;"), '<code><span class="name">a</span> '
                         '<span class="name">&lt;b&gt;</span></code>')
        long = "n" * (make_site.LONG_NAME + 1)
        self.assertEqual(make_site.whole(long), f"<code>{long}</code>")

    def test_search_from_a_disk_has_the_index_and_the_worker(self):
        self.write(site__search__search_index_dot_json='{"docs":[]}',
                   site__assets__javascripts__workers__search_dot_1_dot_js='say("x");')
        make_site.search_from_disk(Path("site"))
        text = Path("site/search/from_disk.js").read_text()
        self.assertIn('Promise.resolve({"docs":[]})', text)
        self.assertIn(r'"say(\"x\");"', text)

    def test_class_of_the_reference_leads_to_the_contract_of_its_header(self):
        include = '<p><code>#include &lt;<a class="el" href="a_8hpp{}.html">a</a>&gt;</code></p>'
        self.write(api__classa_dot_html=include.format("_source"))
        make_site.mend_reference(Path("api"))
        text = Path("api/classa.html").read_text()
        self.assertEqual(text, f'{include.format("")}\n{make_site.CONTRACT}')


class Checking(Pages):
    def problems(self, body, **files):
        self.write(site__index_dot_html=f'<h1 id="top">x</h1>{body}', **files)
        site = Path("site")
        pages = site_check.pages_of(site)
        return [*site_check.link_problems(site, pages), *site_check.resource_problems(site, pages)]

    def test_good_links_pass(self):
        body = ('<a href="#top">a</a><a href="b/">b</a><a href="b/index.html#in">c</a>'
                '<a href="https://example.org/x">d</a><img src="p.svg">')
        self.assertEqual(self.problems(body, site__b__index_dot_html='<p id="in">',
                                       site__p_dot_svg=""), [])

    def test_missing_file_place_and_host_are_told(self):
        for link, why in (("gone.html", "no such file"), ("#gone", "no such place"),
                          ("https://nowhere", "no host"), ("ftp://a.b", "neither")):
            problems = self.problems(f'<a href="{link}">x</a>')
            self.assertEqual(len(problems), 1, link)
            self.assertIn(why, problems[0])

    def test_what_is_loaded_from_elsewhere_is_told(self):
        for body in ('<script src="https://cdn.org/a.js"></script>',
                     '<link rel="stylesheet" href="//fonts.org/a.css">',
                     '<img src="https://badge.org/a.svg">'):
            self.assertIn("another site", " ".join(self.problems(body)))

    def test_style_that_loads_a_font_is_told(self):
        problems = self.problems("", site__a_dot_css="@import url(https://fonts.org/x.css);")
        self.assertIn("another site", " ".join(problems))

    def test_page_that_the_search_does_not_know_is_told(self):
        docs = {"docs": [{"location": "index.html#top"}]}
        self.problems("", site__search__search_index_dot_json=json.dumps(docs),
                      site__b_dot_html="", site__api__c_dot_html="")
        site = Path("site")
        problems = list(site_check.search_problems(site, site_check.pages_of(site)))
        self.assertEqual(problems, ["site/b.html: the search does not know it"])


class ErrorsPage(unittest.TestCase):
    ENTRIES = [
        {"kind": "code", "code": "timed_out", "value": 8, "name": "timed out",
         "alias": "Errc::timed_out", "meaning": "The deadline passed.",
         "causes": ["the peer is slow", "`a<b>` and <c>"], "remedy": "close() and wait longer"},
        {"kind": "status", "code": "success", "value": 0, "name": "success", "alias": "",
         "meaning": "Done", "causes": [], "remedy": ""},
        {"kind": "errno", "code": "ETIMEDOUT", "value": 110, "name": "Connection timed out",
         "alias": "", "meaning": "The library reports it as Errc::timed_out.", "causes": [],
         "remedy": ""},
    ]

    def test_has_every_entry_with_its_causes_in_order(self):
        page = errors_page.page(self.ENTRIES)
        self.assertIn("### timed_out\n", page)
        self.assertIn("1. The peer is slow.\n2. `a<b>` and &lt;c>.\n", page)
        self.assertIn("**What to do:** `close()` and wait longer.\n", page)
        self.assertIn("| `ETIMEDOUT` | 110 | Connection timed out | [timed_out](#timed_out)", page)

    def test_says_nothing_where_there_is_nothing_to_say(self):
        success = errors_page.page(self.ENTRIES).partition("### success")[2].partition("##")[0]
        self.assertNotIn("causes", success)
        self.assertNotIn("What to do", success)


if __name__ == "__main__":
    unittest.main()
