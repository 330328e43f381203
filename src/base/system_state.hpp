// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What explain() asks the system. Nothing here fails: what cannot be read is left out.
///
/// Each function that reads files takes their root directory, so that a test can provide one.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The machine and the limits of this process.
struct System {
  std::string root;  ///< "" for the real one.
  std::uint64_t memlock_bytes = kUnlimited;
  std::uint64_t max_descriptors = kUnlimited;
  std::string soft_directory{};  ///< Where the software device has its files.

  [[nodiscard]] static System current();
};

/// The names in a directory, sorted; nullopt if it cannot be read.
[[nodiscard]] std::optional<std::vector<std::string>> names_in(const std::string& directory);
/// The first line of a file, without its end; "" if there is none.
[[nodiscard]] std::string first_line(const std::string& path);
/// The text after "name:" and blanks, in a file of such lines.
[[nodiscard]] std::optional<std::string> proc_text(const std::string& path,
                                                   const std::string& name);

struct FileState {
  bool is_directory = false;
  bool is_link = false;  ///< Then the rest describes the link itself.
  std::uint32_t owner = 0;
  unsigned mode = 0;
};
/// nullopt if there is no such file.
[[nodiscard]] std::optional<FileState> file_state(const std::string& path);

/// The entries of /sys/class/infiniband, sorted. Empty without a device; nullopt without the
/// directory, which means that no RDMA module is loaded.
[[nodiscard]] std::optional<std::vector<std::string>> device_names(const std::string& root);

struct PortLine {
  std::string device;
  std::string port;
  std::string state;  ///< As the kernel spells it: "4: ACTIVE".
};
[[nodiscard]] std::vector<PortLine> port_states(const std::string& root);

struct DeviceNode {
  std::string path;  ///< As programs see it, without the root.
  unsigned mode = 0;
  bool usable = false;  ///< Whether this process may read and write it.
};
/// /dev/infiniband/uverbs*, sorted.
[[nodiscard]] std::vector<DeviceNode> device_nodes(const std::string& root);

/// A line "name:  123 kB" of a file in /proc: the number in bytes ("kB" is 1024 there).
[[nodiscard]] std::optional<std::uint64_t> proc_value(const std::string& path,
                                                      const std::string& name);

struct HugePageState {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t page_bytes = 0;
};
[[nodiscard]] std::optional<HugePageState> huge_pages(const std::string& root);

/// Whether memory locks of this process are exempt from the limit (CAP_IPC_LOCK).
[[nodiscard]] bool may_lock_without_limit(const std::string& root);

/// Nothing if it cannot be read, for example because no descriptor is left to read it.
[[nodiscard]] std::optional<std::size_t> open_descriptors(const std::string& root);

struct Space {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};
/// For the file system that contains `path`; nothing if there is no such file.
[[nodiscard]] std::optional<Space> space_at(const std::string& path);

/// What a byte range of this process consists of, from /proc/self/maps.
struct Mapping {
  std::optional<std::uint64_t> first_unmapped;
  std::optional<std::uint64_t> first_read_only;
};
[[nodiscard]] Mapping mapping_of(const std::string& root, std::uint64_t address,
                                 std::uint64_t length);

/// "8 MiB", "1.5 GiB", "100 bytes".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// explain() for a given machine.
[[nodiscard]] std::string explain_on(const System& system, const Error& error);

}  // namespace verbatim::detail
