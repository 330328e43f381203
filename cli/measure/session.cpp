// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/session.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "measure/interrupt.hpp"
#include "measure/processors.hpp"

namespace verbatim::cli {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;
constexpr std::chrono::seconds kGreeting{5};
/// The longest that a client may take for one figure, or from one case to the next.
constexpr std::chrono::hours kLongest{2};

json hello(const Context& context) {
  return {{"verbatim", "measure"}, {"version", kVersion}, {"device", context.name()}};
}

std::string text_of(const json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_string())
    throw Failure{fmt::format("the other end does not say its {}", name)};
  return found->get<std::string>();
}

std::vector<std::string> endpoints_of(const json& record) {
  const auto found = record.find("endpoints");
  if (found == record.end() || !found->is_array() || found->size() > kMostQueuePairs ||
      !std::ranges::all_of(*found, [](const json& each) { return each.is_string(); }))
    throw Failure{"the other end does not say its endpoints"};
  return found->get<std::vector<std::string>>();
}

void check_hello(const json& record) {
  if (text_of(record, "verbatim") != "measure" || !record.contains("version"))
    throw Failure{"the other end talks something else"};
  if (record["version"] != kVersion)
    throw Failure{fmt::format("the other end speaks version {} of this protocol, we speak {}",
                              record["version"].dump(), kVersion)};
}

/// One figure of a case, as the server sees it.
void serve_phase(Side& side, const std::string& phase) {
  side.begin_phase();
  const auto patience = side.manners().patience;
  side.control().send({{"go", true}}, patience);
  if (phase == "latency") {
    answer_latency(side);
    const auto done = counts_from(side.control().receive(kLongest), side.what().queue_pairs);
    verify_latency(side, done);
  } else if (phase == "bandwidth") {
    verify_stream(side, take_stream(side, kLongest));
  } else {
    throw Failure{"there is no such phase"};
  }
  side.control().send({{"verified", true}}, patience);
}

void serve_records(Control& control, const Context& context, const Manners& manners) {
  check_hello(control.receive(kGreeting));
  control.send(hello(context), manners.patience);
  std::unique_ptr<Side> side;
  while (!control.has_ended(kLongest)) {
    const json record = control.receive(manners.patience);
    if (record.contains("phase")) {
      if (!side) throw Failure{"a phase without a case"};
      serve_phase(*side, text_of(record, "phase"));
    } else if (record.contains("case")) {
      side.reset();  // Before the next one takes its memory.
      const Case each = case_from(record["case"]);
      side = std::make_unique<Side>(Role::server, each, context, control, manners);
      const auto ours = side->endpoints();
      side->connect(endpoints_of(record));
      side->reach(text_of(record, "memory"));
      control.send({{"endpoints", ours}, {"memory", side->memory()}}, manners.patience);
    } else {
      throw Failure{"neither a case nor a phase"};
    }
  }
}

}  // namespace

Client::Client(Control control, Context context, const Manners& manners)
    : control_(std::move(control)), context_(std::move(context)), manners_(manners) {
  control_.send(hello(context_), manners_.patience);
  const json record = control_.receive(manners_.patience);
  check_hello(record);
  peer_device_ = text_of(record, "device");
}

template <class Measure, class Verify>
void Client::run_phase(Side& side, const char* name, Measure&& measure, Verify&& verify) {
  side.begin_phase();
  control_.send({{"phase", name}}, manners_.patience);
  if (!control_.receive(manners_.patience).contains("go"))
    throw Failure{"the other end does not start"};
  const std::vector<std::uint64_t> done = measure();
  control_.send({{"done", done}}, manners_.patience);
  if (!control_.receive(manners_.patience).contains("verified"))
    throw Failure{"the other end does not say that the data is right"};
  verify(done);
}

void Client::measure(const Case& each, Figures figures, const Effort& effort,
                     const Observer& latency, const Observer& stream, Outcome& outcome) {
  Side side{Role::client, each, context_, control_, manners_};
  control_.send(
      {{"case", to_json(each)}, {"endpoints", side.endpoints()}, {"memory", side.memory()}},
      manners_.patience);
  const json record = control_.receive(manners_.patience);
  side.connect(endpoints_of(record));
  side.reach(text_of(record, "memory"));
  outcome.inlined = side.is_inlined();
  if (figures.latency)
    run_phase(
        side, "latency", [&] { return measure_latency(side, effort, latency, outcome.latency); },
        [&](const auto& done) { verify_latency(side, done); });
  if (figures.bandwidth)
    run_phase(
        side, "bandwidth", [&] { return measure_stream(side, effort, stream, outcome.volume); },
        [&](const auto& done) { verify_stream(side, done); });
  if (is_interrupted()) throw Interrupted{};
}

void serve(Control& control, const Context& context, const Manners& manners) {
  try {
    serve_records(control, context, manners);
  } catch (const Failure& why) {
    try {
      control.send({{"error", why.what()}}, std::chrono::seconds{1});
    } catch (const Failure&) {
      // It is gone, which may be the reason.
    }
    throw;
  }
}

LocalServer::LocalServer(const std::string& device, int processor, const Manners& manners) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Failure{fmt::format("socketpair: {}", std::strerror(errno))};
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw Failure{fmt::format("fork: {}", std::strerror(errno))};
  if (process_ != 0) {
    ::close(ends[1]);
    socket_ = verbatim::detail::PrivateDescriptor{ends[0]};
    return;
  }
  ::close(ends[0]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  signal(SIGINT, SIG_IGN);  // The client ends us, when it has said what it measured.
  int status = 0;
  Control control{verbatim::detail::PrivateDescriptor{ends[1]}};
  try {
    if (processor >= 0) static_cast<void>(pin_to(processor));
    serve(control, open_for_measuring(device), manners);
  } catch (const std::exception&) {
    status = 1;  // The client knows why.
  }
  _exit(status);
}

LocalServer::~LocalServer() {
  if (process_ <= 0) return;
  // It ends by itself when the connection is closed, and leaves nothing behind then.
  constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 2'000'000};
  for (int naps = 0; naps < 500; ++naps) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) return;
    nanosleep(&kNap, nullptr);
  }
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

Context open_for_measuring(const std::string& device) {
  return need(open_device({.name = device}));
}

}  // namespace verbatim::cli
