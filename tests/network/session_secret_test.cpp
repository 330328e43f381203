// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/secret.cpp
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <new>

#include "network/session_world.hpp"

namespace verbatim::test {
namespace {

constexpr const char* kDigits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

TEST(Secret, IsAnotherOneEachTime) {
  const Secret first = Secret::random();
  const Secret second = Secret::random();
  EXPECT_FALSE(first == second);
  EXPECT_TRUE(first == Secret{first});
}

TEST(Secret, GoesToHexadecimalAndBack) {
  const Secret secret = Secret::random();
  EXPECT_EQ(secret.to_hex().size(), 64u);
  EXPECT_TRUE(require(Secret::from_hex(secret.to_hex())) == secret);
  const Secret known = require(Secret::from_hex(kDigits));
  for (std::size_t i = 0; i < Secret::kBytes; ++i)
    EXPECT_EQ(known.bytes()[i], static_cast<std::byte>(i));
}

TEST(Secret, RefusesWhatIsNot64DigitsAndDoesNotShowIt) {
  const std::string good = kDigits;
  for (const std::string& bad : {std::string{}, good.substr(1), good + "0", good.substr(1) + "g",
                                 " " + good.substr(1), good + "\n"}) {
    const auto failed = Secret::from_hex(bad);
    ASSERT_TRUE(fails_with(failed, Errc::malformed)) << bad;
    EXPECT_FALSE(to_string(failed.error()).contains("0a0b0c")) << bad;
  }
}

TEST(Secret, IsWipedWhenItGoes) {
  alignas(Secret) std::array<std::byte, sizeof(Secret)> place{};
  auto* const secret = new (place.data()) Secret{Secret::random()};
  EXPECT_NE(place, (std::array<std::byte, sizeof(Secret)>{}));
  std::destroy_at(secret);
  // Through a volatile pointer, because otherwise the compiler may assume the result.
  const volatile std::byte* const after = place.data();
  for (std::size_t i = 0; i < place.size(); ++i) EXPECT_TRUE(after[i] == std::byte{});
}

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    std::string name = (std::filesystem::temp_directory_path() / "secret-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    file_ = folder_ / "secret";
  }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream{file_} << text;
    chmod(file_.c_str(), mode);
  }
  std::filesystem::path folder_;
  std::filesystem::path file_;
};

TEST_F(SecretFile, IsReadWithOrWithoutALineFeed) {
  for (const char* const end : {"", "\n"}) {
    write(std::string{kDigits} + end);
    EXPECT_TRUE(require(Secret::from_file(file_)) == require(Secret::from_hex(kDigits)));
  }
  write(kDigits, 0400);
  EXPECT_TRUE(succeeds(Secret::from_file(file_)));
}

TEST_F(SecretFile, IsRefusedWhereOthersMayReadIt) {
  for (const mode_t mode : {0640u, 0604u, 0660u, 0610u, 0602u, 0644u}) {
    write(kDigits, mode);
    EXPECT_TRUE(fails_naming(Secret::from_file(file_), Errc::permission_denied, "mode",
                             {.value = mode, .limit = 0600}));
  }
}

TEST_F(SecretFile, IsRefusedIfItIsSomebodyElses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write(kDigits);
  ASSERT_EQ(chown(file_.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(fails_with(Secret::from_file(file_), Errc::permission_denied));
}

TEST_F(SecretFile, IsRefusedIfItIsNone) {
  EXPECT_TRUE(fails_with(Secret::from_file(file_), Errc::not_found));
  EXPECT_TRUE(fails_with(Secret::from_file(folder_), Errc::invalid_argument));
  write("too short");
  EXPECT_TRUE(fails_with(Secret::from_file(file_), Errc::malformed));
  write(std::string(1000, '0'));
  EXPECT_TRUE(fails_with(Secret::from_file(file_), Errc::malformed));
  write("");
  std::filesystem::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(fails_with(Secret::from_file(file_), Errc::invalid_argument)) << "and does not hang";
}

}  // namespace
}  // namespace verbatim::test
