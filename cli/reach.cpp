// SPDX-License-Identifier: MIT OR Apache-2.0
#include "reach.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "channel/socket_address.hpp"
#include "channel/tcp.hpp"
#include "record_stream.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/prepared_channel.hpp"
#include "verbatim/verbs/context.hpp"
#include "with_port.hpp"

namespace verbatim::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr const char* kOperation = "doctor";
constexpr int kVersion = 1;
/// Longer than the largest packet: a path whose switches cut the MTU short shows.
constexpr std::size_t kMessageBytes = 16 << 10;
constexpr std::size_t kMostCandidates = 256;
constexpr unsigned kMostPairs = 1024;
/// A client may print between two pairs, and not much more.
constexpr auto kPatience = 10s;

Error malformed(const char* field) {
  return {.code = Errc::malformed, .operation = kOperation, .field = field};
}

/// Text of a peer must not move the cursor of the terminal.
std::string printable(std::string text) {
  constexpr std::size_t kLongest = 400;
  if (text.size() > kLongest) text.resize(kLongest);
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::byte pattern(std::size_t at, bool is_reply) noexcept {
  const auto byte = static_cast<std::byte>((at * 131 + (at >> 8)) & 0xff);
  return is_reply ? ~byte : byte;
}

void fill(Buffer& buffer, bool is_reply) {
  buffer.with([&](std::span<std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = pattern(at, is_reply);
  });
}

Result<void> compare(std::span<const std::byte> bytes, bool is_reply) {
  if (bytes.size() != kMessageBytes) return std::unexpected(malformed("the message's length"));
  for (std::size_t at = 0; at < bytes.size(); ++at)
    if (bytes[at] != pattern(at, is_reply))
      return std::unexpected(malformed("the message's content"));
  return {};
}

/// The devices of this side, each opened once.
class Domains {
 public:
  Result<ProtectionDomain> of(const std::string& device) {
    if (const auto known = domains_.find(device); known != domains_.end()) return known->second;
    auto context = VERBATIM_TRY(open_device(device));
    auto domain = VERBATIM_TRY(context.allocate_domain());
    domains_.emplace(device, domain);
    return domain;
  }

 private:
  std::map<std::string, ProtectionDomain> domains_{};
};

/// This side's half of a pair, before it knows the other.
struct Half {
  ProtectionDomain domain;
  PreparedChannel channel;
  Pending<Buffer> incoming;
};

Result<Half> prepare(Domains& domains, const Candidate& candidate, const ReachOptions& options) {
  auto domain = VERBATIM_TRY(domains.of(candidate.device));
  ChannelOptions channel{.max_sends = 4, .max_receives = 4, .timeout = options.pair_timeout};
  channel.route.port = candidate.port;
  channel.route.gid_index = candidate.gid_index;
  auto prepared = VERBATIM_TRY(PreparedChannel::create(domain, channel));
  auto incoming = prepared.receive(VERBATIM_TRY(domain.allocate(kMessageBytes)));
  return Half{std::move(domain), std::move(prepared), std::move(incoming)};
}

/// An end of a pair that talks. It has to live until the peer is done, too: a queue pair that is
/// gone acknowledges nothing, and the peer takes its message for lost.
struct Talk {
  Half half;
  Result<Channel> channel;  ///< Goes before what it works on.
};

Talk talk_to(const Endpoint& peer, Half half) {
  auto channel = std::move(half.channel).connect(peer);
  return {std::move(half), std::move(channel)};
}

Result<void> send(Channel& channel, const ProtectionDomain& domain, bool is_reply) {
  auto buffer = VERBATIM_TRY(domain.allocate(kMessageBytes));
  fill(buffer, is_reply);
  auto sent = channel.send(std::move(buffer)).wait();
  if (!sent.result) return std::unexpected(sent.result.error());
  return {};
}

Result<void> receive(Pending<Buffer>& incoming, bool is_reply) {
  auto message = incoming.wait();
  if (!message.result) return std::unexpected(message.result.error());
  return compare(message.received(), is_reply);
}

Result<Endpoint> endpoint_in(const json& object) {
  if (!object.contains("endpoint")) return std::unexpected(malformed("endpoint"));
  return endpoint_from_json(object["endpoint"].dump());
}

/// Why, without the error in the library's own words if there is anything better to say.
std::string causes_of(const Error& error) {
  const std::string text = explain(error);
  const auto causes = text.find("\n  ");
  return causes == std::string::npos ? text : text.substr(text.find_first_not_of(" -", causes + 1));
}

json endpoint_json(const PreparedChannel& channel) {
  return json::parse(to_json(channel.endpoint()), nullptr, false);
}

// ---- The server ---------------------------------------------------------------------------------

/// What is left to do once the client has our endpoint: the message comes, and goes back.
Result<void> answer(Talk& talk) {
  if (!talk.channel) return std::unexpected(talk.channel.error());
  VERBATIM_TRY(receive(talk.half.incoming, false));
  return send(*talk.channel, talk.half.domain, true);
}

const Candidate* asked_for(const json& object, const std::vector<Candidate>& ours) {
  const auto index = object.find("candidate");
  if (index == object.end() || !index->is_number_unsigned()) return nullptr;
  const auto number = index->get<std::uint64_t>();
  return number < ours.size() ? &ours[number] : nullptr;
}

/// One pair, from the client's request to our verdict; an error ends the conversation.
Result<bool> serve_pair(RecordStream& stream, Domains& domains, const json& request,
                        const std::vector<Candidate>& ours, const ReachOptions& options,
                        std::optional<Talk>& talk) {
  const auto deadline = [] { return Clock::now() + kPatience; };
  const Candidate* const candidate = asked_for(request, ours);
  if (candidate == nullptr) return std::unexpected(malformed("candidate"));
  const Endpoint peer = VERBATIM_TRY(endpoint_in(request));
  auto half = prepare(domains, *candidate, options);
  if (half) {
    // Said before anybody waits: both sides find the same.
    if (const auto agreed = negotiate(half->channel.endpoint(), peer); !agreed)
      half = std::unexpected(agreed.error());
  }
  if (!half) {
    VERBATIM_TRY(stream.write({{"error", causes_of(half.error())}}, deadline()));
    return false;
  }
  const json endpoint = endpoint_json(half->channel);
  // Before the client knows where to send: what comes earlier is lost, and sent again too late.
  talk = talk_to(peer, *std::move(half));
  VERBATIM_TRY(stream.write({{"endpoint", endpoint}}, deadline()));
  const auto done = answer(*talk);
  VERBATIM_TRY(stream.write(done ? json{{"works", true}} : json{{"error", explain(done.error())}},
                            deadline()));
  return done.has_value();
}

// ---- The client ---------------------------------------------------------------------------------

Finding verdict(const Candidate& ours, const Candidate& theirs) {
  return {.id = fmt::format("pair.{}.{}.{}--{}.{}.{}", ours.device, ours.port,
                            ours.gid_index.value_or(0), theirs.device, theirs.port,
                            theirs.gid_index.value_or(0)),
          .title = to_string(ours) + " to " + to_string(theirs),
          .value = "works"};
}

std::string in_one_line(const std::string& text) {
  std::string line = text;
  for (std::size_t at = 0; (at = line.find("\n  ", at)) != std::string::npos;)
    line.replace(at, line.compare(at, 5, "\n  - ") == 0 ? 5 : 3, "; ");
  return line;
}

void fail(Finding& finding, Severity severity, const std::string& why) {
  finding.severity = severity;
  finding.value = severity == Severity::note ? "cannot be connected" : "fails";
  finding.why = printable(in_one_line(why));
}

/// Our half once the peer has ours: the message goes, and comes back.
Result<void> ask(Talk& talk) {
  if (!talk.channel) return std::unexpected(talk.channel.error());
  VERBATIM_TRY(send(*talk.channel, talk.half.domain, false));
  return receive(talk.half.incoming, true);
}

/// An error is one of the conversation, which cannot go on.
Result<void> try_pair(RecordStream& stream, Half half, Finding& finding, const json& request,
                      const ReachOptions& options) {
  VERBATIM_TRY(stream.write(request, Clock::now() + kPatience));
  const json reply = VERBATIM_TRY(stream.read(Clock::now() + kPatience));
  if (reply.contains("error") && reply["error"].is_string()) {
    fail(finding, Severity::note, reply["error"].get<std::string>());
    return {};
  }
  const Endpoint peer = VERBATIM_TRY(endpoint_in(reply));
  Talk talk = talk_to(peer, std::move(half));
  const auto outcome = ask(talk);
  // The peer waits for our message, then for its own; each within the time of a pair.
  const json word = VERBATIM_TRY(stream.read(Clock::now() + 3 * options.pair_timeout + kPatience));
  if (!outcome)
    fail(finding, Severity::warning, explain(outcome.error()));
  else if (word.contains("error") && word["error"].is_string())
    fail(finding, Severity::warning, "the peer says: " + word["error"].get<std::string>());
  return {};
}

Finding summary(std::string_view peer, unsigned worked, unsigned tested) {
  Finding finding{.id = "peer",
                  .title = fmt::format("reaching {}", peer),
                  .value = fmt::format("{} of {} pairs work", worked, tested)};
  if (worked == 0) {
    finding.severity = Severity::error;
    finding.why = tested == 0 ? "one of the two sides has no ACTIVE port with an address"
                              : "no device here can talk to one there: the pairs above say why";
    finding.fix = "verbatim doctor  # there, too";
  }
  return finding;
}

Finding no_conversation(std::string_view peer, const Error& error) {
  return {.id = "peer",
          .severity = Severity::error,
          .title = fmt::format("reaching {}", peer),
          .value = to_string(error),
          .why = printable(in_one_line(explain(error))),
          .fix = "verbatim doctor --listen ADDRESS  # there, at an address that is seen from here"};
}

Result<RecordStream> connect(std::string_view peer, const ReachOptions& options) {
  const detail::BoundedCall call{kOperation, detail::deadline_after(options.connect_timeout)};
  const auto where =
      VERBATIM_TRY(detail::parse_host_port(with_port(std::string{peer}, kDoctorPort), kOperation));
  const auto addresses = VERBATIM_TRY(detail::resolve(where, call));
  return RecordStream{VERBATIM_TRY(detail::connect_to_any(addresses, call))};
}

struct Conversation {
  RecordStream stream;
  std::vector<Candidate> theirs;
};

Result<Conversation> meet(std::string_view peer, const std::vector<Candidate>& ours,
                          const ReachOptions& options) {
  auto stream = VERBATIM_TRY(connect(peer, options));
  VERBATIM_TRY(stream.write(greeting(ours), Clock::now() + options.connect_timeout));
  const json answer = VERBATIM_TRY(stream.read(Clock::now() + options.connect_timeout));
  auto theirs = VERBATIM_TRY(read_greeting(answer));
  return Conversation{std::move(stream), std::move(theirs)};
}

}  // namespace

