// SPDX-License-Identifier: MIT OR Apache-2.0
#include "table_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "measure/interrupt.hpp"

namespace verbatim::cli {

TableRun::TableRun(const Options& options)
    : options_(options), terminal_(STDOUT_FILENO), progress_(!options.is_quiet) {}

int TableRun::run(Client& client, const std::vector<Case>& cases) {
  if (!options_.is_quiet) {
    fmt::print("{}", table_head(terminal_, static_cast<bool>(options_.rival)));
    std::fflush(stdout);
  }
  const double share = 1 / static_cast<double>(cases.size());
  try {
    for (std::size_t each = 0; each < cases.size(); ++each)
      measure(client, cases[each], static_cast<double>(each) * share, share);
  } catch (const Interrupted&) {
    return interrupt_status();
  } catch (const Failure& why) {
    progress_.clear();
    complain(options_.name, why.what());
    return kBad;
  }
  return kGood;
}

void TableRun::measure(Client& client, const Case& each, double before, double share) {
  Row& row = rows_.emplace_back(Row{.what = each, .figures = options_.figures});
  const bool has_both = options_.figures.latency && options_.figures.bandwidth;
  if (has_both) share /= 2;
  const auto observer = [&](const char* figure, double from) {
    std::string what =
        fmt::format("{} {} {}", to_string(each.verb), short_size(each.bytes), figure);
    return Observer{
        .look = [this, what = std::move(what), from, share](double part, std::uint64_t) {
          progress_.show(what, from + part * share);
        }};
  };
  try {
    client.measure(each, options_.figures, options_.effort, observer("latency", before),
                   observer("bandwidth", has_both ? before + share : before), row.outcome);
    row.verified = true;
    if (options_.rival) row.rival = options_.rival(each);
  } catch (...) {
    // What was measured before Ctrl-C counts; what a failure leaves does not.
    if (is_interrupted() && (row.has_latency() || row.has_volume()))
      show(row);
    else
      rows_.pop_back();
    throw;
  }
  show(row);
}

void TableRun::show(const Row& row) {
  progress_.clear();
  if (options_.is_quiet) return;
  fmt::print("{}", table_line(terminal_, row, static_cast<bool>(options_.rival)));
  std::fflush(stdout);
}

}  // namespace verbatim::cli
