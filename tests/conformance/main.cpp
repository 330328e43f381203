// SPDX-License-Identifier: MIT OR Apache-2.0
// What every RDMA device must do for an application, tested through the public interface.
//
//    conformance [--device NAME] [--seed N] [GoogleTest's options]
//
// Without --device: VERBATIM_DEVICE, or else the first device that works. Exit status 77 means that
// there is no device.
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conformance/child_process.hpp"
#include "conformance/deviations.hpp"
#include "support/device_under_test.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

constexpr int kCannotRun = 77;

/// Ends the program if a test hangs (in a destructor, for example), and prints its name.
///
/// A flag, not a stop token: wait_for(lock, stop_token, ...) of libstdc++ 12 says "not stopped" if
/// the stop comes between its two looks at the token (seen in 32 of 200,000 short waits).
class Watchdog : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string{test.test_suite_name()} + '.' + test.name();
    over_ = false;
    thread_ = std::jthread{[this] { watch(); }};
  }
  void OnTestEnd(const testing::TestInfo&) override {
    {
      const std::scoped_lock lock{mutex_};
      over_ = true;
    }
    ended_.notify_one();
    thread_ = {};
  }

 private:
  void watch() {
    // For the slowest machine. What hangs does so for ever.
    const auto limit = kPatience * 10 * stress_factor();
    std::unique_lock lock{mutex_};
    if (ended_.wait_for(lock, limit, [this] { return over_; })) return;
    std::cout << "watchdog: " << name_ << " did not end in " << limit.count() << " s\n"
              << std::flush;
    std::abort();
  }

  std::string name_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  ///< Guarded by mutex_.
  std::jthread thread_;
};

/// Prints how to run a failed test again.
class Replay : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::cout << "replay: " << settings().program << " --device " << settings().device << " --seed "
              << settings().seed << " --gtest_filter=" << test.test_suite_name() << '.'
              << test.name() << '\n';
  }
};

/// The values of our own options; all others are GoogleTest's.
struct Options {
  std::string device;
  std::uint64_t seed = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  std::vector<std::string> child;  ///< Not empty: this process is the peer of a test.
};

Options parse(int argc, char** argv) {
  Options options;
  if (const char* const device = std::getenv("VERBATIM_DEVICE")) options.device = device;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--child") {
      options.child.assign(argv + i + 1, argv + argc);
      return options;
    }
    if (name == "--device" && has_value) {
      options.device = argv[++i];
    } else if (name == "--seed" && has_value) {
      const std::string_view text = argv[++i];
      std::from_chars(text.data(), text.data() + text.size(), options.seed);
    } else {
      std::cerr << "usage: conformance [--device NAME] [--seed N] [--gtest_...]\n";
      std::exit(2);
    }
  }
  return options;
}

int run(const Options& options, const char* program) {
  const auto context = open_device(std::string_view{options.device});
  if (!context) {
    std::cerr << "conformance: " << to_string(context.error()) << '\n';
    return options.device.empty() && context.error() == Errc::not_found ? kCannotRun : 1;
  }
  set_settings({program, std::string{context->name()}, options.seed});
  if (!options.child.empty()) return run_child(options.child);

  if (const std::string missing = rows_without_test(); !missing.empty()) {
    std::cerr << "conformance: the table of deviations is stale, no such test:\n" << missing;
    return 1;
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new Replay);
  // A part of a test that runs in a separate process reports to the process that started it.
  if (!testing::internal::InDeathTestChild())
    listeners.Append(make_deviation_listener(settings().device, kernel_release()).release());
  listeners.Append(new Watchdog);
  std::cout << "conformance: " << testing::UnitTest::GetInstance()->total_test_count()
            << " tests on device " << settings().device << " (kernel " << kernel_release()
            << ")\nconformance: seed " << options.seed << ", again with: " << program
            << " --device " << settings().device << " --seed " << options.seed << '\n';
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace verbatim::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return verbatim::test::run(verbatim::test::parse(argc, argv), argv[0]);
}
