#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The recipes of vcpkg and Conan, run with stand-ins, because the real tools need the network."""
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import types
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PORT = ROOT / "packaging/vcpkg/ports/verbatim"
CMAKE = (ROOT / "CMakeLists.txt").read_text()
VERSION = re.search(r"VERSION (\d+\.\d+\.\d+)", CMAKE)[1]
OPTIONS = set(re.findall(r"^option\((\w+)", (ROOT / "cmake/options.cmake").read_text(), re.M))

# Functions of vcpkg that a portfile calls. They print their arguments.
STAND_IN = """
set(CURRENT_PACKAGES_DIR "{place}")
set(PORT verbatim)
function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  list(GET arg_FEATURES 1 option)
  set(${{arg_OUT_FEATURE_OPTIONS}} "-D${{option}}=ON" PARENT_SCOPE)
endfunction()
foreach(name vcpkg_cmake_configure vcpkg_cmake_install vcpkg_cmake_config_fixup
    vcpkg_fixup_pkgconfig vcpkg_install_copyright)
  cmake_language(EVAL CODE "function(${{name}})
    message(\\"${{name}} \\${{ARGN}}\\")
  endfunction()")
endforeach()
include("{port}/portfile.cmake")
"""


class Vcpkg(unittest.TestCase):
    def test_manifest_is_of_this_version(self):
        manifest = json.loads((PORT / "vcpkg.json").read_text())
        self.assertEqual((manifest["name"], manifest["version"]), ("verbatim", VERSION))
        names = [each if isinstance(each, str) else each["name"]
                 for each in manifest["dependencies"]]
        self.assertIn("nlohmann-json", names)
        self.assertEqual(manifest["features"]["network"]["dependencies"], ["asio", "libsodium"])

    def test_portfile_builds_these_sources_with_known_options(self):
        with tempfile.TemporaryDirectory() as place:
            script = Path(place, "port.cmake")
            script.write_text(STAND_IN.format(place=place, port=PORT))
            output = subprocess.run(["cmake", "-P", script], text=True, capture_output=True,
                                    check=True).stderr
            self.assertTrue(Path(place, "share/verbatim/usage").is_file())
        configure = re.search(r"^vcpkg_cmake_configure (.*)$", output, re.M)[1].split(";")
        self.assertEqual(Path(configure[1]), ROOT)
        given = {word[2:].split("=")[0] for word in configure if word.startswith("-D")}
        self.assertIn("VERBATIM_BUILD_NETWORK", given)
        self.assertLessEqual(given, OPTIONS)
        for file in re.search(r"^vcpkg_install_copyright (.*)$", output, re.M)[1].split(";")[1:]:
            self.assertTrue(Path(file).is_file(), file)


class Properties:
    """A part of cpp_info."""

    def __init__(self):
        self.properties, self.components = {}, defaultdict(Properties)

    def set_property(self, name, value):
        self.properties[name] = value


def conan_modules(seen):
    """What the recipe imports from Conan."""
    class ConanFile:
        def requires(self, reference, **_):
            seen["requires"].append(reference.split("/")[0])

    class Toolchain:
        def __init__(self, _):
            self.cache_variables = seen["variables"]

        def generate(self):
            pass

    class Apt:
        def __init__(self, _):
            pass

        def install(self, packages):
            seen["packages"] += packages

    nothing = types.SimpleNamespace(generate=lambda: None)
    contents = {
        "conan": {"ConanFile": ConanFile},
        "conan.tools": {},
        "conan.tools.build": {"check_min_cppstd": lambda _, least: seen.update(least=least)},
        "conan.tools.cmake": {"CMake": None, "CMakeDeps": lambda _: nothing,
                              "CMakeToolchain": Toolchain, "cmake_layout": None},
        "conan.tools.files": {"copy": lambda _, what, source, to: seen["copied"].append(
                                  (what, source)),
                              "load": lambda _, path: Path(path).read_text()},
        "conan.tools.system": {},
        "conan.tools.system.package_manager": {"Apt": Apt},
    }
    modules = {}
    for name, members in contents.items():
        modules[name] = types.ModuleType(name)
        modules[name].__dict__.update(members)
    return modules


class Conan(unittest.TestCase):
    def recipe(self, **options):
        seen = {"requires": [], "packages": [], "copied": [], "variables": {}}
        sys.modules.update(conan_modules(seen))
        path = ROOT / "packaging/conan/conanfile.py"
        spec = importlib.util.spec_from_file_location("verbatim_conanfile", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        recipe = module.VerbatimConan()
        recipe.recipe_folder = str(path.parent)
        recipe.export_sources_folder = ""
        recipe.options = types.SimpleNamespace(**(recipe.default_options | options))
        recipe.cpp_info = Properties()
        packages = [types.SimpleNamespace(ref=types.SimpleNamespace(name=name))
                    for name in ("nlohmann_json", "libsodium")]  # The system has its own Asio.
        recipe.dependencies = types.SimpleNamespace(host=dict(enumerate(packages)))
        return recipe, seen

    def test_version_and_sources_are_of_this_tree(self):
        recipe, seen = self.recipe()
        recipe.set_version()
        self.assertEqual(recipe.version, VERSION)
        recipe.export_sources()
        for pattern, source in seen["copied"]:
            self.assertTrue(list(Path(source).glob(pattern)), pattern)
        included = {path.split("/")[0] for path in re.findall(
            r"(?:include|add_subdirectory)\((\w+(?:/[\w.]+)?)\)", CMAKE)}
        wanted = included - {"tests", "examples", "benchmarks"}  # The recipe does not build these.
        self.assertLessEqual(wanted, {pattern.split("/")[0] for pattern, _ in seen["copied"]})

    def test_options_reach_the_build_and_the_user(self):
        for network in (False, True):
            recipe, seen = self.recipe(network=network, checked=True)
            recipe.requirements()
            recipe.system_requirements()
            recipe.validate()
            recipe.generate()
            recipe.package_info()
            self.assertEqual(seen["least"], 23)
            self.assertLessEqual(seen["variables"].keys(), OPTIONS)
            self.assertEqual(seen["variables"]["VERBATIM_BUILD_NETWORK"], network)
            self.assertEqual("libsodium" in seen["requires"], network)
            self.assertIn("libibverbs-dev", seen["packages"])
            parts = recipe.cpp_info.components
            self.assertEqual(parts["verbatim"].defines, ["VERBATIM_CHECKED=1"])
            self.assertEqual(parts["verbatim"].requires, ["nlohmann_json::nlohmann_json"])
            self.assertEqual("network" in parts, network)
            if network:
                self.assertEqual(parts["network"].requires, ["verbatim", "libsodium::libsodium"])
            targets = {part.properties["cmake_target_name"] for part in parts.values()}
            self.assertEqual(targets, {"verbatim::verbatim"} | ({"verbatim::network"} if network
                                                                else set()))


if __name__ == "__main__":
    unittest.main()
