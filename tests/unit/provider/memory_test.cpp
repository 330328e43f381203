// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: pages for a device are aligned, zeroed and never seen by a forked child; they are huge only
//       if that was requested and they exist.
// Method: allocate, read what the kernel reports about the mapping, and fork.
#include "provider/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "support/forked_child.hpp"

namespace verbatim::detail {
namespace {

/// A row of /proc/meminfo, or 0.
std::size_t meminfo(const std::string& name) {
  std::ifstream info{"/proc/meminfo"};
  std::string word;
  std::size_t number = 0;
  while (info >> word)
    if (word == name + ":" && info >> number) return number;
  return 0;
}

/// The flags of the mapping that holds `address`, each as two letters between blanks.
std::string mapping_flags(const void* address) {
  std::ifstream maps{"/proc/self/smaps"};
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream words{line};
    if (words >> std::hex >> first >> dash >> end && dash == '-')
      inside = wanted >= first && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "";
}

class Pages {
 public:
  explicit Pages(std::size_t bytes, HugePages kind = HugePages::off)
      : bytes_(bytes), address_(allocate_pages(nullptr, bytes, kind)) {}
  ~Pages() {
    if (address_ == nullptr) return;
    EXPECT_EQ(free_pages(nullptr, address_, bytes_), 0);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] unsigned char* data() const { return static_cast<unsigned char*>(address_); }
  [[nodiscard]] std::span<unsigned char> bytes() const { return {data(), bytes_}; }

 private:
  std::size_t bytes_;
  void* address_;
};

TEST(AllocatePages, GivesZeroedPagesThatStartAtAPage) {
  for (const std::size_t bytes : {1u, 4096u, 4097u, 1u << 20}) {
    const Pages pages(bytes);
    ASSERT_NE(pages.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) %
                  static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)),
              0u);
    EXPECT_TRUE(std::ranges::all_of(pages.bytes(), [](unsigned char each) { return each == 0; }));
    pages.bytes().back() = 1;  // And they may be written.
  }
}

TEST(AllocatePages, KernelKnowsThatAChildGetsNone) {
  const Pages pages(4096);
  pages.data()[0] = 1;
  const std::string flags = mapping_flags(pages.data());
  if (flags.empty()) GTEST_SKIP() << "this kernel shows no VmFlags";
  EXPECT_NE(flags.find(" dc "), std::string::npos) << flags;
}

TEST(AllocatePages, AForkedChildDoesNotFindThem) {
  const Pages pages(4096);
  pages.data()[0] = 42;
  const int status = test::status_of_child([&] {
    signal(SIGSEGV, SIG_DFL);  // A sanitizer would print a report, and exit by itself.
    std::_Exit(static_cast<const volatile unsigned char*>(pages.data())[0]);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << "wait status " << status;
  EXPECT_EQ(pages.data()[0], 42);
}

TEST(AllocatePages, TransparentHugePagesNeverFail) {
  const Pages pages(std::size_t{4} << 20, HugePages::transparent);
  ASSERT_NE(pages.data(), nullptr);
  pages.bytes().back() = 1;
}

TEST(AllocatePages, ReservedPagesFailWhereNoneAreReserved) {
  if (meminfo("HugePages_Free") > 0) GTEST_SKIP() << "this machine has reserved huge pages";
  errno = 0;
  const Pages pages(std::size_t{2} << 20, HugePages::reserved);
  EXPECT_EQ(pages.data(), nullptr);
  EXPECT_NE(errno, 0);
}

TEST(AllocatePages, ReservedPagesAreHugeWhereThereAreSome) {
  const std::size_t bytes = meminfo("Hugepagesize") * 1024;
  if (meminfo("HugePages_Free") == 0) GTEST_SKIP() << "this machine has no reserved huge pages";
  const Pages pages(bytes, HugePages::reserved);
  ASSERT_NE(pages.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % bytes, 0u);
}

TEST(AllocatePages, MoreThanThereIsFails) {
  errno = 0;
  EXPECT_EQ(allocate_pages(nullptr, std::size_t{1} << 62, HugePages::off), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(AllocatePages, ZeroBytesFail) {
  errno = 0;
  EXPECT_EQ(allocate_pages(nullptr, 0, HugePages::off), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(FreePages, ReportsWhatIsNoMapping) {
  unsigned char byte = 0;
  EXPECT_EQ(free_pages(nullptr, &byte + 1, 4096), EINVAL);  // Not the start of a page.
}

}  // namespace
}  // namespace verbatim::detail
