# SPDX-License-Identifier: MIT OR Apache-2.0
"""A test case that works in a temporary project."""
import os
import tempfile
import unittest


class Tree(unittest.TestCase):
    """The current directory is a small project of the test."""

    def setUp(self):
        place, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(place.name)
