# SPDX-License-Identifier: MIT OR Apache-2.0
"""A test case that works in a project of its own."""
import os
import tempfile
import unittest


class Tree(unittest.TestCase):
    """A small project of the test's own is the current directory."""

    def setUp(self):
        place, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(place.name)
