// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/scope_error.hpp"

#include <string_view>

#include "verbatim/base/explain.hpp"

namespace verbatim {
namespace {

/// The place as "demo.cpp:12: ", without folders.
std::string place(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const std::size_t slash = path.rfind('/');
  return std::string{path.substr(slash == std::string_view::npos ? 0 : slash + 1)} + ":" +
         std::to_string(where.line()) + ": ";
}

template <class Describe>
std::string describe(const ScopeError<Error>& error, Describe each) {
  std::string text;
  if (error.closure) text += "the closure: " + each(*error.closure);
  for (const ScopeFailure& failure : error.operations) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += place(failure.where) + each(failure);
  }
  return text;
}

}  // namespace

std::string to_string(const ScopeError<Error>& error) {
  return describe(error, [](const Error& each) { return to_string(each); });
}

std::string explain(const ScopeError<Error>& error) {
  return describe(error, [](const Error& each) { return explain(each); });
}

}  // namespace verbatim
