// SPDX-License-Identifier: MIT OR Apache-2.0
#include "error_catalogue.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/advice.hpp"
#include "verbatim/base/error_guide.hpp"

namespace verbatim::cli {
namespace {

/// Linux has no errno above it.
constexpr int kLastErrno = 133;

/// Indexed by the status.
constexpr const char* kVerbsNames[] = {
    "IBV_WC_SUCCESS",
    "IBV_WC_LOC_LEN_ERR",
    "IBV_WC_LOC_QP_OP_ERR",
    "IBV_WC_LOC_EEC_OP_ERR",
    "IBV_WC_LOC_PROT_ERR",
    "IBV_WC_WR_FLUSH_ERR",
    "IBV_WC_MW_BIND_ERR",
    "IBV_WC_BAD_RESP_ERR",
    "IBV_WC_LOC_ACCESS_ERR",
    "IBV_WC_REM_INV_REQ_ERR",
    "IBV_WC_REM_ACCESS_ERR",
    "IBV_WC_REM_OP_ERR",
    "IBV_WC_RETRY_EXC_ERR",
    "IBV_WC_RNR_RETRY_EXC_ERR",
    "IBV_WC_LOC_RDD_VIOL_ERR",
    "IBV_WC_REM_INV_RD_REQ_ERR",
    "IBV_WC_REM_ABORT_ERR",
    "IBV_WC_INV_EECN_ERR",
    "IBV_WC_INV_EEC_STATE_ERR",
    "IBV_WC_FATAL_ERR",
    "IBV_WC_RESP_TIMEOUT_ERR",
    "IBV_WC_GENERAL_ERR",
    "IBV_WC_TM_ERR",
    "IBV_WC_TM_RNDV_INCOMPLETE",
};
static_assert(std::size(kVerbsNames) == IBV_WC_TM_RNDV_INCOMPLETE + 1u);

ErrorEntry entry_of(ErrorKind kind, std::size_t value, const ErrorGuide& guide) {
  return {.kind = kind,
          .value = static_cast<int>(value),
          .code = std::string{guide.identifier},
          .alias = {},
          .name = std::string{guide.name},
          .meaning = std::string{guide.meaning},
          .causes = {guide.causes().begin(), guide.causes().end()},
          .remedy = std::string{guide.remedy}};
}

ErrorEntry code_entry(std::size_t value) {
  ErrorEntry entry = entry_of(ErrorKind::code, value, guide_to_codes()[value]);
  entry.alias = "Errc::" + entry.code;
  return entry;
}

ErrorEntry status_entry(std::size_t value) {
  ErrorEntry entry = entry_of(ErrorKind::work_status, value, guide_to_statuses()[value]);
  entry.alias = kVerbsNames[value];
  entry.remedy = remedy_of(static_cast<WorkStatus>(value));
  return entry;
}

bool is_known(int os_error) {
  return errc_from_errno(os_error) != Errc::driver ||
         std::ranges::any_of(detail::advice(),
                             [&](const auto& row) { return row.os_error == os_error; });
}

ErrorEntry errno_entry(int os_error) {
  const ErrorGuide& guide = guide_to(errc_from_errno(os_error));
  const char* const name = strerrorname_np(os_error);
  ErrorEntry entry{.kind = ErrorKind::os_error,
                   .value = os_error,
                   .code = name != nullptr ? name : std::to_string(os_error),
                   .alias = {},
                   .name = std::generic_category().message(os_error),
                   .meaning = "The library reports it as Errc::",
                   .causes = {},
                   .remedy = std::string{guide.remedy}};
  ((entry.meaning += guide.identifier) += ". ") += guide.meaning;
  for (const auto& row : detail::advice()) {
    if (row.os_error != os_error) continue;
    // Without the error itself, the advice has to say what it is about.
    entry.causes.push_back((row.field.empty() ? "" : std::string{row.field} + ": ") +
                           std::string{row.text});
  }
  for (const auto cause : guide.causes()) entry.causes.emplace_back(cause);
  return entry;
}

/// "Errc::peer_lost", "peer-lost" and "Peer lost" are one name.
std::string simplified(std::string_view word) {
  if (const auto scope = word.rfind("::"); scope != std::string_view::npos)
    word.remove_prefix(scope + 2);
  std::string result;
  for (const char c : word)
    result +=
        c == ' ' || c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// The kernel's functions return errnos below zero.
std::optional<int> number_of(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  const bool is_hex = word.starts_with("0x");
  if (is_hex) word.remove_prefix(2);
  int value = 0;
  const auto [end, failed] =
      std::from_chars(word.data(), word.data() + word.size(), value, is_hex ? 16 : 10);
  if (failed != std::errc{} || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<ErrorEntry> find_number(int value, bool is_negative) {
  std::vector<ErrorEntry> found;
  if (!is_negative && static_cast<std::size_t>(value) < guide_to_statuses().size())
    found.push_back(status_entry(static_cast<std::size_t>(value)));
  if (value > 0 && strerrorname_np(value) != nullptr) found.push_back(errno_entry(value));
  return found;
}

bool has_name(const ErrorEntry& entry, const std::string& name) {
  return !name.empty() && (simplified(entry.code) == name || simplified(entry.alias) == name ||
                           simplified(entry.name) == name);
}

/// Levenshtein's.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  for (std::size_t at = 0; at < row.size(); ++at) row[at] = at;
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] != other[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::code: return "code";
    case ErrorKind::work_status: return "status";
    case ErrorKind::os_error: return "errno";
  }
  return "";
}

std::vector<ErrorEntry> error_catalogue() {
  std::vector<ErrorEntry> all;
  for (std::size_t value = 0; value < guide_to_codes().size(); ++value)
    all.push_back(code_entry(value));
  for (std::size_t value = 0; value < guide_to_statuses().size(); ++value)
    all.push_back(status_entry(value));
  for (int value = 1; value <= kLastErrno; ++value)
    if (is_known(value)) all.push_back(errno_entry(value));
  return all;
}

std::vector<ErrorEntry> find_errors(std::string_view word) {
  if (const auto value = number_of(word)) return find_number(*value, word.starts_with('-'));
  const std::string name = simplified(word);
  std::vector<ErrorEntry> found;
  for (ErrorEntry& entry : error_catalogue())
    if (has_name(entry, name)) found.push_back(std::move(entry));
  if (!found.empty()) return found;
  for (int value = 1; value <= kLastErrno; ++value)  // Those that we know nothing special of.
    if (const char* const known = strerrorname_np(value);
        known != nullptr && simplified(known) == name)
      return {errno_entry(value)};
  return {};
}

std::vector<std::string> near_names(std::string_view word) {
  const std::string name = simplified(word);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const ErrorEntry& entry : error_catalogue()) {
    for (const std::string& known : {entry.code, entry.alias}) {
      if (known.starts_with("Errc::")) continue;  // The code itself, once more.
      const std::string spelt = simplified(known);
      const std::size_t apart = name.size() > 2 && spelt.contains(name) ? 1 : distance(name, spelt);
      if (apart <= std::max<std::size_t>(2, name.size() / 3)) ranked.emplace_back(apart, known);
    }
  }
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (auto& [apart, known] : ranked)
    if (names.size() < 3 && std::ranges::none_of(names, [&](const std::string& other) {
          return simplified(other) == simplified(known);
        }))
      names.push_back(std::move(known));
  return names;
}

std::string to_text(const ErrorEntry& entry) {
  std::string text =
      entry.code + " (" + std::string{to_string(entry.kind)} + ' ' + std::to_string(entry.value);
  if (entry.kind == ErrorKind::work_status) (text += ", ") += entry.alias;
  ((text += "): ") += entry.name) += '\n';
  ((text += "  ") += entry.meaning) += '\n';
  for (const std::string& cause : entry.causes) ((text += "  - ") += cause) += '\n';
  if (!entry.remedy.empty()) ((text += "  what to do: ") += entry.remedy) += '\n';
  return text;
}

nlohmann::ordered_json to_json(const ErrorEntry& entry) {
  return {{"code", entry.code},     {"kind", to_string(entry.kind)}, {"value", entry.value},
          {"name", entry.name},     {"alias", entry.alias},          {"meaning", entry.meaning},
          {"causes", entry.causes}, {"remedy", entry.remedy}};
}

}  // namespace verbatim::cli
