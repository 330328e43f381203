// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A directory that looks like the root of a machine; removed with the object.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace verbatim::test {

class FakeRoot {
 public:
  FakeRoot() : path_(testing::TempDir() + "verbatim.XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make " << path_;
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }

  void make_directory(const std::string& name) const {
    std::filesystem::create_directories(path_ + '/' + name);
  }
  /// Creates the directories above it, too.
  void write(const std::string& name, const std::string& content, unsigned mode = 0644) const {
    const std::filesystem::path file = path_ + '/' + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << content;
    std::filesystem::permissions(file, static_cast<std::filesystem::perms>(mode));
  }

 private:
  std::string path_;
};

}  // namespace verbatim::test