std::string to_string(const Candidate& candidate) {
  std::string text = fmt::format("{} port {}", candidate.device, candidate.port);
  if (candidate.gid_index) text += fmt::format(" GID {} ({})", *candidate.gid_index, candidate.gid);
  return text;
}

std::vector<Candidate> usable_candidates(const DevicesReport& report) {
  std::vector<Candidate> candidates;
  for (const DeviceReport& device : report.devices) {
    if (device.failure || !device.reliable_connection) continue;
    for (const PortReport& port : device.ports) {
      if (port.port.state != PortState::active) continue;
      for (const GidReport& gid : port.gids)
        candidates.push_back(
            {.device = device.name,
             .port = port.port.number,
             .gid_index = gid.entry.index,
             .gid = fmt::format("{} {}", to_string(gid.entry.type), to_string(gid.entry.gid))});
      if (port.gids.empty() && port.port.link_layer == LinkLayer::infiniband)
        candidates.push_back({.device = device.name, .port = port.port.number});
    }
  }
  if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
  return candidates;
}

json greeting(const std::vector<Candidate>& candidates) {
  json list = json::array();
  for (const Candidate& each : candidates) {
    json object = {{"device", each.device}, {"port", each.port}, {"gid", each.gid}};
    if (each.gid_index) object["gid_index"] = *each.gid_index;
    list.push_back(std::move(object));
  }
  return {{"verbatim", "doctor"}, {"version", kVersion}, {"candidates", std::move(list)}};
}

