// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every errno leads to a decision that a caller can make, and one line contains everything.
// Method: tables.
#include "verbatim/base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace verbatim {
namespace {

TEST(ErrcFromErrno, MapsEachErrnoToADecision) {
  struct Row {
    int os_error;
    Errc code;
  };
  for (const Row& row : {
           Row{EINVAL, Errc::invalid_argument},
           Row{ENAMETOOLONG, Errc::invalid_argument},
           Row{ENOMEM, Errc::out_of_resources},
           Row{EMFILE, Errc::out_of_resources},
           Row{ENFILE, Errc::out_of_resources},
           Row{ENOSPC, Errc::out_of_resources},
           Row{EAGAIN, Errc::out_of_resources},
           Row{EDQUOT, Errc::out_of_resources},
           Row{EFBIG, Errc::out_of_resources},
           Row{ENOBUFS, Errc::out_of_resources},
           Row{EACCES, Errc::permission_denied},
           Row{EPERM, Errc::permission_denied},
           Row{EROFS, Errc::permission_denied},
           Row{ENOENT, Errc::not_found},
           Row{ENOTDIR, Errc::not_found},
           Row{EADDRNOTAVAIL, Errc::not_found},
           Row{ENETUNREACH, Errc::not_found},
           Row{EHOSTUNREACH, Errc::not_found},
           Row{ENOSYS, Errc::unsupported},
           Row{EPROTONOSUPPORT, Errc::unsupported},
           Row{EOPNOTSUPP, Errc::unsupported},
           Row{EAFNOSUPPORT, Errc::unsupported},
           Row{EBUSY, Errc::busy},
           Row{EADDRINUSE, Errc::busy},
           Row{ETIMEDOUT, Errc::timed_out},
           Row{ENODEV, Errc::device_failed},
           Row{EIO, Errc::driver},
           Row{0, Errc::driver},
           Row{123456, Errc::driver},
       })
    EXPECT_EQ(errc_from_errno(row.os_error), row.code) << "errno " << row.os_error;
}

TEST(Error, OfAVerbKeepsErrnoAndOperation) {
  const Error error = os_failure("ibv_alloc_pd", EIO);
  EXPECT_EQ(error, Errc::driver);
  EXPECT_EQ(error.os_error, EIO);
  EXPECT_STREQ(error.operation, "ibv_alloc_pd");
  EXPECT_NE(to_string(error).find("Input/output error"), std::string::npos);
}

TEST(Error, EqualsItsCodeOnly) {
  const Error error{.code = Errc::busy};
  EXPECT_TRUE(error == Errc::busy);
  EXPECT_TRUE(error != Errc::forked);
}

TEST(Result, EqualsTheCodeItFailedWith) {
  const Result<int> late = std::unexpected(Error{.code = Errc::timed_out});
  EXPECT_TRUE(late == Errc::timed_out);
  EXPECT_TRUE(Errc::timed_out == late);
  EXPECT_TRUE(late != Errc::busy);
  Result<std::unique_ptr<int>> good;  // No value equals a code, not even one made of zeros.
  EXPECT_FALSE(good == Errc::invalid_argument);
  EXPECT_TRUE(Result<void>{} != Errc::invalid_argument);
  EXPECT_TRUE(Result<void>{std::unexpected(Error{.code = Errc::busy})} == Errc::busy);
}

TEST(Error, NamesOfAllCodesDiffer) {
  std::set<std::string_view> names;
  for (unsigned code = 0; code <= std::to_underlying(Errc::driver); ++code)
    names.insert(to_string(static_cast<Errc>(code)));
  EXPECT_EQ(names.size(), std::to_underlying(Errc::driver) + 1u);
  EXPECT_FALSE(names.contains(to_string(static_cast<Errc>(200))));
}

TEST(Error, LineHoldsOperationTextFieldValueAndLimit) {
  const Error error{.code = Errc::limit_exceeded,
                    .operation = "ibv_create_cq",
                    .field = "depth",
                    .value = 5,
                    .limit = 4};
  EXPECT_EQ(to_string(error), "ibv_create_cq: limit exceeded: depth 5, limit 4");
  EXPECT_EQ(to_string(error.with_text("mlx5_0")),
            "ibv_create_cq: limit exceeded: mlx5_0: depth 5, limit 4");
}

TEST(Error, LineOfACodeAloneIsTheCode) {
  EXPECT_EQ(to_string(Error{.code = Errc::would_block}), "queue full");
}

TEST(Error, LineTellsAZeroOnlyWhereItMayBeWrong) {
  const Error argument{.code = Errc::invalid_argument, .operation = "allocate", .field = "length"};
  EXPECT_EQ(to_string(argument), "allocate: invalid argument: length 0");
  const Error phrase{.code = Errc::not_found, .operation = "dlopen", .field = "no such file"};
  EXPECT_EQ(to_string(phrase), "dlopen: not found: no such file");
}

TEST(Error, LineNamesTheNumbersOfFailedWork) {
  Error error{.code = Errc::work_failed,
              .operation = "work request",
              .field = "transport retry counter exceeded",
              .value = 12,
              .limit = 0x81};
  EXPECT_EQ(to_string(error),
            "work request: work failed: transport retry counter exceeded (status 12, vendor code "
            "0x81)");
  error.limit = 0;
  error.field = "";
  EXPECT_EQ(to_string(error),
            "work request: work failed: transport retry counter exceeded (status 12)");
}

TEST(Error, StatusOfFailedWorkIsItsValue) {
  EXPECT_EQ(status_of({.code = Errc::work_failed, .value = 13}), WorkStatus::rnr_retry_exceeded);
  EXPECT_EQ(to_string(status_of({.code = Errc::work_failed, .value = 256})), "unknown status");
}

TEST(Error, LineShowsTheFirstBytesOfAStranger) {
  Error error{.code = Errc::malformed,
              .operation = "accept",
              .field = "frame magic",
              .value = 0x20544547,
              .limit = 0x31464256};
  EXPECT_EQ(to_string(error), "accept: malformed: frame magic \"GET \", not \"VBF1\"");
  error.value = 0x01000316;
  EXPECT_EQ(to_string(error), "accept: malformed: frame magic 0x1000316, not \"VBF1\"");
}

TEST(Error, TextIsCutAndAlwaysTerminated) {
  const std::string longest(23, 'x');
  EXPECT_EQ(Error{}.with_text(longest).text_view(), longest);
  const Error cut = Error{}.with_text(longest + "yz");
  EXPECT_EQ(cut.text_view(), longest);
  EXPECT_EQ(cut.text.back(), '\0');
}

TEST(Error, NewTextReplacesAllOfTheOld) {
  EXPECT_EQ(Error{}.with_text("a long name").with_text("short").text_view(), "short");
  EXPECT_EQ(Error{}.with_text("a long name").with_text("").text_view(), "");
}

TEST(Error, TextViewStopsWithoutATerminator) {
  Error error;
  error.text.fill('x');  // with_text() cannot do this, but the member is public.
  EXPECT_EQ(error.text_view().size(), error.text.size());
}

TEST(Error, FitsOneCacheLine) {
  EXPECT_LE(sizeof(Error), 64u);
  EXPECT_TRUE(std::is_trivially_copyable_v<Error>);
}

}  // namespace
}  // namespace verbatim
