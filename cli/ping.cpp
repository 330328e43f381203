// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ping.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ends.hpp"
#include "measure/interrupt.hpp"
#include "terminal.hpp"

namespace verbatim::cli {
namespace {

struct PingOptions {
  EndOptions ends;
  std::uint64_t count = 4;
  double interval_s = 0.5;
  std::string size = "64";
};

std::uint64_t size_of(const PingOptions& options) {
  try {
    const auto sizes = sizes_from(options.size);
    if (sizes.size() == 1) return sizes[0];
  } catch (const Failure& why) {
    throw CLI::ValidationError{"--size", why.what()};
  }
  throw CLI::ValidationError{"--size", "takes one size"};
}

/// Until `interval_s` is over, or Ctrl-C.
void pause(double interval_s) {
  const auto whole = static_cast<time_t>(interval_s);
  const timespec time{
      .tv_sec = whole,
      .tv_nsec = static_cast<long>((interval_s - static_cast<double>(whole)) * 1e9)};
  nanosleep(&time, nullptr);
}

nlohmann::json summary(const Ends& ends, const PingOptions& options, const Outcome& outcome,
                       bool is_verified) {
  const Histogram& times = outcome.latency;
  nlohmann::json result = {{"ends", ends.description()},
                           {"bytes", size_of(options)},
                           {"wanted", options.count},
                           {"answers", times.count()},
                           {"verified", is_verified}};
  if (times.count() > 0)
    result["round_trip_us"] = {{"min", static_cast<double>(times.least()) / 1e3},
                               {"median", times.percentile(0.5) / 1e3},
                               {"max", static_cast<double>(times.greatest()) / 1e3}};
  return result;
}

int ping(const PingOptions& options) {
  catch_interrupts();
  const std::uint64_t bytes = size_of(options);
  Ends ends{options.ends};
  const Terminal terminal{STDOUT_FILENO};
  const bool is_loud = !options.ends.json;
  if (is_loud) fmt::print("{}\n", ends.description());
  std::fflush(stdout);

  Outcome outcome;
  const Observer each{
      .every = std::chrono::nanoseconds{0}, .look = [&](double part, std::uint64_t nanoseconds) {
        if (is_loud)
          fmt::print("{} bytes there and back: number {}, {:.1f} us\n", bytes,
                     outcome.latency.count(), static_cast<double>(nanoseconds) / 1e3);
        std::fflush(stdout);
        if (part < 1) pause(options.interval_s);
      }};
  int status = kGood;
  bool is_verified = false;
  try {
    const Case what{.verb = Verb::send, .bytes = bytes, .depth = 1, .sleeps = true};
    ends.client().measure(what, {.bandwidth = false}, {.count = options.count}, each, {}, outcome);
    is_verified = true;
  } catch (const Interrupted&) {
    status = interrupt_status();
  } catch (const Failure& why) {
    complain("ping", why.what());
    status = kBad;
  }
  const auto result = summary(ends, options, outcome, is_verified);
  if (!is_loud) {
    fmt::print("{}\n", result.dump(2));
    return status;
  }
  fmt::print("{}", terminal.paint(
                       status == kGood ? Style::good : Style::warning,
                       fmt::format("{} of {} answered", outcome.latency.count(), options.count)));
  if (result.contains("round_trip_us")) {
    const auto& times = result["round_trip_us"];
    fmt::print("; round trip min/median/max {:.1f}/{:.1f}/{:.1f} us", times["min"].get<double>(),
               times["median"].get<double>(), times["max"].get<double>());
  }
  fmt::print("{}\n", is_verified ? "; the data is right" : "");
  return status;
}

}  // namespace

void add_ping(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<PingOptions>();
  CLI::App& command =
      *app.add_subcommand("ping", "Send messages to another end that sleeps, and time its answers");
  add_end_options(command, options->ends);
  command.add_option("-n,--count", options->count, "Messages (default: 4)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command.add_option("-i,--interval", options->interval_s, "Seconds in between (default: 0.5)")
      ->check(CLI::Range(0.0, 3600.0));
  command.add_option("-s,--size", options->size, "Bytes of a message, as 64 or 4K (default: 64)");
  command.footer(
      "verbatim ping                      both ends here\n"
      "verbatim ping --listen 0.0.0.0     one end on one host ...\n"
      "verbatim ping HOST                 ... and the other on another");
  command.callback([options, &line] {
    check_end_options(options->ends);
    static_cast<void>(size_of(*options));
    line.status = options->ends.listen ? serve_clients(options->ends, "ping")
                                       : guarded("ping", [&] { return ping(*options); });
  });
}

}  // namespace verbatim::cli
