# SPDX-License-Identifier: MIT OR Apache-2.0
"""Conan 2: `conan create packaging/conan --build=missing -s compiler.cppstd=23`."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class VerbatimConan(ConanFile):
    name = "verbatim"
    description = "RDMA for C++ that is safe, and as fast as the bare verbs"
    license = "MIT OR Apache-2.0"
    topics = ("rdma", "infiniband", "roce", "verbs")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "network": [True, False],
               "checked": [True, False]}
    default_options = {"shared": False, "fPIC": True, "network": False, "checked": False}
    implements = ["auto_shared_fpic"]
    parts = ("CMakeLists.txt", "cmake/*", "cli/*", "exports/*", "include/*", "src/*", "LICENSE-*")

    def _sources(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._sources(), "CMakeLists.txt"))
        self.version = re.search(r"^\s*VERSION (\d+\.\d+\.\d+)", text, re.M)[1]

    def export_sources(self):
        for pattern in self.parts:
            copy(self, pattern, self._sources(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        # No recipe has them. Only headers: libibverbs and PMIx are loaded at run time.
        Apt(self).install(["libibverbs-dev"] + ["libpmix-dev"] * bool(self.options.network))

    def requirements(self):
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)
        if self.options.network:
            self.requires("libsodium/[>=1.0.18 <2]")
            self.requires("asio/[>=1.22 <2]", visible=False)

    def validate(self):
        check_min_cppstd(self, 23)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "VERBATIM_BUILD_CLI": False,
            "VERBATIM_BUILD_PRELOAD": False,
            "VERBATIM_BUILD_NETWORK": bool(self.options.network),
            "VERBATIM_CHECKED": bool(self.options.checked),
            "VERBATIM_INSTALL": True,
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def _of_conan(self, *names):
        """Those that are packages: a profile may say that the system has one."""
        packages = {each.ref.name for each in self.dependencies.host.values()}
        return [f"{name}::{name}" for name in names if name in packages]

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "verbatim")
        library = self.cpp_info.components["verbatim"]
        library.set_property("cmake_target_name", "verbatim::verbatim")
        library.set_property("pkg_config_name", "verbatim")
        library.libs = ["verbatim"]
        library.system_libs = ["pthread"]
        library.requires = self._of_conan("nlohmann_json")
        library.defines = ["VERBATIM_CHECKED=1"] if self.options.checked else []
        if self.options.network:
            network = self.cpp_info.components["network"]
            network.set_property("cmake_target_name", "verbatim::network")
            network.set_property("pkg_config_name", "verbatim-network")
            network.libs = ["verbatim_network"]
            network.requires = ["verbatim", *self._of_conan("libsodium", "asio")]
