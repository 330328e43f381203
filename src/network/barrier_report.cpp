// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/barrier_report.hpp"

#include <algorithm>

#include "base/byte_codec.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

std::vector<std::byte> encode(const BarrierReport& report) {
  ByteWriter writer;
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(report.stand));
  writer.put(report.tag);
  writer.put(report.generation);
  writer.put(report.since);
  const auto count =
      std::min(static_cast<std::uint32_t>(report.awaited.size()), BarrierReport::kMostAwaited);
  writer.put(count);
  for (std::uint32_t i = 0; i < count; ++i) writer.put(report.awaited[i]);
  return std::move(writer).take();
}

Result<BarrierReport> decode_report(std::span<const std::byte> bytes) {
  ByteReader reader{"barrier report", bytes};
  const auto version = VERBATIM_TRY(reader.get<std::uint8_t>("version"));
  if (version != kVersion) return std::unexpected(reader.malformed("version", version, kVersion));
  BarrierReport report;
  constexpr auto kMost = static_cast<std::uint8_t>(BarrierReport::Stand::failed);
  report.stand = static_cast<BarrierReport::Stand>(
      VERBATIM_TRY(reader.get_at_most<std::uint8_t>("stand", kMost)));
  report.tag = VERBATIM_TRY(reader.get<std::uint16_t>("tag"));
  report.generation = VERBATIM_TRY(reader.get<std::uint32_t>("generation"));
  report.since = VERBATIM_TRY(reader.get<std::uint64_t>("since"));
  const auto count =
      VERBATIM_TRY(reader.get_at_most<std::uint32_t>("count", BarrierReport::kMostAwaited));
  for (std::uint32_t i = 0; i < count; ++i)
    report.awaited.push_back(VERBATIM_TRY(reader.get<std::uint32_t>("rank")));
  if (reader.remaining() != 0)
    return std::unexpected(
        reader.malformed("length", bytes.size(), bytes.size() - reader.remaining()));
  return report;
}

}  // namespace verbatim::detail
