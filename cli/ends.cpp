// SPDX-License-Identifier: MIT OR Apache-2.0
#include "ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "measure/interrupt.hpp"
#include "measure/processors.hpp"
#include "with_port.hpp"

namespace verbatim::cli {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>{value});
}

/// The processor of an end: the user's choice, else the first for a client, and for a server the
/// next one, or the last where it cannot know who else is here. -1: none.
int processor_for(const EndOptions& options, Role role, bool is_alone) {
  const auto allowed = allowed_processors();
  const std::size_t number = role == Role::client ? 0 : 1;
  if (!options.processors.empty())
    return options.processors[std::min(is_alone ? number : 0, options.processors.size() - 1)];
  if (!options.pins || allowed.size() < 2) return -1;
  if (role == Role::client) return allowed.front();
  return is_alone ? allowed[1] : allowed.back();
}

void pin_here(int processor) {
  if (processor >= 0 && !pin_to(processor))
    throw Failure{fmt::format("this process may not run on processor {}", processor)};
}

}  // namespace

Manners EndOptions::manners() const {
  return {.patience = seconds(timeout_s), .yields = allowed_processors().size() < 2};
}

void add_end_options(CLI::App& command, EndOptions& options) {
  command.add_option("host", options.host,
                     "HOST[:PORT] of a listening end; without it both ends are started here");
  command
      .add_option_function<std::vector<std::string>>(
          "--listen",
          [&options](const std::vector<std::string>& where) {
            options.listen = where.empty() || where[0].empty() ? kLoopback : where[0];
          },
          "Be the other end, on this ADDRESS[:PORT] (default: 127.0.0.1; 0.0.0.0: every network)")
      ->expected(0, 1)
      ->type_name("[ADDRESS]");
  command.add_option("--port", options.port,
                     fmt::format("TCP port to agree over (default: {})", kDefaultPort));
  command.add_flag("--once", options.once, "With --listen: end after one client");
  command.add_option("-d,--device", options.device, "RDMA device (default: the first that works)");
  command
      .add_option("--timeout", options.timeout_s,
                  "Seconds after which an end that does not answer is given up (default: 10)")
      ->check(CLI::Range(0.1, 3600.0));
  command.add_option("--cpus", options.processors, "Processors of the ends, as 0,1")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023));
  command.add_flag("!--no-pin", options.pins, "Let the system choose the processors");
  command.add_flag("--json", options.json, "One JSON document on stdout");
}

void check_end_options(const EndOptions& options) {
  if (options.listen && !options.host.empty())
    throw CLI::ValidationError{"HOST and --listen exclude each other"};
  if (options.once && !options.listen) throw CLI::ValidationError{"--once goes with --listen"};
  if (options.processors.size() > 2)
    throw CLI::ValidationError{"--cpus takes one processor for each end"};
}

int serve_clients(const EndOptions& options, const char* name) {
  return guarded(name, [&] {
    catch_interrupts();
    const Manners manners = options.manners();
    pin_here(processor_for(options, Role::server, false));
    const Context context = open_for_measuring(options.device);
    ControlListener listener{with_port(*options.listen, options.port)};
    if (options.json)
      fmt::print(
          "{}\n",
          nlohmann::json{{"listening", listener.address()}, {"device", context.name()}}.dump());
    else
      fmt::print("listening on {} with {} (Ctrl-C ends)\n", listener.address(), context.name());
    std::fflush(stdout);
    while (!is_interrupted()) {
      auto control = listener.accept(std::chrono::milliseconds{200});
      if (!control) continue;
      try {
        serve(*control, context, manners);
      } catch (const Interrupted&) {
        break;
      } catch (const Failure& why) {
        complain(name, fmt::format("dropped a client: {}", why.what()));  // And nobody else.
      }
      if (options.once) return kGood;
    }
    return interrupt_status();
  });
}

Ends::Ends(const EndOptions& options)
    : ours_(processor_for(options, Role::client, options.host.empty())),
      theirs_(options.host.empty() ? processor_for(options, Role::server, true) : -1) {
  const Manners manners = options.manners();
  const bool is_alone = options.host.empty();
  if (is_alone) server_ = std::make_unique<LocalServer>(options.device, theirs_, manners);
  pin_here(ours_);
  Context context = open_for_measuring(options.device);
  Control control = is_alone ? server_->take_control()
                             : connect_to(with_port(options.host, options.port), manners.patience);
  client_ = std::make_unique<Client>(std::move(control), std::move(context), manners);
  description_ = std::string{client_->context().name()};
  if (is_alone)
    description_ += ", both ends on this machine, ";
  else
    description_ += fmt::format(" to {} at {}, ", client_->peer_device(), options.host);
  if (ours_ < 0)
    description_ += manners.yields ? "one processor for both: they take turns" : "not pinned";
  else if (is_alone)
    description_ += fmt::format("processors {} and {}", ours_, theirs_);
  else
    description_ += fmt::format("processor {}", ours_);
}

void complain(const char* name, const std::string& why) {
  fmt::print(stderr, "verbatim {}: {}\n", name, why);
}

}  // namespace verbatim::cli
