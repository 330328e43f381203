// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/counters.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/system_state.hpp"

namespace verbatim::cli {
namespace {

namespace fs = std::filesystem;
using verbatim::detail::first_line;
using verbatim::detail::names_in;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> result;
  for (const auto& name : names_in(folder).value_or(std::vector<std::string>{}))
    result.push_back(folder / name);
  return result;
}

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

void add(const fs::path& folder, PortCounters& counters) {
  for (const fs::path& file : entries(folder)) {
    const std::string name = file.filename();
    if (name == "lifespan") continue;  // A setting, not a counter.
    if (const auto value = number(first_line(file))) counters.values[name] = *value;
  }
  // The kernel counts these two in words.
  constexpr std::uint64_t kWord = 4;
  for (const char* const name : {"port_xmit_data", "port_rcv_data"})
    if (const auto found = counters.values.find(name);
        folder.filename() == "counters" && found != counters.values.end())
      found->second *= kWord;
}

}  // namespace

std::vector<PortCounters> read_counters(const std::string& root) {
  std::vector<PortCounters> result;
  for (const fs::path& device : entries(root)) {
    PortCounters whole{.device = device.filename()};
    add(device / "hw_counters", whole);
    if (!whole.values.empty()) result.push_back(std::move(whole));
    for (const fs::path& port : entries(device / "ports")) {
      PortCounters each{.device = device.filename()};
      each.port = static_cast<unsigned>(number(port.filename()).value_or(0));
      each.state = first_line(port / "state");  // "4: ACTIVE"
      if (const auto colon = each.state.find(": "); colon != std::string::npos)
        each.state.erase(0, colon + 2);
      add(port / "counters", each);
      add(port / "hw_counters", each);
      result.push_back(std::move(each));
    }
  }
  std::ranges::sort(result, {},
                    [](const PortCounters& each) { return std::tie(each.device, each.port); });
  return result;
}

}  // namespace verbatim::cli
