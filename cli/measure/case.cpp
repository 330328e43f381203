// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "measure/failure.hpp"

namespace verbatim::cli {
namespace {

constexpr std::array kVerbs = {Verb::send, Verb::write, Verb::read, Verb::atomic};
/// Slots of one message size stay within a cache, more or less.
constexpr std::uint64_t kSlotMemory = std::uint64_t{1} << 20;

std::uint64_t size_from(std::string_view text) {
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, failed] = std::from_chars(begin, end, value);
  const std::string_view unit{rest, static_cast<std::size_t>(end - rest)};
  std::uint64_t factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "K" || unit == "k") factor = std::uint64_t{1} << 10;
  if (unit == "M" || unit == "m") factor = std::uint64_t{1} << 20;
  static_assert(kMostBytes == std::uint64_t{64} << 20);
  if (failed != std::errc{} || factor == 0 || value == 0 || value > kMostBytes / factor)
    throw Failure{fmt::format("'{}' is not a size from 1 to 64M bytes", text)};
  return value * factor;
}

void add_range(std::string_view text, std::vector<std::uint64_t>& sizes) {
  const auto dash = text.find('-');
  const std::uint64_t first = size_from(text.substr(0, dash));
  if (dash == std::string_view::npos) {
    sizes.push_back(first);
    return;
  }
  const std::uint64_t last = size_from(text.substr(dash + 1));
  if (first > last) throw Failure{fmt::format("'{}' is no range of sizes", text)};
  for (std::uint64_t size = first; size <= last; size *= 2) sizes.push_back(size);
}

template <class T>
T number(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned())
    throw Failure{fmt::format("the case has no number '{}'", name)};
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<T>::max())
    throw Failure{fmt::format("the case's '{}' is too large", name)};
  return static_cast<T>(value);
}

bool flag(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

const char* to_string(Verb verb) noexcept {
  switch (verb) {
    case Verb::send: return "send";
    case Verb::write: return "write";
    case Verb::read: return "read";
    case Verb::atomic: return "atomic";
  }
  return "";
}

std::optional<Verb> verb_from(std::string_view name) noexcept {
  for (const Verb each : kVerbs)
    if (name == to_string(each)) return each;
  return std::nullopt;
}

std::uint64_t Case::slots() const noexcept {
  return std::clamp<std::uint64_t>(kSlotMemory / (pitch() * queue_pairs), 1, depth);
}

std::string wrong_with(const Case& each) {
  const auto out_of = [](std::string_view what, std::uint64_t value, std::uint64_t least,
                         std::uint64_t most) {
    return fmt::format("{} {} is not in [{}, {}]", what, value, least, most);
  };
  if (each.bytes < 1 || each.bytes > kMostBytes) return out_of("size", each.bytes, 1, kMostBytes);
  if (each.verb == Verb::atomic && each.bytes != 8) return "an atomic has 8 bytes";
  if (each.depth < 1 || each.depth > kMostDepth) return out_of("depth", each.depth, 1, kMostDepth);
  if (each.queue_pairs < 1 || each.queue_pairs > kMostQueuePairs)
    return out_of("queue pairs", each.queue_pairs, 1, kMostQueuePairs);
  if (each.batch < 1 || each.batch > std::min(kMostBatch, each.depth))
    return out_of("batch", each.batch, 1, std::min(kMostBatch, each.depth));
  if (each.memory() > kMostMemory)
    return fmt::format("{} queue pairs with messages of {} bytes need too much memory",
                       each.queue_pairs, each.bytes);
  return {};
}

nlohmann::json to_json(const Case& each) {
  return {{"verb", to_string(each.verb)}, {"bytes", each.bytes},
          {"depth", each.depth},          {"queue_pairs", each.queue_pairs},
          {"batch", each.batch},          {"inline", each.inlined},
          {"sleeps", each.sleeps}};
}

Case case_from(const nlohmann::json& json) {
  const auto name = json.is_object() ? json.find("verb") : json.end();
  if (!json.is_object() || name == json.end() || !name->is_string())
    throw Failure{"the case names no verb"};
  const auto verb = verb_from(name->get_ref<const std::string&>());
  if (!verb) throw Failure{"the case names an unknown verb"};
  const Case each{.verb = *verb,
                  .bytes = number<std::uint64_t>(json, "bytes"),
                  .depth = number<std::uint32_t>(json, "depth"),
                  .queue_pairs = number<std::uint32_t>(json, "queue_pairs"),
                  .batch = number<std::uint32_t>(json, "batch"),
                  .inlined = flag(json, "inline"),
                  .sleeps = flag(json, "sleeps")};
  if (auto wrong = wrong_with(each); !wrong.empty()) throw Failure{wrong};
  return each;
}

std::vector<std::uint64_t> sizes_from(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  std::string_view rest{text};
  for (;;) {
    const auto comma = rest.find(',');
    add_range(rest.substr(0, comma), sizes);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return sizes;
}

}  // namespace verbatim::cli
