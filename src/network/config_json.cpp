// SPDX-License-Identifier: MIT OR Apache-2.0
// Network configurations as JSON text.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/network/network_config.hpp"
#include "verbs/json_reader.hpp"

namespace verbatim {
namespace {

using detail::JsonReader;

constexpr const char* kConfigJsonOperation = "network config";
/// A file for 65,536 ranks has about ten MiB.
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

/// Adds the host's place in the file to the error, as far as there is room.
Error of_host(Error error, std::size_t index) {
  const std::string where = "hosts[" + std::to_string(index) + "]";
  const auto text = error.text_view();
  return error.with_text(text.empty() ? where : std::string{text} + " in " + where);
}

Result<std::string> read_text(const JsonReader& reader, const char* field) {
  return std::string{VERBATIM_TRY(reader.string(field))};
}

Result<NodeConfig> read_node(const JsonReader& reader) {
  NodeConfig node;
  node.hostname = VERBATIM_TRY(read_text(reader, "hostname"));
  node.port = VERBATIM_TRY(reader.number<std::uint16_t>("port"));
  node.ibdev = VERBATIM_TRY(read_text(reader, "ibdev"));
  node.rankid = VERBATIM_TRY(reader.number<Rank>("rankid"));
  if (reader.has("comment")) node.comment = VERBATIM_TRY(read_text(reader, "comment"));
  return node;
}

std::string write_json(std::span<const NodeConfig> nodes) {
  auto hosts = nlohmann::ordered_json::array();
  for (const NodeConfig& node : nodes) {
    nlohmann::ordered_json host{{"hostname", node.hostname},
                                {"port", node.port},
                                {"ibdev", node.ibdev},
                                {"rankid", node.rankid}};
    if (!node.comment.empty()) host["comment"] = node.comment;
    hosts.push_back(std::move(host));
  }
  // A name that is not UTF-8 must not end the program.
  return nlohmann::ordered_json{{"hosts", std::move(hosts)}}.dump(
      2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// If the path does not fit, the error shows its end, which says more than its beginning.
Error of_file(const std::string& path, int os_error) {
  Error error = os_failure(kConfigJsonOperation, os_error);
  constexpr std::size_t kRoom = sizeof error.text - 1;
  constexpr std::string_view kCut = "...";
  if (path.size() <= kRoom) return error.with_text(path);
  return error.with_text(std::string{kCut} + path.substr(path.size() - (kRoom - kCut.size())));
}

}  // namespace

Result<RawNetworkConfig> RawNetworkConfig::from_json(std::string_view json) {
  const auto object = VERBATIM_TRY(JsonReader::parse(kConfigJsonOperation, json, kMaxBytes));
  const JsonReader reader{kConfigJsonOperation, object};
  const auto* hosts = VERBATIM_TRY(reader.array("hosts", std::numeric_limits<Rank>::max()));
  RawNetworkConfig config;
  for (const auto& host : *hosts) {
    const std::size_t index = config.nodes_.size();
    if (!host.is_object())
      return std::unexpected(of_host(reader.wrong("hosts", host.type_name()), index));
    auto node = read_node(JsonReader{kConfigJsonOperation, host});
    if (!node) return std::unexpected(of_host(node.error(), index));
    config.nodes_.push_back(*std::move(node));
  }
  return config;
}

Result<RawNetworkConfig> RawNetworkConfig::load(const std::string& path) {
  const detail::FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.get() < 0) return std::unexpected(of_file(path, errno));
  std::string text;
  char block[16384];
  // Reads at most one block more than is allowed, which shows that the file is too large.
  while (text.size() <= kMaxBytes) {
    const ssize_t got = read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(of_file(path, errno));
    if (got == 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  return from_json(text);
}

std::string to_json(const RawNetworkConfig& config) { return write_json(config.nodes()); }
std::string to_json(const NetworkConfig& config) { return write_json(config.nodes()); }

}  // namespace verbatim
