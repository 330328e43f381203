// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nlohmann/json.hpp>
#include <utility>

#include "verbatim/verbs/remote_memory.hpp"
#include "verbs/json_reader.hpp"
#include "verbs/remote_memory_check.hpp"

namespace verbatim {

std::string to_json(const RemoteMemoryRegion& region) {
  return nlohmann::ordered_json{{"address", region.address},
                                {"length", region.length},
                                {"key", std::to_underlying(region.key)}}
      .dump();
}

Result<RemoteMemoryRegion> remote_memory_from_json(std::string_view json) {
  static constexpr const char* kOperation = "remote_memory_from_json";
  const auto object = VERBATIM_TRY(detail::JsonReader::parse(kOperation, json));
  const detail::JsonReader reader{kOperation, object};
  RemoteMemoryRegion region;
  region.address = VERBATIM_TRY(reader.number<std::uint64_t>("address"));
  region.length = VERBATIM_TRY(reader.number<std::uint64_t>("length"));
  region.key = RemoteKey{VERBATIM_TRY(reader.number<std::uint32_t>("key"))};
  if (detail::wraps_around(region))
    return std::unexpected(
        reader.out_of_range("length", region.length, detail::longest_at(region.address)));
  return region;
}

}  // namespace verbatim