Result<std::vector<Candidate>> read_greeting(const json& object) {
  const auto has = [](const json& from, const char* field, auto is) {
    return from.contains(field) && (from[field].*is)();
  };
  const auto is_text = &json::is_string;
  const auto is_number = &json::is_number_unsigned;
  if (!has(object, "verbatim", is_text) || object["verbatim"] != "doctor")
    return std::unexpected(malformed("greeting"));
  if (!object.contains("version") || object["version"] != kVersion)
    return std::unexpected(malformed("version"));
  if (!has(object, "candidates", &json::is_array) || object["candidates"].size() > kMostCandidates)
    return std::unexpected(malformed("candidates"));
  std::vector<Candidate> candidates;
  for (const json& each : object["candidates"]) {
    if (!each.is_object() || !has(each, "device", is_text) || !has(each, "port", is_number) ||
        !has(each, "gid", is_text) || each["port"] > 255 ||
        (each.contains("gid_index") && !has(each, "gid_index", is_number)))
      return std::unexpected(malformed("candidate"));
    Candidate candidate{.device = printable(each["device"].get<std::string>()),
                        .port = each["port"].get<std::uint8_t>(),
                        .gid = printable(each["gid"].get<std::string>())};
    if (each.contains("gid_index")) candidate.gid_index = each["gid_index"].get<std::uint32_t>();
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

void reach(std::string_view peer, const std::vector<Candidate>& ours, const ReachOptions& options,
           const std::function<void(const Finding&)>& tell) {
  auto conversation = meet(peer, ours, options);
  if (!conversation) return tell(no_conversation(peer, conversation.error()));
  Domains domains;
  unsigned tested = 0;
  unsigned worked = 0;
  for (const Candidate& mine : ours)
    for (std::size_t index = 0; index < conversation->theirs.size(); ++index) {
      if (tested == kMostPairs) break;
      Finding finding = verdict(mine, conversation->theirs[index]);
      ++tested;
      auto half = prepare(domains, mine, options);
      if (!half) {
        fail(finding, Severity::warning, explain(half.error()));
        tell(finding);
        continue;
      }
      const json request = {{"candidate", index}, {"endpoint", endpoint_json(half->channel)}};
      const auto talked =
          try_pair(conversation->stream, *std::move(half), finding, request, options);
      if (!talked) return tell(no_conversation(peer, talked.error()));
      worked += finding.severity == Severity::ok;
      tell(finding);
    }
  tell(summary(peer, worked, tested));
}

Result<Served> serve(detail::PrivateDescriptor client, const std::vector<Candidate>& ours,
                     const ReachOptions& options) {
  RecordStream stream{std::move(client)};
  const json first = VERBATIM_TRY(stream.read(Clock::now() + options.connect_timeout));
  VERBATIM_TRY(read_greeting(first));
  VERBATIM_TRY(stream.write(greeting(ours), Clock::now() + options.connect_timeout));
  Domains domains;
  std::optional<Talk> last;
  Served served;
  while (served.tested < kMostPairs) {
    const auto request = stream.read(Clock::now() + kPatience);
    last.reset();  // What comes now, comes after the client is done with it.
    if (!request && request.error() == Errc::closed) return served;  // It has what it wanted.
    if (!request) return std::unexpected(request.error());
    ++served.tested;
    served.worked += VERBATIM_TRY(serve_pair(stream, domains, *request, ours, options, last));
  }
  return served;
}

}  // namespace verbatim::cli
