// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bench.hpp"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "ends.hpp"
#include "measure/interrupt.hpp"
#include "measure/report.hpp"
#include "measure/svg.hpp"
#include "perftest.hpp"
#include "table_run.hpp"

namespace verbatim::cli {
namespace {

struct BenchOptions {
  EndOptions ends;
  std::vector<std::string> verbs{"write"};
  std::string sizes = "8,64,512,4K,64K,1M";
  std::string only;
  std::string plot;
  std::string against;
  Case shape;
  Effort effort;
};

std::vector<Case> cases_of(const BenchOptions& options) {
  std::vector<Case> cases;
  std::vector<std::string> verbs = options.verbs;
  if (verbs == std::vector<std::string>{"all"}) verbs = {"send", "write", "read", "atomic"};
  for (const std::string& name : verbs) {
    Case each = options.shape;
    const auto verb = verb_from(name);
    if (!verb)
      throw CLI::ValidationError{"--verb",
                                 "'" + name + "' is none of send, write, read, atomic, all"};
    each.verb = *verb;
    auto sizes = *verb == Verb::atomic ? std::vector<std::uint64_t>{8} : sizes_from(options.sizes);
    for (const std::uint64_t size : sizes) {
      each.bytes = size;
      if (auto wrong = wrong_with(each); !wrong.empty()) throw CLI::ValidationError{wrong};
      cases.push_back(each);
    }
  }
  return cases;
}

void print_json(const std::vector<Row>& rows, Ends& ends) {
  nlohmann::json results = nlohmann::json::array();
  for (const Row& row : rows) results.push_back(to_json(row));
  fmt::print("{}\n", nlohmann::json{{"ends", ends.description()},
                                    {"device", ends.client().context().name()},
                                    {"interrupted", is_interrupted()},
                                    {"results", results}}
                         .dump(2));
}

void write_picture(const std::string& path, const std::vector<Row>& rows, const Ends& ends) {
  std::ofstream file{path};
  file << svg_plot(rows, "verbatim bench: " + ends.description());
  if (!file.flush()) throw Failure{"cannot write " + path};
}

std::function<Rival(const Case&)> rival_for(const BenchOptions& options, Figures figures,
                                            Ends& ends) {
  if (options.against.empty()) return {};
  const Context& context = ends.client().context();
  return [with = PerftestOptions{.device = std::string{context.name()},
                                 .preloads = context.transport() == Transport::soft,
                                 .client_processor = ends.processor(Role::client),
                                 .server_processor = ends.processor(Role::server),
                                 .figures = figures,
                                 .count = options.effort.count}](const Case& each) {
    return run_perftest(with, each);
  };
}

int measure(const BenchOptions& options, const std::vector<Case>& cases) {
  catch_interrupts();
  Ends ends{options.ends};
  if (!options.ends.json) fmt::print("{}\n\n", ends.description());
  const Figures figures{options.only != "bandwidth", options.only != "latency"};
  TableRun table{{.name = "bench",
                  .figures = figures,
                  .effort = options.effort,
                  .is_quiet = options.ends.json,
                  .rival = rival_for(options, figures, ends)}};
  const int status = table.run(ends.client(), cases);
  if (options.ends.json)
    print_json(table.rows(), ends);
  else
    fmt::print("\n{}{}", bars(table.rows(), table.terminal(), speaks_utf8()),
               interruption_note(table.rows()));
  if (!options.plot.empty() && !table.rows().empty())
    write_picture(options.plot, table.rows(), ends);
  return status;
}

void run(const BenchOptions& options, CommandLine& line) {
  check_end_options(options.ends);
  if (!options.against.empty() && (options.ends.listen || !options.ends.host.empty()))
    throw CLI::ValidationError{"--against needs both ends here: leave HOST and --listen out"};
  if (options.ends.listen) {
    line.status = serve_clients(options.ends, "bench");
    return;
  }
  std::vector<Case> cases;
  try {
    cases = cases_of(options);
  } catch (const Failure& why) {
    throw CLI::ValidationError{"--sizes", why.what()};
  }
  line.status = guarded("bench", [&] { return measure(options, cases); });
}

}  // namespace

void add_bench(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      *app.add_subcommand("bench",
                          "Measure latency and bandwidth, between two ends here or with "
                          "another host");
  add_end_options(command, options->ends);
  command.add_option("--verb", options->verbs, "send, write, read, atomic or all (default: write)")
      ->delimiter(',')
      ->type_name("VERB,...");
  command.add_option("-s,--sizes", options->sizes,
                     "Bytes: 8,64,4K or 8-1M for the powers of two (default: 8,64,512,4K,64K,1M)");
  auto* const duration = command
                             .add_option("--duration", options->effort.seconds,
                                         "Seconds for each figure of each size (default: 0.3)")
                             ->check(CLI::Range(0.001, 3600.0));
  command
      .add_option("-n,--count", options->effort.count,
                  "Messages for each figure of each size, in place of a time")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->excludes(duration);
  command.add_option("--depth", options->shape.depth,
                     "Requests outstanding in each queue pair, for bandwidth (default: 64)");
  command.add_option("-q,--queue-pairs", options->shape.queue_pairs,
                     "Queue pairs, which take turns (default: 1)");
  command.add_option("--batch", options->shape.batch,
                     "Requests for one doorbell, for bandwidth (default: 1)");
  command.add_flag("--inline", options->shape.inlined,
                   "Let messages that fit travel inside their request");
  command.add_option("--only", options->only, "latency or bandwidth; else both")
      ->check(CLI::IsMember({"latency", "bandwidth"}));
  command.add_option("--plot", options->plot, "Write a picture of it")->type_name("FILE.svg");
  command.add_option("--against", options->against, "Run this beside it: perftest")
      ->check(CLI::IsMember({"perftest"}));
  command.footer(
      "verbatim bench                      both ends here\n"
      "verbatim bench --listen 0.0.0.0     one end on one host ...\n"
      "verbatim bench HOST --verb all      ... and the other on another");
  command.callback([options, &line] { run(*options, line); });
}

}  // namespace verbatim::cli
